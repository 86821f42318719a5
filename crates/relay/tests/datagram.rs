//! The datagram lane without sockets: a packet is read as it was written, every packet arrives once whatever copies come
//! in whatever order, no state of the paths keeps a copied one back, and bulk waits in turns, is repaired, and arrives in order.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::time::Duration;

use mp_policy::link::Priority;
use mp_policy::scheduler::{self, SubflowView};
use mp_policy::MAX_SUBFLOWS;
use mp_relay::datagram::deal::{for_repair, is_near, Dealer};
use mp_relay::datagram::flow::{Budget, Seen, WINDOW};
use mp_relay::datagram::meter::Meter;
use mp_relay::datagram::order::{self, Order};
use mp_relay::datagram::packet::{encoded, Destination, Hello, How, Numbers, Packet, MOST_HEADER};
use mp_relay::datagram::parts::{split, Joiner, Part, MOST_BYTES, MOST_WAITING};
use mp_relay::datagram::queue::{self, Queue};
use mp_relay::datagram::repair::{self, Found};
use mp_relay::datagram::repeat::{self, Known, Repeats};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const MS: Duration = Duration::from_millis(1);

fn part() -> impl Strategy<Value = Option<Part>> {
    let of = any::<(u8, u8)>().prop_map(|(a, b)| Part {
        index: a.min(b),
        last: a.max(b),
    });
    prop::option::of(of)
}

fn how() -> impl Strategy<Value = How> {
    prop::sample::select(vec![How::Copied, How::Bulk, How::Again])
}

fn target() -> impl Strategy<Value = Option<Destination>> {
    prop_oneof![
        Just(None),
        any::<([u8; 4], u16)>().prop_map(|(ip, port)| Some(Destination::Udp((ip, port).into()))),
        any::<([u8; 16], u16)>().prop_map(|(ip, port)| Some(Destination::Udp((ip, port).into()))),
        any::<std::net::IpAddr>().prop_map(|ip| Some(Destination::Echo(ip))),
    ]
}

