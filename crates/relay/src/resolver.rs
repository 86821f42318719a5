//! The resolver of the host that the relay runs on, for the devices' DNS.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub const FILE: &str = "/etc/resolv.conf";
pub const PORT: u16 = 53;
/// By which a device means it: of the discard prefix (RFC 6666), which leads nowhere.
pub const ADDRESS: SocketAddr = SocketAddr::new(
    IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0x35)),
    PORT,
);

/// The first that the host has; on the host itself where it names none, as resolv.conf(5) has it.
pub fn own() -> io::Result<SocketAddr> {
    let file = fs::read_to_string(FILE)?;
    let first = nameservers(&file).into_iter().next();
    Ok((first.unwrap_or([127, 0, 0, 1].into()), PORT).into())
}

/// Of resolv.conf(5), without those that need an interface's name.
pub fn nameservers(file: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let named = words.next() == Some("nameserver");
        words.next().filter(|_| named)?.parse().ok()
    };
    file.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nameservers_are_read_as_the_c_library_reads_them() {
        let file = "# nameserver 1.1.1.1\n; no\nsearch example.org\nnameserver 192.168.1.1\n\
                    nameserver\tfd00::1 # the second\nnameserver fe80::1%eth0\nnameserver x\noptions edns0\n";
        let expected: [IpAddr; 2] = ["192.168.1.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(nameservers(file), expected);
        assert!(nameservers("").is_empty());
    }
}
