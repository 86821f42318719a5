//! The interfaces of this network namespace that connections could start on.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::net::IpAddr;

use crate::error::{Context, Error};
use crate::primary::{Choice, Prefix};

/// One that is up, with its global addresses in the kernel's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    pub addresses: Vec<IpAddr>,
    /// What it reaches without a router.
    pub networks: Vec<Prefix>,
}

impl Interface {
    /// To start connections here.
    pub fn choice(&self) -> Choice {
        Choice {
            interface: self.index,
            v4: self.addresses.iter().find_map(|address| match address {
                IpAddr::V4(v4) => Some(*v4),
                IpAddr::V6(_) => None,
            }),
            v6: self.addresses.iter().find_map(|address| match address {
                IpAddr::V6(v6) => Some(*v6),
                IpAddr::V4(_) => None,
            }),
            ..Choice::default()
        }
    }

    /// Whether it has a default route in the main table, of whatever metric: packets to strangers can leave through it.
    pub fn leads_out(&self) -> bool {
        let lines = |file: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            text.lines().map(fields).collect::<Vec<Vec<String>>>()
        };
        let is = |fields: &[String], place: usize, value: &str| {
            fields.get(place).is_some_and(|field| field == value)
        };
        // Interface, destination, …, mask.
        let v4 = lines("/proc/thread-self/net/route")
            .into_iter()
            .any(|f| is(&f, 0, &self.name) && is(&f, 1, "00000000") && is(&f, 7, "00000000"));
        // Destination, length, …, interface.
        let v6 = lines("/proc/thread-self/net/ipv6_route")
            .into_iter()
            .any(|f| is(&f, 9, &self.name) && is(&f, 0, &"0".repeat(32)) && is(&f, 1, "00"));
        v4 || v6
    }
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
    Ok(found
        .into_values()
        .filter(|interface| !interface.addresses.is_empty())
        .collect())
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