proptest! {
    #[test]
    fn a_packet_is_read_as_it_was_written(
        flow: u32, sequence: u32, target in target(), how in how(), part in part(), payload in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        let packet = Packet::Data { flow, sequence, target, how, part, payload: &payload };
        let bytes = packet.encode();
        prop_assert!(bytes.len() <= packet.most_bytes());
        prop_assert!(part.is_some() || bytes.len() <= payload.len() + MOST_HEADER);
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
        let again = Packet::again(&bytes);
        prop_assert_eq!(Packet::decode(&again), Ok(Packet::Data { flow, sequence, target, how: How::Again, part, payload: &payload }));
        prop_assert_eq!(Packet::key(&again), None);
        prop_assert_eq!(Packet::key(&bytes), (how != How::Again).then_some((flow, sequence)));
        for packet in [Packet::Unknown { flow }, Packet::Refused { flow, why: mp_relay::wire::Refusal::Busy }] {
            let bytes = packet.encode();
            prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
        }
    }

    #[test]
    fn numbers_are_read_as_they_were_written(flow: u32, numbers in prop::collection::vec(any::<u32>(), 1..=Numbers::MOST)) {
        let as_sent = encoded(numbers.iter().copied());
        for packet in [
            Packet::Missing { flow, numbers: Numbers::new(&as_sent) },
            Packet::Gone { flow, numbers: Numbers::new(&as_sent) },
        ] {
            let mut bytes = packet.encode();
            prop_assert!(bytes.len() <= packet.most_bytes());
            prop_assert_eq!(Packet::key(&bytes), None);
            let read = Packet::decode(&bytes).unwrap();
            prop_assert_eq!(read, packet);
            if let Packet::Missing { numbers: read, .. } | Packet::Gone { numbers: read, .. } = read {
                prop_assert!(read.iter().eq(numbers.iter().copied()));
            }
            prop_assert!(Packet::decode(&bytes[..5]).is_err(), "none");
            bytes.extend([0; 4 * Numbers::MOST]);
            prop_assert!(Packet::decode(&bytes).is_err(), "too many");
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(packet) = Packet::decode(&bytes) {
            let bytes = packet.encode();
            prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
        }
        if let Ok(hello) = Hello::decode(&bytes) {
            prop_assert_eq!(hello.encode(), bytes);
        }
    }

    #[test]
    fn a_hello_is_read_as_it_was_written(
        session: [u8; 16], path in 0..8u8, scheduler in "[a-z-]{0,32}",
        priority in prop::sample::select(vec![Priority::Preferred, Priority::Normal, Priority::Backup]),
    ) {
        let hello = Hello { session, path, priority, scheduler };
        let mut bytes = hello.encode();
        prop_assert!(bytes.len() <= Hello::MOST);
        prop_assert_eq!(Hello::decode(&bytes), Ok(hello));
        bytes.push(0);
        prop_assert!(Hello::decode(&bytes).is_err());
    }

    /// Copies come late, within the window and beyond it, and numbers wrap.
    #[test]
    fn every_number_counts_once(
        first: u32,
        steps in prop::collection::vec((0..3 * WINDOW, 0..4usize), 1..300),
    ) {
        let mut seen = Seen::default();
        let mut had = HashSet::new();
        let (mut next, mut newest) = (0u64, None::<u64>);
        for (back, repeat) in steps {
            next += 1 + u64::from(back % 7);
            // One in the past, where there is one, and one that is new.
            for offset in [next.saturating_sub(u64::from(back)), next] {
                for _ in 0..=repeat {
                    let fresh = seen.take(first.wrapping_add(offset as u32));
                    let old = newest.is_some_and(|n| n >= offset + u64::from(WINDOW));
                    prop_assert_eq!(fresh, had.insert(offset) && !old, "{} of {:?}", offset, newest);
                    newest = newest.max(Some(offset));
                }
            }
        }
    }

    /// Parts come in any order and more than once, of several datagrams at a time: each is whole once, as it was.
    #[test]
    fn parts_are_joined_in_any_order(
        most in 1usize..2000, first: u32, lengths in prop::collection::vec(1usize..20_000, 1..5), seed: u64,
    ) {
        let datagrams: Vec<Vec<u8>> = (0u8..).zip(&lengths).map(|(i, length)| {
            (0..*length).map(|at| (at as u8).wrapping_mul(31) ^ i).collect()
        }).collect();
        let (mut pieces, mut next) = (Vec::new(), first);
        for (index, datagram) in datagrams.iter().enumerate() {
            for (part, some) in split(datagram, most) {
                prop_assert!(some.len() <= most);
                pieces.push((next, part, some, index));
                next = next.wrapping_add(1);
            }
        }
        // Too many parts are none.
        let possible = |length: usize| length.div_ceil(most) <= 256;
        prop_assert_eq!(pieces.is_empty(), !lengths.iter().any(|length| possible(*length)));
        pieces.sort_by_key(|(number, ..)| u64::from(*number).wrapping_mul(seed | 1).rotate_left(29));
        let mut joiner = Joiner::default();
        let mut whole = vec![0; datagrams.len()];
        for (number, part, some, index) in &pieces {
            if let Some(joined) = joiner.take(7, *number, *part, some, Duration::ZERO) {
                prop_assert_eq!(&joined, &datagrams[*index]);
                whole[*index] += 1;
            } else {
                // A copy changes nothing.
                prop_assert_eq!(joiner.take(7, *number, *part, some, Duration::ZERO), None);
            }
        }
        for (count, length) in whole.iter().zip(&lengths) {
            prop_assert_eq!(*count, u32::from(possible(*length)));
        }
        prop_assert_eq!((joiner.held(), joiner.waiting() <= whole.len()), (0, true));
    }

    /// Whatever parts come, and however many never do.
    #[test]
    fn what_is_not_whole_is_bounded(steps in prop::collection::vec((0u32..200, any::<u32>(), part(), 0usize..70_000, 0u64..500), 1..300)) {
        let mut joiner = Joiner::default();
        let (payload, mut now) = (vec![7; 70_000], Duration::ZERO);
        for (flow, sequence, part, length, pause) in steps {
            let Some(part) = part else { continue };
            now += Duration::from_millis(pause);
            joiner.take(flow, sequence % 512, part, &payload[..length], now);
            prop_assert!(joiner.waiting() <= MOST_WAITING && joiner.held() <= MOST_BYTES, "{} {}", joiner.waiting(), joiner.held());
        }
    }

    /// A flow within the rate is always copied; one of twice the rate is not for long; after a pause it is again.
    #[test]
    fn small_flows_are_copied_and_bulk_is_not(size in 100usize..1400) {
        let mut small = Budget::new(Duration::ZERO);
        // 50 packets a second of up to 1400 bytes: .56 Mbit/s.
        for i in 0..500 {
            prop_assert!(small.take(size, i * 20 * MS));
        }
        let mut bulk = Budget::new(Duration::ZERO);
        let gap = Duration::from_secs_f64(size as f64 / 750_000.0);
        let copied = (0..200_000 / size as u32).map(|i| bulk.take(size, i * gap)).collect::<Vec<_>>();
        prop_assert!(copied[0]);
        prop_assert!(!copied[copied.len() - 1]);
        prop_assert!(bulk.take(size, copied.len() as u32 * gap + 200 * MS));
    }

    /// Whatever the paths' state: a copied packet goes out while a path is active, bulk while it need not wait, and only on those that
    /// are.
    #[test]
    fn a_copied_packet_always_goes_somewhere(
        entry in 0..scheduler::all().len(),
        paths in prop::collection::vec((any::<bool>(), any::<bool>(), 0..200u32, 1..200_000u32, 0..1u64 << 30), MAX_SUBFLOWS),
        backups: [bool; MAX_SUBFLOWS], bytes in 1usize..1500, copied: bool, now in 1u64..1 << 40,
    ) {
        let mut views = [SubflowView::default(); MAX_SUBFLOWS];
        for (view, ((active, stale, in_flight, rtt, rate), backup)) in views.iter_mut().zip(paths.into_iter().zip(backups)) {
            *view = SubflowView {
                active, stale, backup, mss: 1400, cwnd: 64, in_flight, srtt_us: rtt, min_rtt_us: rtt, rttvar_us: rtt / 2,
                queued: u64::from(in_flight) * 1400, room: u64::from(64u32.saturating_sub(in_flight)) * 1400,
                pacing_rate: rate, ..SubflowView::default()
            };
        }
        let mut dealer = Dealer::new(&scheduler::all()[entry]);
        for turn in 0..3 {
            let picked = dealer.pick(bytes, 0, copied, &views, now + turn);
            let is = |fits: fn(&SubflowView) -> bool| (0..MAX_SUBFLOWS).filter(|s| fits(&views[*s])).fold(0u8, |set, s| set | 1 << s);
            let (active, live) = (is(|v| v.active), is(SubflowView::alive));
            let Some(slots) = picked else {
                prop_assert!(!copied && active != 0);
                continue;
            };
            prop_assert_eq!(slots & !active, 0);
            prop_assert_eq!(slots == 0, active == 0);
            prop_assert!(live == 0 || slots & live != 0, "{:b} of {:b}", slots, live);
            // A backup carries nothing, no copy either, while any other path lives.
            let normal = is(|v| v.alive() && !v.backup);
            prop_assert!(normal == 0 || slots & is(|v| v.backup) == 0, "{:b} of {:b}", slots, normal);
            // The first acknowledgement of a path that is back is not to wait behind bulk.
            if !copied && live == 0 {
                prop_assert_eq!(slots & is(|v| v.window() == 0), 0);
            }
            if copied {
                let free = is(SubflowView::ready) & if normal == 0 { u8::MAX } else { normal };
                prop_assert_eq!(slots & free, free);
            }
        }
    }

    /// Losses, spurious or not, and acknowledgements in any order: nothing overflows, and silence alone makes a path stale.
    #[test]
    fn the_meter_follows_its_path(steps in prop::collection::vec((0..4u8, 1..1500u64, 0..100u32), 1..200)) {
        let mut meter = Meter::default();
        meter.on_mtu(1400);
        let mut now = Duration::from_secs(1);
        for (number, (kind, bytes, wait)) in (0u64..).zip(steps) {
            now += wait * MS;
            match kind {
                0 => meter.on_sent(number, bytes, now),
                1 => meter.on_ack(number / 2, bytes, now - (wait + 1) * MS, now),
                2 => meter.on_lost(bytes),
                _ => meter.set_in_flight(0),
            }
            let view = meter.view(0, u64::MAX, now);
            prop_assert!(view.active && view.cwnd >= 8);
            prop_assert_eq!(view.room == 0, view.window() == 0, "{:?}", view);
        }
        meter.on_ack(1000, 1, now, now);
        meter.on_sent(1000, 1000, now);
        prop_assert!(!meter.is_stale(now + 200 * MS));
        prop_assert!(meter.is_stale(now + 1000 * MS));
        meter.on_ack(1000, 1000, now, now + 1000 * MS);
        prop_assert!(!meter.is_stale(now + 1001 * MS));
    }
}

#[test]
fn the_rate_is_what_was_delivered() {
    let mut meter = Meter::default();
    meter.on_mtu(1400);
    // 1,000 bytes a millisecond with 20 ms of round trip: 8 Mbit/s.
    for i in 0..2_000u32 {
        meter.on_sent(i.into(), 1000, i * MS);
        if i >= 20 {
            meter.on_ack((i - 20).into(), 1000, (i - 20) * MS, i * MS);
        }
    }
    let view = meter.view(0, u64::MAX, 2_000 * MS);
    assert!(
        view.pacing_rate.abs_diff(1_000_000) < 100_000,
        "{}",
        view.pacing_rate
    );
    assert_eq!((view.srtt_us, view.min_rtt_us), (20_000, 20_000));
    assert_eq!(view.in_flight, 20_000u32.div_ceil(1400));
}

/// A path that carries one packet for each acknowledgement of its peer's, and loses 5 % of both.
#[test]
fn a_lost_acknowledgement_is_no_lost_packet() {
    let mut meter = Meter::default();
    for number in 0..2_000u32 {
        let now = number * MS;
        meter.on_sent(number.into(), 200, now);
        match number % 20 {
            0 => meter.on_lost(200),
            _ => meter.on_ack(number.into(), 200, now, now + 20 * MS),
        }
        if number % 20 == 7 {
            meter.on_lost(0);
        }
    }
    assert!((meter.loss() - 0.05).abs() < 0.005, "{}", meter.loss());
    assert_eq!(meter.view(0, u64::MAX, 2_000 * MS).lost, 100);
}

/// Of a path that loses packets at random.
struct Lossy {
    meter: Meter,
    loss: f64,
    sent: u64,
}

impl Lossy {
    /// Whether a packet arrives.
    fn carries(&mut self, random: &mut SmallRng, now: Duration) -> bool {
        self.sent += 1;
        self.meter.on_sent(self.sent, 200, now);
        let arrives = !random.random_bool(self.loss);
        match arrives {
            true => self.meter.on_ack(self.sent, 200, now, now + 20 * MS),
            false => self.meter.on_lost(200),
        }
        arrives
    }
}

/// A call over two paths that lose this share of the packets: the share of packets that do not arrive, and copies for each.
fn call(losses: [f64; 2], packets: u32) -> (f64, f64) {
    let mut random = SmallRng::seed_from_u64(7);
    let mut paths = losses.map(|loss| Lossy {
        meter: Meter::default(),
        loss,
        sent: 0,
    });
    let mut dealer = Dealer::new(scheduler::find("min-rtt").unwrap());
    let (mut repeats, mut seen) = (Repeats::default(), Seen::default());
    let (mut arrived, mut copies) = (0, 0);
    for number in 0..packets {
        let now = number * 4 * MS;
        let mut receive = |sequence: u32| arrived += u32::from(seen.take(sequence));
        let mut views = [SubflowView::default(); MAX_SUBFLOWS];
        let mut known = [Known::default(); MAX_SUBFLOWS];
        for (slot, path) in paths.iter().enumerate() {
            (views[slot], known[slot].loss) =
                (path.meter.view(0, u64::MAX, now), path.meter.loss());
        }
        let slots = dealer
            .pick(200, 0, true, &views, now.as_micros() as u64)
            .unwrap();
        assert_eq!(slots, 0b11);
        for path in &mut paths {
            if path.carries(&mut random, now) {
                receive(number);
            }
        }
        if let Some(slot) = repeat::path(slots, &known, &views) {
            repeats.put(slot, number.to_be_bytes().to_vec().into(), now);
        }
        while let Some((slot, packet)) = repeats.take(now) {
            copies += 1;
            if paths[slot].carries(&mut random, now) {
                receive(u32::from_be_bytes(packet[..].try_into().unwrap()));
            }
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(packets);
    (share(packets - arrived), 1.0 + share(copies))
}

/// Two copies of a packet are lost with the product of the losses, three with that and the lower loss again.
#[test]
fn a_third_copy_follows_where_two_are_lost_too_often() {
    const PACKETS: u32 = 400_000;
    for (losses, lost, copies) in [
        ([0.05, 0.05], 0.05 * 0.05 * 0.05, 2.0),
        ([0.20, 0.02], 0.20 * 0.02 * 0.02, 2.0),
        ([0.01, 0.01], 0.01 * 0.01, 1.0),
        ([0.05, 0.0], 0.0, 1.0),
    ] {
        let (was, used) = call(losses, PACKETS);
        // The first packets have no third copy, nor have those before which few were lost by chance.
        let deviation = (lost / f64::from(PACKETS)).sqrt();
        let least = lost - 5.0 * deviation;
        let most = 1.5 * lost + 5.0 * deviation + 1e-6;
        assert!((least..most).contains(&was), "{losses:?}: {was} lost");
        assert!((used - copies).abs() < 0.06, "{losses:?}: {used} copies");
        assert!(was < 0.002, "{losses:?}: {was} lost");
    }
}

/// More copies make a queue longer, and a path that is silent is worth none.
#[test]
fn a_third_copy_takes_the_better_path_whose_queue_is_short() {
    let view = |srtt_us, queue_us| {
        let view = SubflowView {
            active: true,
            mss: 1400,
            cwnd: 64,
            srtt_us,
            min_rtt_us: 20_000,
            ..SubflowView::default()
        };
        (view, Duration::from_micros(queue_us))
    };
    type Path = (SubflowView, Duration);
    let choose = |first: Path, second: Path, losses: [f64; 2]| {
        let mut views = [SubflowView::default(); MAX_SUBFLOWS];
        let mut known = [Known::default(); MAX_SUBFLOWS];
        for (slot, ((view, queue), loss)) in [first, second].into_iter().zip(losses).enumerate() {
            (views[slot], known[slot]) = (view, Known { loss, queue });
        }
        repeat::path(0b11, &known, &views)
    };
    let empty = view(20_000, 0);
    let (mut stale, mut full) = (empty, empty);
    stale.0.stale = true;
    full.0.in_flight = 64;
    let (short, long) = (view(45_000, 25_000), view(45_000, 25_001));
    for (first, second, losses, expected) in [
        (short, short, [0.05, 0.04], Some(1)),
        (short, empty, [0.05, 0.05], Some(1)),
        // Jitter, and no queue.
        (view(90_000, 0), full, [0.05, 0.05], Some(0)),
        (short, short, [0.03, 0.03], None),
        (short, long, [0.05, 0.04], Some(0)),
        (short, full, [0.05, 0.04], Some(0)),
        (long, full, [0.05, 0.04], None),
        // All that it was given is lost.
        (short, stale, [0.01, 0.0], Some(0)),
        (short, stale, [0.0, 0.0], None),
    ] {
        let chosen = choose(first, second, losses);
        assert_eq!(chosen, expected, "{losses:?}");
    }
}

/// What becomes of a packet, once the sender hears of it: when, its number on the path, whether it arrived, when it was sent.
type Fate = Reverse<(Duration, u32, bool, Duration)>;

/// A path with a round trip that loses packets and delays some of them.
struct Slow {
    lossy: Lossy,
    rtt: Duration,
    jitter: Duration,
    sent: u32,
    fates: BinaryHeap<Fate>,
}

impl Slow {
    fn carries(&mut self, random: &mut SmallRng, now: Duration) -> bool {
        let rtt = self.rtt + self.jitter.mul_f64(random.random());
        let arrives = !random.random_bool(self.lossy.loss);
        // Three packets later, 4 ms each (RFC 9002, section 6.1.1).
        let heard = if arrives { rtt } else { rtt + 12 * MS };
        self.sent += 1;
        self.lossy.meter.on_sent(self.sent.into(), 1200, now);
        self.fates
            .push(Reverse((now + heard, self.sent, arrives, now)));
        arrives
    }

    fn hear(&mut self, now: Duration) {
        while let Some(Reverse((at, number, arrives, sent))) = self.fates.peek().copied() {
            if at > now {
                break;
            }
            self.fates.pop();
            match arrives {
                true => self.lossy.meter.on_ack(number.into(), 1200, sent, at),
                false => self.lossy.meter.on_lost(1200),
            }
        }
    }
}

/// Packets lost of calls of 1,000, each over new paths of 20 and 50 ms that lose 5 %, with this jitter of the round trip.
fn lost_of_calls(calls: u64, jitter: Duration) -> u32 {
    const PACKETS: u32 = 1_000;
    let call = |seed| {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut paths = [20, 50].map(|rtt| Slow {
            lossy: Lossy {
                meter: Meter::default(),
                loss: 0.05,
                sent: 0,
            },
            rtt: rtt * MS,
            jitter,
            sent: 0,
            fates: BinaryHeap::new(),
        });
        let meters = paths.iter_mut().map(|path| &mut path.lossy.meter);
        meters.for_each(|meter| meter.on_mtu(1400));
        let mut dealer = Dealer::new(scheduler::find("min-rtt").unwrap());
        let (mut repeats, mut seen, mut arrived) = (Repeats::default(), Seen::default(), 0);
        for ms in 0..4 * PACKETS + 10 {
            let now = ms * MS;
            paths.iter_mut().for_each(|path| path.hear(now));
            while let Some((slot, packet)) = repeats.take(now) {
                if paths[slot].carries(&mut random, now) {
                    let number = u32::from_be_bytes(packet[..].try_into().unwrap());
                    arrived += u32::from(seen.take(number));
                }
            }
            let number = ms / 4;
            if ms % 4 > 0 || number >= PACKETS {
                continue;
            }
            let mut views = [SubflowView::default(); MAX_SUBFLOWS];
            let mut known = [Known::default(); MAX_SUBFLOWS];
            for (slot, path) in paths.iter().enumerate() {
                let meter = &path.lossy.meter;
                let (loss, queue) = (meter.loss(), meter.queue());
                (views[slot], known[slot]) = (meter.view(0, u64::MAX, now), Known { loss, queue });
            }
            let slots = dealer
                .pick(1200, 0, true, &views, now.as_micros() as u64)
                .unwrap();
            assert_eq!(slots, 0b11);
            for path in &mut paths {
                if path.carries(&mut random, now) {
                    arrived += u32::from(seen.take(number));
                }
            }
            if let Some(slot) = repeat::path(slots, &known, &views) {
                repeats.put(slot, number.to_be_bytes().to_vec().into(), now);
            }
        }
        PACKETS - arrived
    };
    (0..calls).map(call).sum()
}

/// Two copies lose 250 of 100,000, three 12.5. The first 64 packets of each call, before a loss is known, and estimates that are
/// too low by chance add some 25.
#[test]
fn a_call_has_its_third_copies_from_its_first_second_on_whatever_the_jitter() {
    for jitter in [Duration::ZERO, 30 * MS, 100 * MS] {
        let lost = lost_of_calls(100, jitter);
        assert!(
            (10..80).contains(&lost),
            "{lost} of 100,000 with {jitter:?}"
        );
    }
}

/// A bulk flow fills a queue: no packet finds it short any more.
#[test]
fn a_standing_queue_is_found_and_jitter_is_none() {
    let mut meter = Meter::default();
    meter.on_mtu(1400);
    let mut acked = |from: u32, to: u32, rtt: &dyn Fn(u32) -> u32| {
        for ms in from..to {
            let at = ms * MS;
            meter.on_ack(ms.into(), 1200, at.saturating_sub(rtt(ms) * MS), at);
        }
        meter.queue()
    };
    assert_eq!(acked(1_000, 2_000, &|_| 20), Duration::ZERO);
    assert!(acked(2_000, 3_000, &|ms| 20 + ms * 7 % 80) <= 2 * MS);
    assert_eq!(acked(3_000, 3_400, &|_| 60), 40 * MS);
    assert_eq!(acked(3_400, 4_000, &|_| 21), MS);
}

/// A packet of flow and number.
fn packet(flow: u32, number: u32, bytes: usize) -> bytes::Bytes {
    let mut packet = vec![0; bytes.max(8)];
    packet[..4].copy_from_slice(&flow.to_be_bytes());
    packet[4..8].copy_from_slice(&number.to_be_bytes());
    packet.into()
}

proptest! {
    /// Whatever comes and goes when: each packet goes once, in its flow's order, or was dropped or waits; what waits is bounded.
    #[test]
    fn bulk_waits_in_order_and_within_bounds(
        steps in prop::collection::vec((0u32..4, 1usize..60, 8usize..1500, 0u64..30, 0usize..80), 1..200),
    ) {
        let (mut queue, mut now) = (Queue::default(), Duration::ZERO);
        let (mut put, mut gone, mut dropped) = ([0u32; 4], [0u32; 4], 0);
        let mut next = [0u32; 4];
        for (flow, count, bytes, pause, room) in steps {
            now += pause as u32 * MS;
            for _ in 0..count {
                dropped += queue.put(flow, packet(flow, put[flow as usize], bytes), now);
                put[flow as usize] += 1;
            }
            let mut left = room;
            loop {
                let (lost, went) = queue.take(now, |of, packet| {
                    let number = u32::from_be_bytes(packet[4..8].try_into().unwrap());
                    assert_eq!(packet[..4], of.to_be_bytes());
                    if left == 0 {
                        return false;
                    }
                    left -= 1;
                    assert!(number >= next[of as usize]);
                    next[of as usize] = number + 1;
                    gone[of as usize] += 1;
                    true
                });
                dropped += lost;
                if !went {
                    break;
                }
            }
            prop_assert!(queue.bytes() <= queue::MOST);
        }
        let mut waits = 0;
        while !queue.is_empty() {
            let (lost, went) = queue.take(now, |_, _| true);
            (dropped, waits) = (dropped + lost, waits + u32::from(went));
        }
        let sum = |of: [u32; 4]| of.iter().sum::<u32>();
        prop_assert_eq!(u64::from(sum(put)), u64::from(sum(gone) + waits) + dropped);
    }

    /// Two paths that keep their own order, one later than the other, and that lose some. What was lost is asked for once, and comes
    /// again, or is said to be gone, or neither: what comes out is in order, nothing that came is missing or doubled, and nothing waits
    /// for longer than it may.
    #[test]
    fn what_paths_of_unlike_length_bring_is_put_in_order(
        first: u32, late in 0u32..25, answers_after in 1u32..60,
        choices in prop::collection::vec((any::<bool>(), 0u8..10, 0u8..4), 1..400),
    ) {
        // One a millisecond.
        let mut events: BTreeSet<_> = (0u32..).zip(&choices).filter(|(_, (_, fate, _))| *fate > 0).map(|(number, (slow, ..))| {
            (number + 10 + u32::from(*slow) * late, number, Some(usize::from(*slow)), true)
        }).collect();
        let first_of = |events: &BTreeSet<_>, slot| events.iter().find(|(_, _, of, _)| *of == Some(slot)).map(|(at, ..)| *at);
        // Before the first packet of a path nobody knows of it; what it brings up to there is late.
        let both = first_of(&events, 0).max(first_of(&events, 1)).unwrap_or(0);
        let (mut order, mut out) = (Order::default(), Vec::new());
        let (mut came, mut asked) = (HashMap::new(), HashSet::new());
        let mut due = None;
        for ms in 0..2_000 {
            let now = ms * MS;
            let mut acts = due.is_some_and(|due| due <= now);
            while let Some(event) = events.first().filter(|(at, ..)| *at <= ms).copied() {
                events.remove(&event);
                acts = true;
                let (_, number, slot, comes) = event;
                let sequence = first.wrapping_add(number);
                if !comes {
                    order.is_gone(sequence);
                    continue;
                }
                came.insert(number, now);
                match order.take(sequence, slot, now) {
                    None => out.push((number, now)),
                    Some(place) => order.hold(place, number, 1, now),
                }
            }
            if !acts {
                continue;
            }
            out.extend(std::iter::from_fn(|| order.pop(now)).map(|number| (number, now)));
            for missing in order.missing(now, 7) {
                let number = missing.wrapping_sub(first);
                let (_, fate, answer) = choices[number as usize];
                prop_assert!(fate == 0 || both >= ms, "{number} was not lost");
                prop_assert!(asked.insert(number), "{number} was asked for twice");
                if fate == 0 && answer > 0 {
                    events.insert((ms + answers_after, number, None, answer > 1));
                }
            }
            due = order.due(now);
            prop_assert!(due.is_none_or(|due| due > now), "it would be asked without end");
        }
        prop_assert!(!order.holds());
        prop_assert_eq!(out.len(), came.len());
        let settled = out.iter().filter(|(_, at)| *at <= both * MS).map(|(number, _)| *number).max();
        // What was asked for may come when nobody waits for it any more.
        let after = out.iter().map(|(number, _)| *number).filter(|number| Some(*number) > settled);
        prop_assert!(after.filter(|number| !asked.contains(number)).is_sorted(), "{:?}", out);
        for (number, at) in &out {
            prop_assert!(*at - came[number] <= order::LONGEST, "{}", number);
        }
    }

    /// Each packet goes again once at most, nothing of it is kept for longer than it is of use, and what is kept is bounded.
    #[test]
    fn what_was_sent_is_there_to_be_sent_again(
        steps in prop::collection::vec((0u32..3, 1usize..400, 0u64..200, any::<prop::sample::Index>()), 1..60),
    ) {
        let (mut sent, mut now, mut next) = (repair::Recent::default(), Duration::ZERO, 0u32);
        let mut there = HashMap::new();
        for (flow, count, pause, asked) in steps {
            now += pause as u32 * MS;
            for _ in 0..count {
                let payload = &[7; 1300][..];
                let packet = Packet::Data { flow, sequence: next, target: None, how: How::Bulk, part: None, payload };
                sent.put(&packet.encode().into(), now);
                there.insert((flow, next), now);
                next += 1;
            }
            prop_assert!(sent.bytes() <= repair::MOST);
            let keys: Vec<_> = there.keys().copied().collect();
            let key = *asked.get(&keys);
            let again = sent.take(key.0, key.1);
            let since = there.remove(&key).unwrap();
            if let Found::Packet(datagram) = &again {
                prop_assert!(now - since < 500 * MS);
                prop_assert_eq!(Packet::key(datagram), Some(key));
                // A copy of the same request is not told that it is gone.
                prop_assert_eq!(sent.take(key.0, key.1), Found::Taken);
            } else {
                prop_assert_eq!(again, Found::Gone);
            }
        }
        prop_assert_eq!(sent.expire(now + 500 * MS), None);
        prop_assert_eq!(sent.bytes(), 0);
    }
}

/// Over the path where it arrives first, though bulk has filled that, but not without end.
#[test]
fn a_repair_passes_bulk_and_fills_no_path() {
    let mut views = [SubflowView::default(); MAX_SUBFLOWS];
    let path = |srtt_us, in_flight: u32, backup| SubflowView {
        active: true,
        mss: 1400,
        cwnd: 40,
        in_flight,
        queued: u64::from(in_flight) * 1400,
        srtt_us,
        pacing_rate: 2_000_000,
        backup,
        ..SubflowView::default()
    };
    assert_eq!(for_repair(1400, &views), None);
    views[2] = path(20_000, 0, true);
    assert_eq!(for_repair(1400, &views), Some(2));
    assert!(is_near(&views, 60 * MS));
    views[0] = path(80_000, 40, false);
    assert_eq!(for_repair(1400, &views), Some(0));
    assert!(!is_near(&views, 60 * MS), "the backup carries none");
    views[1] = path(20_000, 79, false);
    assert_eq!(for_repair(1400, &views), Some(1));
    assert!(is_near(&views, 60 * MS));
    views[1].in_flight = 80;
    assert_eq!(for_repair(1400, &views), Some(0));
    views[0].in_flight = 80;
    assert_eq!(for_repair(1400, &views), None);
}

/// A flood and a flow that sends a tenth of it, each with a packet a round: the small one is served as it comes.
#[test]
fn a_flood_does_not_delay_another_flow() {
    let (mut queue, mut waited) = (Queue::default(), Vec::new());
    for ms in 0..2_000u32 {
        let now = ms * MS;
        for number in 0..10 {
            queue.put(1, packet(1, 10 * ms + number, 1400), now);
        }
        queue.put(2, packet(2, ms, 1400), now);
        for _ in 0..4 {
            queue.take(now, |flow, packet| {
                let number = u32::from_be_bytes(packet[4..8].try_into().unwrap());
                if flow == 2 {
                    waited.push(ms - number);
                }
                true
            });
        }
    }
    assert_eq!(waited.len(), 2_000);
    assert!(waited.iter().all(|ms| *ms <= 1), "{waited:?}");
}

/// Puts a packet in order. Returns the numbers that go on, and those to be asked for.
fn put(order: &mut Order<u32>, number: u32, slot: usize, now: Duration) -> (Vec<u32>, Vec<u32>) {
    let mut goes = Vec::new();
    match order.take(number, Some(slot), now) {
        Some(place) => order.hold(place, number, 1, now),
        None => goes.push(number),
    }
    goes.extend(std::iter::from_fn(|| order.pop(now)));
    (goes, order.missing(now, 64))
}

/// It is lost once each path that may have it has brought a later one, and nothing waits for it once the other end has not it either.
#[test]
fn what_is_lost_is_asked_for_once() {
    let (mut order, now) = (Order::default(), 1_000 * MS);
    assert_eq!(put(&mut order, 0, 0, now), (vec![0], vec![]));
    assert_eq!(
        put(&mut order, 2, 0, now),
        (vec![], vec![1]),
        "the only path is past it"
    );
    assert_eq!(
        put(&mut order, 3, 0, now),
        (vec![], vec![]),
        "it was asked for"
    );
    assert_eq!(order.take(1, None, now), None);
    assert_eq!([order.pop(now), order.pop(now)], [Some(2), Some(3)]);
    // 4 is lost; path 1 may have it.
    assert_eq!(put(&mut order, 5, 1, now), (vec![], vec![]));
    assert_eq!(
        put(&mut order, 7, 0, now),
        (vec![], vec![4]),
        "both are past 4, and path 1 may have 6"
    );
    order.is_gone(4);
    order.is_gone(6);
    assert_eq!(order.pop(now), Some(5));
    assert_eq!(order.pop(now), None, "nobody has asked for 6");
    assert_eq!(put(&mut order, 8, 1, now), (vec![], vec![6]));
    let later = now + order::LONGEST;
    assert_eq!(
        order.due(now),
        Some(now + order::LATE),
        "path 0 is silent then"
    );
    assert_eq!(order.due(now + order::LATE), Some(later));
    let rest: Vec<_> = std::iter::from_fn(|| order.pop(later)).collect();
    assert_eq!(rest, [7, 8]);
}

/// A path that is not used any more is waited for, and what is sent again over it tells nothing. Nothing comes then, so it is time that
/// tells.
#[test]
fn a_path_that_is_silent_is_not_waited_for() {
    let (mut order, now) = (Order::default(), 1_000 * MS);
    assert_eq!(put(&mut order, 0, 1, now), (vec![0], vec![]));
    let later = now + order::LATE / 2;
    assert_eq!(
        put(&mut order, 2, 0, later),
        (vec![], vec![]),
        "path 1 may have 1"
    );
    let silent = now + order::LATE;
    assert_eq!(order.due(later), Some(silent));
    assert_eq!(order.missing(silent, 64), [1]);
    assert_eq!(order.due(silent), Some(later + order::LONGEST));
    assert_eq!(order.take(1, None, silent), None);
    assert_eq!(order.pop(silent), Some(2));
    assert_eq!(
        put(&mut order, 4, 0, silent),
        (vec![], vec![3]),
        "of path 1 there was only what was sent again"
    );
}

/// A copy says what its path has delivered, as the first one of a packet does.
#[test]
fn copies_tell_what_a_path_has_delivered() {
    let now = 1_000 * MS;
    let mut order = Order::default();
    assert_eq!(put(&mut order, 0, 0, now), (vec![0], vec![]));
    order.copy(0, 1, now);
    assert_eq!(
        put(&mut order, 2, 0, now),
        (vec![], vec![]),
        "path 1 may have 1"
    );
    order.copy(2, 1, now);
    assert_eq!(order.missing(now, 64), [1]);
}

/// Packets that went while a flow was small are no gap when it becomes bulk.
#[test]
fn what_has_passed_is_not_waited_for() {
    let mut order = Order::<u32>::default();
    assert_eq!(order.take(7, Some(1), Duration::ZERO), None);
    (8..500).for_each(|number| order.pass(number, 0, 1_000 * MS));
    assert_eq!(order.take(500, Some(0), 1_001 * MS), None);
    // The other path may have 501.
    order.copy(300, 1, 1_001 * MS);
    assert!(order.take(502, Some(0), 1_001 * MS).is_some());
}

/// A path that takes no long packets is filled with those of another flow.
#[test]
fn a_packet_that_fits_nowhere_holds_back_no_shorter_one() {
    let mut queue = Queue::default();
    let now = Duration::ZERO;
    for number in 0..3 {
        queue.put(1, packet(1, number, 1400), now);
        queue.put(2, packet(2, number, 1400), now);
        queue.put(3, packet(3, number, 1200), now);
    }
    let mut gone = Vec::new();
    let mut take = |most: usize| {
        let (dropped, went) = queue.take(now, |flow, packet| {
            let goes = packet.len() <= most;
            gone.extend(goes.then_some(flow));
            goes
        });
        assert_eq!(dropped, 0);
        went
    };
    assert!(take(1300) && take(1300) && take(1300) && !take(1300));
    assert!(take(1400) && take(1400) && take(1400));
    assert_eq!(gone, [3, 3, 3, 1, 1, 2]);
    assert!(queue.has(1) && queue.has(2) && !queue.has(3));
}

/// The paths stand still for longer than anybody waits.
#[test]
fn what_is_old_is_dropped() {
    let mut queue = Queue::default();
    for number in 0..100 {
        queue.put(1, packet(1, number, 1400), number * 20 * MS);
    }
    let mut first = None;
    let now = 2_000 * MS;
    let (dropped, went) = queue.take(now, |_, packet| {
        first = Some(packet[7]);
        true
    });
    assert!(went);
    assert_eq!((dropped, first), (50, Some(50)));
}

/// The link takes less than the search of the path MTU tries, and nothing else is sent.
#[test]
fn a_lost_probe_makes_no_path_stale() {
    let mut meter = Meter::default();
    meter.on_mtu(1232);
    meter.on_sent(1, 400, MS);
    meter.on_ack(1, 400, MS, 20 * MS);
    meter.on_sent(2, 1452, 30 * MS);
    assert!(!meter.is_stale(4_000 * MS));
    // What follows is due.
    meter.on_sent(3, 400, 4_000 * MS);
    assert!(meter.is_stale(4_500 * MS));
    meter.on_ack(3, 400, 4_000 * MS, 4_500 * MS);
    meter.set_in_flight(1452);
    assert!(!meter.is_stale(9_000 * MS));
}

/// QUIC would drop the oldest.
#[test]
fn a_path_has_no_more_room_than_quic_has() {
    let mut meter = Meter::default();
    meter.on_mtu(1400);
    for takes in [0, 10_000, 1 << 18] {
        let view = meter.view(0, takes, Duration::ZERO);
        assert!(view.room <= takes, "{view:?}");
        assert_eq!(view.room == 0, view.window() == 0, "{view:?}");
    }
    meter.on_sent(1, 1400, Duration::ZERO);
    assert_eq!(meter.view(2800, 10_000, MS).window(), 10_000 / 1432);
}

mod packets {
    use etherparse::{Icmpv4Type, Icmpv6Type, NetSlice, SlicedPacket, TransportSlice};
    use mp_relay::capture::fragments::{self, Fragments, MOST};
    use mp_relay::capture::udp;
    use mp_relay::wire::Refusal;
    use proptest::prelude::*;
    use std::net::SocketAddr;
    use std::time::Duration;

    fn ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
        prop_oneof![
            any::<([u8; 4], u16, [u8; 4], u16)>()
                .prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into())),
            any::<([u8; 16], u16, [u8; 16], u16)>()
                .prop_map(|(a, p, b, q)| ((a, p).into(), (b, q).into())),
        ]
    }

    /// One's complement sum of a checksummed range, with the pseudo-header's.
    fn checksum_holds(packet: &[u8]) -> bool {
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let Some(TransportSlice::Udp(udp)) = &sliced.transport else {
            return false;
        };
        let header = udp.to_header();
        let expected = match sliced.net.as_ref().unwrap() {
            NetSlice::Ipv4(v4) => {
                header.calc_checksum_ipv4(&v4.header().to_header(), udp.payload())
            }
            NetSlice::Ipv6(v6) => {
                header.calc_checksum_ipv6(&v6.header().to_header(), udp.payload())
            }
            _ => return false,
        };
        expected.unwrap() == header.checksum
    }

    proptest! {
        #[test]
        fn a_packet_of_udp_is_read_as_it_was_made((from, to) in ends(), payload in prop::collection::vec(any::<u8>(), 0..1500)) {
            let packet = udp::build(from, to, &payload).unwrap();
            prop_assert!(udp::concerns(&packet) && checksum_holds(&packet));
            prop_assert_eq!(packet.len(), payload.len() + udp::headers(from.is_ipv4()));
            prop_assert_eq!(udp::parse(&packet), Some(udp::Udp { from, to, payload: &payload }));
        }

        /// Back to who has sent it, about the packet that it has sent.
        #[test]
        fn errors_name_their_packet((from, to) in ends(), payload in prop::collection::vec(any::<u8>(), 0..1500), most in 1000usize..1400) {
            let packet = udp::build(from, to, &payload).unwrap();
            let read = udp::parse(&packet).unwrap();
            let mtu = (most + udp::headers(from.is_ipv4())) as u32;
            for answer in [udp::too_big(&packet, &read, most, to.ip()).unwrap(), udp::unreachable(from, to, Refusal::Forbidden, to.ip()).unwrap()] {
                prop_assert!(!udp::concerns(&answer));
                let sliced = SlicedPacket::from_ip(&answer).unwrap();
                let quote = match sliced.transport.as_ref().unwrap() {
                    TransportSlice::Icmpv4(icmp) => {
                        let Icmpv4Type::DestinationUnreachable(why) = icmp.icmp_type() else { panic!("{icmp:?}") };
                        let fits = etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu as u16 };
                        prop_assert!(why.code_u8() == 13 || why == fits);
                        icmp.payload()
                    }
                    TransportSlice::Icmpv6(icmp) => {
                        let right = match icmp.icmp_type() {
                            Icmpv6Type::PacketTooBig { mtu: said } => said == mtu,
                            other => matches!(other, Icmpv6Type::DestinationUnreachable(_)),
                        };
                        prop_assert!(right);
                        icmp.payload()
                    }
                    other => panic!("{other:?}"),
                };
                let ports = udp::headers(from.is_ipv4()) - 8;
                prop_assert_eq!(&quote[ports..ports + 4], &packet[ports..ports + 4]);
                prop_assert_eq!(&quote[ports - 8..ports], &packet[ports - 8..ports]);
            }
        }

        #[test]
        fn any_bytes_are_left_alone(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            udp::concerns(&bytes);
            udp::parse(&bytes);
            if fragments::concerns(&bytes) {
                Fragments::default().take(&bytes, Duration::ZERO);
            }
        }

        #[test]
        fn fragments_are_joined_in_any_order(
            (from, to) in ends(), length in 9usize..5_000, each in 1usize..200, seed: u64, repeat: bool,
        ) {
            let payload: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let packet = udp::build(from, to, &payload).unwrap();
            let mut pieces = fragment(&packet, 8 * each);
            pieces.sort_by_key(|(at, _)| (*at as u64 + 1).wrapping_mul(seed | 1).rotate_left(29));
            let (mut fragments, mut whole) = (Fragments::default(), Vec::new());
            let last = pieces.len() - 1;
            for (number, (_, piece)) in pieces.iter().enumerate() {
                prop_assert_eq!(fragments::concerns(piece), pieces.len() > 1 || from.is_ipv6());
                if repeat && number != last {
                    whole.extend(fragments.take(piece, Duration::ZERO));
                }
                whole.extend(fragments.take(piece, Duration::ZERO));
            }
            prop_assert_eq!(whole.len(), 1);
            prop_assert_eq!(udp::parse(&whole[0]), Some(udp::Udp { from, to, payload: &payload }));
            prop_assert!(checksum_holds(&whole[0]));
            prop_assert_eq!(fragments.waiting(), 0);
        }
    }

    /// As hosts do it, and whole again on the way back.
    #[test]
    fn a_long_packet_of_ipv6_is_divided() {
        let (from, to) = (
            "[2001:db8::1]:53".parse().unwrap(),
            "[2001:db8::2]:4000".parse().unwrap(),
        );
        for length in [1453, 1500, 4000, 65_000] {
            let payload: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let packet = udp::build(from, to, &payload).unwrap();
            let pieces = fragments::divide(&packet, 7);
            assert!(
                pieces.len() > 1 && pieces.iter().all(|piece| piece.len() <= fragments::LONGEST)
            );
            let same = fragment(&packet, 1448).into_iter().map(|(_, mut piece)| {
                piece[44..48].copy_from_slice(&[0, 0, 0, 7]);
                piece
            });
            assert!(pieces.iter().eq(same.collect::<Vec<_>>().iter()));
            let mut joined = Fragments::default();
            let whole = pieces
                .iter()
                .filter_map(|piece| joined.take(piece, Duration::ZERO));
            assert_eq!(whole.collect::<Vec<_>>(), [packet]);
        }
    }

    /// Each with its place in the packet's payload (RFC 791, RFC 8200 section 4.5).
    fn fragment(packet: &[u8], each: usize) -> Vec<(usize, Vec<u8>)> {
        let v4 = packet[0] >> 4 == 4;
        let (header, payload) = packet.split_at(if v4 { 20 } else { 40 });
        let count = payload.chunks(each).count();
        let pieces = payload.chunks(each).enumerate().map(|(index, piece)| {
            let (at, more) = (index * each, u16::from(index + 1 < count));
            let mut fragment = header.to_vec();
            if v4 {
                fragment[2..4].copy_from_slice(&(20 + piece.len() as u16).to_be_bytes());
                fragment[4..6].copy_from_slice(&[1, 2]);
                fragment[6..8].copy_from_slice(&((more << 13) | (at as u16 / 8)).to_be_bytes());
            } else {
                fragment[4..6].copy_from_slice(&(8 + piece.len() as u16).to_be_bytes());
                fragment[6] = 44;
                fragment.extend([17, 0]);
                fragment.extend((at as u16 | more).to_be_bytes());
                fragment.extend([1, 2, 3, 4]);
            }
            fragment.extend(piece);
            (at, fragment)
        });
        pieces.collect()
    }

    #[test]
    fn fragments_that_stay_alone_are_forgotten() {
        let (to, second) = ("192.0.2.2:2".parse().unwrap(), Duration::from_secs(1));
        let mut fragments = Fragments::default();
        let from = |i: usize| format!("192.0.2.1:{i}").parse().unwrap();
        for i in 1..3 * MOST {
            let packet = udp::build(from(i), to, &[0; 100]).unwrap();
            let (_, mut piece) = fragment(&packet, 48).remove(0);
            piece[4..6].copy_from_slice(&(i as u16).to_be_bytes());
            assert_eq!(fragments.take(&piece, second), None);
            assert!(fragments.waiting() <= MOST);
        }
        let (_, piece) = fragment(&udp::build(from(1), to, &[0; 100]).unwrap(), 48).remove(2);
        assert_eq!(fragments.take(&piece, 60 * second), None);
        assert_eq!(fragments.waiting(), 1);
    }

    #[test]
    fn a_fragment_is_no_packet() {
        let (from, to) = (
            "192.0.2.1:1".parse().unwrap(),
            "192.0.2.2:2".parse().unwrap(),
        );
        let mut packet = udp::build(from, to, &[0; 64]).unwrap();
        packet[6] = 0x20;
        assert!(udp::concerns(&packet));
        assert_eq!(udp::parse(&packet), None);
    }
}
