//! Translation of packets between applications and the listener: whatever applications, flows and time do, a packet comes
//! out at the other end of its own connection, and its checksums are right.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpSlice, TransportSlice};
use mp_relay::capture::translate::{Action, Ends, Id, Translator};
use mp_relay::wire::Refusal;
use proptest::prelude::*;

const REFUSALS: [Refusal; 4] = [
    Refusal::ConnectionRefused,
    Refusal::HostUnreachable,
    Refusal::NetworkUnreachable,
    Refusal::Forbidden,
];

fn ends() -> Vec<Ends> {
    let ends = |listener: &str, peer: &str| Ends {
        listener: listener.parse().unwrap(),
        peer: peer.parse().unwrap(),
        transparent: None,
    };
    vec![
        ends("198.18.77.1:1111", "198.18.77.2"),
        ends("[fd00::1]:2222", "fd00::2"),
    ]
}

fn end_of(address: SocketAddr) -> Ends {
    ends()[usize::from(address.is_ipv6())]
}

/// Of three applications, to two targets, in either family.
fn pair(which: usize) -> (SocketAddr, SocketAddr) {
    let (host, target) = match which % 2 {
        0 => ("198.18.77.1", "203.0.113.9"),
        _ => ("fd00::1", "2001:db8::9"),
    };
    let address = |ip: &str, port| SocketAddr::new(ip.parse::<IpAddr>().unwrap(), port);
    let (application, port) = (which / 2 % 3, which / 6 % 2);
    (
        address(host, 40_000 + application as u16),
        address(target, 80 + port as u16),
    )
}

#[derive(Debug, Clone, Copy)]
struct Flags {
    syn: bool,
    ack: bool,
    fin: bool,
    rst: bool,
}

/// With a checksum of the whole, or of the pseudo-header alone as the kernel leaves it to hardware.
fn packet(
    from: SocketAddr,
    to: SocketAddr,
    sequence: u32,
    flags: Flags,
    payload: &[u8],
    partial: bool,
) -> Vec<u8> {
    let ip = match (from.ip(), to.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a.octets(), b.octets(), 64),
        (IpAddr::V6(a), IpAddr::V6(b)) => PacketBuilder::ipv6(a.octets(), b.octets(), 64),
        _ => unreachable!("one family"),
    };
    let mut tcp = ip.tcp(from.port(), to.port(), sequence, 1000);
    if flags.syn {
        tcp = tcp.syn();
    }
    if flags.ack {
        tcp = tcp.ack(77);
    }
    if flags.fin {
        tcp = tcp.fin();
    }
    if flags.rst {
        tcp = tcp.rst();
    }
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, payload).unwrap();
    if partial {
        let sum = pseudo_header(&bytes);
        let at = checksum_at(&bytes);
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

fn checksum_at(bytes: &[u8]) -> usize {
    16 + if bytes[0] >> 4 == 4 { 20 } else { 40 }
}

fn pseudo_header(bytes: &[u8]) -> u16 {
    let (addresses, length) = match bytes[0] >> 4 {
        4 => (&bytes[12..20], bytes.len() - 20),
        _ => (&bytes[8..40], bytes.len() - 40),
    };
    let words = addresses
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let mut sum = words.sum::<u32>() + 6 + length as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Zero has two representations in one's complement.
fn same_sum(a: u16, b: u16) -> bool {
    a % 0xffff == b % 0xffff
}

struct Seen {
    from: SocketAddr,
    to: SocketAddr,
    payload: Vec<u8>,
}

/// Reads a packet and checks its checksums against another implementation's.
fn read(bytes: &[u8], partial: bool) -> Seen {
    let sliced = SlicedPacket::from_ip(bytes).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else {
        panic!("no TCP: {sliced:?}");
    };
    let (from, to, sum) = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            let sum = whole(tcp, |t| {
                t.calc_checksum_ipv4(header.source, header.destination)
            });
            (
                IpAddr::from(header.source),
                IpAddr::from(header.destination),
                sum,
            )
        }
        NetSlice::Ipv6(ip) => {
            let (a, b) = (ip.header().source_addr(), ip.header().destination_addr());
            let sum = whole(tcp, |t| t.calc_checksum_ipv6(a.octets(), b.octets()));
            (IpAddr::from(a), IpAddr::from(b), sum)
        }
        other => panic!("{other:?}"),
    };
    let expected = if partial { pseudo_header(bytes) } else { sum };
    assert!(
        same_sum(tcp.checksum(), expected),
        "{:x} {expected:x}",
        tcp.checksum()
    );
    Seen {
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        payload: tcp.payload().to_vec(),
    }
}

