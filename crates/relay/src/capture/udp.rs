//! UDP packets of the TUN: read, made, and answered where they cannot go. The answers come from the TUN's peer, which is
//! no host on the way that could be asked.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use etherparse::{
    icmpv4, icmpv6, Icmpv4Type, Icmpv6Type, IpHeaders, Ipv4Header, NetSlice, PacketBuilder,
    PacketBuilderStep, SlicedPacket, TransportSlice,
};

use crate::wire::Refusal;

const TTL: u8 = 64;
/// Of the next IPv4 packet: hosts behind an interface of a smaller MTU get it in fragments.
static NEXT_ID: AtomicU16 = AtomicU16::new(0);
const UDP: u8 = 17;
/// Of IPv6: hop by hop, routing, fragment, destination options.
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];
/// What an ICMP error quotes: enough to name the socket.
const QUOTE: usize = 40 + 8;

/// Headers of a UDP packet.
pub fn headers(v4: bool) -> usize {
    if v4 {
        28
    } else {
        48
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Udp<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub payload: &'a [u8],
}

/// Whether it is for this module: UDP, and IPv6 packets whose protocol lies deeper.
pub fn concerns(packet: &[u8]) -> bool {
    match packet.first().map(|b| b >> 4) {
        Some(4) => packet.get(9) == Some(&UDP),
        Some(6) => packet
            .get(6)
            .is_some_and(|next| *next == UDP || EXTENSIONS.contains(next)),
        _ => false,
    }
}

/// [`None`]: a fragment, or no UDP after all.
pub fn parse(packet: &[u8]) -> Option<Udp<'_>> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let (from, to): (IpAddr, IpAddr) = match sliced.net.as_ref()? {
        NetSlice::Ipv4(v4) => {
            let header = v4.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        NetSlice::Ipv6(v6) => {
            let header = v6.header();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        _ => return None,
    };
    // Fragments have no transport here.
    let Some(TransportSlice::Udp(udp)) = &sliced.transport else {
        return None;
    };
    Some(Udp {
        from: SocketAddr::new(from, udp.source_port()),
        to: SocketAddr::new(to, udp.destination_port()),
        payload: udp.payload(),
    })
}

pub(super) fn between(from: IpAddr, to: IpAddr) -> Option<PacketBuilderStep<IpHeaders>> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // The builder sets the lengths, the checksum and the protocol.
            let header = Ipv4Header {
                source: from.octets(),
                destination: to.octets(),
                time_to_live: TTL,
                dont_fragment: false,
                identification: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                ..Ipv4Header::default()
            };
            Some(PacketBuilder::ip(IpHeaders::Ipv4(
                header,
                Default::default(),
            )))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            Some(PacketBuilder::ipv6(from.octets(), to.octets(), TTL))
        }
        _ => None,
    }
}

/// With its checksums. [`None`] for addresses of two families.
pub fn build(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let step = between(from.ip(), to.ip())?.udp(from.port(), to.port());
    let mut packet = Vec::with_capacity(step.size(payload.len()));
    step.write(&mut packet, payload).ok()?;
    Some(packet)
}

/// ICMP's words for packets that are longer than this.
pub(super) fn fitting(mtu: usize) -> (icmpv4::DestUnreachableHeader, Icmpv6Type) {
    let v4 = icmpv4::DestUnreachableHeader::FragmentationNeeded {
        next_hop_mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
    };
    let v6 = Icmpv6Type::PacketTooBig {
        mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
    };
    (v4, v6)
}

/// And for what the relay does not reach.
pub(super) fn reason(why: Refusal) -> (icmpv4::DestUnreachableHeader, Icmpv6Type) {
    use icmpv4::DestUnreachableHeader as V4;
    use icmpv6::DestUnreachableCode as V6;
    let (v4, v6) = match why {
        Refusal::ConnectionRefused => (V4::Port, V6::Port),
        Refusal::NetworkUnreachable => (V4::Network, V6::NoRoute),
        Refusal::Forbidden | Refusal::UnknownKey => (V4::FilterProhibited, V6::Prohibited),
        _ => (V4::Host, V6::Address),
    };
    (v4, Icmpv6Type::DestinationUnreachable(v6))
}

/// For the sender of this packet: what fits, in bytes of payload. `router` says so.
pub fn too_big(packet: &[u8], udp: &Udp, most: usize, router: IpAddr) -> Option<Vec<u8>> {
    let (v4, v6) = fitting(most + headers(udp.from.is_ipv4()));
    error(router, udp.from.ip(), v4, v6, packet)
}

/// For the sender of this packet, or of one between these addresses.
pub fn unreachable(
    from: SocketAddr,
    to: SocketAddr,
    why: Refusal,
    router: IpAddr,
) -> Option<Vec<u8>> {
    let (v4, v6) = reason(why);
    error(router, from.ip(), v4, v6, &build(from, to, &[])?)
}

pub(super) fn error(
    from: IpAddr,
    to: IpAddr,
    v4: icmpv4::DestUnreachableHeader,
    v6: Icmpv6Type,
    about: &[u8],
) -> Option<Vec<u8>> {
    let quote = &about[..about.len().min(QUOTE)];
    let step = between(from, to)?;
    let mut packet = Vec::new();
    let written = if from.is_ipv4() {
        step.icmpv4(Icmpv4Type::DestinationUnreachable(v4))
            .write(&mut packet, quote)
    } else {
        step.icmpv6(v6).write(&mut packet, quote)
    };
    written.ok().map(|()| packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_may_be_fragmented_on_their_way() {
        let (from, to) = (
            "192.0.2.1:53".parse().unwrap(),
            "10.0.0.2:4000".parse().unwrap(),
        );
        let ids = [0, 1].map(|_| {
            let packet = build(from, to, &[7; 4000]).unwrap();
            let sliced = SlicedPacket::from_ip(&packet).unwrap();
            let Some(NetSlice::Ipv4(v4)) = sliced.net else {
                panic!("no IPv4")
            };
            assert!(!v4.header().dont_fragment());
            assert_eq!(usize::from(v4.header().total_len()), packet.len());
            assert_eq!(parse(&packet).unwrap().payload, [7; 4000]);
            v4.header().identification()
        });
        assert_ne!(
            ids[0], ids[1],
            "the fragments of one are not those of the other"
        );
    }
}
