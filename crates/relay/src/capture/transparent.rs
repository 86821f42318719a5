//! Connections of this host's own programs without translation and, once they are established, without the TUN.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use mp_kernel::transparent::{Listener, Transparent};
use rtnetlink::Handle;
use tokio::net::TcpListener;

use super::addresses;
use super::netlink;
use super::routes::{self, Ends, CAPTURED};
use crate::links::TUN;
use crate::Error;

pub struct Shortcut {
    pub listeners: Vec<TcpListener>,
    /// Attached as long as this lives.
    pub programs: Transparent,
}

/// An error is no failure: all can be translated.
pub async fn start(handle: &Handle, interface: u32, ends: &[Ends]) -> Result<Shortcut, Error> {
    accept_own_address().map_err(|e| Error::failed("accept_local", e))?;
    let listeners: io::Result<Vec<TcpListener>> = ends
        .iter()
        .map(|ends| addresses::listen_transparently(ends.host))
        .collect();
    let listeners = listeners.map_err(|e| Error::failed("a transparent listener", e))?;
    let of: Vec<Listener> = ends
        .iter()
        .zip(&listeners)
        .map(|(ends, listener)| Listener {
            socket: listener.as_fd(),
            clients: ends.host,
        })
        .collect();
    let programs = Transparent::attach(&of, interface, CAPTURED)?;
    netlink::set(handle, &routes::local(interface, ends)?).await?;
    Ok(Shortcut {
        listeners,
        programs,
    })
}

/// IPv4 drops packets that come in with a source address of this host's, unless told otherwise. IPv6 does not.
fn accept_own_address() -> io::Result<()> {
    fs::write(format!("/proc/sys/net/ipv4/conf/{TUN}/accept_local"), "1")
}
