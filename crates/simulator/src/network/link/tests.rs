//! Trains at a link, and links that change.

use std::time::Duration;

use mp_scenario::{Discipline, Loss, Queue, Rate, Step, Trace, TraceKind};

use super::*;
use crate::time::MILLISECOND;

/// 100 Mbit/s, at which a segment takes 120 us, and no delay.
fn link(queue: u64) -> Link {
    Link::new(&direction(Rate::Constant(100_000_000), queue), None, 1)
}

fn direction(rate: Rate, queue: u64) -> Direction {
    Direction {
        rate,
        delay: Duration::ZERO,
        jitter: None,
        reorder: false,
        loss: Loss::None,
        policer: None,
        queue: Queue {
            limit: QueueLimit::Packets(queue),
            discipline: Discipline::DropTail,
            ecn: false,
        },
    }
}

/// 24 segments that pacing let go over `spread_ms`.
fn train(spread_ms: u64) -> Packet {
    Packet {
        kind: Kind::Data,
        count: 24,
        size: 24 * 1500,
        extra: (1 << 24) - 1,
        spread: (spread_ms * MILLISECOND / SPREAD) as u8,
        ..Packet::NONE
    }
}

/// When it is through, in us after its last segment was sent, and how many segments of it.
fn pass(link: &mut Link, at_ms: u64, packet: &Packet) -> (u64, u32) {
    assert!(link.send(at_ms * MILLISECOND, packet));
    let last = link.transit.back().expect("it is under way");
    (
        (last.arrive - at_ms * MILLISECOND) / 1000,
        last.packet.segments(),
    )
}

#[test]
fn a_spread_train_waits_for_others_and_not_for_itself() {
    let mut free = link(100);
    let (burst, _) = pass(&mut link(100), 10, &train(0));
    assert_eq!(burst, 24 * 120);
    let (spread, segments) = pass(&mut free, 10, &train(4));
    assert!(spread < 4 * 120, "{spread} us");
    assert_eq!(segments, 24);
    // The link is free again from 8.88 ms on.
    let (next, _) = pass(&mut free, 10, &train(4));
    assert!(next.abs_diff(2 * 24 * 120 - 4000) < 4, "{next} us");
}

#[test]
fn a_short_queue_takes_a_train_that_comes_at_the_rate_of_the_link() {
    let (_, segments) = pass(&mut link(5), 10, &train(0));
    assert!(segments <= 6, "{segments}");
    let (_, segments) = pass(&mut link(5), 10, &train(3));
    assert_eq!(segments, 24);
    // Twice as fast as the link: what it could not send by then, and the queue cannot hold, is lost.
    let (_, segments) = pass(&mut link(5), 10, &train(1));
    assert!((12..16).contains(&segments), "{segments}");
}

#[test]
fn a_stopped_link_keeps_a_spread_train() {
    let mut link = link(100);
    link.server = Server::Stopped;
    assert!(link.send(10 * MILLISECOND, &train(3)));
    assert_eq!(link.next_event(), NEVER);
}

/// 1000 bytes at 8 Mbit/s, 1 ms each; delays of 10 ms and from 20 ms on of 30 ms, when all packets are lost.
fn traced() -> Link {
    let step = |at, delay, loss| Step {
        at: Duration::from_millis(at),
        rate: 8_000_000,
        delay: Some(Duration::from_millis(delay)),
        loss: Some(loss),
    };
    let kind = TraceKind::Steps(vec![step(0, 10, 0.0), step(20, 30, 1.0)]);
    let file = "t.csv".into();
    Link::new(
        &direction(Rate::Trace(Trace { file, kind }.into()), 100),
        None,
        1,
    )
}

const SINGLE: Packet = Packet {
    kind: Kind::Data,
    count: 1,
    size: 1000,
    extra: 1,
    ..Packet::NONE
};

/// When the latest packet will have arrived, ms.
fn latest_ms(link: &Link) -> u64 {
    link.transit.back().map_or(0, |t| t.arrive / MILLISECOND)
}

#[test]
fn a_delay_is_that_of_the_time_at_which_a_packet_leaves_the_queue() {
    let mut link = traced();
    for sent in 1..=8 {
        assert!(link.send(13 * MILLISECOND, &SINGLE));
        let out = 13 + sent;
        assert_eq!(latest_ms(&link), out + if out < 20 { 10 } else { 30 });
    }
    assert!(!link.send(20 * MILLISECOND, &SINGLE), "the loss of 20 ms");
}

#[test]
fn a_loss_event_leaves_the_delays_of_a_trace() {
    let mut link = traced();
    link.set_loss(&Loss::None);
    assert!(link.send(25 * MILLISECOND, &SINGLE));
    assert_eq!(latest_ms(&link), 56);
}

/// An opportunity a millisecond: those that the queue has taken already are not lost.
#[test]
fn a_changed_delay_leaves_the_opportunities_of_a_trace_as_they_are() {
    let kind = TraceKind::Opportunities {
        times: vec![Duration::from_millis(1)],
        period: Duration::from_millis(1),
    };
    let file = "one.trace".into();
    let mut link = Link::new(
        &direction(Rate::Trace(Trace { file, kind }.into()), 100),
        None,
        1,
    );
    for _ in 0..30 {
        assert!(link.send(0, &SINGLE));
    }
    link.set_delay(5 * MILLISECOND, 7 * MILLISECOND);
    assert_eq!(latest_ms(&link), 20 + 7);
    assert!(link.send(5 * MILLISECOND, &SINGLE));
    assert_eq!(latest_ms(&link), 21 + 7);
}

/// 100 Mbit/s, and 10 Mbit/s from 10 ms on: 100 packets pass in 10 + 20 ms.
#[test]
fn a_changed_delay_leaves_the_rates_of_a_trace_as_they_are() {
    let step = |ms, rate| Step {
        at: Duration::from_millis(ms),
        rate,
        delay: None,
        loss: None,
    };
    let steps = vec![step(0, 100_000_000), step(10, 10_000_000)];
    let trace = Trace {
        file: "steps".into(),
        kind: TraceKind::Steps(steps),
    };
    let mut link = Link::new(&direction(Rate::Trace(trace.into()), 100), None, 1);
    let packet = Packet {
        kind: Kind::Data,
        size: 1500,
        ..Packet::NONE
    };
    for _ in 0..100 {
        assert!(link.send(0, &packet));
    }
    let departures = |link: &Link| link.queue.iter().map(|q| q.depart).collect::<Vec<_>>();
    let before = departures(&link);
    // In the middle of a packet.
    link.set_delay(1_020_000, MILLISECOND);
    assert_eq!(departures(&link), before[8..]);
    assert_eq!(before[99], 30 * MILLISECOND);
}
