//! resolv.conf(5), as far as anybody here needs it.

use std::net::IpAddr;

pub const FILE: &str = "/etc/resolv.conf";

/// Resolvers that it names, in its order, without those that need an interface's name. What is no address is passed over, as
/// the C library does.
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
