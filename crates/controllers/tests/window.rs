//! What all window controllers share: slow start, the floor, undo, who counts as a sibling, slots.

mod common;

use common::{ack, assert_close, connection, controller, decades, growth, subflow, subflows};
use mp_controllers::{all, Ack, Controller, Kind, Subflow, INFINITE_SSTHRESH, MAX_SUBFLOWS};
use proptest::prelude::*;

/// `MP_TIMEOUT`
const TIMEOUT: u64 = 4;
/// Of a slot.
const WORDS: usize = std::mem::size_of::<Subflow>() / 8;

fn window_controllers() -> impl Iterator<Item = &'static Controller> {
    all()
        .iter()
        .filter(|controller| controller.kind == Kind::Window)
}

/// Those that grow by Reno's packet a window where they are alone and nothing is queued or lost.
const RENO_WHEN_ALONE: &[&str] = &[
    "reno", "lia", "olia", "balia", "rsf-db", "rsf-lb", "ld-mpsp", "dalia",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn slow_start_adds_what_is_acknowledged_up_to_ssthresh(cwnd in 2u64..1000, room in 1u64..1000, acked in 1u64..2000) {
        for name in RENO_WHEN_ALONE {
            let c = connection(controller(name), &[Subflow { ssthresh: cwnd + room, ..subflow(cwnd, 20_000) }]);
            let expected = if acked <= room {
                acked as f64
            } else {
                room as f64 + (acked - room) as f64 / (cwnd + room) as f64
            };
            assert_close(growth(controller(name), &c, 0, &ack(acked)), expected);
        }
    }

    #[test]
    fn a_lone_subflow_grows_by_a_packet_a_window_exactly(cwnd in decades(2.0, 1e4), srtt in decades(10.0, 1e7)) {
        for name in RENO_WHEN_ALONE {
            let controller = controller(name);
            let mut c = connection(controller, &[subflow(cwnd, srtt)]);
            for _ in 0..cwnd - 1 {
                controller.on_ack(&mut c, 0, &ack(1));
                prop_assert_eq!(c.subflows[0].cwnd, cwnd, "{} is early", name);
            }
            controller.on_ack(&mut c, 0, &ack(1));
            prop_assert_eq!(c.subflows[0].cwnd, cwnd + 1, "{} is late", name);
        }
    }

    #[test]
    fn no_window_falls_below_two(subflows in subflows(), low in 2u64..8, queue in 0u64..10_000_000) {
        for controller in window_controllers() {
            let mut c = connection(controller, &subflows);
            c.subflows[0].cwnd = low;
            c.subflows[0].srtt_us += queue;
            c.subflows[0].lost = queue;
            for now_us in (0..100).map(|k| k * 10_000_000) {
                controller.on_rtt(&mut c, 0, now_us);
                controller.on_ack(&mut c, 0, &Ack { now_us, ..ack(3) });
                prop_assert!(c.subflows[0].cwnd >= 2, "{}", controller.name);
            }
            c.subflows[0].cwnd = low;
            prop_assert!(controller.on_loss(&mut c, 0, 0) >= 2, "{}", controller.name);
        }
    }

    #[test]
    fn any_words_at_all_are_survived(words in prop::collection::vec(any::<u64>(), MAX_SUBFLOWS * WORDS), ack in any::<[u64; 4]>(), slot in 0..8usize) {
        // slots are written by siblings on other CPUs: whatever is read, no trap and no endless loop
        for controller in all() {
            let mut c = controller.connection();
            for (subflow, words) in c.subflows.iter_mut().zip(words.chunks(WORDS)) {
                *subflow = Subflow {
                    owner: words[0] & 1, mss: words[1], rtt_us: words[2], srtt_us: words[3], min_rtt_us: words[4],
                    queue_owd_us: words[5], delivered: words[6], lost: words[7], backup: words[8] & 1, in_flight: words[9],
                    ce: words[10], phase: words[11], app_limited: words[12] & 1, cwnd: words[13],
                    ssthresh: words[14], cwnd_fraction: words[15], prior_cwnd: words[16], pacing_rate: words[17],
                    unsacked: words[18], data_una: words[19], data_next: words[20], data_end: words[21],
                    data_window: words[22], state: words[23..].try_into().unwrap(),
                };
            }
            let ack = Ack { now_us: ack[0], acked: ack[1], is_cwnd_limited: ack[2] & 1, max_packets_out: ack[3] };
            controller.on_rtt(&mut c, slot, ack.now_us);
            controller.on_ack(&mut c, slot, &ack);
            controller.on_interval(&mut c, slot, ack.now_us);
            controller.on_loss(&mut c, slot, ack.now_us);
            controller.on_undo(&mut c, slot);
            controller.on_close(&mut c, slot);
            prop_assert_eq!(c.subflows[slot], Subflow::default());
        }
    }
}

