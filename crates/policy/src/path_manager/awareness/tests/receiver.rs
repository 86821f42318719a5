//! Downloads: this end sees what arrives, and neither the sender's losses, nor its window, nor its controller.

use super::*;

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
