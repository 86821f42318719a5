//! Whatever happens to the paths, every byte arrives once and in order, and no run hangs.

mod common;
use common::*;

use std::time::Duration;

use mp_scenario::*;
use proptest::prelude::*;

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        3 => Just(Loss::None),
        3 => (0.0..0.2).prop_map(Loss::Bernoulli),
        1 => (0.0..0.05, 0.5..0.95).prop_map(|(p, r)| Loss::GilbertElliott { p, r, good: 0.0, bad: 1.0 }),
    ]
}

fn discipline() -> impl Strategy<Value = Discipline> {
    prop_oneof![
        4 => Just(Discipline::DropTail),
        1 => Just(Discipline::CoDel { target: ms(5), interval: ms(100) }),
        1 => Just(Discipline::Red { min: 5.0, max: 15.0, probability: 0.1 }),
    ]
}

/// From room for one full segment on.
fn policer() -> impl Strategy<Value = Policer> {
    (300_000u64..20_000_000, 1_500u64..100_000).prop_map(|(rate, burst)| Policer { rate, burst })
}

fn rate() -> impl Strategy<Value = Rate> {
    let steps = |(a, b): (u64, u64)| {
        let step = |at, rate| Step {
            at: ms(at),
            rate,
            delay: None,
            loss: None,
        };
        let kind = TraceKind::Steps(vec![step(0, a), step(700, 0), step(1_500, b)]);
        Rate::Trace(std::sync::Arc::new(Trace {
            file: "t".into(),
            kind,
        }))
    };
    let mahimahi = |gaps: Vec<u64>| {
        let times: Vec<_> = gaps
            .iter()
            .scan(0, |t, g| {
                *t += g + 1;
                Some(ms(*t))
            })
            .collect();
        let period = *times.last().unwrap();
        let kind = TraceKind::Opportunities { times, period };
        Rate::Trace(std::sync::Arc::new(Trace {
            file: "t".into(),
            kind,
        }))
    };
    prop_oneof![
        6 => (300_000u64..50_000_000).prop_map(Rate::Constant),
        1 => (300_000u64..20_000_000, 300_000u64..20_000_000).prop_map(steps),
        1 => prop::collection::vec(0u64..20, 1..20).prop_map(mahimahi),
    ]
}

prop_compose! {
    fn way()(
        rate in rate(), delay in 0u64..120, loss in loss(), discipline in discipline(), packets in 4u64..200,
        bytes in any::<bool>(), ecn in any::<bool>(), jitter in prop::option::of(0u64..20), reorder in any::<bool>(),
        policer in prop::option::weighted(0.2, policer()),
    ) -> Direction {
        Direction {
            rate, delay: ms(delay), loss, reorder, policer,
            jitter: jitter.map(|j| (Duration::ZERO, ms(j))),
            queue: Queue {
                limit: if bytes { QueueLimit::Bytes(packets * 1500) } else { QueueLimit::Packets(packets) },
                discipline, ecn,
            },
        }
    }
}

/// Changes in the first seconds, after which every path is up and has a rate.
fn events(paths: usize) -> impl Strategy<Value = Vec<Event>> {
    let change = prop_oneof![
        Just(Change::Down),
        Just(Change::Up),
        (0u64..20_000_000).prop_map(Change::Rate),
        (0u64..200).prop_map(|d| Change::Delay(ms(d))),
        (0.0..1.0).prop_map(|p| Change::Loss(Loss::Bernoulli(p))),
        any::<bool>().prop_map(Change::Backup),
    ];
    prop::collection::vec((0u64..4_000, 0..paths, change), 0..8).prop_map(move |list| {
        let mut events: Vec<Event> = Vec::new();
        let mut touched = vec![false; paths];
        for (at, path, change) in list {
            touched[path] = true;
            events.push(Event {
                at: ms(at),
                path: name(path),
                change,
            });
        }
        for path in (0..paths).filter(|&p| touched[p]) {
            for change in [
                Change::Up,
                Change::Rate(5_000_000),
                Change::Loss(Loss::None),
            ] {
                events.push(Event {
                    at: ms(4_000),
                    path: name(path),
                    change,
                });
            }
        }
        events.sort_by_key(|e| e.at);
        events
    })
}

