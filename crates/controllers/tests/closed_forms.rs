//! Equilibria and special cases that the papers give in closed form.

mod common;

use common::{ack, assert_close, connection, controller, growth, rules, subflow, subflows};
use mp_controllers::{Connection, Controller, Subflow};
use proptest::prelude::*;

/// Acknowledges one window of `slot`, packet by packet; returns the packets.
fn round(controller: &Controller, c: &mut Connection, slot: usize) -> u64 {
    let packets = c.subflows[slot].cwnd;
    for _ in 0..packets {
        controller.on_ack(c, slot, &ack(1));
    }
    packets
}

/// Packets per cycle of a subflow that loses one each time its window reaches `top`, and the round trips that takes.
fn sawtooth(controller: &Controller, c: &mut Connection, top: u64) -> (f64, f64) {
    c.subflows[0].cwnd = top;
    let (mut packets, mut rounds) = (0, 0);
    for _ in 0..10 {
        c.subflows[0].cwnd = controller.on_loss(c, 0, 0);
        while c.subflows[0].cwnd < top {
            packets += round(controller, c, 0);
            rounds += 1;
        }
    }
    (packets as f64 / 10.0, f64::from(rounds) / 10.0)
}

#[test]
fn on_two_equal_paths_coupling_quarters_each_increase_and_rsf_does_not() {
    for (name, part) in [
        ("reno", 1.0),
        ("rsf-db", 1.0),
        ("rsf-lb", 1.0),
        ("lia", 0.25),
        ("olia", 0.25),
        ("balia", 0.25),
    ] {
        let controller = controller(name);
        let c = connection(controller, &[subflow(40, 100_000); 2]);
        assert_close(growth(controller, &c, 0, &ack(1)), part / 40.0);
        assert_close(growth(controller, &c, 1, &ack(1)), part / 40.0);
    }
}

#[test]
fn reno_delivers_the_inverse_square_root_of_its_loss() {
    let reno = controller("reno");
    for top in [100, 1000] {
        let (packets, rounds) =
            sawtooth(reno, &mut connection(reno, &[subflow(top, 100_000)]), top);
        let expected = (3.0 * packets / 2.0).sqrt(); // packets a round trip at p = 1/packets
        let got = packets / rounds;
        assert!(
            (got / expected - 1.0).abs() < 0.01,
            "{got} packets a round trip, sqrt(3/(2p)) is {expected}"
        );
    }
}

#[test]
fn ld_mpsp_loses_eight_thirds_of_its_headroom_over_the_largest_window_squared() {
    let ld = controller("ld-mpsp");
    for (target, queue) in [
        (20_000, 0),
        (20_000, 10_000),
        (20_000, 15_000),
        (4_000, 1_000),
    ] {
        let top = 600;
        let base = 6_000;
        let mut c = connection(
            ld,
            &[Subflow {
                min_rtt_us: base,
                ..subflow(top, base + queue)
            }],
        );
        c.parameters[0] = target;
        let (packets, rounds) = sawtooth(ld, &mut c, top);
        let headroom = (target - queue) as f64 / target as f64;
        let p = 8.0 / 3.0 * headroom / (top as f64).powi(2);
        assert!(
            (packets * p - 1.0).abs() < 0.01,
            "1/p {packets}, closed form {}",
            1.0 / p
        );
        // the window swings between 2/3 and 4/3 of its mean
        let mean = packets / rounds;
        assert!(
            (mean / (0.75 * top as f64) - 1.0).abs() < 0.01,
            "mean window {mean}"
        );
    }
}

#[test]
fn ld_mpsp_rests_at_its_target_and_sinks_above_it() {
    let ld = controller("ld-mpsp");
    let at = |queue: u64| {
        connection(
            ld,
            &[Subflow {
                min_rtt_us: 6_000,
                ..subflow(100, 6_000 + queue)
            }],
        )
    };
    assert_eq!(growth(ld, &at(20_000), 0, &ack(1)), 0.0);
    assert_close(growth(ld, &at(30_000), 0, &ack(1)), -0.005);
    assert_close(growth(ld, &at(500_000), 0, &ack(1)), -0.01);
}

