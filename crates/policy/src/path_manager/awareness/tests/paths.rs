//! Stalls, rules, signals, and paths that come and go.

use super::*;

#[test]
fn a_stalled_path_is_left_and_taken_up_when_its_retransmission_gets_through() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.run(5.0);
    let dead = w.now;
    w.models[0].loss = 1.0;
    w.run(2.0);
    assert_eq!(w.reasons(), [Some(Reason::Stalled), None]);
    assert!(
        w.changes[0].0 - dead < 700_000,
        "{} us",
        w.changes[0].0 - dead
    );
    w.sent(0).packets += 1;
    w.sent(0).bytes += PACKET;
    w.models[0].loss = 0.0;
    w.run(0.1);
    assert_eq!(w.normal(), [0, 1]);
}

/// Each subflow that is closed makes the sender send everything again.
#[test]
fn subflows_over_a_dead_path_are_opened_with_exponential_backoff() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.run(5.0);
    w.models[0].loss = 1.0;
    w.run(60.0);
    assert_eq!(w.normal(), [1]);
    let times: Vec<u64> = w.opened[1..].iter().map(|o| o.0 / 1_000).collect();
    let after: Vec<u64> = times.iter().map(|t| t - times[0]).collect();
    assert_eq!(after, [0, 6_000, 18_000, 30_000, 42_000, 54_000]);
    assert!((7_000..8_000).contains(&times[0]), "{times:?}");
    let backups = w.opened.iter().filter(|o| o.2).count();
    assert_eq!(backups, 0, "a handshake alone says that it is well again");
}

#[test]
fn a_path_that_was_dead_is_in_use_four_seconds_after_its_return() {
    for half_seconds in 2..140 {
        let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
        w.run(5.0);
        w.models[0].loss = 1.0;
        w.run(f64::from(half_seconds) / 2.0);
        assert_eq!(w.normal(), [1]);
        w.models[0].loss = 0.0;
        // After short outages it waits for a SYN that is repeated each second, or for the first attempt.
        w.run(if half_seconds < 26 { 1.6 } else { 4.1 });
        assert!(w.normal().contains(&0), "{half_seconds} half seconds");
    }
}

#[test]
fn a_path_that_dies_soon_after_its_handshake_gets_a_new_subflow_as_any_other() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.run(0.5);
    w.models[1].loss = 1.0;
    w.run(2.7);
    assert_eq!(w.opened.len(), 2, "{:?}", w.opened);
}

/// As where nothing but small packets gets through.
#[test]
fn handshakes_without_data_do_not_end_the_backoff() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.run(5.0);
    let silent = |w: &mut World| {
        let dead = |s: &&mut Subflow| s.path == 0 && s.state == State::Established;
        for s in w.subflows.iter_mut().filter(dead) {
            let counted = s.counters.sent.get_or_insert_default();
            (counted.packets, counted.in_flight) = (counted.packets + 1, 1);
            s.counters.srtt_us = Some(10_000);
            s.counters.min_rtt_us = Some(10_000);
        }
    };
    w.models[0].rate = 0;
    for _ in 0..1_200 {
        silent(&mut w);
        w.run(0.05);
    }
    let opened = w.opened.len() - 1;
    assert!((5..8).contains(&opened), "{:?}", w.opened);
    // Data end it: the next outage begins with short times.
    w.models[0].rate = 1_000;
    w.run(20.0);
    assert_eq!(w.reasons(), [None, None]);
    let before = w.opened.len();
    w.models[0].loss = 1.0;
    w.run(10.0);
    assert_eq!(w.opened.len() - before, 2, "{:?}", w.opened);
}

#[test]
fn a_quiet_subflow_is_not_stalled() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, Model { rate: 0, ..CLEAN }]);
    w.run(60.0);
    assert_eq!(w.changes, []);
}

