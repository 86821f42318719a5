use super::super::fixture::{carry_out, established, paths, view};
use super::super::Sent;
use super::*;

/// Two paths with one subflow each.
struct World {
    manager: MptcpLa,
    now_us: u64,
    paths: Vec<Path>,
    subflows: Vec<Subflow>,
}

impl World {
    fn new(config: Config) -> World {
        let subflow = |path: usize, min_rtt_us: u32| {
            let mut s = established(path);
            s.counters.min_rtt_us = Some(min_rtt_us);
            s.counters.sent = Some(Sent::default());
            s
        };
        World {
            manager: MptcpLa::new(config),
            now_us: 0,
            paths: paths(2),
            subflows: vec![subflow(0, 10_000), subflow(1, 80_000)],
        }
    }

    fn on(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let view = view(self.now_us, &self.paths, &self.subflows);
        self.manager.observe(event, &view, &mut actions);
        for action in &actions {
            carry_out(*action, &mut self.subflows);
        }
        actions
    }

    /// So many packets more on each path, sent and lost, and a poll.
    fn poll(&mut self, counts: [(u64, u64); 2]) -> Vec<Action> {
        for (s, (sent, lost)) in self.subflows.iter_mut().zip(counts) {
            let counted = s.counters.sent.get_or_insert_default();
            counted.packets += sent;
            counted.lost += lost;
        }
        self.now_us += POLL_US;
        self.on(Event::Timer)
    }

    fn probes(&mut self, answered: u64, lost: u64) -> Vec<Action> {
        self.paths[0].probes.answered += answered;
        self.paths[0].probes.lost += lost;
        self.poll([(0, 0), (100, 0)])
    }

    fn backups(&self) -> [bool; 2] {
        [0, 1].map(|slot: usize| self.subflows[slot].backup)
    }
}

/// γ of 1 % on either path, N of 1,000.
fn one_percent() -> Config {
    Config {
        gamma_ppm: 10_000,
        ..Config::default()
    }
}

#[test]
fn a_ratio_of_gamma_sets_a_path_to_backup_and_one_loss_less_does_not() {
    for (lost, backup) in [(9, false), (10, true), (11, true)] {
        let mut w = World::new(one_percent());
        w.on(Event::Established);
        w.poll([(500, lost), (500, 0)]);
        assert_eq!(w.backups(), [false, false], "half a window says nothing");
        w.poll([(500, 0), (500, 0)]);
        assert_eq!(w.backups(), [backup, false], "{lost} of 1,000");
    }
}

#[test]
fn windows_do_not_overlap() {
    let mut w = World::new(one_percent());
    w.on(Event::Established);
    w.poll([(1_000, 6), (1_000, 0)]);
    w.poll([(1_000, 6), (1_000, 0)]);
    assert_eq!(w.backups(), [false, false], "12 of 2,000 are 0.6 %");
}

#[test]
fn each_class_of_rtt_has_its_own_gamma() {
    let losses = [(1_000, 5), (1_000, 5)];
    let mut w = World::new(Config::default());
    w.on(Event::Established);
    w.poll(losses);
    assert_eq!(w.backups(), [true, false], "0.5 %: above 0.01, below 1 %");
    let mut w = World::new(Config {
        gamma_long_ppm: 5_000,
        gamma_ppm: 5_001,
        ..Config::default()
    });
    w.on(Event::Established);
    w.poll(losses);
    assert_eq!(w.backups(), [false, true]);
}

#[test]
fn of_two_that_exceed_the_worse_goes_and_the_other_stays() {
    let mut w = World::new(one_percent());
    w.on(Event::Established);
    for _ in 0..5 {
        w.poll([(1_000, 50), (1_000, 51)]);
        assert_eq!(w.backups(), [false, true]);
    }
}

#[test]
fn it_is_restored_once_n_probes_lose_less_than_gamma() {
    let mut w = World::new(one_percent());
    w.on(Event::Established);
    let actions = w.poll([(1_000, 50), (1_000, 0)]);
    let slot = 0;
    let backup = true;
    assert!(actions.contains(&Action::SetBackup { slot, backup }));
    let (path, count) = (0, PROBES);
    assert!(w.probes(0, 0).contains(&Action::Probe { path, count }));
    w.probes(990, 10);
    assert_eq!(w.backups(), [true, false], "10 of 1,000 are γ itself");
    w.probes(990, 9);
    assert_eq!(w.backups(), [true, false], "999 probes");
    w.probes(1, 0);
    assert_eq!(w.backups(), [false, false]);
    // What was counted before says nothing of the path now.
    w.poll([(999, 0), (100, 0)]);
    assert_eq!(w.backups(), [false, false]);
}

#[test]
fn without_answers_it_is_tried_again_after_a_time_that_doubles() {
    let mut w = World::new(one_percent());
    w.on(Event::Established);
    let mut times = Vec::new();
    for _ in 0..6 {
        w.poll([(1_000, 50), (100, 0)]);
        assert_eq!(w.backups(), [true, false]);
        let since = w.now_us;
        while w.backups()[0] {
            w.probes(0, 0);
        }
        times.push((w.now_us - since) / MILLION);
    }
    assert_eq!(times, [10, 20, 40, 80, 160, 160]);
    w.poll([(1_000, 0), (100, 0)]);
    w.poll([(1_000, 50), (100, 0)]);
    let since = w.now_us;
    while w.backups()[0] {
        w.probes(0, 0);
    }
    assert_eq!(w.now_us - since, 10 * MILLION, "it was below γ in between");
}

#[test]
fn time_restores_it_after_the_last_answer_too() {
    let mut w = World::new(one_percent());
    w.on(Event::Established);
    w.poll([(1_000, 50), (100, 0)]);
    for _ in 0..300 {
        w.probes(1, 0);
        assert_eq!(w.backups(), [true, false], "it answers");
    }
    let since = w.now_us;
    while w.backups()[0] {
        w.probes(0, 0);
    }
    assert_eq!(w.now_us - since, 10 * MILLION);
}

#[test]
fn the_only_normal_path_stays() {
    let mut w = World::new(one_percent());
    w.paths[1].up = false;
    w.on(Event::Established);
    w.poll([(1_000, 500), (0, 0)]);
    assert_eq!(w.backups(), [false, false]);
}

#[test]
fn a_path_that_comes_back_begins_anew() {
    let mut w = World::new(one_percent());
    w.on(Event::Established);
    w.poll([(1_000, 50), (1_000, 0)]);
    w.paths[0].up = false;
    w.subflows[0].state = State::Closed;
    w.on(Event::PathDown(0));
    w.paths[0].up = true;
    let (path, backup) = (0, false);
    assert!(w
        .on(Event::PathUp(0))
        .contains(&Action::Open { path, backup }));
}
