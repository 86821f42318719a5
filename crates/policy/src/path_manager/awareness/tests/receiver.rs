//! Downloads: this end sees what arrives, and neither the sender's losses, nor its window, nor its controller.

use super::*;
use crate::path_manager::Sent;

fn receiving(models: &[Model]) -> World {
    let mut w = World::new(Config::loss_aware(), models);
    w.receives = true;
    w.on(Event::Established);
    w
}

#[test]
fn holes_that_keep_coming_set_a_path_to_backup() {
    let mut w = receiving(&[
        Model {
            rate: 100,
            ..lossy(0.05)
        },
        CLEAN,
    ]);
    w.run(4.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
}

#[test]
fn data_are_in_flight_on_all_paths_for_a_round_trip_after_an_arrival() {
    let mut w = receiving(&[CLEAN, CLEAN]);
    w.run(1.0);
    let in_flight = |w: &mut World| {
        let seen = w.seen();
        let mut manager = w.manager.clone();
        manager.in_flight(&w.view(&seen))
    };
    assert_eq!(in_flight(&mut w), [true, true]);
    w.models[0].rate = 0;
    w.run(1.0);
    assert_eq!(in_flight(&mut w), [true, true], "the first may have died");
    w.models[1].rate = 0;
    w.run(0.1);
    assert_eq!(in_flight(&mut w), [false, false], "nothing to send");
}

#[test]
fn dead_path_detection_counts_as_a_stall() {
    let mut w = receiving(&[CLEAN, CLEAN]);
    w.run(2.0);
    (w.models[0].rate, w.silent) = (0, Some(0));
    w.run(1.0);
    assert_eq!(w.reasons(), [Some(Reason::Stalled), None]);
}

/// The slow path fills the receive window, so that the fast one, which detection finds silent, may send no more. Each packet
/// of the slow path releases some that the fast one brought before. Of a dead path something would be lacking.
#[test]
fn a_path_that_waits_for_the_receive_window_is_not_dead() {
    for (released, dead) in [(0, true), (PACKET, true), (10 * PACKET, false)] {
        let mut w = receiving(&[CLEAN, Model { rate: 20, ..CLEAN }]);
        w.run(2.0);
        w.silent = Some(0);
        for _ in 0..20 {
            w.now += 50_000;
            let slow = w.sent(1);
            slow.packets += 1;
            slow.bytes += PACKET;
            w.bytes += released;
            w.on(Event::Timer);
        }
        let stalled = w.reasons()[0] == Some(Reason::Stalled);
        assert_eq!(stalled, dead, "{released} bytes a packet");
    }
}

/// Nobody knows what the others have brought since: their counters began again.
#[test]
fn a_path_that_is_silent_beside_a_new_subflow_is_dead() {
    let mut w = receiving(&[CLEAN, CLEAN]);
    w.run(2.0);
    *w.sent(1) = Sent::default();
    w.silent = Some(0);
    for _ in 0..20 {
        w.now += 50_000;
        let other = w.sent(1);
        other.packets += 1;
        other.bytes += PACKET;
        w.bytes += PACKET;
        w.on(Event::Timer);
    }
    assert_eq!(w.reasons()[0], Some(Reason::Stalled));
}

/// What it carries at first says nothing of its paths.
#[test]
fn a_connection_that_has_just_begun_misses_no_path() {
    for (began_us, restored) in [(None, true), (Some(6 * SECOND), false)] {
        let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
        w.run(6.0);
        assert_eq!(w.normal(), [1]);
        (w.models[1].rate, w.began_us) = (100, began_us.map(|at| at + 1));
        w.run(2.9);
        assert_eq!(w.normal() == [0, 1], restored, "{began_us:?}");
    }
}