#[test]
fn a_metered_path_carries_data_only_while_no_other_does() {
    let mut w = World::new(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.paths[1].rule = Rule::Metered;
    w.on(Event::Established);
    assert_eq!(w.opened, [(0, 1, true)]);
    w.run(5.0);
    assert_eq!(w.reasons(), [None, Some(Reason::Metered)]);
    w.paths[0].up = false;
    w.on(Event::PathDown(0));
    assert_eq!(w.normal(), [1]);
    w.paths[0].up = true;
    w.on(Event::PathUp(0));
    assert_eq!(w.normal(), [0]);
}

#[test]
fn a_metered_path_stands_in_for_one_that_has_died_until_it_is_back() {
    let mut w = World::new(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.paths[1].rule = Rule::Metered;
    w.on(Event::Established);
    w.run(5.0);
    let dead = w.now;
    w.models[0].loss = 1.0;
    w.run(1.0);
    assert_eq!(w.reasons(), [Some(Reason::Stalled), None]);
    let (at, _, _) = w.changes[0];
    assert!(at - dead < 700_000, "{} us", at - dead);
    assert_eq!(w.changes, [(at, 1, false), (at, 0, true)], "in that order");
    w.run(60.0);
    assert_eq!(w.normal(), [1]);
    w.models[0].loss = 0.0;
    w.run(4.1);
    assert_eq!(w.reasons(), [None, Some(Reason::Metered)]);
    assert_eq!(w.normal(), [0]);
}

#[test]
fn a_path_that_loses_stands_in_for_one_that_has_died() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, lossy(0.05)]);
    w.run(5.0);
    assert_eq!(w.reasons(), [None, Some(Reason::Loss)]);
    w.models[0].loss = 1.0;
    w.run(1.0);
    assert_eq!(w.reasons(), [Some(Reason::Stalled), None]);
}

#[test]
fn a_path_that_has_died_stays_where_none_can_stand_in() {
    let mut w = World::new(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.paths[1].rule = Rule::Metered;
    w.models[1].loss = 1.0; // its handshake never gets through
    w.on(Event::Established);
    w.run(5.0);
    w.models[0].loss = 1.0;
    w.run(20.0);
    assert_eq!((w.normal(), &w.changes[..]), (vec![0], &[][..]));
}

#[test]
fn a_metered_path_rests_while_the_other_merely_loses() {
    let mut w = World::new(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.paths[1].rule = Rule::Metered;
    w.on(Event::Established);
    w.run(30.0);
    assert_eq!(w.normal(), [0]);
}

#[test]
fn an_untrusted_path_is_never_opened() {
    let mut w = World::new(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.paths[1].rule = Rule::Untrusted;
    w.on(Event::Established);
    w.on(Event::PathUp(1));
    w.run(10.0);
    assert_eq!(w.opened, []);
}

#[test]
fn signal_has_hysteresis() {
    let mut w = World::started(Config::signal_aware(), &[CLEAN, CLEAN]);
    let at = |dbm: i32, w: &mut World| {
        w.paths[0].signal_dbm = Some(dbm);
        w.run(3.0);
        w.normal().len()
    };
    assert_eq!(
        [-60, -74, -76, -72, -71, -70, -74].map(|dbm| at(dbm, &mut w)),
        [2, 2, 1, 1, 1, 2, 2]
    );
    w.models[0].loss = 0.2; // this policy does not judge loss
    w.run(10.0);
    assert_eq!(w.normal().len(), 2);
}

#[test]
fn a_subflow_that_fails_is_opened_again_with_growing_patience() {
    let mut w = World::new(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.refuse = true;
    w.on(Event::Established);
    w.run(40.0);
    let times: Vec<u64> = w
        .opened
        .iter()
        .map(|o| (o.0 + SECOND / 2) / SECOND)
        .collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31]);
    w.refuse = false;
    w.run(40.0);
    assert_eq!(w.normal(), [0, 1]);
}

#[test]
fn a_handshake_alone_does_not_end_the_backoff_of_reopening() {
    let quiet = Model { rate: 0, ..CLEAN };
    let mut w = World::started(Config::loss_aware(), &[CLEAN, quiet]);
    let reset = |w: &mut World| {
        let (slot, since) = (w.subflows.len() - 1, w.now);
        w.subflows[slot].state = State::Closed;
        w.on(Event::SubflowClosed {
            slot,
            path: 1,
            error: true,
        });
        while w.subflows.len() == slot + 1 {
            w.run(0.05);
        }
        (w.now - since + SECOND / 2) / SECOND
    };
    let times: Vec<u64> = (0..5).map(|_| reset(&mut w)).collect();
    assert_eq!(times, [1, 2, 4, 8, 16]);
    w.models[1].rate = 1_000;
    w.run(1.0);
    assert_eq!(reset(&mut w), 1, "data got through");
}

#[test]
fn a_path_that_goes_closes_its_subflow_and_returns_with_a_new_one() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.run(1.0);
    w.paths[0].up = false;
    w.on(Event::PathDown(0));
    assert_eq!(w.normal(), [1]);
    w.paths[0].up = true;
    w.on(Event::PathUp(0));
    assert_eq!(w.normal(), [1, 0]);
}
