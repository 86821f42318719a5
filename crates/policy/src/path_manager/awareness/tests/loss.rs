//! Parking for loss, and the return.

use super::*;

#[test]
fn a_lossy_path_is_set_to_backup_and_the_clean_one_stays() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    assert_eq!(w.normal(), [0, 1]);
    w.run(5.0);
    assert_eq!(w.normal(), [1]);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
}

#[test]
fn heavy_loss_is_noticed_within_three_seconds() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.0), CLEAN]);
    w.run(20.0);
    w.models[0].loss = 0.3;
    let onset = w.now;
    w.run(4.0);
    let (at, slot, backup) = w.changes[0];
    assert!(
        slot == 0 && backup && at - onset < 3_000_000,
        "{} us",
        at - onset
    );
}

#[test]
fn little_loss_is_left_alone() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.001), CLEAN]);
    w.run(60.0);
    assert_eq!(w.changes, []);
}

#[test]
fn the_most_lossy_paths_go_and_one_always_stays() {
    let most = Model {
        rate: 900,
        ..lossy(0.03)
    };
    let clean = Model {
        rate: 4_000,
        ..CLEAN
    };
    let mut w = World::started(
        Config::loss_aware(),
        &[clean, most, lossy(0.08), lossy(0.2)],
    );
    w.run(12.0);
    let in_backup: Vec<usize> = w.changes.iter().map(|c| c.1).collect();
    assert_eq!(in_backup, [3, 2, 1]);
    w.models[0].loss = 0.3;
    w.run(300.0);
    assert!(!w.normal().is_empty());
}

#[test]
fn a_lossy_path_that_carries_most_is_kept() {
    let mut w = World::started(
        Config::loss_aware(),
        &[
            Model {
                loss: 0.02,
                ..CLEAN
            },
            Model { rate: 200, ..CLEAN },
        ],
    );
    w.run(30.0);
    assert_eq!(w.changes, []);
}

#[test]
fn a_path_that_recovers_comes_back_and_stays() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.run(5.0);
    w.models[0].loss = 0.0;
    w.run(12.0);
    assert_eq!(w.normal(), [0, 1]);
    w.run(120.0);
    assert_eq!(w.changes.len(), 2);
}

#[test]
fn backup_times_grow_longer_while_the_path_stays_bad() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.run(600.0);
    let times = w.changes.windows(2).map(|c| (c[0].2, c[1].0 - c[0].0));
    let (in_backup, used): (Vec<_>, Vec<_>) = times.partition(|&(backup, _)| backup);
    let in_backup: Vec<u64> = in_backup.iter().map(|p| p.1).collect();
    assert_eq!(
        in_backup[..4],
        [10 * SECOND, 20 * SECOND, 40 * SECOND, 80 * SECOND]
    );
    // What the returns cost: the share of time that the lossy path was used.
    let used: u64 = used.iter().map(|u| u.1).sum();
    assert!(used < 600 * SECOND / 50, "{used} us of 600 s");
}

#[test]
fn loss_on_the_threshold_does_not_flap() {
    let threshold = Config::loss_aware().harm.unwrap().loss;
    for factor in [0.8, 1.0, 1.2, 1.5, 2.0] {
        let mut w = World::started(Config::loss_aware(), &[lossy(threshold * factor), CLEAN]);
        w.run(600.0);
        let flaps = w.changes.len() as f64 / 2.0 / 10.0;
        assert!(
            flaps <= 1.0,
            "{flaps} a minute at {factor} of the threshold"
        );
    }
}

#[test]
fn a_preferred_path_is_given_up_last() {
    for preferred in [0, 1] {
        let mut w = World::new(Config::loss_aware(), &[lossy(0.08), lossy(0.08), CLEAN]);
        w.paths[preferred].rule = Rule::Preferred;
        w.on(Event::Established);
        w.run(12.0);
        let in_backup: Vec<usize> = w.changes.iter().map(|c| c.1).collect();
        assert_eq!(in_backup, [1 - preferred, preferred]);
    }
}

