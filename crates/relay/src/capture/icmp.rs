//! ICMP echo packets of the TUN: requests read, replies and errors made.

use std::net::{IpAddr, SocketAddr};

use etherparse::{Icmpv4Type, Icmpv6Type, NetSlice, SlicedPacket, TransportSlice};

use super::udp::{self, between, error};
use crate::datagram::echo::{self, Answer};
use crate::wire::Refusal;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Headers of IP and of an echo request; as long as those of UDP.
pub use super::udp::headers;

/// Errors that a router or a host sends about a request: destination unreachable and time exceeded (RFC 792) …
const ERRORS_V4: [u8; 2] = [3, 11];
/// … and destination unreachable, packet too big and time exceeded (RFC 4443).
const ERRORS_V6: [u8; 3] = [1, 2, 3];

#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Who asks, with the identifier in place of a port.
    pub from: SocketAddr,
    pub to: IpAddr,
    pub echo: echo::Request<'a>,
}

/// Whether it is for this module. [`udp::concerns`] comes first: it has those behind IPv6 extension headers.
pub fn concerns(packet: &[u8]) -> bool {
    match packet.first().map(|b| b >> 4) {
        Some(4) => packet.get(9) == Some(&ICMP),
        Some(6) => packet.get(6) == Some(&ICMPV6),
        _ => false,
    }
}

/// [`None`]: a fragment, or no echo request.
pub fn parse(packet: &[u8]) -> Option<Request<'_>> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let (from, to, hop_limit): (IpAddr, IpAddr, u8) = match sliced.net.as_ref()? {
        NetSlice::Ipv4(v4) => {
            let header = v4.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            (from.into(), to.into(), header.ttl())
        }
        NetSlice::Ipv6(v6) => {
            let header = v6.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            (from.into(), to.into(), header.hop_limit())
        }
        _ => return None,
    };
    let (header, data) = match sliced.transport.as_ref()? {
        TransportSlice::Icmpv4(icmp) => match icmp.icmp_type() {
            Icmpv4Type::EchoRequest(header) => (header, icmp.payload()),
            _ => return None,
        },
        TransportSlice::Icmpv6(icmp) => match icmp.icmp_type() {
            Icmpv6Type::EchoRequest(header) => (header, icmp.payload()),
            _ => return None,
        },
        _ => return None,
    };
    Some(Request {
        from: SocketAddr::new(from, header.id),
        to,
        echo: echo::Request {
            hop_limit,
            sequence: header.seq,
            data,
        },
    })
}

/// What the asker gets. [`None`] for one of two families, or of a kind that no request is answered with.
pub fn answer(answer: &Answer, target: IpAddr, asker: SocketAddr) -> Option<Vec<u8>> {
    match *answer {
        Answer::Reply { sequence, data } => {
            let step = between(target, asker.ip())?;
            let mut packet = Vec::new();
            let written = if target.is_ipv4() {
                step.icmpv4_echo_reply(asker.port(), sequence)
                    .write(&mut packet, data)
            } else {
                step.icmpv6_echo_reply(asker.port(), sequence)
                    .write(&mut packet, data)
            };
            written.ok().map(|()| packet)
        }
        Answer::Error {
            sequence,
            kind,
            code,
            information,
            router,
        } => {
            let quoted = request(asker, target, sequence)?;
            let step = between(router, asker.ip())?;
            let mut packet = Vec::new();
            let written = if target.is_ipv4() {
                ERRORS_V4.contains(&kind).then_some(())?;
                step.icmpv4_raw(kind, code, information)
                    .write(&mut packet, &quoted)
            } else {
                ERRORS_V6.contains(&kind).then_some(())?;
                step.icmpv6_raw(kind, code, information)
                    .write(&mut packet, &quoted)
            };
            written.ok().map(|()| packet)
        }
    }
}

/// As the asker has sent it, without data.
fn request(asker: SocketAddr, target: IpAddr, sequence: u16) -> Option<Vec<u8>> {
    let step = between(asker.ip(), target)?;
    let mut packet = Vec::new();
    let written = if target.is_ipv4() {
        step.icmpv4_echo_request(asker.port(), sequence)
            .write(&mut packet, &[])
    } else {
        step.icmpv6_echo_request(asker.port(), sequence)
            .write(&mut packet, &[])
    };
    written.ok().map(|()| packet)
}

/// For the sender of this packet: what fits, in bytes of the flow's payload. `router` says so.
pub fn too_big(packet: &[u8], request: &Request, most: usize, router: IpAddr) -> Option<Vec<u8>> {
    let data = most.saturating_sub(echo::HEADER);
    let (v4, v6) = udp::fitting(data + headers(request.to.is_ipv4()));
    error(router, request.from.ip(), v4, v6, packet)
}

/// For who has asked this target.
pub fn unreachable(
    asker: SocketAddr,
    target: IpAddr,
    why: Refusal,
    router: IpAddr,
) -> Option<Vec<u8>> {
    let (v4, v6) = udp::reason(why);
    error(router, asker.ip(), v4, v6, &request(asker, target, 0)?)
}
