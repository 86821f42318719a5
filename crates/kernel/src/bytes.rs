//! Fields of what the kernel writes, by their place in bytes; all panic where the bytes end before the field.

use std::net::IpAddr;

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N of them")
}

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(array(bytes, at))
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(array(bytes, at))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(array(bytes, at))
}

/// Sixteen bytes, of which IPv4 takes the first four. An IPv4 address within an IPv6 one, as sockets for both see their
/// peers, is IPv4's.
pub fn address_at(bytes: &[u8], at: usize, family: i32) -> IpAddr {
    match family {
        libc::AF_INET => IpAddr::from(array::<4>(bytes, at)),
        _ => IpAddr::from(array::<16>(bytes, at)).to_canonical(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_the_family_that_it_means() {
        let mut bytes = [0; 18];
        bytes[2..6].copy_from_slice(&[10, 0, 0, 7]);
        let found = |family, bytes: &[u8]| address_at(bytes, 2, family).to_string();
        assert_eq!(found(libc::AF_INET, &bytes), "10.0.0.7");
        assert_eq!(found(libc::AF_INET6, &bytes), "a00:7::");
        bytes = [0; 18];
        bytes[12..].copy_from_slice(&[255, 255, 10, 0, 0, 7]);
        assert_eq!(found(libc::AF_INET6, &bytes), "10.0.0.7");
    }
}
