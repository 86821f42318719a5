//! Fragments of IP that come out of the TUN, of programs whose kernel knows a smaller path MTU and of hosts behind this one, joined
//! to the packets that they were. And IPv6 packets into the TUN, divided, because no router may do that.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use etherparse::defrag::IpDefragBuf;
use etherparse::{
    IpFragOffset, IpNumber, Ipv4Slice, Ipv6FragmentHeader, Ipv6Header, Ipv6HeaderSlice,
    PacketBuilder,
};
use lru::LruCache;

/// As Linux has it (net.ipv4.ipfrag_time).
const PATIENCE: Duration = Duration::from_secs(30);
/// Packets that are not whole yet; each takes 64 KiB at most.
pub const MOST: usize = 64;
const FRAGMENT: u8 = 44;
/// A longer packet of IPv6 goes into the TUN in fragments of at most so many bytes.
pub const LONGEST: usize = 1500;

/// Whether it is for this module.
pub fn concerns(packet: &[u8]) -> bool {
    match packet.first().map(|b| b >> 4) {
        // More fragments, or an offset.
        Some(4) => packet
            .get(6..8)
            .is_some_and(|b| u16::from_be_bytes([b[0], b[1]]) & 0x3fff != 0),
        Some(6) => packet.get(6) == Some(&FRAGMENT),
        _ => false,
    }
}

/// The fragments of an IPv6 packet without extension headers, in order (RFC 8200, section 4.5).
pub fn divide(packet: &[u8], identification: u32) -> Vec<Vec<u8>> {
    let Some((header, payload)) = packet.split_at_checked(Ipv6Header::LEN) else {
        return Vec::new();
    };
    let each = (LONGEST - Ipv6Header::LEN - Ipv6FragmentHeader::LEN) / 8 * 8;
    let pieces = payload.chunks(each).enumerate().map(|(index, piece)| {
        let at = (index * each) as u16;
        let more = u16::from(usize::from(at) + piece.len() < payload.len());
        let mut fragment = Vec::with_capacity(LONGEST);
        fragment.extend_from_slice(header);
        let length = (Ipv6FragmentHeader::LEN + piece.len()) as u16;
        fragment[4..6].copy_from_slice(&length.to_be_bytes());
        fragment[6] = FRAGMENT;
        fragment.extend_from_slice(&[header[6], 0]);
        fragment.extend_from_slice(&(at | more).to_be_bytes());
        fragment.extend_from_slice(&identification.to_be_bytes());
        fragment.extend_from_slice(piece);
        fragment
    });
    pieces.collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    from: IpAddr,
    to: IpAddr,
    identification: u32,
    protocol: IpNumber,
}

struct Fragment<'a> {
    key: Key,
    hop_limit: u8,
    offset: IpFragOffset,
    more: bool,
    payload: &'a [u8],
}

impl<'a> Fragment<'a> {
    fn parse(packet: &'a [u8]) -> Option<Fragment<'a>> {
        if packet.first()? >> 4 == 4 {
            let ip = Ipv4Slice::from_slice(packet).ok()?;
            let header = ip.header();
            return Some(Fragment {
                key: Key {
                    from: header.source_addr().into(),
                    to: header.destination_addr().into(),
                    identification: header.identification().into(),
                    protocol: header.protocol(),
                },
                hop_limit: header.ttl(),
                offset: header.fragments_offset(),
                more: header.more_fragments(),
                payload: ip.payload().payload,
            });
        }
        let header = Ipv6HeaderSlice::from_slice(packet).ok()?;
        let (_, rest) = packet.split_at_checked(Ipv6Header::LEN)?;
        let rest = rest.get(..usize::from(header.payload_length()))?;
        let (fragment, payload) = rest.split_first_chunk::<8>()?;
        // RFC 8200, section 4.5. etherparse 0.19 takes the bits of the second byte in another order.
        let place = u16::from_be_bytes([fragment[2], fragment[3]]);
        let [.., a, b, c, d] = *fragment;
        Some(Fragment {
            key: Key {
                from: header.source_addr().into(),
                to: header.destination_addr().into(),
                identification: u32::from_be_bytes([a, b, c, d]),
                protocol: IpNumber(fragment[0]),
            },
            hop_limit: header.hop_limit(),
            offset: IpFragOffset::try_new(place >> 3).ok()?,
            more: place & 1 == 1,
            payload,
        })
    }

    /// The packet that this is a part of.
    fn whole(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let Key {
            from, to, protocol, ..
        } = self.key;
        let step = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                PacketBuilder::ipv4(from.octets(), to.octets(), self.hop_limit)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                PacketBuilder::ipv6(from.octets(), to.octets(), self.hop_limit)
            }
            _ => return None,
        };
        let mut packet = Vec::with_capacity(step.size(payload.len()));
        step.write(&mut packet, protocol, payload).ok()?;
        Some(packet)
    }
}

/// Time is that since any fixed moment, and never goes back.
#[derive(Debug)]
pub struct Fragments(LruCache<Key, (Duration, IpDefragBuf)>);

impl Default for Fragments {
    fn default() -> Fragments {
        Fragments(LruCache::sparse(const { NonZeroUsize::new(MOST).unwrap() }))
    }
}

impl Fragments {
    /// The whole packet with the fragment that completes it. What does not fit together is dropped.
    pub fn take(&mut self, packet: &[u8], now: Duration) -> Option<Vec<u8>> {
        let fragment = Fragment::parse(packet)?;
        let key = fragment.key;
        let old = |(since, _): &(Duration, _)| now.saturating_sub(*since) > PATIENCE;
        while self.0.peek_lru().is_some_and(|(_, first)| old(first)) {
            self.0.pop_lru();
        }
        if !self.0.contains(&key) {
            let empty = IpDefragBuf::new(key.protocol, Vec::new(), Vec::new());
            self.0.put(key, (now, empty));
        }
        // Without counting as a use: the order is that of the first fragments.
        let (_, buffer) = self.0.peek_mut(&key)?;
        let added = buffer.add(fragment.offset, fragment.more, fragment.payload);
        if added.is_ok() && !buffer.is_complete() {
            return None;
        }
        let (_, buffer) = self.0.pop(&key)?;
        added.ok()?;
        fragment.whole(&buffer.take_bufs().0)
    }

    /// Packets that are not whole yet.
    pub fn waiting(&self) -> usize {
        self.0.len()
    }
}
