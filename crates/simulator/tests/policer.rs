//! Policers: what a token bucket lets through, and what that does to a transfer.

mod common;
use common::*;

use mp_record::Run;
use mp_scenario::{Policer, Scenario};
use mp_simulator::agenda::NEVER;
use mp_simulator::network::{Kind, Link, Network, Packet};
use mp_simulator::time::{MICROSECOND, MILLISECOND};

const POLICER: Policer = Policer {
    rate: 20_000_000,
    burst: 50_000,
};
/// Bytes of a full segment's packet.
const SEGMENT: u64 = 1500;
const DELAY: u64 = 10 * MILLISECOND;

/// Sends `trains` of so many full segments, one each `gap` ns, through a policed link without a bottleneck; the segments
/// that arrive, and the time of the last train.
fn arrivals(trains: u64, segments: u8, gap: u64) -> (u64, u64) {
    let mut way = direction(0, ms(10), 100);
    way.policer = Some(POLICER);
    let mut net = Network::default();
    let link = net.add(Link::new(&way, None, 1));
    let mut packet = Packet {
        kind: Kind::Data,
        count: segments,
        size: u32::from(segments) * SEGMENT as u32,
        extra: (1 << segments) - 1,
        ..Packet::NONE
    };
    for i in 0..trains {
        net.now = i * gap;
        packet.stamp = net.now;
        net.send(link, &packet);
    }
    let (mut arrived, mut out) = (0, Packet::NONE);
    while net.agenda.links.at(link) != NEVER {
        net.now = net.agenda.links.at(link);
        assert!(net.advance(link, &mut out));
        assert_eq!(net.now - out.stamp, DELAY, "a policer delays nothing");
        arrived += u64::from(out.segments());
    }
    (arrived, (trains - 1) * gap)
}

/// Segments that the burst and the rate pay for until `time` ns.
fn paid(time: u64) -> u64 {
    (POLICER.burst + POLICER.rate / 8 * time / 1_000_000_000) / SEGMENT
}

#[test]
fn a_stream_above_the_rate_loses_one_less_its_share() {
    // 1500 bytes each 150 us are 80 Mbit/s, four times the rate.
    let (arrived, time) = arrivals(40_000, 1, 150 * MICROSECOND);
    assert_eq!(arrived, paid(time));
    // While the burst lasts it is refilled: it pays for burst/(1 - 20/80) of the stream. Of the rest 1 - 20/80 is lost.
    let beyond = 40_000 - POLICER.burst * 4 / 3 / SEGMENT;
    let lost = 40_000 - arrived;
    assert!(lost.abs_diff(beyond * 3 / 4) <= 1, "{lost} of {beyond}");
}

#[test]
fn a_train_is_policed_segment_by_segment() {
    // The same 80 Mbit/s in trains of 24.
    let (arrived, time) = arrivals(2_000, 24, 24 * 150 * MICROSECOND);
    assert_eq!(arrived, paid(time));
}

#[test]
fn a_stream_of_at_most_the_rate_loses_nothing() {
    // 600 us are 20 Mbit/s; in trains of 24, which the burst takes.
    assert_eq!(arrivals(10_000, 1, 600 * MICROSECOND).0, 10_000);
    assert_eq!(arrivals(1_000, 24, 24 * 600 * MICROSECOND).0, 24 * 1_000);
}

/// A download for 20 s over 100 Mbit/s and 40 ms of round trip.
fn download(police: bool) -> Scenario {
    let mut s = scenario(vec![path(mbit(100), ms(20), 400, 0.0)], ms(20_000));
    s.sample_interval = ms(100);
    s.paths[0].down.policer = police.then_some(POLICER);
    s
}

fn longest_srtt_ms(run: &Run) -> f64 {
    let longest = run.samples.iter().map(|s| s.srtt_us).max();
    f64::from(longest.unwrap_or(0)) / 1000.0
}

fn lost(run: &Run) -> u32 {
    run.samples.last().map_or(0, |s| s.lost)
}

#[test]
fn a_policed_transfer_sees_loss_and_no_delay() {
    for train in [1, 16] {
        for controller in ["reno", "cubic", "bbr"] {
            let mut scenario = download(true);
            scenario.segment_train = train;
            let policed = simulate(&scenario, &variant(controller), 1);
            let arrived = policed.transfers[0].path_bytes[0].1;
            // The whole of 20 s, payload of full packets.
            let most = (POLICER.burst + POLICER.rate / 8 * 20) * 1420 / 1500;
            assert!(arrived <= most, "{controller}: {arrived} of {most}");
            assert!(
                goodput(&policed) > 3.0,
                "{controller}: {}",
                goodput(&policed)
            );
            assert!(lost(&policed) > 30, "{controller}: {}", lost(&policed));
            let srtt = longest_srtt_ms(&policed);
            assert!(srtt < 46.0, "{controller}: {srtt} ms");
        }
    }
    let free = simulate(&download(false), &variant("cubic"), 1);
    assert!(goodput(&free) > 80.0, "{}", goodput(&free));
}

#[test]
fn a_shared_link_polices_all_its_paths_together_and_each_direction_apart() {
    let mut s = bottleneck(100, ms(10), 400, ms(10));
    s.duration = ms(20_000);
    s.links[0].down.policer = Some(POLICER);
    let down = simulate(&s, &variant("reno"), 1);
    let most = 20.0 * 1448.0 / 1500.0 + 0.1;
    assert!((4.0..most).contains(&goodput(&down)), "{}", goodput(&down));
    // ACKs alone never come near the rate.
    s.links[0].up.policer = s.links[0].down.policer.take();
    let up = simulate(&s, &variant("reno"), 1);
    assert!(goodput(&up) > 80.0, "{}", goodput(&up));
}
