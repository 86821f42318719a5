//! What single ACKs do to a sender.

use super::timer::Kind as Due;
use super::*;
use crate::congestion::State;
use crate::network::{flag, Kind, Link, Network, Packet, Sack, NO_SACK};
use crate::time::MILLISECOND;

struct Bench {
    net: Network,
    shared: mp_controllers::Connection,
    sender: Sender,
    /// When the packets that ACKs answer were sent, ns.
    echo: u64,
}

impl Bench {
    /// A sender of plain TCP that has its first ten segments out.
    fn new() -> Bench {
        Bench::with(Kindred::Cubic)
    }

    fn with(controller: Kindred) -> Bench {
        let direction = mp_scenario::Direction {
            rate: mp_scenario::Rate::Unlimited,
            delay: std::time::Duration::from_millis(50),
            jitter: None,
            reorder: false,
            loss: mp_scenario::Loss::None,
            policer: None,
            queue: mp_scenario::Queue {
                limit: mp_scenario::QueueLimit::Packets(100),
                discipline: mp_scenario::Discipline::DropTail,
                ecn: false,
            },
        };
        let mut net = Network::default();
        net.add(Link::new(&direction, None, 1));
        let profile = Profile {
            subflow: 0,
            link: 0,
            mss: 1448,
            header: 52,
            short: 0,
            train: 1,
            ecn: false,
            plain: true,
        };
        let mut bench = Bench {
            net,
            shared: mp_controllers::Connection::default(),
            sender: Sender::new(profile, controller.build(0, 0), (1 << 20, false)),
            echo: 0,
        };
        bench.net.now = MILLISECOND;
        bench.act(|sender, cx| {
            sender.establish(cx, Some(100 * MILLISECOND));
            sender.push(cx);
        });
        assert_eq!(bench.sender.flow.snd_nxt, 10);
        bench
    }

