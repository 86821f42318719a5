//! Pings: packets of the TUN are read as the program has made them, and what it gets in answer names its request.

use std::net::{IpAddr, SocketAddr};

use etherparse::{Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use mp_relay::capture::{icmp, udp};
use mp_relay::datagram::echo::{Answer, Request};
use mp_relay::wire::Refusal;
use proptest::prelude::*;

/// Of one family: who asks, and whom.
fn ends() -> impl Strategy<Value = (SocketAddr, IpAddr, IpAddr)> {
    prop_oneof![
        any::<([u8; 4], u16, [u8; 4], [u8; 4])>().prop_map(|(a, id, b, c)| (
            (a, id).into(),
            b.into(),
            c.into()
        )),
        any::<([u8; 16], u16, [u8; 16], [u8; 16])>().prop_map(|(a, id, b, c)| (
            (a, id).into(),
            b.into(),
            c.into()
        )),
    ]
}

fn ping(from: SocketAddr, to: IpAddr, hop_limit: u8, sequence: u16, data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let id = from.port();
    match (from.ip(), to) {
        (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a.octets(), b.octets(), hop_limit)
            .icmpv4_echo_request(id, sequence)
            .write(&mut packet, data),
        (IpAddr::V6(a), IpAddr::V6(b)) => PacketBuilder::ipv6(a.octets(), b.octets(), hop_limit)
            .icmpv6_echo_request(id, sequence)
            .write(&mut packet, data),
        _ => unreachable!("one family"),
    }
    .unwrap();
    packet
}

/// Source, destination, the ICMP message's type and code, and its payload. Its checksum is right.
fn read(packet: &[u8]) -> (IpAddr, IpAddr, [u8; 2], Vec<u8>) {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    match (
        sliced.net.as_ref().unwrap(),
        sliced.transport.as_ref().unwrap(),
    ) {
        (NetSlice::Ipv4(ip), TransportSlice::Icmpv4(icmp)) => {
            let header = ip.header();
            let right = icmp.icmp_type().calc_checksum(icmp.payload());
            assert_eq!(icmp.checksum(), right);
            let ends = (
                header.source_addr().into(),
                header.destination_addr().into(),
            );
            (
                ends.0,
                ends.1,
                [icmp.type_u8(), icmp.code_u8()],
                icmp.payload().to_vec(),
            )
        }
        (NetSlice::Ipv6(ip), TransportSlice::Icmpv6(icmp)) => {
            let header = ip.header();
            assert!(icmp.is_checksum_valid(header.source(), header.destination()));
            let ends = (
                header.source_addr().into(),
                header.destination_addr().into(),
            );
            (
                ends.0,
                ends.1,
                [icmp.type_u8(), icmp.code_u8()],
                icmp.payload().to_vec(),
            )
        }
        other => panic!("{other:?}"),
    }
}

fn is_reply(packet: &[u8], id: u16, seq: u16) -> bool {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let echo = match sliced.transport.unwrap() {
        TransportSlice::Icmpv4(icmp) => match icmp.icmp_type() {
            Icmpv4Type::EchoReply(echo) => echo,
            _ => return false,
        },
        TransportSlice::Icmpv6(icmp) => match icmp.icmp_type() {
            Icmpv6Type::EchoReply(echo) => echo,
            _ => return false,
        },
        _ => return false,
    };
    (echo.id, echo.seq) == (id, seq)
}

proptest! {
    #[test]
    fn requests_and_answers_are_read_as_they_were_written(
        hop_limit: u8, sequence: u16, kind: u8, code: u8, information: [u8; 4], router: IpAddr,
        data in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        let request = Request { hop_limit, sequence, data: &data };
        let bytes = request.encode();
        prop_assert_eq!(Request::decode(&bytes), Some(request));
        for answer in [Answer::Reply { sequence, data: &data }, Answer::Error { sequence, kind, code, information, router }] {
            let bytes = answer.encode();
            prop_assert_eq!(Answer::decode(&bytes), Some(answer));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..80), (asker, target, _) in ends()) {
        if let Some(request) = Request::decode(&bytes) {
            prop_assert_eq!(request.encode(), &bytes[..]);
        }
        if let Some(answer) = Answer::decode(&bytes) {
            let bytes = answer.encode();
            prop_assert_eq!(Answer::decode(&bytes), Some(answer));
            icmp::answer(&answer, target, asker);
        }
        if icmp::concerns(&bytes) {
            icmp::parse(&bytes);
        }
    }

    #[test]
    fn a_ping_is_read_as_it_was_made_and_answered_as_it_asks(
        (from, to, router) in ends(), hop_limit: u8, sequence: u16,
        data in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        let packet = ping(from, to, hop_limit, sequence, &data);
        prop_assert!(icmp::concerns(&packet) && !udp::concerns(&packet));
        let request = icmp::parse(&packet).unwrap();
        let echo = Request { hop_limit, sequence, data: &data };
        prop_assert_eq!(&request, &icmp::Request { from, to, echo });

        let reply = icmp::answer(&Answer::Reply { sequence, data: &data }, to, from).unwrap();
        let (source, destination, _, payload) = read(&reply);
        prop_assert_eq!((source, destination, payload), (to, from.ip(), data.clone()));
        prop_assert!(is_reply(&reply, from.port(), sequence));
        prop_assert_eq!(icmp::parse(&reply), None, "no request");

        let kind = if to.is_ipv4() { 11 } else { 3 };
        let error = |kind| icmp::answer(
            &Answer::Error { sequence, kind, code: 0, information: [0; 4], router }, to, from,
        );
        let exceeded = error(kind).unwrap();
        let (source, destination, what, quoted) = read(&exceeded);
        prop_assert_eq!((source, destination, what), (router, from.ip(), [kind, 0]));
        let about = icmp::parse(&quoted).unwrap();
        prop_assert_eq!((about.from, about.to, about.echo.sequence), (from, to, sequence));
        // A reply, say, is no error.
        prop_assert_eq!(error(129), None);
        prop_assert_eq!(error(0), None);

        let most = 1200;
        let headers = icmp::headers(to.is_ipv4());
        for answer in [
            icmp::too_big(&packet, &request, most, router).unwrap(),
            icmp::unreachable(from, to, Refusal::Forbidden, router).unwrap(),
        ] {
            let (source, destination, _, quoted) = read(&answer);
            prop_assert_eq!((source, destination), (router, from.ip()));

            prop_assert_eq!(&quoted[headers - 4..headers - 2], &packet[headers - 4..headers - 2], "identifier");

        }
    }
}

#[test]
fn a_fragment_is_no_ping() {
    let (from, to) = ("192.0.2.1:7".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let mut packet = ping(from, to, 64, 1, &[0; 64]);
    packet[6] = 0x20;
    assert!(icmp::concerns(&packet));
    assert_eq!(icmp::parse(&packet), None);
}
