//! Packets of our own making: how an application is told that its connection is not to be.

use std::net::{IpAddr, SocketAddr};

use etherparse::{icmpv4, icmpv6, Icmpv4Type, Icmpv6Type, PacketBuilder, PacketBuilderStep};

use crate::wire::Refusal;

const TTL: u8 = 64;

/// What ends a connection attempt.
enum Reason {
    Reset,
    Icmp(icmpv4::DestUnreachableHeader, icmpv6::DestUnreachableCode),
}

impl Reason {
    fn of(refusal: Refusal) -> Reason {
        use icmpv4::DestUnreachableHeader as V4;
        use icmpv6::DestUnreachableCode as V6;
        match refusal {
            Refusal::NetworkUnreachable => Reason::Icmp(V4::Network, V6::NoRoute),
            Refusal::HostUnreachable | Refusal::TimedOut | Refusal::NoSuchName => {
                Reason::Icmp(V4::Host, V6::Address)
            }
            Refusal::Forbidden | Refusal::UnknownKey => {
                Reason::Icmp(V4::FilterProhibited, V6::Prohibited)
            }
            Refusal::ConnectionRefused | Refusal::Failed | Refusal::Busy => Reason::Reset,
        }
    }
}

/// For the application whose SYN this is.
pub fn refusal(
    refusal: Refusal,
    syn: &[u8],
    from: SocketAddr,
    to: SocketAddr,
    next: u32,
) -> Vec<u8> {
    let Reason::Icmp(v4, v6) = Reason::of(refusal) else {
        return reset(from, to, 0, Some(next));
    };
    // The part that names the connection (RFC 792, RFC 4443).
    let quote = &syn[..syn.len().min(40 + 20)];
    let mut packet = Vec::new();
    let written = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), TTL)
            .icmpv4(Icmpv4Type::DestinationUnreachable(v4))
            .write(&mut packet, quote),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), TTL)
            .icmpv6(Icmpv6Type::DestinationUnreachable(v6))
            .write(&mut packet, quote),
        _ => return packet,
    };
    debug_assert!(written.is_ok(), "{written:?}");
    packet
}

/// With an acknowledgement where the connection had none yet (RFC 9293, 3.5.2).
pub fn reset(
    from: SocketAddr,
    to: SocketAddr,
    sequence: u32,
    acknowledged: Option<u32>,
) -> Vec<u8> {
    let ip: PacketBuilderStep<_> = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), TTL),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), TTL),
        _ => return Vec::new(),
    };
    let tcp = ip.tcp(from.port(), to.port(), sequence, 0).rst();
    let tcp = match acknowledged {
        Some(next) => tcp.ack(next),
        None => tcp,
    };
    let mut packet = Vec::new();
    let written = tcp.write(&mut packet, &[]);
    debug_assert!(written.is_ok(), "{written:?}");
    packet
}