#[test]
fn rsf_is_reno_up_to_half_its_budget_and_turns_at_all_of_it() {
    let db = controller("rsf-db");
    let at = |queue: u64| {
        connection(
            db,
            &[Subflow {
                min_rtt_us: 10_000,
                ..subflow(100, 10_000 + queue)
            }],
        )
    };
    for (queue, expected) in [
        (0, 0.01),
        (50_000, 0.01),
        (75_000, 0.01 / 3.0),
        (100_000, 0.0),
        (200_000, -0.005),
    ] {
        assert_close(growth(db, &at(queue), 0, &ack(1)), expected);
    }
    let lb = controller("rsf-lb");
    for (lost_per_s, expected) in [
        (0, 0.01),
        (1, 0.01),
        (2, 0.01),
        (3, 0.01 / 3.0),
        (4, 0.0),
        (8, -0.005),
    ] {
        let mut c = connection(lb, &[subflow(100, 100_000)]);
        c.subflows[0].lost = 3 * lost_per_s;
        lb.on_rtt(&mut c, 0, 3_000_000); // longer than its memory, so that the average is this sample
        assert_close(growth(lb, &c, 0, &ack(1)), expected);
    }
}

/// Over 16 round trips of 20 ms a loss would be 3.1 a second, above half the budget of 4.
#[test]
fn rsf_lb_is_reno_at_a_loss_a_second_however_short_the_round_trip() {
    let lb = controller("rsf-lb");
    for srtt in [1_000, 5_000, 20_000, 30_000, 150_000] {
        let mut c = connection(lb, &[subflow(100, srtt)]);
        let mut sampled = 0;
        for second in 1..=20 {
            while sampled + srtt <= second * 1_000_000 {
                sampled += srtt;
                lb.on_rtt(&mut c, 0, sampled);
                assert_close(growth(lb, &c, 0, &ack(1)), 0.01);
            }
            c.subflows[0].lost += 1;
        }
        // Ten a second are far above the budget, and the average still finds out.
        while sampled < 30_000_000 {
            sampled += srtt;
            c.subflows[0].lost = 20 + (sampled - 20_000_000) / 100_000;
            lb.on_rtt(&mut c, 0, sampled);
        }
        assert!(growth(lb, &c, 0, &ack(1)) < 0.0, "{srtt} us");
    }
}

/// The alphas that show in OLIA's growth.
fn olia_alphas(windows: &[u64], packets_between_losses: &[u64], srtt_us: u64) -> Vec<f64> {
    let olia = controller("olia");
    let subflows: Vec<Subflow> = windows.iter().map(|&w| subflow(w, srtt_us)).collect();
    let mut c = connection(olia, &subflows);
    for (slot, &packets) in packets_between_losses.iter().enumerate() {
        c.subflows[slot].delivered = packets;
    }
    let total: u64 = windows.iter().sum();
    let first = |w: u64| w as f64 / (total as f64).powi(2);
    windows
        .iter()
        .enumerate()
        .map(|(slot, &w)| w as f64 * (growth(olia, &c, slot, &ack(1)) - first(w)))
        .collect()
}

fn assert_all_close(got: &[f64], expected: &[f64]) {
    assert!(
        got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5),
        "{got:?}, expected {expected:?}"
    );
}

#[test]
fn olia_moves_nothing_where_the_best_path_has_the_largest_window() {
    assert_all_close(&olia_alphas(&[100, 50], &[900, 100], 30_000), &[0.0, 0.0]);
    assert_all_close(&olia_alphas(&[100, 100], &[900, 100], 30_000), &[0.0, 0.0]);
    assert_all_close(&olia_alphas(&[100], &[900], 30_000), &[0.0]);
}

