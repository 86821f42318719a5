//! Trains at a link.

use std::time::Duration;

use mp_scenario::Queue;

use super::*;
use crate::time::MILLISECOND;

/// 100 Mbit/s, at which a segment takes 120 us, and no delay.
fn link(queue: u64) -> Link {
    let direction = Direction {
        rate: Rate::Constant(100_000_000),
        delay: Duration::ZERO,
        jitter: None,
        reorder: false,
        loss: mp_scenario::Loss::None,
        policer: None,
        queue: Queue {
            limit: QueueLimit::Packets(queue),
            discipline: Discipline::DropTail,
            ecn: false,
        },
    };
    Link::new(&direction, None, 1)
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