#[test]
fn slow_start_needs_a_flight_of_half_the_window_and_avoidance_a_full_one() {
    for name in RENO_WHEN_ALONE {
        let controller = controller(name);
        let idle = |packets| Ack {
            is_cwnd_limited: 0,
            max_packets_out: packets,
            ..ack(4)
        };
        let slow_start = connection(
            controller,
            &[Subflow {
                ssthresh: INFINITE_SSTHRESH,
                ..subflow(20, 20_000)
            }],
        );
        assert_eq!(growth(controller, &slow_start, 0, &idle(10)), 0.0, "{name}");
        assert_eq!(growth(controller, &slow_start, 0, &idle(11)), 4.0, "{name}");
        let avoidance = connection(controller, &[subflow(20, 20_000)]);
        assert_eq!(growth(controller, &avoidance, 0, &idle(20)), 0.0, "{name}");
        assert_close(growth(controller, &avoidance, 0, &ack(4)), 0.2);
    }
}

#[test]
fn a_loss_halves_and_undo_gives_back() {
    for controller in window_controllers() {
        let mut c = connection(
            controller,
            &[Subflow {
                cwnd_fraction: 5,
                ..subflow(21, 20_000)
            }],
        );
        assert_eq!(controller.on_loss(&mut c, 0, 0), 10, "{}", controller.name);
        assert_eq!(
            (c.subflows[0].prior_cwnd, c.subflows[0].cwnd_fraction),
            (21, 0),
            "{}",
            controller.name
        );
        c.subflows[0].cwnd = 12;
        assert_eq!(controller.on_undo(&mut c, 0), 21, "{}", controller.name);
        c.subflows[0].cwnd = 30;
        assert_eq!(controller.on_undo(&mut c, 0), 30, "{}", controller.name);
    }
}

/// Coupled ones see two equal subflows: a quarter of Reno's growth each.
const COUPLED: &[&str] = &["lia", "olia", "balia", "dalia"];

/// The window of a subflow after fifty round trips with a short queue, beside `siblings` like it.
fn grown_beside(controller: &Controller, siblings: usize) -> u64 {
    let like = Subflow {
        min_rtt_us: 20_000,
        ..subflow(20, 30_000)
    };
    let mut c = connection(controller, &vec![like; 1 + siblings]);
    for round in 1..=50 {
        let now_us = round * 30_000;
        for slot in 0..=siblings {
            // Fewer samples a round trip are too few for wVegas.
            (0..4).for_each(|_| controller.on_rtt(&mut c, slot, now_us));
            let acked = c.subflows[slot].cwnd;
            c.subflows[slot].delivered += acked;
            controller.on_ack(
                &mut c,
                slot,
                &Ack {
                    now_us,
                    ..ack(acked)
                },
            );
        }
    }
    c.subflows[0].cwnd
}

