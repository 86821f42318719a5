//! Slow paths that delay in-order delivery.

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
        w.run(0.05);
    }
}

#[test]
fn a_path_that_the_receive_buffer_cannot_afford_is_set_to_backup() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.run(3.0);
    obstructive(&mut w, 8.0, 650, 1_000);
    assert_eq!(w.normal(), [0], "{:?}", w.changes);
    assert_eq!(w.reasons(), [None, Some(Reason::SmallShare)]);
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
fn a_path_that_is_worth_its_delay_is_restored_and_not_judged_for_a_while() {
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
        w.run(0.05);
    }
    assert_eq!(w.changes, []);
}

#[test]
fn a_slow_path_that_holds_up_nobody_is_kept() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
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
    w.sent(1).packets += 1; // now it takes the path for dead
    obstructive(&mut w, 0.6, 500, 1_000);
    assert_eq!(w.reasons(), [None, Some(Reason::Stalled)]);
}

/// It was set to backup for what the fast path had carried in its best moment, and that is over.
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

/// The queue of a slow path takes seconds to drain, and the fast one waits for what is in it.
#[test]
fn a_path_is_not_missed_while_what_it_was_given_still_comes() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.run(3.0);
    while w.normal().len() == 2 {
        obstructive(&mut w, 0.05, 650, 1_000);
    }
    for _ in 0..40 {
        w.sent(1).bytes += 5 * PACKET;
        w.bytes += 5 * PACKET;
        w.models[0].rate = 50;
        w.run(0.05);
    }
    obstructive(&mut w, 5.0, 650, 1_000);
    assert_eq!(w.changes.len(), 1, "{:?}", w.changes);
}

/// A host that downloads now and then would try it anew each time.
#[test]
fn while_nothing_is_sent_a_backup_state_does_not_end() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.run(3.0);
    obstructive(&mut w, 8.0, 650, 1_000);
    w.sent(1).in_flight = 0;
    let alone = w.models[0];
    for (idle, normal) in [(300.0, [0].as_slice()), (400.0, &[0, 1])] {
        w.models[0].rate = 0;
        w.run(idle);
        w.models[0] = alone;
        w.run(1.0);
        assert_eq!(w.normal(), normal, "after {idle} s more: {:?}", w.changes);
    }
}

/// What it was ahead before stands against it.
#[test]
fn a_connection_that_did_well_may_stall_for_a_moment() {
    for (seconds, kept) in [(1.0, false), (10.0, true)] {
        let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
        w.run(seconds); // 1,000 + 100 against the 1,000 of the fast path alone
        obstructive(&mut w, 2.4, 300, 1_000);
        assert_eq!(w.normal() == [0, 1], kept, "{:?}", w.changes);
    }
}

/// It is hardly waited for, and after a backup state its window takes seconds to grow.
#[test]
fn a_path_that_carries_a_fifth_is_blamed_only_for_a_long_round_trip() {
    for (rtt_us, kept) in [(10_000, true), (50_000, false)] {
        let other = Model {
            rtt_us: 20_000,
            ..CLEAN
        };
        let fifth = Model {
            rate: 200,
            rtt_us,
            ..CLEAN
        };
        let mut w = World::started(Config::loss_aware(), &[other, fifth]);
        w.run(3.0);
        obstructive(&mut w, 20.0, 600, 1_000);
        assert_eq!(w.normal() == [0, 1], kept, "{:?}", w.changes);
    }
}

/// A path that carries a twentieth, beside a fast one that loses half of its rate by it.
fn little(w: &mut World, seconds: f64) {
    for _ in 0..(seconds * 20.0) as u64 {
        w.models[0].rate = if w.normal().len() == 2 { 1_000 } else { 2_000 };
        w.run(0.05);
    }
}

const FAST: Model = Model {
    rate: 2_000,
    ..CLEAN
};
const LITTLE: Model = Model {
    rate: 100,
    rtt_us: 50_000,
    ..CLEAN
};

/// Nothing waits for it, and it loses nothing: the other one merely carries less.
#[test]
fn a_path_that_carries_little_is_left_out_as_soon_as_the_stream_falls_behind() {
    let mut w = World::started(Config::loss_aware(), &[FAST, LITTLE]);
    w.coupled = false;
    w.run(2.5);
    assert_eq!(w.changes, []);
    little(&mut w, 3.0);
    assert_eq!(w.reasons(), [None, Some(Reason::SmallShare)]);
    little(&mut w, 50.0);
    assert_eq!(w.changes.len(), 1, "{:?}", w.changes);
}

#[test]
fn a_path_that_carries_little_and_loses_is_probed() {
    let mut w = World::started(
        Config::loss_aware(),
        &[
            FAST,
            Model {
                loss: 0.005,
                ..LITTLE
            },
        ],
    );
    w.coupled = false;
    w.run(60.0);
    little(&mut w, 5.0);
    assert_eq!(w.reasons(), [None, Some(Reason::Loss)]);
}

/// It would be left for a minute or more, whatever it could carry by then.
#[test]
fn a_path_that_carries_little_and_has_just_come_back_is_probed() {
    for bad in [0.05, 1.0] {
        let mut w = World::started(Config::loss_aware(), &[FAST, LITTLE]);
        w.coupled = false;
        w.answers = true;
        w.run(10.0);
        w.models[1].loss = bad;
        while w.normal() != [0] {
            little(&mut w, 0.05);
        }
        w.run(1.0);
        w.models[1].loss = 0.0;
        while w.normal() != [0, 1] {
            w.run(0.05);
        }
        little(&mut w, 5.0);
        assert_eq!(w.reasons(), [None, Some(Reason::Loss)], "{bad}");
    }
}

/// The first path's packets are on the way, and neither delivered nor known to be lost; the second one's arrive, and wait.
fn first_falls_silent(w: &mut World, seconds: f64) {
    for _ in 0..(seconds * 20.0) as u64 {
        w.now += 50_000;
        w.sent(0).in_flight = 100;
        let packets = w.models[1].rate / 20;
        let counted = w.sent(1);
        counted.packets += packets;
        counted.bytes += packets * PACKET;
        w.on(Event::Timer);
        assert_eq!(w.reasons()[1], None, "{:?}", w.changes);
    }
}

/// Whatever it once carried, it holds up the stream now, and the slow one with it.
#[test]
fn a_slow_path_is_not_blamed_for_one_that_is_silent() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.run(1.0);
    first_falls_silent(&mut w, 3.0);
}

/// Nor a path that carries little: it would be the one that is left.
#[test]
fn a_path_that_carries_little_is_kept_beside_one_that_is_silent() {
    let mut w = World::started(Config::loss_aware(), &[FAST, LITTLE]);
    w.run(2.5);
    first_falls_silent(&mut w, 3.0);
}
