//! One TCP packet in its buffer: what the translation reads of it, and new addresses with checksums updated incrementally
//! (RFC 1624, equation 3).

use std::net::{IpAddr, SocketAddr};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

const TCP: u8 = 6;
const CHECKSUM: usize = 16;

pub struct Packet<'a> {
    bytes: &'a mut [u8],
    v6: bool,
    /// Where the TCP header begins.
    tcp: usize,
    /// The checksum field covers the pseudo-header alone; the kernel adds the rest (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    partial: bool,
}

#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

impl<'a> Packet<'a> {
    /// `None` where it is no whole TCP header over IP: fragments and IPv6 extension headers among them, which a host's own
    /// TCP does not send.
    pub fn parse(bytes: &'a mut [u8], partial: bool) -> Option<Packet<'a>> {
        let (v6, tcp, protocol) = match bytes.first()? >> 4 {
            4 => {
                let length = usize::from(bytes[0] & 15) * 4;
                // More fragments, or an offset.
                let fragment = u16::from_be_bytes([*bytes.get(6)?, *bytes.get(7)?]) & 0x3fff;
                (length >= 20 && fragment == 0).then_some(())?;
                (false, length, *bytes.get(9)?)
            }
            6 => (true, 40, *bytes.get(6)?),
            _ => return None,
        };
        let whole = bytes.len() >= tcp + 20 && protocol == TCP;
        whole.then_some(Packet {
            bytes,
            v6,
            tcp,
            partial,
        })
    }

    pub fn source(&self) -> SocketAddr {
        self.address(End::Source)
    }

    pub fn destination(&self) -> SocketAddr {
        self.address(End::Destination)
    }

    pub fn flags(&self) -> u8 {
        self.bytes[self.tcp + 13]
    }

    pub fn sequence(&self) -> u32 {
        self.word(self.tcp + 4)
    }

    pub fn acknowledgement(&self) -> u32 {
        self.word(self.tcp + 8)
    }

    /// Bytes of the stream, and one each for SYN and FIN.
    pub fn stream_length(&self) -> u32 {
        let header = usize::from(self.bytes[self.tcp + 12] >> 4) * 4;
        let payload = self.bytes.len().saturating_sub(self.tcp + header) as u32;
        let flags = self.flags();
        payload + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0)
    }

    /// From now on it goes from here to there.
    pub fn redirect(&mut self, source: SocketAddr, destination: SocketAddr) {
        for (end, new) in [(End::Source, source), (End::Destination, destination)] {
            let (address, port) = self.places(end);
            match new.ip() {
                IpAddr::V4(v4) if !self.v6 => self.put(address, &v4.octets(), true),
                IpAddr::V6(v6) if self.v6 => self.put(address, &v6.octets(), true),
                _ => debug_assert!(false, "a translation keeps the family"),
            }
            self.put(port, &new.port().to_be_bytes(), false);
        }
    }

    fn places(&self, end: End) -> (usize, usize) {
        match (end, self.v6) {
            (End::Source, false) => (12, self.tcp),
            (End::Destination, false) => (16, self.tcp + 2),
            (End::Source, true) => (8, self.tcp),
            (End::Destination, true) => (24, self.tcp + 2),
        }
    }

    fn address(&self, end: End) -> SocketAddr {
        let (address, port) = self.places(end);
        let ip = if self.v6 {
            IpAddr::from(self.array::<16>(address))
        } else {
            IpAddr::from(self.array::<4>(address))
        };
        SocketAddr::new(ip, u16::from_be_bytes(self.array(port)))
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes[at..at + N]
            .try_into()
            .expect("the headers are whole")
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    /// Replaces bytes of the headers; those of addresses count in IPv4's own checksum too, and in the pseudo-header.
    fn put(&mut self, at: usize, new: &[u8], address: bool) {
        let mut difference = 0u32;
        for (i, pair) in new.chunks_exact(2).enumerate() {
            let old = u16::from_be_bytes(self.array(at + 2 * i));
            difference += u32::from(!old) + u32::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
        self.bytes[at..at + new.len()].copy_from_slice(new);
        if address && !self.v6 {
            self.update(10, difference, false);
        }
        if address || !self.partial {
            self.update(self.tcp + CHECKSUM, difference, self.partial);
        }
    }

    /// A complete checksum is the complement of the sum; a partial one is the sum itself.
    fn update(&mut self, at: usize, difference: u32, plain: bool) {
        let old = u16::from_be_bytes(self.array(at));
        let sum = fold(difference + u32::from(if plain { old } else { !old }));
        let new = if plain { sum } else { !sum };
        self.bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
    }
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
