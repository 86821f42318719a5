//! What theory says of simple cases.

mod common;
use common::*;

use mp_simulator::network::{Kind, Link, Network, Packet};
use mp_simulator::time::{MICROSECOND, SECOND};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn mean(seeds: std::ops::Range<u64>, one: impl FnMut(u64) -> f64) -> f64 {
    let n = (seeds.end - seeds.start) as f64;
    seeds.map(one).sum::<f64>() / n
}

/// Reno in packets/s: (1/RTT)·sqrt(3/(2bp)), and Padhye et al. (SIGCOMM 1998, equation 30 without a window limit), who
/// add the timeouts of a TCP without SACK. Linux counts packets and not ACKs, so that b = 1; its timeout is the RTT and
/// 200 ms. With SACK and RACK the truth lies between the two, nearer the first;
/// losses at random instead of at even distances give up to 7 % more (Ott, Kemperman, Mathis 1996: 1.31 for √1.5).
fn reno(p: f64, rtt: f64) -> (f64, f64) {
    let halving = rtt * (2.0 * p / 3.0).sqrt();
    let stalls = (rtt + 0.2) * (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    (1.0 / (halving + stalls), 1.0 / halving)
}

#[test]
fn reno_follows_the_square_root_of_loss() {
    for (p, rtt) in [
        (0.0005, 20),
        (0.002, 20),
        (0.008, 20),
        (0.02, 20),
        (0.001, 150),
        (0.01, 150),
    ] {
        let s = scenario(
            vec![path(mbit(1000), ms(rtt / 2), 2000, p)],
            ms(10_000 * rtt),
        );
        let measured = mean(1..6, |seed| goodput(&simulate(&s, &variant("reno"), seed)));
        let (low, high) = reno(p, rtt as f64 / 1000.0);
        let unit = 1420.0 * 8e-6;
        let within = 0.95 * low * unit..1.1 * high * unit;
        assert!(
            within.contains(&measured),
            "p = {p}, RTT {rtt} ms: {measured:.2} Mbit/s, not {within:?}"
        );
    }
}

/// RFC 6356: on two like paths the connection gets what one TCP gets on one of them, half on each.
#[test]
fn lia_on_two_like_paths_is_one_reno() {
    let one = |p| path(mbit(1000), ms(25), 2000, p);
    for p in [0.001, 0.005] {
        let single = scenario(vec![one(p)], ms(300_000));
        let double = scenario(vec![one(p), one(p)], ms(300_000));
        let reno = mean(1..5, |seed| {
            goodput(&simulate(&single, &variant("reno"), seed))
        });
        let two_renos = mean(1..5, |seed| {
            goodput(&simulate(&double, &variant("reno"), seed))
        });
        let mut halves = (0.0, 0.0);
        let lia = mean(1..5, |seed| {
            let run = simulate(&double, &variant("lia"), seed);
            let bytes = &run.transfers[0].path_bytes;
            halves = (halves.0 + bytes[0].1 as f64, halves.1 + bytes[1].1 as f64);
            goodput(&run)
        });
        assert!(
            (lia / reno - 1.0).abs() < 0.12,
            "p = {p}: LIA {lia:.2}, Reno {reno:.2}"
        );
        assert!(
            (two_renos / reno - 2.0).abs() < 0.15,
            "p = {p}: {two_renos:.2}, Reno {reno:.2}"
        );
        assert!((halves.0 / halves.1 - 1.0).abs() < 0.15, "{halves:?}");
    }
}

/// Poisson arrivals of equal packets: the mean wait is ρS / 2(1 − ρ) (Pollaczek-Khinchine).
#[test]
fn a_link_is_an_m_d_1_queue() {
    for load in [0.3, 0.7, 0.9] {
        let mut net = Network::default();
        let service = 120 * MICROSECOND; // 1500 bytes at 100 Mbit/s
        let link = net.add(Link::new(&direction(mbit(100), ms(0), 1_000_000), None, 1));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let (mut at, mut waited, mut count) = (0, 0u128, 0u64);
        let mut packet = Packet::NONE;
        while count < 1_000_000 {
            let (next, _) = net.agenda.first();
            if next <= at {
                net.now = next;
                if net.advance(link, &mut packet) {
                    waited += u128::from(net.now - packet.stamp - service);
                    count += 1;
                }
                continue;
            }
            net.now = at;
            let p = Packet {
                kind: Kind::Data,
                size: 1500,
                extra: 1,
                stamp: at,
                ..Packet::NONE
            };
            net.send(link, &p);
            let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            at += (-uniform.ln() * service as f64 / load) as u64;
        }
        let measured = waited as f64 / count as f64 / service as f64;
        let expected = load / (2.0 * (1.0 - load));
        assert!(
            (measured / expected - 1.0).abs() < 0.03,
            "load {load}: {measured:.3}, not {expected:.3}"
        );
    }
}

#[test]
fn one_long_flow_fills_its_link() {
    for (rate, rtt, controller) in [
        (10, 20, "reno"),
        (100, 20, "reno"),
        (50, 150, "reno"),
        (100, 50, "cubic"),
        (100, 20, "bbr"),
    ] {
        let bdp = rate * rtt * 1000 / 8 / 1500;
        let s = scenario(
            vec![path(mbit(rate), ms(rtt / 2), bdp.max(100), 0.0)],
            ms(120_000),
        );
        let share =
            goodput(&simulate(&s, &variant(controller), 1)) / (rate as f64 * 1420.0 / 1500.0);
        assert!(
            (0.93..=1.0).contains(&share),
            "{controller} at {rate} Mbit/s, {rtt} ms: {share:.3}"
        );
    }
}

/// Two subflows of one connection and one TCP through the same bottleneck: coupled, they take half of it at most; uncoupled,
/// more, up to two thirds (RFC 6356, second goal). As in Linux they fall short of both, by about a quarter: see
/// tests/bursts.rs.
#[test]
fn coupling_is_fair_at_a_shared_bottleneck() {
    let s = bottleneck(30, ms(20), 150, ms(5));
    let share = |controller: &str| {
        mean(1..5, |seed| {
            let run = simulate(&s, &variant(controller), seed);
            let bytes: Vec<f64> = run.transfers.iter().map(|t| t.bytes as f64).collect();
            bytes[0] / (bytes[0] + bytes[1])
        })
    };
    let (coupled, uncoupled) = (share("lia"), share("reno"));
    assert!((0.33..0.50).contains(&coupled), "LIA takes {coupled:.3}");
    assert!(
        (0.46..0.67).contains(&uncoupled) && uncoupled > coupled + 0.08,
        "Reno on both takes {uncoupled:.3}"
    );
}

/// A download of one segment takes two round trips: SYN and SYN/ACK, request and data.
#[test]
fn handshakes_cost_their_round_trips() {
    let mut s = scenario(vec![path(mbit(1000), ms(50), 100, 0.0)], ms(5_000));
    s.connections[0].bytes = Some(1000);
    let took =
        |s: &mp_scenario::Scenario| simulate(s, &variant("reno"), 1).transfers[0].end_s.unwrap();
    assert!((took(&s) - 0.2).abs() < 0.001, "{}", took(&s));
    s.connections[0].direction = mp_scenario::TransferDirection::Upload;
    assert!((took(&s) - 0.15).abs() < 0.001, "{}", took(&s));
}

/// The second subflow carries nothing before the connection is confirmed (two round trips) and MP_JOIN has taken its own
/// one and a half.
#[test]
fn a_join_waits_for_the_connection() {
    let mut s = scenario(
        vec![
            path(mbit(10), ms(50), 100, 0.0),
            path(mbit(10), ms(20), 100, 0.0),
        ],
        ms(5_000),
    );
    s.sample_interval = ms(1);
    let run = simulate(&s, &variant("reno"), 1);
    let first = |subflow| {
        run.samples
            .iter()
            .find(|x| x.subflow == subflow && x.delivered_bytes > 0)
            .unwrap()
            .time_s
    };
    // Confirmed at 200 ms, joined at 200 + 60 ms, first data acknowledged 40 ms later.
    assert!((0.300..0.306).contains(&first(1)), "{}", first(1));
    assert!((0.25 - first(0)).abs() < 0.006, "{}", first(0));
    let bits = 8.0 * run.transfers[0].bytes as f64 / SECOND as f64;
    assert!(bits > 0.0);
}

/// A window that the scheduler always fills is not limited by the application, though nothing is queued behind it: slow start
/// doubles, and pilot fills the long, fast path within seconds.
#[test]
fn a_scheduler_that_queues_nothing_at_subflows_does_not_slow_a_start() {
    let paths = vec![
        path(mbit(5), ms(62), 90, 0.0),
        path(mbit(80), ms(128), 2600, 0.0),
    ];
    let s = scenario(paths, ms(10_000));
    let bytes = |scheduler: &str| {
        let mut variant = variant("pilot");
        variant.scheduler = scheduler.into();
        simulate(&s, &variant, 1).transfers[0].bytes
    };
    let stock = bytes("default");
    for scheduler in ["min-rtt", "round-robin"] {
        assert!(bytes(scheduler) * 10 > stock * 9, "{scheduler}");
    }
}