#[test]
fn olia_takes_from_the_largest_windows_for_the_best_paths() {
    assert_all_close(&olia_alphas(&[50, 100], &[900, 100], 30_000), &[0.5, -0.5]);
    // two best paths, one of them already the largest: only the other collects
    assert_all_close(&olia_alphas(&[50, 100], &[900, 900], 30_000), &[0.5, -0.5]);
    // ties on each side share
    assert_all_close(
        &olia_alphas(&[50, 100, 100], &[900, 100, 200], 30_000),
        &[1.0 / 3.0, -1.0 / 6.0, -1.0 / 6.0],
    );
    assert_all_close(
        &olia_alphas(&[50, 60, 100], &[900, 900, 100], 30_000),
        &[1.0 / 6.0, 1.0 / 6.0, -1.0 / 3.0],
    );
    // neither best nor largest: nothing
    assert_all_close(
        &olia_alphas(&[50, 60, 100], &[900, 800, 100], 30_000),
        &[1.0 / 3.0, 0.0, -1.0 / 3.0],
    );
    // no loss and nothing delivered yet: all are equally good, the smaller collect
    assert_all_close(
        &olia_alphas(&[50, 50, 100], &[0, 0, 0], 30_000),
        &[1.0 / 6.0, 1.0 / 6.0, -1.0 / 3.0],
    );
}

#[test]
fn olia_keeps_the_better_of_two_loss_intervals_and_undo_joins_them() {
    let olia = controller("olia");
    let mut c = connection(olia, &[subflow(50, 30_000), subflow(100, 30_000)]);
    let collects = |c: &Connection| growth(olia, c, 0, &ack(1)) > 50.0 / 150f64.powi(2) + 1e-6;
    c.subflows[0].delivered = 1000;
    olia.on_loss(&mut c, 0, 0);
    c.subflows[0].delivered += 10;
    c.subflows[1].delivered = 900;
    assert!(
        collects(&c),
        "1000 packets between its last losses beat 900 since the start"
    );
    olia.on_loss(&mut c, 0, 0);
    assert!(!collects(&c), "10 do not");
    olia.on_undo(&mut c, 0);
    assert!(collects(&c), "the second loss did not happen");
    olia.on_loss(&mut c, 0, 0);
    c.subflows[0].delivered += 2000;
    olia.on_loss(&mut c, 0, 0);
    olia.on_loss(&mut c, 0, 0);
    assert!(collects(&c), "a timeout on top of a loss divides nothing");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn olia_only_moves_what_it_takes(windows in prop::collection::vec(2u64..2000, 1..=8), quality in prop::collection::vec(1u64..5, 8)) {
        let sum: f64 = olia_alphas(&windows, &quality[..windows.len()], 30_000).iter().sum();
        prop_assert!(sum.abs() < 1e-4);
    }

    #[test]
    fn coupling_never_takes_more_than_one_tcp_would(subflows in subflows()) {
        for name in ["reno", "lia", "balia", "dalia"] {
            let controller = controller(name);
            let c = connection(controller, &subflows);
            let got = growth(controller, &c, 0, &ack(1));
            prop_assert!(got <= 1.000_001 / subflows[0].cwnd as f64 + 1e-11, "{name}: {got}");
        }
    }
}

/// In equilibrium what the ACKs between two losses add is what a loss takes: p = increase / decrease.
fn equilibrium_loss(controller: &Controller, c: &Connection, slot: usize) -> f64 {
    let w = c.subflows[slot].cwnd as f64;
    growth(controller, c, slot, &ack(1)) / (w - controller.on_loss(&mut c.clone(), slot, 0) as f64)
}

#[test]
fn on_equal_round_trips_the_best_path_alone_sets_the_total_window() {
    // LIA: on every path p = 2/W^2. BALIA: on the path with the largest window. So W = sqrt(2/p), one Reno's.
    for name in ["lia", "balia"] {
        let controller = controller(name);
        for windows in [[1000, 1000], [1200, 800], [1900, 100]] {
            let c = connection(controller, &windows.map(|w| subflow(w, 50_000)));
            let p = equilibrium_loss(controller, &c, 0);
            assert!(
                ((2.0 / p).sqrt() / 2000.0 - 1.0).abs() < 0.001,
                "{name} {windows:?}: p {p}"
            );
        }
    }
}

