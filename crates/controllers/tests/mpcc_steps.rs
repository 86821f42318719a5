//! What MPCC decides at the end of one interval, by hand.

mod common;

use common::fluid::{Path, World};
use common::{connection, controller, subflow};
use mp_controllers::{Connection, Subflow};

extern "C" {
    static mp_test_mpcc_words: [u64; 17];
}

/// The words of MPCC's state that a step depends on, by the names of mpcc.h.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    phase: u64,
    rate: u64,
    last_rate: u64,
    last_utility: f64,
    direction: u64,
    amplifier: u64,
    swing_buffer: u64,
    bound: u64,
}

const PROBE: u64 = 1;
const MOVE: u64 = 2;
const UP: u64 = 1;
const DOWN: u64 = 2;

fn word(k: usize) -> usize {
    // SAFETY: a constant of native.c with as many entries.
    unsafe { mp_test_mpcc_words[k] as usize }
}

/// Lets one interval pass at `before.rate` on a wide path that loses `loss`, and returns what was decided.
fn decide(name: &str, before: Step, loss: f64) -> Step {
    let mut world = World::new(name, vec![Path::new(40, 1e5, 40.0, loss)]);
    let state = &mut world.connection.subflows[0].state;
    let utility = (before.last_utility * f64::from(1 << 20)) as i64 as u64;
    let words = [
        before.phase,
        before.rate,
        before.last_rate,
        utility,
        before.direction,
        before.amplifier,
        before.swing_buffer,
        before.bound,
    ];
    for (k, value) in words.into_iter().enumerate() {
        state[word(k)] = value;
    }
    world.connection.subflows[0].pacing_rate = before.rate;
    while world.connection.subflows[0].state[word(1)] == before.rate {
        world.run(1);
        assert!(world.now_ms < 2000, "no decision");
    }
    let state = &world.connection.subflows[0].state;
    let at = |k| state[word(k)];
    Step {
        phase: at(0),
        rate: at(1),
        last_rate: at(2),
        last_utility: at(3) as i64 as f64 / f64::from(1 << 20),
        direction: at(4),
        amplifier: at(5),
        swing_buffer: at(6),
        bound: at(7),
    }
}

/// From 96 to 100 Mbit/s without loss: the slope is (100^0.9 - 96^0.9)/4.
fn rising() -> Step {
    Step {
        phase: MOVE,
        rate: 12_500_000,
        last_rate: 12_000_000,
        last_utility: 96f64.powf(0.9),
        direction: UP,
        amplifier: 0,
        swing_buffer: 0,
        bound: 0,
    }
}

fn slope() -> f64 {
    (100f64.powf(0.9) - 96f64.powf(0.9)) / 4.0
}

#[test]
fn a_step_is_the_slope_times_one_plus_the_amplifier() {
    let first = decide("mpcc-loss", rising(), 0.0);
    assert_eq!(
        (
            first.phase,
            first.direction,
            first.amplifier,
            first.last_rate
        ),
        (MOVE, UP, 2, 12_500_000)
    );
    let expected = 12_500_000.0 + 125_000.0 * slope() * 3.0;
    assert!(
        (first.rate as f64 - expected).abs() < 50.0,
        "{} {expected}",
        first.rate
    );
    let later = decide(
        "mpcc-loss",
        Step {
            amplifier: 4,
            ..rising()
        },
        0.0,
    );
    let expected = 12_500_000.0 + 125_000.0 * slope() * 7.0;
    assert!(
        (later.rate as f64 - expected).abs() < 100.0,
        "{} {expected}",
        later.rate
    );
}

#[test]
fn a_swing_buffer_holds_the_amplifier_back() {
    let step = decide(
        "mpcc-loss",
        Step {
            swing_buffer: 2,
            ..rising()
        },
        0.0,
    );
    assert_eq!((step.amplifier, step.swing_buffer), (0, 1));
    let expected = 12_500_000.0 + 125_000.0 * slope();
    assert!(
        (step.rate as f64 - expected).abs() < 50.0,
        "{} {expected}",
        step.rate
    );
}

#[test]
fn a_turn_starts_small_again() {
    // downwards: 8 % of loss at 96 Mbit/s cost more utility than they do at 92
    let utility = |mbps: f64| mbps.powf(0.9) - 11.35 * 0.08 * mbps;
    let before = Step {
        rate: 11_500_000,
        last_utility: utility(96.0),
        direction: UP,
        amplifier: 6,
        bound: 3,
        ..rising()
    };
    let step = decide("mpcc-loss", before, 0.08);
    assert_eq!(
        (
            step.direction,
            step.amplifier,
            step.swing_buffer,
            step.bound
        ),
        (DOWN, 0, 1, 0)
    );
    // 125,000 times a slope of 0.33 is less than the least step
    assert_eq!(step.rate, 11_500_000 - 62_500);
}

