//! Subflows replaced because what waits on them holds up the stream.

use super::*;

/// Where the sender waits for the receive window all the time, until another subflow has been opened.
fn held_up(w: &mut World, seconds: f64) {
    let before = w.opened.len();
    for _ in 0..(seconds * 20.0) as u64 {
        w.held += if w.opened.len() == before { 50_000 } else { 0 };
        w.run(0.05);
    }
}

#[test]
fn a_parked_path_that_goes_on_holding_up_the_stream_gets_a_new_subflow_once() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    held_up(&mut w, 3.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
    let (parked, _, _) = w.changes[0];
    let &(at, path, backup) = w.opened.last().expect("one in place of the old");
    assert!(
        path == 0 && backup && at - parked <= 400_000,
        "{:?} {:?}",
        w.opened,
        w.changes
    );
    assert_eq!(w.subflows[0].state, State::Closed);
    let opened = w.opened.len();
    w.held += 100_000_000;
    w.run(3.0);
    assert_eq!(w.opened.len(), opened, "the new one never carried anything");
}

#[test]
fn where_the_stream_flows_a_parked_path_keeps_its_subflow() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    let opened = w.opened.len();
    w.run(5.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
    assert_eq!(w.opened.len(), opened);
}

/// A link came back without a route just when the other one had been parked. What comes there fills no hole.
#[test]
fn a_parked_path_is_left_alone_while_no_other_gets_anything_through() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    while w.normal() != [1] {
        w.run(0.05);
    }
    let opened = w.opened.len();
    for _ in 0..20 {
        w.now += 50_000;
        w.subflows[1].stats.unacked = 100;
        w.subflows[0].stats.delivered += 20 * PACKET;
        w.on(Event::Timer);
    }
    assert_eq!(w.opened.len(), opened);
}

/// The less a path could add, the shorter is it waited for.
#[test]
fn a_path_that_could_add_little_is_not_waited_for_while_the_stream_is_held_up() {
    let until_parked = |rate: u64| {
        let model = Model {
            rate,
            loss: 0.005,
            rtt_us: 100_000,
        };
        let mut w = World::started(Config::loss_aware(), &[CLEAN, model]);
        w.coupled = false;
        w.run(10.0);
        let onset = w.now;
        w.models[0].rate = 100;
        for _ in 0..200 {
            w.held += 25_000;
            w.run(0.05);
        }
        w.changes
            .first()
            .map_or(u64::MAX, |change| change.0 - onset)
    };
    let (little, much) = (until_parked(100), until_parked(400));
    assert!(little < 2_500_000, "{little} us");
    assert!(much > little, "{much} us, {little} us");
}
