//! The return of a path that was set to backup for its loss, where probes are answered.

use super::*;

fn answering(config: Config, models: &[Model]) -> World {
    let mut w = World::new(config, models);
    w.answers = true;
    w.on(Event::Established);
    w
}

#[test]
fn a_path_that_is_well_again_is_in_use_within_four_seconds() {
    let mut w = answering(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.run(20.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
    w.models[0].loss = 0.0;
    w.run(4.0);
    assert_eq!(w.normal(), [0, 1]);
    w.run(120.0);
    assert_eq!(w.changes.len(), 2, "and stays: {:?}", w.changes);
}

/// To tell 1 % from none would take twice as long.
#[test]
fn light_loss_is_not_waited_out() {
    let mut w = answering(Config::loss_aware(), &[lossy(0.01), CLEAN]);
    w.run(20.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
    w.models[0].loss = 0.0;
    w.run(9.0);
    assert_eq!(w.normal(), [0, 1]);
}

#[test]
fn a_path_that_goes_on_losing_is_not_restored_however_long_it_is_in_backup() {
    let mut w = answering(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.run(600.0);
    assert_eq!(w.normal(), [1]);
    assert_eq!(w.changes.len(), 1, "{:?}", w.changes);
}

/// Both times the probes were right.
#[test]
fn a_path_that_becomes_better_step_by_step_is_believed_each_time() {
    let mut w = answering(Config::loss_aware(), &[lossy(0.01), CLEAN]);
    w.run(10.0);
    assert_eq!(w.normal(), [1]);
    w.models[0].loss = 0.08; // which only the probes have seen
    w.run(10.0);
    for (loss, normal) in [(0.0, [0, 1].as_slice()), (0.02, &[1])] {
        w.models[0].loss = loss;
        w.run(5.0);
        assert_eq!(w.normal(), normal, "{:?}", w.changes);
    }
    w.models[0].loss = 0.0;
    w.run(12.0);
    assert_eq!(w.normal(), [0, 1], "{:?}", w.changes);
}

#[test]
fn an_outage_of_a_path_in_backup_is_no_reason_to_restore_it() {
    let mut w = answering(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.run(5.0);
    w.models[0].loss = 1.0;
    w.run(30.0);
    w.models[0].loss = 0.05;
    w.run(10.0);
    assert_eq!(w.changes.len(), 1, "{:?}", w.changes);
    w.models[0].loss = 0.0;
    w.run(5.0);
    assert_eq!(w.normal(), [0, 1]);
}

#[test]
fn probes_are_few_and_only_sent_where_somebody_waits() {
    let mut w = answering(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.run(20.0);
    let probes = w.paths[0].probes;
    let sent = probes.answered + probes.lost;
    assert!((400..=800).contains(&sent), "40 a second: {sent}");
    assert_eq!(w.paths[1].probes, Default::default(), "in use");
    (w.models[0].rate, w.models[1].rate) = (0, 0);
    w.run(20.0);
    let last = w.paths[0].probes;
    w.run(60.0);
    assert_eq!(w.paths[0].probes, last, "nothing is being sent");
}

#[test]
fn a_metered_path_is_not_probed() {
    let mut w = answering(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.run(5.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
    w.paths[0].rule = Rule::Metered;
    let last = w.paths[0].probes;
    w.run(20.0);
    assert_eq!(w.paths[0].probes, last);
}
