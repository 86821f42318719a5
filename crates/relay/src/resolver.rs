//! The resolver of the host that the relay runs on, for the devices' DNS.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use mp_files::resolv_conf;

pub const PORT: u16 = 53;
/// By which a device means it: of the discard prefix (RFC 6666), which leads nowhere.
pub const ADDRESS: SocketAddr = SocketAddr::new(
    IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0x35)),
    PORT,
);

/// The first that the host has; on the host itself where it names none, as resolv.conf(5) has it.
pub fn own() -> io::Result<SocketAddr> {
    let file = fs::read_to_string(resolv_conf::FILE)?;
    let first = resolv_conf::nameservers(&file).into_iter().next();
    Ok((first.unwrap_or([127, 0, 0, 1].into()), PORT).into())
}
