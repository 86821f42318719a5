//! wVegas over links that queue what it keeps there, and in its corners.

mod common;

use common::{ack, connection, controller, subflow};
use mp_controllers::{Ack, Connection, Subflow};

/// A link of `rate` packets/s and propagation `base` s that one wVegas subflow fills: its round trip by its window.
struct Link {
    rate: f64,
    base: f64,
}

fn wvegas_rounds(links: &[Link], windows: &[u64], rounds: usize) -> Connection {
    let wvegas = controller("wvegas");
    let mut c = connection(
        wvegas,
        &windows.iter().map(|&w| subflow(w, 1)).collect::<Vec<_>>(),
    );
    let mut now = vec![1e6; links.len()];
    for _ in 0..rounds {
        for (slot, link) in links.iter().enumerate() {
            let subflow = &mut c.subflows[slot];
            let rtt = (subflow.cwnd as f64 / link.rate).max(link.base) * 1e6;
            now[slot] += rtt;
            subflow.rtt_us = rtt.round() as u64;
            subflow.srtt_us = subflow.rtt_us;
            subflow.min_rtt_us = (link.base * 1e6) as u64;
            let packets = subflow.cwnd;
            for k in 0..packets {
                wvegas.on_rtt(&mut c, slot, now[slot] as u64 + k);
                wvegas.on_ack(
                    &mut c,
                    slot,
                    &Ack {
                        now_us: now[slot] as u64 + k,
                        ..ack(1)
                    },
                );
            }
        }
    }
    c
}

#[test]
fn wvegas_rests_with_ten_packets_queued_shared_by_rate() {
    // equal links: five each; at 2 : 1 the shares 6.67 and 3.33, of which whole packets count
    let equal = [
        Link {
            rate: 1000.0,
            base: 0.05,
        },
        Link {
            rate: 1000.0,
            base: 0.05,
        },
    ];
    let c = wvegas_rounds(&equal, &[57, 57], 50);
    assert!((55..=56).contains(&c.subflows[0].cwnd) && (55..=56).contains(&c.subflows[1].cwnd));

    let unequal = [
        Link {
            rate: 2000.0,
            base: 0.05,
        },
        Link {
            rate: 1000.0,
            base: 0.05,
        },
    ];
    let c = wvegas_rounds(&unequal, &[111, 57], 50);
    let queued = [c.subflows[0].cwnd - 100, c.subflows[1].cwnd - 50];
    assert!(
        (6..8).contains(&queued[0]) && (3..5).contains(&queued[1]),
        "{queued:?} packets queued"
    );
}

#[test]
fn wvegas_gives_way_to_a_standing_queue() {
    let link = [Link {
        rate: 1000.0,
        base: 0.05,
    }];
    let c = wvegas_rounds(&link, &[80], 15);
    assert_eq!(
        c.subflows[0].cwnd, 66,
        "one packet a round trip less, from the second on"
    );
}

#[test]
fn wvegas_drains_a_queue_that_has_doubled() {
    let link = [Link {
        rate: 1000.0,
        base: 0.05,
    }];
    let windows: Vec<u64> = (1..10)
        .map(|rounds| wvegas_rounds(&link, &[52], rounds).subflows[0].cwnd)
        .collect();
    let drain = windows
        .windows(2)
        .position(|pair| pair[1] < pair[0])
        .expect("it drains");
    let (before, after) = (windows[drain], windows[drain + 1]);
    assert!(
        (54..=56).contains(&before),
        "two packets queued at first, four or five now: {windows:?}"
    );
    // base/(2 rtt) of it is 25; from there slow start leads back to three quarters of the window, 41, within the round
    assert!((41..=43).contains(&after), "{windows:?}");
}

#[test]
fn wvegas_leaves_slow_start_when_packets_queue() {
    let wvegas = controller("wvegas");
    let mut c = connection(
        wvegas,
        &[Subflow {
            ssthresh: 1000,
            min_rtt_us: 50_000,
            ..subflow(60, 60_000)
        }],
    );
    for k in 0..10 {
        wvegas.on_rtt(&mut c, 0, 100_000 + k);
    }
    wvegas.on_ack(
        &mut c,
        0,
        &Ack {
            now_us: 100_000,
            ..ack(1)
        },
    );
    // 60 * (60 - 50)/60 = 10 packets queued, more than gamma
    assert_eq!((c.subflows[0].cwnd, c.subflows[0].ssthresh), (51, 50));
}

#[test]
fn wvegas_is_reno_with_two_samples_a_round_trip_and_in_recovery() {
    let wvegas = controller("wvegas");
    // nearly all of the round trip is queue: with samples enough it steps back
    for (samples, expected) in [(2, 23), (3, 21)] {
        let mut c = connection(
            wvegas,
            &[Subflow {
                min_rtt_us: 1_000,
                ..subflow(22, 50_000)
            }],
        );
        for k in 1..=samples {
            wvegas.on_rtt(&mut c, 0, k);
            let now_us = if k < samples { k } else { 50_000 };
            wvegas.on_ack(&mut c, 0, &Ack { now_us, ..ack(11) });
        }
        assert_eq!(c.subflows[0].cwnd, expected, "{samples} samples");
    }

    let mut c = connection(wvegas, &[subflow(40, 50_000)]);
    c.subflows[0].cwnd = wvegas.on_loss(&mut c, 0, 1_000_000);
    for k in 0..20 {
        wvegas.on_rtt(&mut c, 0, 1_000_000 + k);
        wvegas.on_ack(
            &mut c,
            0,
            &Ack {
                now_us: 1_000_000 + k,
                ..ack(1)
            },
        );
    }
    assert_eq!(c.subflows[0].cwnd, 21);
}