fn whole<E: std::fmt::Debug>(tcp: &TcpSlice, sum: impl Fn(&TcpSlice) -> Result<u16, E>) -> u16 {
    sum(tcp).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    /// The application of a pair sends a SYN with this number.
    Begin(usize, u32),
    /// It sends something else.
    Send(usize, Vec<u8>, bool, bool),
    /// The listener sends to the connection.
    Reply(usize, Vec<u8>, bool),
    Admit(usize),
    Refuse(usize, usize),
    Accept(usize),
    Finish(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let pair = 0..12usize;
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => (pair.clone(), 0u32..4).prop_map(|(p, s)| Step::Begin(p, s)),
        4 => (pair.clone(), payload.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(p, d, fin, rst)| Step::Send(p, d, fin, rst)),
        4 => (pair.clone(), payload, any::<bool>()).prop_map(|(p, d, fin)| Step::Reply(p, d, fin)),
        4 => pair.clone().prop_map(Step::Admit),
        1 => (pair.clone(), 0..REFUSALS.len()).prop_map(|(p, r)| Step::Refuse(p, r)),
        2 => pair.clone().prop_map(Step::Accept),
        1 => pair.prop_map(Step::Finish),
        1 => (0u64..400).prop_map(Step::Wait),
    ]
}

/// What is known of a pair's newest connection.
struct Known {
    id: Id,
    syn: Vec<u8>,
    held: bool,
    inside: Option<SocketAddr>,
}

fn plain() -> Flags {
    Flags {
        syn: false,
        ack: true,
        fin: false,
        rst: false,
    }
}

fn syn() -> Flags {
    Flags {
        syn: true,
        ack: false,
        ..plain()
    }
}

