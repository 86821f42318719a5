//! Any datagram that a peer sends is refused or read, and read again alike when it is written; any packet of the TUN is read
//! or left, and answered with a packet that is none of UDP's own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mp_relay::capture::fragments::{self, Fragments, MOST};
use mp_relay::capture::{icmp, udp};
use mp_relay::datagram::echo::{Answer, Request};
use mp_relay::datagram::flow::Seen;
use mp_relay::datagram::packet::{Hello, Packet};
use mp_relay::datagram::parts::{Joiner, MOST_BYTES, MOST_WAITING};
use mp_relay::wire::Refusal;
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(packet) = Packet::decode(bytes) {
        let again = packet.encode();
        assert_eq!(Packet::decode(&again), Ok(packet));
    }
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(hello.encode(), bytes);
    }
    // As a series of packets: each begins with its length.
    let (mut joiner, mut fragments, mut rest) = (Joiner::default(), Fragments::default(), bytes);
    while let Some((length, behind)) = rest.split_first() {
        let (packet, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        if let Ok(Packet::Data { flow, sequence, part: Some(part), payload, .. }) = Packet::decode(packet) {
            joiner.take(flow, sequence, part, payload, Duration::ZERO);
            assert!(joiner.waiting() <= MOST_WAITING && joiner.held() <= MOST_BYTES);
        }
        if fragments::concerns(packet) {
            fragments.take(packet, Duration::ZERO);
            assert!(fragments.waiting() <= MOST);
        }
    }
    let mut seen = Seen::default();
    for number in bytes.chunks_exact(4) {
        let number = u32::from_be_bytes([number[0], number[1], number[2], number[3]]);
        seen.take(number);
        assert!(!seen.take(number));
    }
    if let Some(request) = Request::decode(bytes) {
        assert_eq!(request.encode(), bytes);
    }
    if let Some(answer) = Answer::decode(bytes) {
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
    if icmp::concerns(bytes) {
        if let Some(request) = icmp::parse(bytes) {
            let (asker, target) = (request.from, request.to);
            if let Some(answer) = Answer::decode(request.echo.data) {
                icmp::answer(&answer, target, asker);
            }
            for answer in [
                icmp::too_big(bytes, &request, 1200, target),
                icmp::unreachable(asker, target, Refusal::Busy, target),
            ] {
                assert_eq!(icmp::parse(&answer.expect("of one family")), None);
            }
        }
    }
    if udp::concerns(bytes) {
        if let Some(packet) = udp::parse(bytes) {
            let again = udp::build(packet.from, packet.to, packet.payload).expect("of one family");
            assert_eq!(udp::parse(&again), Some(packet));
            let packet = udp::parse(bytes).expect("it was one");
            let peer = packet.to.ip();
            for answer in [
                udp::too_big(bytes, &packet, 1200, peer),
                udp::unreachable(packet.from, packet.to, Refusal::Busy, peer),
            ] {
                assert!(!udp::concerns(&answer.expect("of one family")));
            }
        }
    }
});
