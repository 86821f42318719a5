//! Slow paths that hold up the stream.

use super::*;

const SLOW: Model = Model {
    rate: 100,
    loss: 0.0,
    rtt_us: 900_000,
};

/// A fast path that a slow one keeps waiting: it delivers `together` while both are normal, else `alone`.
fn obstructive(w: &mut World, seconds: f64, together: u64, alone: u64) {
    for _ in 0..(seconds * 20.0) as u64 {
        let both = w.normal().len() == 2;
        w.models[0].rate = if both { together } else { alone };
        w.held += if both { 25_000 } else { 0 };
        w.run(0.05);
    }
}

#[test]
fn a_path_that_the_receive_buffer_cannot_afford_is_parked() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.window_limit = 1_000_000; // 1,000 packets/s · 0.9 s are 1.3 MB
    w.run(3.0);
    obstructive(&mut w, 8.0, 650, 1_000);
    assert_eq!(w.normal(), [0], "{:?}", w.changes);
    assert_eq!(w.reasons(), [None, Some(Reason::Contribution)]);
    obstructive(&mut w, 55.0, 700, 1_000);
    assert_eq!(w.changes.len(), 1, "{:?}", w.changes);
}

#[test]
fn a_path_that_holds_up_the_stream_is_left_out_on_trial() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, Model { rate: 200, ..SLOW }]);
    w.run(3.0);
    obstructive(&mut w, 5.0, 650, 1_000); // 650 + 200 against 1,000 alone
    assert_eq!(w.normal(), [0, 1], "it is not far behind yet");
    obstructive(&mut w, 25.0, 650, 1_000);
    assert_eq!(w.normal(), [0]);
}

#[test]
fn a_path_that_is_worth_its_delay_is_acquitted_and_left_in_peace() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, Model { rate: 200, ..SLOW }]);
    w.run(3.0);
    obstructive(&mut w, 120.0, 500, 450); // the fast path has become slower by itself
    let out: u64 = w
        .changes
        .chunks(2)
        .map(|c| c.get(1).map_or(w.now, |back| back.0) - c[0].0)
        .sum();
    assert!((2..=6).contains(&w.changes.len()), "{:?}", w.changes);
    assert!(out < 12 * SECOND, "{out} us of 120 s");
}

/// The fast path's queue stands, so that it can carry no more than it does, whatever it carried before.
#[test]
fn a_fast_path_that_has_become_slow_is_not_held_against_the_other() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, Model { rate: 200, ..SLOW }]);
    w.run(20.0);
    w.models[0].rtt_us = 40_000;
    obstructive(&mut w, 60.0, 500, 500);
    assert_eq!(w.changes, []);
}

/// While it is not known yet how little the lossy path still carries, the clean one would look like the worse.
#[test]
fn a_clean_path_is_not_blamed_for_what_the_other_loses() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, Model { rate: 200, ..SLOW }]);
    w.coupled = false;
    w.run(20.0);
    w.models[0] = Model {
        rate: 100,
        loss: 0.05,
        ..CLEAN
    };
    for _ in 0..80 {
        w.held += 40_000;
        w.run(0.05);
    }
    assert_eq!(w.changes, []);
}

#[test]
fn a_slow_path_that_holds_up_nobody_is_kept() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.window_limit = 1_000_000;
    w.run(3.0);
    obstructive(&mut w, 60.0, 950, 1_000); // 950 + 100: a gain
    assert_eq!(w.changes, []);
}

/// What an application does not send, nothing holds up.
#[test]
fn an_application_with_little_to_send_blames_no_path() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.run(3.0);
    (w.models[0].rate, w.models[1].rate) = (100, 20);
    w.run(60.0);
    assert_eq!(w.changes, []);
}

/// It would be left for a minute, and the way back over a dead path is another.
#[test]
fn a_path_that_has_died_is_stalled_and_not_slow() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.run(3.0);
    w.models[1].loss = 1.0;
    obstructive(&mut w, 4.0, 500, 1_000);
    assert_eq!(w.reasons(), [None, Some(Reason::Stalled)]);
    assert_eq!(w.changes.len(), 1, "{:?}", w.changes);
}

/// A receiver does not know that something is on the way to it until it has waited for long enough.
#[test]
fn a_path_that_has_fallen_silent_is_not_judged_by_what_it_contributes() {
    let slow = Model {
        rtt_us: 60_000,
        ..SLOW
    };
    let mut w = World::started(Config::loss_aware(), &[CLEAN, slow]);
    w.run(3.0);
    w.models[1].rate = 0;
    obstructive(&mut w, 1.5, 500, 1_000);
    assert_eq!(w.changes, []);
    w.subflows[1].stats.sent += 1; // now it takes the path for dead
    obstructive(&mut w, 0.6, 500, 1_000);
    assert_eq!(w.reasons(), [None, Some(Reason::Stalled)]);
}

/// It was parked for what the fast path had carried in its best moment, and that is over.
#[test]
fn a_path_that_the_stream_misses_comes_back_and_is_left_in_peace() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, Model { rate: 200, ..SLOW }]);
    w.run(3.0);
    obstructive(&mut w, 30.0, 600, 300);
    assert_eq!(w.normal(), [0, 1], "{:?}", w.changes);
    let [(out, 1, true), (back, 1, false)] = w.changes[..] else {
        panic!("{:?}", w.changes);
    };
    assert!(back - out < 3 * SECOND, "{} us", back - out);
}

/// What it was ahead before stands against it.
#[test]
fn a_stream_that_did_well_may_have_a_hitch() {
    for (seconds, kept) in [(1.0, false), (10.0, true)] {
        let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
        w.window_limit = 1_000_000;
        w.run(seconds); // 1,000 + 100 against the 1,000 of the fast path alone
        obstructive(&mut w, 2.7, 300, 1_000);
        assert_eq!(w.normal() == [0, 1], kept, "{:?}", w.changes);
    }
}