#[test]
fn balia_keeps_a_path_alive_that_loses_more() {
    // the smaller path bears p = (1 + a)(4 + a)/15 times the loss of the larger one, a = their rates' ratio > 3/2
    let balia = controller("balia");
    for (small, large) in [(1000u64, 2000u64), (1000, 4000), (1000, 10_000)] {
        let c = connection(balia, &[subflow(small, 50_000), subflow(large, 50_000)]);
        let ratio = equilibrium_loss(balia, &c, 0) / equilibrium_loss(balia, &c, 1);
        let a = large as f64 / small as f64;
        let expected = (1.0 + a) * (4.0 + a) / 15.0;
        assert!(
            (ratio / expected - 1.0).abs() < 0.002,
            "{ratio}, closed form {expected}"
        );
    }
}

/// Mean windows after `rounds` equal round trips on paths that lose `losses` of the packets: the rule's drift, without
/// chance. Windows are large, so that whole packets are fine steps.
fn drift(name: &str, losses: &[f64], start: &[u64], rounds: usize) -> Vec<f64> {
    let controller = controller(name);
    let mut c = connection(
        controller,
        &start
            .iter()
            .map(|&w| subflow(w, 50_000))
            .collect::<Vec<_>>(),
    );
    let mut owed = vec![0.0; start.len()];
    for _ in 0..rounds {
        for slot in 0..start.len() {
            let w = c.subflows[slot].cwnd;
            let events = losses[slot] * w as f64;
            owed[slot] += events * (w - controller.on_loss(&mut c.clone(), slot, 0)) as f64;
            // bytes between losses, which OLIA goes by, are 1/p
            c.subflows[slot].delivered = (1.0 / losses[slot]) as u64;
            controller.on_ack(&mut c, slot, &ack(w));
            let whole = owed[slot].floor();
            owed[slot] -= whole;
            c.subflows[slot].cwnd = c.subflows[slot].cwnd.saturating_sub(whole as u64).max(2);
        }
    }
    c.subflows[..start.len()]
        .iter()
        .map(|subflow| subflow.cwnd as f64)
        .collect()
}

#[test]
fn coupled_windows_add_up_to_one_reno_from_any_start() {
    let loss = 2e-6; // Reno: 1000 packets
    let reno = drift("reno", &[loss], &[100], 5000)[0];
    assert!((reno / 1000.0 - 1.0).abs() < 0.02, "{reno}");
    for name in ["lia", "olia", "balia"] {
        for start in [[100, 100], [900, 100], [2000, 2000]] {
            let total: f64 = drift(name, &[loss; 2], &start, 20_000).iter().sum();
            assert!(
                (total / reno - 1.0).abs() < 0.1,
                "{name} from {start:?}: {total} beside {reno}"
            );
        }
    }
}

#[test]
fn coupled_windows_leave_the_path_that_loses_more() {
    let share = |name| {
        let windows = drift(name, &[2e-6, 8e-6], &[500, 500], 20_000);
        windows[1] / (windows[0] + windows[1])
    };
    // Reno's windows go as 1/sqrt(p): a third. The coupled ones leave more, OLIA all but a probe.
    let [reno, lia, olia, balia] = ["reno", "lia", "olia", "balia"].map(share);
    assert!((reno - 1.0 / 3.0).abs() < 0.01, "{reno}");
    assert!(
        olia < balia && balia < reno && lia < reno,
        "lia {lia} olia {olia} balia {balia} reno {reno}"
    );
}

#[test]
fn dalia_slows_the_longer_round_trip() {
    let dalia = controller("dalia");
    let pair = [subflow(100, 20_000), subflow(100, 80_000)];
    let c = connection(dalia, &pair);
    let coupled = rules::lia_coupled(&rules::paths(&pair));
    assert_close(growth(dalia, &c, 0, &ack(1)), coupled);
    assert_close(growth(dalia, &c, 1, &ack(1)), coupled / 4.0);
}
