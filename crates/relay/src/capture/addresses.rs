//! The addresses of the TUN, and the listeners at them.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mp_kernel::interfaces::Interface;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

use super::routes::{Ends, CAPTURED};
use crate::links::TUN;
use crate::Error;

/// Of the range for benchmarks (RFC 2544), which no network uses. The first of which the host has no part.
const OWN_V4: [[u8; 3]; 4] = [[198, 18, 77], [198, 19, 77], [198, 18, 177], [198, 19, 177]];
const BACKLOG: u32 = 4096;

/// Two addresses of each family: the host's, and that from which connections seem to come.
pub fn addresses(here: &[Interface]) -> Result<Vec<Ends>, Error> {
    let v4 = |[a, b, c]: [u8; 3], d| IpAddr::from(Ipv4Addr::new(a, b, c, d));
    let taken = |net: &[u8; 3]| {
        let all = here.iter().flat_map(|i| &i.addresses);
        all.into_iter()
            .any(|ip| matches!(ip, IpAddr::V4(v4) if v4.octets()[..3] == net[..]))
    };
    let net = OWN_V4.into_iter().find(|net| !taken(net)).ok_or_else(|| {
        Error::Missing("the addresses 198.18.77.0/24 and the like are all in use here".into())
    })?;
    let mut ends = vec![Ends {
        host: v4(net, 1),
        peer: v4(net, 2),
    }];
    if has_ipv6() {
        // A network of one's own (RFC 4193), new each time.
        let [a, b, c, d, e] = crate::keys::random::<5>().map(u16::from);
        let v6 = |last| {
            IpAddr::from(Ipv6Addr::new(
                0xfd00 | a,
                b << 8 | c,
                d << 8 | e,
                0,
                0,
                0,
                0,
                last,
            ))
        };
        ends.push(Ends {
            host: v6(1),
            peer: v6(2),
        });
    }
    Ok(ends)
}

/// Of an interface, or `default` for those to come.
const DISABLED: &str = "disable_ipv6";

/// Whether any interface but the loopback one has IPv6, or a new one would.
fn has_ipv6() -> bool {
    let all = fs::read_dir("/proc/sys/net/ipv6/conf")
        .into_iter()
        .flatten();
    let names = all.flatten().map(|entry| entry.path());
    names
        .filter(|path| !path.ends_with("all") && !path.ends_with("lo"))
        .any(|path| fs::read_to_string(path.join(DISABLED)).is_ok_and(|text| text.trim() == "0"))
}

/// The TUN may have none by default, where another interface has. What fails shows when it gets its address.
pub fn enable_ipv6() {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{TUN}/{DISABLED}"), "0");
}

pub fn listen(host: IpAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let socket = match host {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.bind_device(Some(TUN.as_bytes()))?;
        socket.bind(SocketAddr::new(host, 0))?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|e| Error::failed(format!("a port on {TUN}"), e))
}

/// For connections to every address. By its own address nobody reaches it from outside.
pub fn listen_transparently(host: IpAddr) -> io::Result<TcpListener> {
    let socket = match host {
        IpAddr::V4(_) => {
            let socket = TcpSocket::new_v4()?;
            SockRef::from(&socket).set_ip_transparent_v4(true)?;
            socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
            socket
        }
        IpAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            SockRef::from(&socket).set_ip_transparent_v6(true)?;
            socket.bind((Ipv6Addr::LOCALHOST, 0).into())?;
            socket
        }
    };
    // Of accepted sockets too: their packets are to reach programs of this host alone.
    SockRef::from(&socket).set_mark(CAPTURED)?;
    socket.listen(BACKLOG)
}