fn name(path: usize) -> String {
    ((b'a' + path as u8) as char).to_string()
}

const CONTROLLERS: [&str; 12] = [
    "reno",
    "lia",
    "olia",
    "balia",
    "wvegas",
    "rsf-db",
    "rsf-lb",
    "mpcc",
    "pilot",
    "cubic",
    "bbr",
    "linux-reno",
];
const SCHEDULERS: [&str; 8] = [
    "default",
    "min-rtt",
    "round-robin",
    "redundant",
    "blest",
    "ecf",
    "edpf",
    "ld-mpsp",
];
const MANAGERS: [&str; 4] = ["fullmesh", "ndiffports", "backup", "single"];

prop_compose! {
    fn case()(n in 1usize..4)(
        ways in prop::collection::vec((way(), way()), n), events in events(n),
        bytes in 1u64..2_000_000, count in 1u32..4, multipath in prop::bool::weighted(0.8), upload in any::<bool>(),
        controller in 0..CONTROLLERS.len(), scheduler in 0..SCHEDULERS.len(), manager in 0..MANAGERS.len(),
        train in prop_oneof![3 => Just(1u32), 1 => 2u32..64], buffer in 8_000u64..2_000_000, autotune in any::<bool>(),
        shared in any::<bool>(), seed in any::<u64>(),
    ) -> (Scenario, Variant, u64) {
        let paths = ways.into_iter().map(|(down, up)| Path { link: shared.then(|| "l".to_owned()), rule: Default::default(), down, up }).collect();
        let mut s = scenario(paths, Duration::from_secs(20_000));
        if shared {
            s.links.insert("l".into(), path(mbit(20), ms(1), 100, 0.0));
        }
        s.connections[0].bytes = Some(bytes);
        s.connections[0].count = count;
        if !multipath {
            s.connections[0].protocol = Protocol::Tcp;
        }
        if upload {
            s.connections[0].direction = TransferDirection::Upload;
        }
        s.buffers = Buffers { send: buffer, receive: buffer, autotune };
        s.segment_train = train;
        s.events = events;
        s.sample_interval = Duration::from_secs(1_000);
        let mut v = variant(CONTROLLERS[controller]);
        v.scheduler = SCHEDULERS[scheduler].into();
        v.path_manager = MANAGERS[manager].into();
        (s, v, seed)
    }
}

/// Among them one that leaves the pacing rate to the stack until its first RTT sample.
#[test]
fn every_controller_completes_a_transfer() {
    for controller in mp_controllers::all() {
        for protocol in [Protocol::Mptcp, Protocol::Tcp] {
            let way = |delay| path(mbit(10), ms(delay), 100, 0.0);
            let mut s = scenario(vec![way(10), way(20)], ms(60_000));
            s.connections[0].bytes = Some(300_000);
            s.connections[0].protocol = protocol;
            let run = simulate(&s, &variant(controller.name), 1);
            let t = &run.transfers[0];
            assert_eq!(t.bytes, 300_000, "{} {protocol:?}", controller.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order((scenario, variant, seed) in case()) {
        let run = mp_simulator::simulate(&scenario, &variant, seed).unwrap();
        prop_assert_eq!(run.transfers.len() as u32, scenario.connections[0].count);
        for t in &run.transfers {
            // Six SYNs in a row, or fifteen retransmissions, may all be lost.
            if run.notes.contains(&format!("transfer {}: timed out", t.id)) {
                prop_assert!(t.end_s.is_none());
                continue;
            }
            prop_assert_eq!(Some(t.bytes), scenario.connections[0].bytes);
            prop_assert!(t.end_s.is_some(), "unfinished: {:?}", t);
            prop_assert!(t.path_bytes.iter().map(|p| p.1).sum::<u64>() >= t.bytes);
        }
    }
}
