//! Where the relay connects to for its devices: the public Internet, unless the user says more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::lock;

/// Mail between servers (RFC 5321): a relay that forwards it is soon on every list of senders of spam.
const SMTP: u16 = 25;
/// The list of own addresses is as old at most.
const LISTED: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("{text}: expected a prefix such as 192.168.1.0/24");
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            "" if !text.contains('/') => most,
            bits => bits.parse().ok().filter(|b| *b <= most).ok_or_else(wrong)?,
        };
        let address = match address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                Ipv4Addr::from(u32::from(ip) & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                Ipv6Addr::from(u128::from(ip) & mask).into()
            }
        };
        Ok(Prefix { address, bits })
    }
}

impl Prefix {
    /// This address alone.
    pub fn whole(address: IpAddr) -> Prefix {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Prefix { address, bits }
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn bits(&self) -> u8 {
        self.bits
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (u32::from(a) ^ u32::from(b))
                    .checked_shr(32 - u32::from(self.bits))
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (u128::from(a) ^ u128::from(b))
                    .checked_shr(128 - u32::from(self.bits))
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }
}

/// The rules of a relay.
#[derive(Debug, Clone, Default)]
pub struct Egress {
    /// Allowed beside the public addresses.
    pub allow: Vec<Prefix>,
    /// Port 25 too.
    pub allow_smtp: bool,
    pub own: Own,
}

/// The relay's own addresses: some come later (DHCP, temporary ones of IPv6, one that moves between relays).
#[derive(Debug, Clone)]
pub struct Own {
    list: fn() -> Option<Vec<IpAddr>>,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    addresses: Vec<IpAddr>,
    listed: Option<Instant>,
}

impl Own {
    /// Those of this host, on whichever interface and in whichever state it is: packets to them do not leave the host.
    pub fn of_host() -> Own {
        Own::listed(|| {
            let all = nix::ifaddrs::getifaddrs().ok()?;
            let address = |found: nix::ifaddrs::InterfaceAddress| {
                let address = found.address?;
                let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
                v4.or_else(|| Some(address.as_sockaddr_in6()?.ip().into()))
            };
            Some(all.filter_map(address).collect())
        })
    }

    fn listed(list: fn() -> Option<Vec<IpAddr>>) -> Own {
        Own {
            list,
            known: Arc::default(),
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        let mut known = lock(&self.known);
        if known.listed.is_none_or(|at| at.elapsed() >= LISTED) {
            known.addresses = (self.list)().unwrap_or(std::mem::take(&mut known.addresses));
            known.listed = Some(Instant::now());
        }
        known.addresses.contains(&address)
    }
}

impl Default for Own {
    fn default() -> Own {
        Own::listed(|| None)
    }
}

impl Egress {
    pub fn permits(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        if port == SMTP && !self.allow_smtp {
            return false;
        }
        self.allow.iter().any(|prefix| prefix.contains(address))
            || is_public(address) && !self.own.has(address)
    }
}

/// Of no private, link-local (metadata of clouds among them), shared, multicast or reserved range (IANA special-purpose
/// registries).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let shared = a == 100 && b & 0xc0 == 64;
    let protocols = a == 192 && b == 0 && c == 0;
    let benchmarks = a == 198 && b & 0xfe == 18;
    !(v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_documentation()
        || shared
        || protocols
        || benchmarks
        || a == 0
        || a >= 240)
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let s = v6.segments();
    // Global unicast is 2000::/3. Addresses with an IPv4 one in them lead where that one leads.
    let embedded = match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    };
    match embedded {
        Some(v4) => is_public_v4(v4),
        None => s[0] & 0xe000 == 0x2000 && !(s[0] == 0x2001 && (s[1] == 0xdb8 || s[1] < 0x200)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn only_public_addresses_are_permitted() {
        let egress = Egress {
            own: Own::listed(|| Some(vec![[8, 8, 4, 4].into()])),
            ..Egress::default()
        };
        for (address, permitted) in [
            ("8.8.8.8", true),
            ("2606:4700::1", true),
            ("64:ff9b::808:808", true),
            ("8.8.4.4", false),
            ("::ffff:8.8.4.4", false),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.31.0.1", false),
            ("192.168.0.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::ffff:10.0.0.1", false),
            ("::1", false),
            ("fe80::1", false),
            ("fd00:ec2::254", false),
            ("ff02::1", false),
            ("2001:db8::1", false),
            ("64:ff9b::a00:1", false),
            ("2002:a00:1::1", false),
        ] {
            assert_eq!(
                egress.permits(address.parse().unwrap(), 443),
                permitted,
                "{address}"
            );
        }
        assert!(!egress.permits("8.8.8.8".parse().unwrap(), 25));
    }

    #[test]
    fn own_addresses_may_come_later() {
        static MOVED: AtomicBool = AtomicBool::new(false);
        let address = IpAddr::from([8, 8, 4, 4]);
        let egress = Egress {
            own: Own::listed(|| {
                let moved = MOVED.load(Ordering::Relaxed);
                moved.then(|| vec![[8, 8, 4, 4].into()])
            }),
            ..Egress::default()
        };
        assert!(egress.permits(address, 443));
        MOVED.store(true, Ordering::Relaxed);
        std::thread::sleep(LISTED);
        assert!(!egress.permits(address, 443));
        MOVED.store(false, Ordering::Relaxed);
        std::thread::sleep(LISTED);
        assert!(!egress.permits(address, 443), "a list that fails");
    }

    #[test]
    fn what_is_allowed_is_permitted() {
        let allow = ["10.1.0.0/16", "fd00::/8", "127.0.0.1"]
            .map(|p| p.parse().unwrap())
            .to_vec();
        let egress = Egress {
            allow,
            allow_smtp: true,
            ..Egress::default()
        };
        for (address, permitted) in [
            ("10.1.9.9", true),
            ("10.2.0.1", false),
            ("fd12::1", true),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
        ] {
            assert_eq!(
                egress.permits(address.parse().unwrap(), 25),
                permitted,
                "{address}"
            );
        }
        let everywhere = Egress {
            allow: vec!["0.0.0.0/0".parse().unwrap()],
            ..Egress::default()
        };
        assert!(everywhere.permits("10.0.0.1".parse().unwrap(), 80));
        for wrong in ["10.0.0.0/33", "x", "10.0.0.0/", "fd00::/129"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}