#[test]
fn a_step_is_cut_to_a_part_of_the_rate_that_grows() {
    let cut = decide(
        "mpcc-loss",
        Step {
            amplifier: 98,
            ..rising()
        },
        0.0,
    );
    assert_eq!((cut.rate, cut.bound), (12_500_000 + 625_000, 1), "5 %");
    let again = decide(
        "mpcc-loss",
        Step {
            amplifier: 98,
            bound: 1,
            ..rising()
        },
        0.0,
    );
    assert_eq!(
        (again.rate, again.bound),
        (12_500_000 + 1_250_000, 2),
        "10 %"
    );
    let small = decide(
        "mpcc-loss",
        Step {
            bound: 2,
            ..rising()
        },
        0.0,
    );
    assert_eq!(small.bound, 1, "and shrinks again");
    let slow = decide(
        "mpcc-loss",
        Step {
            rate: 40_000,
            last_rate: 30_000,
            last_utility: 0.0,
            ..rising()
        },
        0.0,
    );
    assert_eq!(
        slow.rate, 60_000,
        "never more than half of the rate, though the least step is more"
    );
}

#[test]
fn a_drop_in_utility_leads_back_to_probing() {
    let step = decide(
        "mpcc-loss",
        Step {
            last_utility: 64.0,
            ..rising()
        },
        0.0,
    );
    assert_eq!((step.phase, step.rate), (PROBE, 12_000_000));
}

const OTHERS: usize = 8;
const PUBLISHED: usize = 9;
const INTERVAL: usize = 10;
const ORDER: usize = 11;
const SENDING: usize = 12;
const RECEIVING: usize = 13;
const SENT_FROM: usize = 14;
const UTILITY: usize = 15;
const SINCE: usize = 16;

/// A probe at 100 Mbit/s whose last interval is acknowledged next, lower rates first, with the utilities of the others.
fn probing(utilities: [f64; 3]) -> Connection {
    let mpcc = controller("mpcc-loss");
    let mut c = connection(
        mpcc,
        &[Subflow {
            mss: 1250,
            rtt_us: 40_000,
            ..subflow(400, 40_000)
        }],
    );
    let subflow = &mut c.subflows[0];
    let mut set = |k, value| subflow.state[word(k)] = value;
    set(0, PROBE);
    set(1, 12_500_000);
    set(INTERVAL, 60_000);
    set(ORDER, 0);
    set(SENDING, 4);
    set(RECEIVING, 3);
    set(SINCE, 1_000_000);
    for (k, utility) in utilities.into_iter().enumerate() {
        subflow.state[word(UTILITY) + k] = (utility * f64::from(1 << 20)) as i64 as u64;
    }
    subflow.state[word(SENT_FROM) + 4] = 1_020_000;
    subflow.delivered = 630; // 13,125,000 bytes/s for 60 ms
    mpcc.on_interval(&mut c, 0, 1_060_000);
    c
}

#[test]
fn a_probe_needs_both_pairs() {
    let at = |c: &Connection, k| c.subflows[0].state[word(k)];
    // the last interval, at 105 Mbit/s, has a utility of 65.9
    let agreed = probing([50.0, 60.0, 56.0]);
    assert_eq!((at(&agreed, 0), at(&agreed, 4)), (MOVE, UP));
    // the smaller gain of the two, 65.93 - 56 over 10 Mbit/s, is what counts
    let slope = (105f64.powf(0.9) - 56.0) / 10.0;
    let expected = 12_500_000.0 + 125_000.0 * slope;
    assert!(
        (at(&agreed, 1) as f64 - expected).abs() < 50.0,
        "{} {expected}",
        at(&agreed, 1)
    );
    let disagreed = probing([50.0, 60.0, 70.0]);
    assert_eq!((at(&disagreed, 0), at(&disagreed, 1)), (PROBE, 12_500_000));
}

#[test]
fn siblings_count_as_they_were_when_the_probe_began() {
    let mut world = World::new(
        "mpcc-loss",
        vec![Path::new(40, 1e5, 40.0, 0.0), Path::new(40, 1e5, 40.0, 0.0)],
    );
    for (k, value) in [(0, MOVE), (1, 12_500_000), (2, 12_000_000), (4, UP)] {
        world.connection.subflows[0].state[word(k)] = value;
    }
    world.connection.subflows[0].state[word(INTERVAL)] = 1;
    world.connection.subflows[1].state[word(PUBLISHED)] = 5_000_000;
    let others = |world: &World| world.connection.subflows[0].state[word(OTHERS)];
    while world.connection.subflows[0].state[word(1)] == 12_500_000 {
        world.run(1);
    }
    assert_eq!(
        (world.connection.subflows[0].state[word(0)], others(&world)),
        (MOVE, 0)
    );
    // utility drops: probing again, and looking again
    world.connection.subflows[0].state[word(3)] = i64::MAX as u64;
    while world.connection.subflows[0].state[word(0)] == MOVE {
        world.run(1);
    }
    assert!(others(&world) > 0);
}