/// Losses that overflow a queue come with a high RTT.
#[test]
fn losses_of_a_full_queue_are_not_held_against_the_path() {
    for (rtt_us, in_backup) in [(10_000, true), (20_000, false)] {
        let mut w = World::started(Config::loss_aware(), &[lossy(0.0), CLEAN]);
        w.run(1.0); // which shows the minimum
        (w.models[0].loss, w.models[0].rtt_us) = (0.005, rtt_us);
        w.run(19.0);
        assert_eq!(!w.changes.is_empty(), in_backup, "{rtt_us} us");
    }
}

#[test]
fn slow_start_losing_hundreds_at_once_is_one_event() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.0), CLEAN]);
    w.run(1.0);
    w.sent(0).packets += 600;
    w.sent(0).lost += 300;
    w.run(30.0);
    assert_eq!(w.changes, []);
}

#[test]
fn moderate_loss_matters_where_the_other_path_alone_would_do_better() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.003), CLEAN]);
    w.coupled = false;
    w.run(5.0);
    w.models[1].rate = 400; // 300 + 400 against the 1,000 that it was seen to carry
    w.run(7.5);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
}

/// Heavy loss begins with a stall where a retransmission is lost too: once that is over, what was counted of the loss
/// still holds, and no dwell time delays the judgement.
#[test]
fn a_stall_does_not_clear_a_lossy_path() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.run(5.0);
    w.models[0].loss = 0.1;
    w.run(0.1);
    w.models[0].loss = 1.0;
    w.run(0.8);
    assert_eq!(w.reasons(), [Some(Reason::Stalled), None]);
    w.sent(0).packets += 1;
    w.sent(0).bytes += PACKET;
    w.models[0] = lossy(0.1);
    w.run(2.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
    let back = w.now;
    w.run(9.0);
    assert_eq!(w.normal(), [1], "the stall does not end the backup state");
    assert!(w.changes.iter().all(|c| c.0 <= back), "{:?}", w.changes);
}

#[test]
fn an_outage_is_not_taken_for_loss() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.run(5.0);
    w.models[0].loss = 1.0;
    w.run(1.9);
    w.models[0].loss = 0.0;
    w.sent(0).packets += 1;
    w.sent(0).bytes += PACKET;
    w.run(60.0);
    assert_eq!(w.normal(), [0, 1]);
    assert_eq!(w.changes.len(), 2, "{:?}", w.changes);
}

/// As where a receive window was overrun: a little gets through now and then, and nothing else is on the way.
fn stand_still(w: &mut World, seconds: u64) {
    const FRAGMENT: u64 = 22;
    let rates: Vec<u64> = w.models.iter().map(|m| m.rate).collect();
    let all = |w: &mut World, rate: u64| w.models.iter_mut().for_each(|m| m.rate = rate);
    for _ in 0..4 * seconds {
        all(w, 0);
        w.run(0.2);
        all(w, 1); // on the way, and not there yet
        w.run(0.05);
        w.sent(0).packets += FRAGMENT;
        w.sent(0).bytes += FRAGMENT * PACKET;
        w.bytes += FRAGMENT * PACKET;
    }
    let models = w.models.iter_mut().zip(rates);
    models.for_each(|(model, rate)| model.rate = rate);
}

/// A controller that does not mind the loss. At 50 ms a Reno-like one would be left with less than a sixth of what the clean path
/// carries.
#[test]
fn a_stall_of_the_whole_connection_is_blamed_on_no_path() {
    let model = Model {
        rtt_us: 50_000,
        ..lossy(0.0)
    };
    let mut w = World::started(Config::loss_aware(), &[model, CLEAN]);
    w.coupled = false;
    w.run(3.0);
    w.models[0].loss = 0.1;
    w.run(5.0);
    stand_still(&mut w, 10);
    w.run(10.0);
    assert_eq!(w.changes, []);
}
