//! The host's resolvers that the relay's stands in for: those in private ranges, which are asked over one link and fall
//! silent with it.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use mp_files::resolv_conf;
use mp_kernel::interfaces;
use socket2::{Domain, Protocol, Socket, Type};

use super::MARK;
use crate::egress::Prefix;
use crate::links::unspecified;
use crate::resolver;

/// Those that a path connection's link leads to: one behind a VPN or on this host has reasons of its own. `private` are the
/// ranges that are not captured, `direct` those that the user wants to be so. `kept` stay whatever leads to them, as long as
/// they are configured.
pub fn replaced(
    links: &[String],
    private: &[Prefix],
    direct: &[Prefix],
    kept: &[IpAddr],
) -> Vec<IpAddr> {
    let configured = fs::read_to_string(resolv_conf::FILE).unwrap_or_default();
    let within = |all: &[Prefix], ip| all.iter().any(|prefix| prefix.contains(ip));
    let mut found = resolv_conf::nameservers(&configured);
    found.retain(|ip| {
        let may_be = !ip.is_loopback() && within(private, *ip) && !within(direct, *ip);
        may_be && (kept.contains(ip) || leads(*ip, links))
    });
    found.sort();
    found.dedup();
    found
}

/// Whether packets to it leave over one of these links, were it not for our rules.
fn leads(resolver: IpAddr, links: &[String]) -> bool {
    let source = || {
        let socket = Socket::new(
            Domain::for_address((resolver, 0).into()),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        socket.set_mark(MARK)?;
        socket.bind(&SocketAddr::new(unspecified(resolver), 0).into())?;
        socket.connect(&SocketAddr::new(resolver, resolver::PORT).into())?;
        socket.local_addr()
    };
    let source = source().ok().and_then(|a| a.as_socket());
    let Some(source) = source else { return false };
    let here = interfaces::all().unwrap_or_default();
    here.iter()
        .any(|i| links.contains(&i.name) && i.addresses.contains(&source.ip()))
}