    fn act(&mut self, act: impl FnOnce(&mut Sender, &mut Cx<'_>)) {
        self.act_up_to(10, act);
    }

    /// With data up to segment `limit`.
    fn act_up_to(&mut self, limit: u64, act: impl FnOnce(&mut Sender, &mut Cx<'_>)) {
        let mut cx = Cx {
            net: &mut self.net,
            shared: &mut self.shared,
            tail: (u64::MAX, 1448),
            limit,
            waiting: false,
        };
        act(&mut self.sender, &mut cx);
    }

    /// An ACK up to `seq` with at most two blocks.
    fn ack(&mut self, at_ms: u64, seq: u64, blocks: &[(u64, u64)], duplicate: bool) {
        self.net.now = at_ms * MILLISECOND;
        let mut sack = Sack {
            len: blocks.len() as u8,
            duplicate,
            ..Sack::default()
        };
        sack.blocks[..blocks.len()].copy_from_slice(blocks);
        let packet = Packet {
            kind: Kind::Ack,
            seq,
            dseq: seq,
            stamp: self.echo,
            more: NO_SACK,
            extra: Packet::ack_extra(100, 0),
            ..Packet::NONE
        };
        let sack = (!blocks.is_empty()).then_some(sack);
        self.act(|sender, cx| sender.on_ack(&packet, sack.as_ref(), cx));
    }
}

#[test]
fn a_hole_that_closes_by_itself_is_reordering() {
    let mut bench = Bench::new();
    bench.ack(100, 0, &[(2, 3)], false);
    bench.ack(101, 3, &[], false);
    assert!(bench.sender.reordering_seen);
}

/// The most recent block comes first in the packet.
#[test]
fn the_order_of_blocks_is_no_reordering() {
    let mut bench = Bench::new();
    bench.act_up_to(12, |sender, cx| {
        sender.flow.cwnd = 12;
        sender.push(cx);
    });
    bench.ack(100, 0, &[(5, 8)], false);
    bench.ack(101, 0, &[(10, 12), (5, 9)], false);
    assert!(!bench.sender.reordering_seen);
    assert_eq!(bench.sender.flow.sacked_out, 6);
}

/// An odd segment waits for its delayed ACK until the one after a loss arrives: one ACK tells of both.
#[test]
fn a_delayed_ack_that_a_loss_hastens_is_no_reordering() {
    let mut bench = Bench::new();
    bench.ack(100, 1, &[(2, 3)], false);
    assert!(!bench.sender.reordering_seen);
    assert_eq!(bench.sender.flow.sacked_out, 1);
}

/// Beside the data-level acknowledgement there is room for one block. A duplicate above the cumulative ACK then looks like
/// news, and is taken for it: the segment has arrived, and must not be sent again for ever.
#[test]
fn what_arrived_twice_has_arrived() {
    let mut bench = Bench::new();
    bench.ack(100, 0, &[(4, 6)], true);
    assert_eq!(bench.sender.flow.sacked_out, 2);
    // With a second block around it the sender can tell, and knows that it has arrived all the same.
    bench.ack(101, 0, &[(8, 9), (7, 10)], true);
    assert_eq!(bench.sender.flow.sacked_out, 5);
}

/// SACKs of what was sent before the head was sent again do not let its timer run out.
#[test]
fn sacks_of_older_segments_put_off_the_timeout_of_a_head_sent_again() {
    let mut bench = Bench::new();
    for (at, end) in [(100, 3), (101, 4), (102, 5), (103, 6)] {
        bench.ack(at, 0, &[(1, end)], false);
    }
    assert_eq!(bench.sender.flow.retrans_out, 1, "the head");
    // RACK's wait for reordering is over; the head's own timer runs again.
    bench.net.now = 127 * MILLISECOND;
    bench.act(|sender, cx| sender.on_timer(cx));
    let before = bench.sender.timeout().expect("it runs");
    bench.ack(150, 0, &[(1, 7)], false);
    let after = bench.sender.timeout().expect("it runs");
    assert!(after > before, "{before} {after}");
}

#[test]
fn a_rate_based_controller_sees_a_timeout_as_a_phase() {
    let mut bench = Bench::with(Kindred::find("mpcc").expect("a controller"));
    // A probe of the tail comes first.
    for at in [1000, 2000] {
        bench.net.now = at * MILLISECOND;
        bench.act(|sender, cx| sender.on_timer(cx));
    }
    let timeout = State::Loss as u64;
    assert_eq!(bench.shared.subflows[0].phase, timeout, "for its siblings");
    // Of the head sent again, and less than all that was lost.
    bench.echo = 2000 * MILLISECOND;
    bench.ack(2100, 1, &[], false);
    assert_eq!(bench.shared.subflows[0].phase, timeout, "in on_interval");
}

/// 21 segments are what 6.25 MB/s let go in an eighth of 40 ms; a burst has 4 of them.
#[test]
fn a_paced_train_spans_an_eighth_of_a_round_trip() {
    let leave = |train| {
        let mut bench = Bench::new();
        bench.ack(101, 10, &[], false);
        bench.net.tap = Some(Vec::new());
        let sender = &mut bench.sender;
        sender.profile.train = train;
        let flow = &mut sender.flow;
        (flow.pacing, flow.pacing_rate) = (true, 6_250_000);
        (flow.cwnd, flow.srtt_us) = (1000, 40_000);
        let mut cx = Cx {
            net: &mut bench.net,
            shared: &mut bench.shared,
            tail: (u64::MAX, 1448),
            limit: 1000,
            waiting: false,
        };
        sender.push(&mut cx);
        let sent = bench.net.tap.take().unwrap_or_default();
        let sent = sent.into_iter().map(|(_, p, _)| (p.count, p.spread));
        sent.collect::<Vec<_>>()
    };
    assert_eq!(leave(1), [(1, 0); 4]);
    assert_eq!(leave(2), [(2, 0); 2]);
    // 17 of 21 segments went before the last burst, at 232 us each.
    let spread = (17 * 231_680 / crate::network::SPREAD) as u8;
    assert_eq!(leave(64), [(21, spread)]);
}

/// With room for less than a burst a sender waits for the next ACK only where that one is due within a millisecond.
#[test]
fn an_odd_segment_waits_for_an_ack_that_is_close() {
    let mut bench = Bench::new();
    // The head left at 1 ms and takes 100 ms to be acknowledged.
    let mut defers = |at| {
        bench.sender.flow.last_sent_ns = at;
        bench.sender.defers(1, 5, 1000, at)
    };
    assert!(!defers(99 * MILLISECOND));
    assert!(defers(100 * MILLISECOND));
}

#[test]
fn a_receiver_takes_one_round_trip_of_each_ack_that_data_echo() {
    let mut receiver = Receiver::new(3, 100);
    let mut arrives = |at_ms: u64, echo_ms, flags| {
        let seq = receiver.rcv_nxt;
        let packet = Packet {
            kind: Kind::Data,
            more: echo_ms,
            flags,
            seq,
            ..Packet::NONE
        };
        receiver.on_data(&packet, seq, seq + 1, at_ms * MILLISECOND, 0);
        receiver.rtt_us()
    };
    assert_eq!(arrives(5, 0, 0), 0, "the sender had no ACK");
    assert_eq!(arrives(50, 10, 0), 40_000);
    assert_eq!(arrives(70, 10, 0), 40_000, "the same ACK");
    assert_eq!(arrives(130, 50, 0), 45_000, "it rises by an eighth");
    assert_eq!(arrives(150, 120, 0), 30_000, "and falls at once");
    assert_eq!(arrives(400, 140, flag::SHORT), 30_000);
}

/// The kernel's controllers never learn the handshake's round trip.
#[test]
fn the_least_rtt_of_a_controller_is_that_of_its_samples() {
    for name in ["olia", "mpcc"] {
        let mut bench = Bench::with(Kindred::find(name).expect("a controller"));
        let least = |bench: &Bench| bench.shared.subflows[0].min_rtt_us;
        assert_eq!(bench.sender.flow.min_rtt_us, 100_000);
        assert_eq!(least(&bench), mp_controllers::UNKNOWN);
        bench.ack(121, 1, &[], false);
        assert_eq!(least(&bench), 120_000);
        assert_eq!(bench.sender.flow.min_rtt_us, 100_000);
    }
}

#[test]
fn controllers_see_when_a_segment_left_and_when_the_next_may() {
    let mut bench = Bench::new();
    assert_eq!(bench.sender.flow.last_sent_ns, MILLISECOND);
    bench.ack(101, 10, &[], false);
    bench.sender.flow.pacing = true;
    bench.sender.flow.pacing_rate = 1_448_000;
    bench.net.now = 150 * MILLISECOND;
    bench.act_up_to(12, |sender, cx| _ = sender.push(cx));
    assert_eq!(bench.sender.flow.last_sent_ns, 150 * MILLISECOND);
    // It might have left before: half of its 2 ms are made good.
    assert_eq!(bench.sender.flow.next_send_ns, 151 * MILLISECOND);
    bench.net.now = 151 * MILLISECOND;
    bench.act_up_to(14, |sender, cx| _ = sender.push(cx));
    assert_eq!(bench.sender.flow.next_send_ns, 153 * MILLISECOND);
}

#[test]
fn the_first_ten_segments_are_not_paced() {
    let bench = Bench::with(Kindred::Bbr);
    assert!(bench.sender.flow.pacing);
    assert_eq!(bench.sender.flow.snd_nxt, 10);
    assert!(bench.sender.flow.next_send_ns > bench.net.now);
}

#[test]
fn duplicates_of_one_flight_widen_the_reordering_window_once() {
    let mut bench = Bench::new();
    bench.ack(100, 0, &[(2, 3)], false);
    bench.ack(101, 3, &[], false);
    assert!(bench.sender.reordering_seen);
    bench.ack(102, 4, &[(0, 1)], true);
    bench.ack(103, 5, &[(1, 2)], true);
    assert_eq!(bench.sender.rack.steps, 2);
}

/// Which timer runs is a question of the state after the ACK.
#[test]
fn the_ack_that_ends_recovery_arms_a_probe() {
    let mut bench = Bench::new();
    for (at, end) in [(100, 3), (101, 4), (102, 5), (103, 6)] {
        bench.ack(at, 0, &[(1, end)], false);
    }
    assert_eq!(bench.sender.flow.state, State::Recovery);
    bench.act_up_to(13, |sender, cx| {
        sender.flow.cwnd = 20;
        sender.push(cx);
    });
    bench.echo = 103 * MILLISECOND;
    bench.ack(204, 10, &[], false);
    assert_eq!(bench.sender.flow.state, State::Open);
    assert_eq!(bench.sender.flow.packets_out(), 3);
    assert_eq!(bench.sender.timer.kind, Due::Probe);
}

#[test]
fn the_ack_of_an_original_does_not_pass_for_that_of_its_retransmission() {
    let mut bench = Bench::new();
    // A probe of the tail comes first, then the timeout.
    for at in [1000, 2000] {
        bench.net.now = at * MILLISECOND;
        bench.act(|sender, cx| sender.on_timer(cx));
    }
    assert_eq!(bench.sender.flow.state, State::Loss);
    bench.echo = MILLISECOND;
    bench.ack(2200, 1, &[], false);
    assert_eq!(bench.sender.flow.state, State::Open);
    assert_eq!(bench.sender.flow.lost_out, 0);
}

/// An original filled a part of the hole: the rest may come by itself too.
#[test]
fn a_partial_ack_of_an_original_waits_for_the_retransmissions() {
    let mut bench = Bench::new();
    bench.ack(100, 0, &[(4, 7)], false);
    let out = |bench: &Bench| (bench.sender.flow.lost_out, bench.sender.flow.retrans_out);
    assert_eq!(out(&bench), (4, 3));
    bench.echo = MILLISECOND;
    bench.ack(110, 2, &[(4, 7)], false);
    assert_eq!(out(&bench), (2, 1));
}

#[test]
fn a_round_trip_measured_by_a_sack_ends_the_back_off() {
    let mut bench = Bench::new();
    for at in [1000, 2000] {
        bench.net.now = at * MILLISECOND;
        bench.act(|sender, cx| sender.on_timer(cx));
    }
    assert_eq!(bench.sender.timer.backoff, 1);
    // F-RTO would undo the timeout, and its back-off with it.
    bench.sender.frto = false;
    bench.ack(2100, 0, &[(5, 6)], false);
    assert_eq!(bench.sender.timer.backoff, 0);
}

#[test]
fn a_send_buffer_takes_two_windows_of_segments_of_any_size() {
    let sender = |mss| {
        let profile = Profile {
            mss,
            ..Bench::new().sender.profile
        };
        let mut sender = Sender::new(profile, Kindred::Cubic.build(0, 0), (1 << 30, true));
        sender.flow.cwnd = 100;
        sender.expand_buffer();
        sender
    };
    assert_eq!(sender(1448).buffer, 2 * 100 * (4096 + 256));
    let mut jumbo = sender(8920);
    assert!(jumbo.buffer >= 2 * 100 * 8920);
    jumbo.flow.pacing_rate = u64::MAX;
    assert_eq!(jumbo.burst(), 7);
}
