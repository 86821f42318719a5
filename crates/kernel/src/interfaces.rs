//! The interfaces of this network namespace that connections could start on.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

use crate::error::{Context, Error};
use crate::initial_path::{Choice, Prefix};

/// One that is up, with its global addresses: first those of [`sources_first`], then the others in the kernel's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    pub addresses: Vec<IpAddr>,
    /// What it reaches without a router.
    pub networks: Vec<Prefix>,
}

impl Interface {
    /// To start connections here. Over IPv6 only where it leads out, if IPv4 does: many links have an address of it and no way.
    /// IPv4 routes of other tables, and further next hops, are not to be seen here.
    pub fn choice(&self) -> Choice {
        let (v4, v6) = self.ways_out();
        Choice {
            interface: self.index,
            v4: self.v4(),
            v6: self.v6().filter(|_| v6 || !v4),
            ..Choice::default()
        }
    }

    /// The first address of its family.
    pub fn v4(&self) -> Option<Ipv4Addr> {
        self.addresses.iter().find_map(|address| match address {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        })
    }

    /// The first address of its family.
    pub fn v6(&self) -> Option<Ipv6Addr> {
        self.addresses.iter().find_map(|address| match address {
            IpAddr::V6(v6) => Some(*v6),
            IpAddr::V4(_) => None,
        })
    }

    /// Whether it has a default route, of whatever metric, in the main table or of IPv6: packets to strangers can leave through it.
    pub fn leads_out(&self) -> bool {
        let (v4, v6) = self.ways_out();
        v4 || v6
    }

    fn ways_out(&self) -> (bool, bool) {
        let is = |fields: &[String], place: usize, value: &str| {
            fields.get(place).is_some_and(|field| field == value)
        };
        // Interface, destination, …, mask.
        let v4 = routes("/proc/thread-self/net/route")
            .into_iter()
            .any(|f| is(&f, 0, &self.name) && is(&f, 1, "00000000") && is(&f, 7, "00000000"));
        // Destination, length, …, interface.
        let v6 = routes("/proc/thread-self/net/ipv6_route")
            .into_iter()
            .any(|f| is(&f, 9, &self.name) && is(&f, 0, &"0".repeat(32)) && is(&f, 1, "00"));
        (v4, v6)
    }
}

/// Destinations of the main table but the default ones: what interfaces reach without a router, with a carrier or without, and what
/// other routes say, as those of a VPN do.
pub fn routed() -> Vec<Prefix> {
    let v4 = routes("/proc/thread-self/net/route");
    let v4 = v4.iter().filter_map(|route| {
        // As they lie in memory.
        let number = |at: usize| u32::from_str_radix(route.get(at)?, 16).ok();
        let address = IpAddr::from(number(1)?.to_ne_bytes());
        Some((address, number(7)?.count_ones()))
    });
    let v6 = routes("/proc/thread-self/net/ipv6_route");
    let v6 = v6.iter().filter_map(|route| {
        let address = u128::from_str_radix(route.first()?, 16).ok()?;
        let bits = u32::from_str_radix(route.get(1)?, 16).ok()?;
        Some((IpAddr::from(address.to_be_bytes()), bits))
    });
    let all = v4.chain(v6).filter(|(_, bits)| *bits > 0);
    let prefix = |(address, bits)| Prefix {
        address,
        bits: bits as u8,
    };
    all.map(prefix).collect()
}

/// The fields of each line.
fn routes(file: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    text.lines().map(fields).collect()
}

/// Puts first, of each family, the address that the kernel gives to packets for strangers over this interface (RFC 6724): an
/// interface has several of IPv6, and those of a unique local prefix do not reach the Internet.
pub fn sources_first(interface: &str, addresses: &mut [IpAddr]) {
    for v4 in [true, false] {
        if addresses.iter().filter(|a| a.is_ipv4() == v4).count() < 2 {
            continue;
        }
        let chosen = source(Some(interface), v4);
        let is = |a: &IpAddr| Some(*a) == chosen;
        if let Some(at) = addresses.iter().position(is) {
            addresses[..=at].rotate_right(1);
        }
    }
}

/// The address that packets to strangers would have, over one interface or wherever routes lead. No packet is sent. `None` where
/// there is no route.
pub fn source(interface: Option<&str>, v4: bool) -> Option<IpAddr> {
    // Of documentation (RFC 5737, RFC 3849): nobody has them, and routes treat them as any address of the Internet.
    let (domain, stranger) = match v4 {
        true => (Domain::IPV4, SocketAddr::from(([192, 0, 2, 1], 9))),
        false => (
            Domain::IPV6,
            SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9)),
        ),
    };
    let socket = Socket::new(domain, Type::DGRAM, None).ok()?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes())).ok()?;
    }
    socket.connect(&stranger.into()).ok()?;
    Some(socket.local_addr().ok()?.as_socket()?.ip())
}

