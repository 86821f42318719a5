use mp_scenario::{
    Discipline, Loss, Policer, Queue as QueueSpec, QueueLimit, Rate, Step, Trace, TraceKind,
};

use super::*;

const MS: Nanos = 1_000_000;

#[derive(Debug, Clone, PartialEq)]
struct Numbered(u64, u64);

impl Packet for Numbered {
    fn size(&self) -> u64 {
        self.1
    }
    fn mark(&mut self) -> bool {
        false
    }
}

fn direction(rate: Rate) -> Direction {
    Direction {
        rate,
        delay: Duration::ZERO,
        jitter: None,
        reorder: false,
        loss: Loss::None,
        policer: None,
        queue: QueueSpec {
            limit: QueueLimit::Packets(1000),
            discipline: Discipline::DropTail,
            ecn: false,
        },
    }
}

fn pipe(direction: &Direction, events: &[(Duration, Change)]) -> Pipe<Numbered> {
    Pipe::new(direction, events.iter().map(|(t, c)| (*t, c)), true, 1)
}

fn drain(pipe: &mut Pipe<Numbered>, until: Nanos) -> Vec<(Nanos, u64)> {
    let mut out = Vec::new();
    while pipe.next().is_some_and(|t| t <= until) {
        let now = pipe.next().unwrap();
        out.extend(pipe.pop(now).map(|(t, p)| (t, p.0)));
    }
    out
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn packets_leave_at_the_rate_and_arrive_a_delay_later() {
    let d = Direction {
        delay: ms(10),
        ..direction(Rate::Constant(8_000_000))
    };
    let mut p = pipe(&d, &[]);
    for i in 0..3 {
        p.push(0, Numbered(i, 1000));
    }
    assert_eq!(
        drain(&mut p, Nanos::MAX),
        [(11 * MS, 0), (12 * MS, 1), (13 * MS, 2)]
    );
}

#[test]
fn an_unlimited_path_only_delays() {
    let d = Direction {
        delay: ms(5),
        ..direction(Rate::Unlimited)
    };
    let mut p = pipe(&d, &[]);
    p.push(3 * MS, Numbered(0, 1000));
    assert_eq!(drain(&mut p, Nanos::MAX), [(8 * MS, 0)]);
}

#[test]
fn drop_tail_keeps_what_fits_beside_the_packet_in_service() {
    for limit in [QueueLimit::Packets(2), QueueLimit::Bytes(2000)] {
        let mut d = direction(Rate::Constant(8_000_000));
        d.queue.limit = limit;
        let mut p = pipe(&d, &[]);
        for i in 0..10 {
            p.push(0, Numbered(i, 1000));
        }
        assert_eq!(drain(&mut p, Nanos::MAX).len(), 3);
        assert_eq!(p.counts().dropped, 7);
    }
}

/// A limit below one packet, or of none: only what would have to wait is dropped.
#[test]
fn a_packet_that_need_not_wait_needs_no_room() {
    for limit in [QueueLimit::Packets(0), QueueLimit::Bytes(500)] {
        let mut d = direction(Rate::Constant(8_000_000));
        d.queue.limit = limit;
        let mut p = pipe(&d, &[]);
        for (i, us) in [0, 500, 1000].into_iter().enumerate() {
            p.push(us * 1000, Numbered(i as u64, 1000));
        }
        assert_eq!(drain(&mut p, Nanos::MAX), [(MS, 0), (2 * MS, 2)]);
    }
}

#[test]
fn a_policer_drops_what_exceeds_its_bucket_and_delays_nothing() {
    let (rate, burst, count) = (20_000_000, 50_000, 40_000);
    let mut d = direction(Rate::Unlimited);
    d.delay = ms(10);
    d.policer = Some(Policer { rate, burst });
    let mut p = pipe(&d, &[]);
    // 1500 bytes each 150 us are 80 Mbit/s, four times the rate.
    for i in 0..count {
        p.push(i * 150_000, Numbered(i, 1500));
    }
    let out = drain(&mut p, Nanos::MAX);
    assert!(out.iter().all(|(at, i)| *at == i * 150_000 + 10 * MS));
    let earned = rate / 8 * (count - 1) * 150_000 / 1_000_000_000;
    assert_eq!(out.len() as u64, (burst + earned) / 1500);
    assert_eq!(p.counts().policed, count - out.len() as u64);
    assert_eq!(p.counts().dropped, 0);
}

#[test]
fn jitter_keeps_the_order_unless_told_otherwise() {
    for reorder in [false, true] {
        let d = Direction {
            jitter: Some((ms(0), ms(20))),
            reorder,
            ..direction(Rate::Unlimited)
        };
        let mut p = pipe(&d, &[]);
        for i in 0..1000 {
            p.push(i * MS / 10, Numbered(i, 100));
        }
        let order: Vec<u64> = drain(&mut p, Nanos::MAX)
            .into_iter()
            .map(|(_, n)| n)
            .collect();
        assert_eq!(order.len(), 1000);
        assert_eq!(order.is_sorted(), !reorder);
    }
}

#[test]
fn an_outage_takes_what_is_under_way_and_what_comes() {
    let d = Direction {
        delay: ms(10),
        ..direction(Rate::Unlimited)
    };
    let mut p = pipe(&d, &[(ms(100), Change::Down), (ms(200), Change::Up)]);
    for (i, at) in [85, 95, 150, 195, 201].into_iter().enumerate() {
        p.push(at * MS, Numbered(i as u64, 100));
    }
    assert_eq!(drain(&mut p, Nanos::MAX), [(95 * MS, 0), (211 * MS, 4)]);
    assert_eq!(p.counts().cut, 3);
}

#[test]
fn events_change_rate_delay_and_loss() {
    let d = direction(Rate::Constant(8_000_000));
    let events = [
        (ms(10), Change::Rate(4_000_000)),
        (ms(20), Change::Delay(ms(5))),
        (ms(30), Change::Loss(Loss::Bernoulli(1.0))),
    ];
    let mut p = pipe(&d, &events);
    for (i, at) in [0, 10, 20, 30].into_iter().enumerate() {
        p.push(at * MS, Numbered(i as u64, 1000));
    }
    assert_eq!(
        drain(&mut p, Nanos::MAX),
        [(MS, 0), (12 * MS, 1), (27 * MS, 2)]
    );
    assert_eq!(p.counts().lost, 1);
}

#[test]
fn a_trace_of_steps_holds_from_its_first_line_and_passes_a_rate_of_zero() {
    let step = |at, rate| Step {
        at: ms(at),
        rate,
        delay: None,
        loss: None,
    };
    let kind = TraceKind::Steps(vec![step(5, 8_000_000), step(20, 0), step(50, 8_000_000)]);
    let mut p = pipe(
        &direction(Rate::Trace(
            Trace {
                file: "t.csv".into(),
                kind,
            }
            .into(),
        )),
        &[],
    );
    p.push(0, Numbered(0, 1000));
    p.push(25 * MS, Numbered(1, 1000));
    assert_eq!(drain(&mut p, Nanos::MAX), [(MS, 0), (51 * MS, 1)]);
}

/// An event takes the place of its own column of a trace, and of no other.
#[test]
fn a_loss_event_leaves_the_delays_of_a_trace() {
    let step = |at, delay, loss| Step {
        at: ms(at),
        rate: 8_000_000,
        delay: Some(ms(delay)),
        loss: Some(loss),
    };
    let kind = TraceKind::Steps(vec![step(0, 10, 0.0), step(20, 30, 1.0)]);
    let trace = Trace {
        file: "t.csv".into(),
        kind,
    };
    let events = [(ms(5), Change::Loss(Loss::None))];
    let mut p = pipe(&direction(Rate::Trace(trace.into())), &events);
    p.push(6 * MS, Numbered(0, 1000));
    p.push(25 * MS, Numbered(1, 1000));
    assert_eq!(drain(&mut p, Nanos::MAX), [(17 * MS, 0), (56 * MS, 1)]);
}

/// An overloaded bottleneck for 20 s; returns the sojourn times of the last second's packets.
fn overload(discipline: Discipline) -> (Vec<Nanos>, Counts) {
    let mut d = direction(Rate::Constant(8_000_000));
    d.queue.discipline = discipline;
    let mut p = pipe(&d, &[]);
    let (mut sojourn, mut entered) = (Vec::new(), Vec::new());
    // 5 % more than it can carry.
    for i in 0..21_000 {
        let at = i * 20_000 * MS / 21_000;
        entered.push(at);
        p.push(at, Numbered(i, 1000));
        for (out, n) in drain(&mut p, at) {
            if out > 19_000 * MS {
                sojourn.push(out - entered[n as usize] - MS);
            }
        }
    }
    (sojourn, p.counts())
}

#[test]
fn codel_brings_the_delay_to_its_target_where_drop_tail_fills_up() {
    let median = |mut v: Vec<Nanos>| {
        v.sort();
        v[v.len() / 2]
    };
    let (tail, _) = overload(Discipline::DropTail);
    assert!(median(tail) > 900 * MS);
    let (codel, counts) = overload(Discipline::CoDel {
        target: ms(5),
        interval: ms(100),
    });
    assert!(median(codel.clone()) < 50 * MS, "{} ms", median(codel) / MS);
    assert!(counts.dropped > 100);
}

#[test]
fn red_holds_the_average_between_its_thresholds() {
    let (sojourn, counts) = overload(Discipline::Red {
        min: 20.0,
        max: 60.0,
        probability: 0.1,
    });
    let mean = sojourn.iter().sum::<Nanos>() / sojourn.len() as u64;
    assert!((15 * MS..70 * MS).contains(&mean), "{} ms", mean / MS);
    assert!(counts.dropped > 100);
}

/// What came first may be read late.
#[test]
fn what_is_pushed_after_the_service_that_it_came_before_leaves() {
    let mut p = pipe(&direction(Rate::Constant(8_000_000)), &[]);
    p.push(0, Numbered(1, 1000));
    assert_eq!(drain(&mut p, 2 * MS), [(MS, 1)]);
    p.push(MS / 2, Numbered(2, 1000));
    assert_eq!(drain(&mut p, 3 * MS), [(2 * MS, 2)]);
}
