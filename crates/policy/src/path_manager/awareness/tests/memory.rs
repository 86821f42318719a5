//! What one connection has learned, at the start of the next.

use super::*;

/// The next connection over the same paths, which starts over the first of them.
fn next(before: &World, rest: u64) -> World {
    let mut w = World::new(before.manager.config, &before.models);
    w.now = before.now + rest;
    w.answers = before.answers;
    w.coupled = before.coupled;
    w.manager
        .import_state(&before.manager.export_state().unwrap(), w.now);
    w.on(Event::Established);
    w
}

/// One that has found its first path to lose.
fn taught(answers: bool) -> World {
    let mut w = World::new(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.answers = answers;
    w.on(Event::Established);
    w.run(5.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
    w
}

fn sent(w: &World, path: usize) -> u64 {
    let on = w.subflows.iter().filter(|s| s.path == path);
    on.map(|s| s.counters.packets()).sum()
}

#[test]
fn a_path_that_was_found_to_lose_carries_nothing_from_the_start() {
    let mut w = next(&taught(true), 2 * SECOND);
    assert_eq!(w.changes, [(w.now, 0, true)], "once the other one is there");
    w.run(60.0);
    assert_eq!((w.normal(), sent(&w, 0)), (vec![1], 0));
    assert_eq!(w.changes.len(), 1);
}

#[test]
fn a_subflow_on_it_is_opened_as_backup() {
    let mut before = World::started(Config::loss_aware(), &[CLEAN, lossy(0.05)]);
    before.run(5.0);
    let mut w = next(&before, SECOND);
    assert_eq!(w.opened, [(w.now, 1, true)]);
    w.run(4.0);
    assert_eq!((w.normal(), sent(&w, 1)), (vec![0], 0));
}

/// Its first subflow has to carry the stream until there is another.
#[test]
fn the_only_subflow_carries_data_though_its_path_loses() {
    let before = taught(true);
    let mut w = World::new(Config::loss_aware(), &before.models);
    (w.now, w.refuse) = (before.now, true);
    w.manager
        .import_state(&before.manager.export_state().unwrap(), w.now);
    w.on(Event::Established);
    w.run(0.5);
    assert_eq!((w.normal(), &w.changes[..]), (vec![0], &[][..]));
    w.refuse = false;
    w.run(2.0);
    assert_eq!(w.normal(), [1]);
}

#[test]
fn it_comes_back_once_its_probes_are_answered() {
    let mut w = next(&taught(true), 2 * SECOND);
    w.models[0].loss = 0.0;
    w.run(4.0);
    assert_eq!(w.normal(), [0, 1]);
    w.run(60.0);
    assert_eq!(w.changes.len(), 2, "and stays: {:?}", w.changes);
}

/// The end of this connection may be another one, and give no answers: it is not held to those of the one before.
#[test]
fn where_nobody_answers_it_is_tried_after_one_more_backup_time() {
    let mut w = next(&taught(true), 2 * SECOND);
    (w.answers, w.models[0].loss) = (false, 0.0);
    w.run(9.5);
    assert_eq!(w.normal(), [1]);
    w.run(1.0);
    assert_eq!(w.normal(), [0, 1]);
}

/// Nobody could use the path in between, nor find out anything.
#[test]
fn no_time_passes_between_connections_until_all_is_forgotten() {
    let before = taught(false); // in backup for less than 5 of 10 s
    for (minutes, kept) in [(1, true), (9, true), (11, false)] {
        let mut w = next(&before, minutes * 60 * SECOND);
        w.models[0].loss = 0.0;
        w.run(4.0);
        assert_eq!(w.normal() == [1], kept, "{minutes} minutes");
        w.run(6.0);
        assert_eq!(w.normal(), [0, 1], "{minutes} minutes");
    }
}

/// The third hears of it though the second was too short to learn anything.
#[test]
fn it_is_handed_down_through_a_short_connection() {
    let mut short = next(&taught(true), SECOND);
    short.run(0.2);
    let mut w = next(&short, SECOND);
    w.run(3.0);
    assert_eq!((w.normal(), sent(&w, 0)), (vec![1], 0));
}

/// What it does not send, it cannot miss.
#[test]
fn an_application_with_little_to_send_does_not_miss_it() {
    let mut w = next(&taught(true), 2 * SECOND);
    w.models[1].rate = 100;
    w.run(30.0);
    assert_eq!(w.normal(), [1], "{:?}", w.changes);
}

#[test]
fn a_path_that_has_gone_and_come_back_is_another_one() {
    let mut before = taught(true);
    before.paths[0].up = false;
    before.on(Event::PathDown(0));
    before.run(1.0);
    assert_eq!(next(&before, SECOND).changes, []);
    before.paths[0].up = true;
    before.on(Event::PathUp(0));
    assert_eq!(next(&before, SECOND).changes, []);
}

/// The peer's address is heard of after the connection has begun.
#[test]
fn a_path_that_is_learnt_late_is_no_other_one() {
    let mut before = World::started(Config::loss_aware(), &[CLEAN, lossy(0.05)]);
    before.run(5.0);
    let mut w = World::new(Config::loss_aware(), &before.models);
    w.now = before.now;
    w.manager
        .import_state(&before.manager.export_state().unwrap(), w.now);
    w.paths[1].up = false;
    w.on(Event::Established);
    w.paths[1].up = true;
    w.on(Event::PathUp(1));
    assert_eq!(w.opened, [(w.now, 1, true)]);
}

/// A handshake tells whether something gets through.
#[test]
fn a_stall_is_not_handed_down() {
    let mut before = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    before.run(5.0);
    before.models[1].loss = 1.0;
    before.run(1.5);
    assert_eq!(before.reasons(), [None, Some(Reason::Stalled)]);
    before.models[1].loss = 0.0;
    let mut w = next(&before, SECOND);
    assert_eq!(w.opened, [(w.now, 1, false)]);
    w.run(5.0);
    assert_eq!((w.normal(), &w.changes[..]), (vec![0, 1], &[][..]));
}

#[test]
fn a_weak_signal_is_handed_down() {
    let mut before = World::started(Config::signal_aware(), &[CLEAN, CLEAN]);
    before.paths[1].signal_dbm = Some(-80);
    before.run(1.0);
    let mut w = World::new(Config::signal_aware(), &before.models);
    (w.now, w.paths) = (before.now, before.paths.clone());
    w.manager
        .import_state(&before.manager.export_state().unwrap(), w.now);
    w.on(Event::Established);
    assert_eq!(w.opened, [(w.now, 1, true)]);
    w.paths[1].signal_dbm = Some(-60);
    w.run(2.0);
    assert_eq!(w.normal(), [0, 1]);
}

#[test]
fn of_several_the_latest_counts() {
    let old = taught(true);
    let mut late = next(&old, 20 * SECOND);
    late.models[0].loss = 0.0;
    late.run(5.0);
    assert_eq!(late.normal(), [0, 1]);
    let export = |w: &World| w.manager.export_state().unwrap();
    for both in [[export(&old), export(&late)], [export(&late), export(&old)]] {
        let [mut known, others] = both;
        let each = known.iter_mut().zip(others);
        each.for_each(|(known, other)| known.join(other));
        let mut w = World::new(Config::loss_aware(), &late.models);
        w.now = late.now;
        w.manager.import_state(&known, w.now);
        w.on(Event::Established);
        assert_eq!(w.changes, []);
    }
}