/// The target of a pair, and the SYN to it.
fn begin(which: usize, sequence: u32, partial: bool) -> (SocketAddr, Vec<u8>) {
    let (from, to) = pair(which);
    (to, packet(from, to, sequence, syn(), &[], partial))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn packets_reach_the_other_end_of_their_own_connection(
        steps in prop::collection::vec(step(), 0..120), partial: bool,
    ) {
        let mut translator = Translator::new(ends());
        let mut now = Duration::ZERO;
        let mut known: HashMap<usize, Known> = HashMap::new();
        for step in steps {
            match step {
                Step::Begin(which, sequence) => {
                    let (to, original) = begin(which, sequence, partial);
                    let mut bytes = original.clone();
                    match translator.packet(&mut bytes, partial, now) {
                        Action::Open(id, target) => {
                            prop_assert_eq!(target, to);
                            prop_assert!(known.values().all(|k| k.id != id), "an old number");
                            known.insert(which, Known { id, syn: original, held: true, inside: None });
                        }
                        // A retransmission of the one that is known.
                        Action::Drop => prop_assert!(known[&which].held),
                        Action::Write => prop_assert_eq!(Some(read(&bytes, partial).from), known[&which].inside),
                        Action::Answer(_) => prop_assert!(false, "there is room"),
                    }
                }
                Step::Send(which, payload, fin, rst) => {
                    let (from, to) = pair(which);
                    let flags = Flags { fin, rst, ..plain() };
                    let mut bytes = packet(from, to, 5, flags, &payload, partial);
                    match translator.packet(&mut bytes, partial, now) {
                        Action::Write => {
                            let seen = read(&bytes, partial);
                            prop_assert_eq!(Some(seen.from), known[&which].inside);
                            prop_assert_eq!(seen.to, end_of(from).listener);
                            prop_assert_eq!(seen.payload, payload);
                        }
                        Action::Answer(reset) => {
                            prop_assert!(!rst);
                            let seen = read(&reset, false);
                            prop_assert_eq!((seen.from, seen.to), (to, from));
                        }
                        Action::Drop => prop_assert!(rst || known[&which].held),
                        Action::Open(..) => prop_assert!(false, "no SYN"),
                    }
                }
                Step::Reply(which, payload, fin) => {
                    let Some(inside) = known.get(&which).and_then(|k| k.inside) else { continue };
                    let (application, target) = pair(which);
                    let flags = Flags { fin, ..plain() };
                    let listener = end_of(application).listener;
                    let mut bytes = packet(listener, inside, 9, flags, &payload, partial);
                    match translator.packet(&mut bytes, partial, now) {
                        Action::Write => {
                            let seen = read(&bytes, partial);
                            prop_assert_eq!((seen.from, seen.to), (target, application));
                            prop_assert_eq!(seen.payload, payload);
                        }
                        // Forgotten meanwhile.
                        action => prop_assert_eq!(action, Action::Drop),
                    }
                }
                Step::Admit(which) => {
                    let Some(k) = known.get_mut(&which) else { continue };
                    let mut bytes = k.syn.clone();
                    let admitted = translator.admit(k.id, &mut bytes, partial, now);
                    prop_assert_eq!(admitted, k.held);
                    if admitted {
                        let seen = read(&bytes, partial);
                        prop_assert_eq!(seen.to, end_of(pair(which).0).listener);
                        prop_assert!(known.values().all(|k| k.inside != Some(seen.from)) , "taken");
                        let k = known.get_mut(&which).unwrap();
                        (k.held, k.inside) = (false, Some(seen.from));
                    }
                }
                Step::Refuse(which, reason) => {
                    let Some(k) = known.get(&which) else { continue };
                    let mut bytes = k.syn.clone();
                    let answer = translator.refuse(k.id, &mut bytes, REFUSALS[reason]);
                    prop_assert_eq!(answer.is_some(), k.held);
                    if let Some(answer) = answer {
                        prop_assert!(SlicedPacket::from_ip(&answer).is_ok());
                        known.remove(&which);
                    }
                }
                Step::Accept(which) => {
                    let Some(k) = known.get(&which) else { continue };
                    if let Some(inside) = k.inside {
                        let listener = end_of(inside).listener;
                        let id = translator.accept(inside, listener);
                        prop_assert!(id.is_none_or(|id| id == k.id));
                        prop_assert_eq!(translator.accept(inside, listener), None, "once");
                    }
                }
                Step::Finish(which) => {
                    let Some(k) = known.get(&which) else { continue };
                    translator.finish(k.id, now);
                    if k.held {
                        known.remove(&which);
                    }
                }
                Step::Wait(seconds) => {
                    now += Duration::from_secs(seconds);
                    translator.expire(now);
                }
            }
            prop_assert!(translator.is_consistent());
        }
        // Nothing is kept for ever once the flows have ended and nobody sends.
        for k in known.values() {
            translator.finish(k.id, now);
        }
        translator.expire(now + Duration::from_secs(301));
        prop_assert!(translator.is_empty(), "{} are left", translator.len());
    }

    #[test]
    fn packets_for_a_transparent_listener_stay_as_they_are_and_a_syn_waits(
        steps in prop::collection::vec(step(), 0..120), partial: bool,
    ) {
        let transparent = |ends: Ends| Ends { transparent: Some(ends.listener.ip()), ..ends };
        let mut translator = Translator::new(ends().into_iter().map(transparent).collect());
        let now = Duration::ZERO;
        let mut known: HashMap<usize, (Id, u32)> = HashMap::new();
        let mut waits: HashMap<usize, Vec<u8>> = HashMap::new();
        for step in steps {
            match step {
                Step::Begin(which, sequence) => {
                    let (to, original) = begin(which, sequence, partial);
                    let mut bytes = original.clone();
                    let again = known.get(&which).is_some_and(|(_, first)| *first == sequence);
                    match translator.packet(&mut bytes, partial, now) {
                        Action::Open(id, target) => {
                            prop_assert!(!again && target == to);
                            known.insert(which, (id, sequence));
                            waits.insert(which, original.clone());
                        }
                        Action::Drop => prop_assert!(again && waits.contains_key(&which)),
                        action => prop_assert!(again && action == Action::Write),
                    }
                    prop_assert_eq!(bytes, original);
                }
                Step::Send(which, payload, fin, rst) => {
                    let (from, to) = pair(which);
                    let mut bytes = packet(from, to, 5, Flags { fin, rst, ..plain() }, &payload, partial);
                    let original = bytes.clone();
                    let action = translator.packet(&mut bytes, partial, now);
                    let expected = if waits.contains_key(&which) { Action::Drop } else { Action::Write };
                    prop_assert_eq!((action, bytes), (expected, original));
                }
                Step::Admit(which) => {
                    let Some((id, _)) = known.get(&which) else { continue };
                    let original = waits.remove(&which);
                    let mut bytes = original.clone().unwrap_or_default();
                    prop_assert_eq!(translator.admit(*id, &mut bytes, partial, now), original.is_some());
                    prop_assert_eq!(bytes, original.unwrap_or_default());
                }
                Step::Refuse(which, reason) => {
                    let Some((id, _)) = known.get(&which) else { continue };
                    let mut bytes = waits.remove(&which);
                    let mut syn = bytes.take().unwrap_or_default();
                    let held = !syn.is_empty();
                    prop_assert_eq!(translator.refuse(*id, &mut syn, REFUSALS[reason]).is_some(), held);
                    if held {
                        known.remove(&which);
                    }
                }
                Step::Accept(which) => {
                    let Some((id, _)) = known.get(&which) else { continue };
                    let (from, to) = pair(which);
                    let accepted = translator.accept(from, to);
                    prop_assert!(accepted.is_none_or(|a| a == *id && !waits.contains_key(&which)));
                    prop_assert_eq!(translator.accept(from, to), None, "once");
                }
                Step::Finish(which) => {
                    let Some((id, _)) = known.remove(&which) else { continue };
                    waits.remove(&which);
                    translator.finish(id, now);
                }
                Step::Reply(..) | Step::Wait(_) => {}
            }
            prop_assert!(translator.is_consistent());
            prop_assert_eq!(translator.len(), known.len());
        }
        // The kernel tells the others.
        prop_assert_eq!(translator.end().len(), waits.len());
    }

    #[test]
    fn any_bytes_are_read_or_dropped(
        mut bytes in prop::collection::vec(any::<u8>(), 0..100), v6: bool, partial: bool,
    ) {
        // Otherwise hardly any would look like TCP.
        for (at, byte) in if v6 { [(0, 0x60), (6, 6)] } else { [(0, 0x45), (9, 6)] } {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        let mut translator = Translator::new(ends());
        let before = bytes.clone();
        let action = translator.packet(&mut bytes, partial, Duration::ZERO);
        prop_assert!(action != Action::Write, "there is no connection yet");
        prop_assert_eq!(bytes, before);
        prop_assert!(translator.is_consistent());
    }
}

#[test]
fn refusals_tell_what_is_wrong() {
    let (application, target) = pair(0);
    for (refusal, kind) in [
        (Refusal::ConnectionRefused, None),
        (Refusal::NetworkUnreachable, Some(0)),
        (Refusal::HostUnreachable, Some(1)),
        (Refusal::Forbidden, Some(13)),
    ] {
        let mut translator = Translator::new(ends());
        let mut bytes = packet(application, target, 41, syn(), &[], false);
        let Action::Open(id, _) = translator.packet(&mut bytes, false, Duration::ZERO) else {
            panic!("it is a SYN");
        };
        let answer = translator.refuse(id, &mut bytes, refusal).unwrap();
        let sliced = SlicedPacket::from_ip(&answer).unwrap();
        match (sliced.transport.unwrap(), kind) {
            (TransportSlice::Tcp(tcp), None) => {
                assert!(tcp.rst() && tcp.ack());
                assert_eq!(tcp.acknowledgment_number(), 42);
                let seen = read(&answer, false);
                assert_eq!((seen.from, seen.to), (target, application));
            }
            (TransportSlice::Icmpv4(icmp), Some(code)) => {
                assert_eq!((icmp.type_u8(), icmp.code_u8()), (3, code));
                // The SYN that it is about.
                assert_eq!(icmp.payload(), &bytes[..]);
            }
            (other, _) => panic!("{refusal:?}: {other:?}"),
        }
        assert!(translator.is_empty());
    }
}

#[test]
fn a_transparent_listener_is_for_one_address() {
    let mut own = ends();
    own[0].transparent = Some("198.18.77.1".parse().unwrap());
    let mut translator = Translator::new(own);
    let (from, to) = ("192.168.7.9:1000", "203.0.113.9:80");
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    let mut bytes = packet(from, to, 7, syn(), &[], false);
    let Action::Open(id, _) = translator.packet(&mut bytes, false, Duration::ZERO) else {
        panic!("a SYN opens");
    };
    assert!(translator.admit(id, &mut bytes, false, Duration::ZERO));
    let seen = read(&bytes, false);
    assert_eq!(seen.to, end_of(from).listener);
    assert_eq!(translator.accept(from, to), None, "not as itself");
    assert_eq!(translator.accept(seen.from, seen.to), Some(id));
}

#[test]
fn no_more_connections_than_there_is_room_for() {
    use mp_relay::capture::translate::MOST;
    let mut translator = Translator::new(ends());
    let target: SocketAddr = "203.0.113.9:80".parse().unwrap();
    let mut begin = |i: usize| {
        let from = SocketAddr::new(Ipv4Addr::new(198, 18, 77, 1).into(), i as u16);
        let mut bytes = packet(from, target, 1, syn(), &[], false);
        translator.packet(&mut bytes, false, Duration::ZERO)
    };
    for i in 1..=MOST {
        assert!(matches!(begin(i), Action::Open(..)), "{i}");
    }
    assert!(matches!(begin(MOST + 1), Action::Answer(_)));
}