#[test]
fn a_window_depends_on_siblings_where_the_registry_says_so() {
    for controller in window_controllers() {
        let (alone, beside) = (grown_beside(controller, 0), grown_beside(controller, 1));
        assert_eq!(
            alone != beside,
            controller.coupled,
            "{}: {alone} alone, {beside} beside a sibling",
            controller.name
        );
    }
}

#[test]
fn a_subflow_that_closes_leaves() {
    for name in COUPLED {
        let controller = controller(name);
        let mut c = connection(controller, &[subflow(100, 50_000); 2]);
        assert_close(growth(controller, &c, 0, &ack(1)), 0.0025);
        controller.on_close(&mut c, 1);
        assert_close(growth(controller, &c, 0, &ack(1)), 0.01);
    }
}

#[test]
fn a_subflow_without_an_rtt_does_not_count_yet() {
    for name in COUPLED {
        let controller = controller(name);
        let c = connection(controller, &[subflow(100, 50_000), subflow(10, 0)]);
        assert_close(growth(controller, &c, 0, &ack(1)), 0.01);
        assert_close(growth(controller, &c, 1, &ack(1)), 0.1);
    }
}

#[test]
fn what_a_free_slot_still_holds_does_not_count() {
    for name in COUPLED {
        let controller = controller(name);
        let mut c = connection(controller, &[subflow(100, 50_000); 2]);
        c.subflows[1].owner = 0;
        assert_close(growth(controller, &c, 0, &ack(1)), 0.01);
    }
}

#[test]
fn a_backup_counts_for_backups_only() {
    for name in COUPLED {
        let controller = controller(name);
        let backup = Subflow {
            backup: 1,
            ..subflow(100, 50_000)
        };
        let c = connection(controller, &[subflow(100, 50_000), backup]);
        assert_close(growth(controller, &c, 0, &ack(1)), 0.01);
        assert_close(growth(controller, &c, 1, &ack(1)), 0.0025);
    }
}

#[test]
fn a_sibling_whose_timeout_nothing_has_answered_does_not_count() {
    for name in COUPLED {
        let controller = controller(name);
        let timed_out = |cwnd| Subflow {
            phase: TIMEOUT,
            ssthresh: 4,
            ..subflow(cwnd, 50_000)
        };
        // Reno's growth on the path that is left; LIA had 8/81 in place of 1/8.
        let dead = connection(controller, &[subflow(8, 50_000), timed_out(1)]);
        assert_close(growth(controller, &dead, 0, &ack(1)), 0.125);
        let answered = connection(controller, &[subflow(8, 50_000), timed_out(2)]);
        assert!(
            growth(controller, &answered, 0, &ack(1)) < 0.12,
            "{name}: an acknowledgement raised its window"
        );
        // Its own window counts even so, or the sums would be empty.
        let own = Subflow {
            ssthresh: 1,
            ..timed_out(1)
        };
        let alone = connection(controller, &[own]);
        assert_close(growth(controller, &alone, 0, &ack(1)), 1.0);
    }
}

#[test]
fn a_subflow_in_slow_start_counts() {
    for name in COUPLED {
        let controller = controller(name);
        let starting = Subflow {
            ssthresh: INFINITE_SSTHRESH,
            ..subflow(100, 50_000)
        };
        let c = connection(controller, &[subflow(100, 50_000), starting]);
        assert_close(growth(controller, &c, 0, &ack(1)), 0.0025);
    }
}

#[test]
fn eight_equal_subflows_share_one_reno() {
    for name in ["lia", "olia", "balia"] {
        let controller = controller(name);
        let c = connection(controller, &[subflow(100, 50_000); MAX_SUBFLOWS]);
        for slot in 0..MAX_SUBFLOWS {
            assert_close(growth(controller, &c, slot, &ack(1)), 0.01 / 64.0);
        }
    }
}

#[test]
#[should_panic(expected = "slot 8: a connection has 8")]
fn a_ninth_slot_is_refused() {
    let reno = controller("reno");
    reno.on_ack(&mut reno.connection(), MAX_SUBFLOWS, &ack(1));
}