/// All of them, by index.
pub fn all() -> Result<Vec<Interface>, Error> {
    let mut found: BTreeMap<u32, Interface> = BTreeMap::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs fills a list that freeifaddrs takes back; entries are valid between the two.
    unsafe {
        if libc::getifaddrs(&mut first) != 0 {
            return Err(io::Error::last_os_error()).context("addresses of this host");
        }
        let mut next = first;
        while let Some(entry) = next.as_ref() {
            next = entry.ifa_next;
            let up = libc::IFF_UP as u32 | libc::IFF_RUNNING as u32;
            if entry.ifa_flags & up != up || entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0 {
                continue;
            }
            let (Some(address), name) = (ip(entry.ifa_addr), CStr::from_ptr(entry.ifa_name)) else {
                continue;
            };
            let index = libc::if_nametoindex(name.as_ptr());
            let interface = found.entry(index).or_insert_with(|| Interface {
                name: name.to_string_lossy().into_owned(),
                index,
                addresses: Vec::new(),
                networks: Vec::new(),
            });
            let bits = ip(entry.ifa_netmask).map_or(128, |mask| match mask {
                IpAddr::V4(v4) => u32::from(v4).count_ones(),
                IpAddr::V6(v6) => u128::from(v6).count_ones(),
            });
            interface.networks.push(Prefix {
                address,
                bits: bits as u8,
            });
            if is_global(address) {
                interface.addresses.push(address);
            }
        }
        libc::freeifaddrs(first);
    }
    let mut all: Vec<Interface> = found.into_values().collect();
    all.retain(|interface| !interface.addresses.is_empty());
    for interface in &mut all {
        sources_first(&interface.name, &mut interface.addresses);
    }
    Ok(all)
}

/// # Safety
/// Null, or a socket address as getifaddrs fills it in.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the family says which of the two it is.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                Some(IpAddr::from(v4.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                let v6 = (*address.cast::<libc::sockaddr_in6>()).sin6_addr;
                Some(IpAddr::from(v6.s6_addr))
            }
            _ => None,
        }
    }
}

fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::pm::tests::in_namespace;

    /// Router advertisements of many homes bring an address of a unique local prefix beside the global one.
    #[test]
    fn the_first_address_is_the_one_that_connections_get() {
        in_namespace(|| {
            let ip = |line: &str| {
                let done = Command::new("ip").args(line.split(' ')).output().unwrap();
                assert!(done.status.success(), "{line}: {done:?}");
            };
            ip("link add net0 type veth peer name net1");
            ip("link set net0 up");
            ip("link set net1 up");
            ip("address add 2001:db8:7::2/64 dev net0 nodad");
            // The kernel lists the newest first.
            ip("address add fd00::2/64 dev net0 nodad");
            ip("address add 10.0.0.2/24 dev net0");
            let addresses = || all().unwrap().remove(0).addresses;
            let local: IpAddr = "fd00::2".parse().unwrap();
            let global: IpAddr = "2001:db8:7::2".parse().unwrap();
            ip("-6 route add default dev net0");
            let all = addresses();
            assert_eq!(all.len(), 3);
            let v6 = |all: &[IpAddr]| all.iter().copied().find(IpAddr::is_ipv6).unwrap();
            assert_eq!(v6(&all), global);
            // A route may name its source.
            ip("-6 route change default dev net0 src fd00::2");
            assert_eq!(v6(&addresses()), local);
            ip("-6 route delete default");
            assert_eq!(addresses().len(), 3);
            // A VPN's, and a bridge's that nobody uses.
            ip("route add default via 10.0.0.1");
            ip("route add 10.8.0.0/16 via 10.0.0.7");
            ip("link add bridge0 type bridge");
            ip("link set bridge0 up");
            ip("address add 172.17.0.1/20 dev bridge0");
            let there = |network: &str, bits| {
                let address = network.parse().unwrap();
                routed().contains(&Prefix { address, bits })
            };
            assert!(there("10.0.0.0", 24) && there("2001:db8:7::", 64));
            assert!(there("10.8.0.0", 16) && there("172.17.0.0", 20));
            assert!(routed().iter().all(|p| p.bits > 0));
        });
    }
}
