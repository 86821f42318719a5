use proptest::prelude::*;

use super::*;
use crate::path_manager::{Path, Subflow};

const SECOND: u64 = 1_000_000;
const PACKET: u64 = 1_448;

/// What a path does while its subflow is normal.
#[derive(Debug, Clone, Copy)]
struct Model {
    /// packets/s
    rate: u64,
    loss: f64,
    rtt_us: u32,
}

const CLEAN: Model = Model {
    rate: 1_000,
    loss: 0.0,
    rtt_us: 10_000,
};

/// A connection whose subflows deliver as their models say, and whose manager is asked when it wants to be.
struct World {
    manager: Awareness,
    now: u64,
    paths: Vec<Path>,
    models: Vec<Model>,
    subflows: Vec<Subflow>,
    bytes: u64,
    held: u64,
    /// Losses not yet whole packets, by path.
    owed: Vec<f64>,
    wake: u64,
    /// Times, slots and new values of MP_PRIO.
    changes: Vec<(u64, usize, bool)>,
    opened: Vec<(u64, usize, bool)>,
    refuse: bool,
    coupled: bool,
    window_limit: u64,
}

impl World {
    fn new(config: Config, models: &[Model]) -> World {
        let path = |i: usize| Path {
            local: i as u8,
            remote: i as u8,
            up: true,
            primary: i == 0,
            ..Path::default()
        };
        World {
            manager: Awareness::new(config),
            now: 0,
            paths: (0..models.len()).map(path).collect(),
            models: models.to_vec(),
            subflows: vec![Subflow {
                state: State::Established,
                ..Subflow::default()
            }],
            bytes: 0,
            held: 0,
            owed: vec![0.0; models.len()],
            wake: u64::MAX,
            changes: Vec::new(),
            opened: Vec::new(),
            refuse: false,
            coupled: true,
            window_limit: u64::MAX,
        }
    }

    /// Established, with every path's subflow.
    fn started(config: Config, models: &[Model]) -> World {
        let mut world = World::new(config, models);
        world.on(Event::Established);
        world
    }

    fn on(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut actions = Vec::new();
            let view = View {
                now_us: self.now,
                paths: &self.paths,
                subflows: &self.subflows,
                bytes: self.bytes,
                held_us: self.held,
                coupled: self.coupled,
                window_limit: self.window_limit,
                client: true,
            };
            self.manager.observe(event, &view, &mut actions);
            for action in actions {
                match action {
                    Action::Open { path, backup } => {
                        self.opened.push((self.now, path, backup));
                        let slot = self.subflows.len();
                        if self.refuse {
                            events.push(Event::SubflowClosed {
                                slot,
                                path,
                                error: true,
                            });
                        } else {
                            // Over a dead path no handshake gets through.
                            let dead = self.models[path].loss >= 1.0;
                            let state = if dead {
                                State::Opening
                            } else {
                                State::Established
                            };
                            self.subflows.push(Subflow {
                                state,
                                path,
                                backup,
                                ..Subflow::default()
                            });
                            if !dead {
                                events.push(Event::SubflowEstablished(slot));
                            }
                        }
                    }
                    Action::Close { slot } => {
                        self.subflows[slot].state = State::Closed;
                        let path = self.subflows[slot].path;
                        events.push(Event::SubflowClosed {
                            slot,
                            path,
                            error: false,
                        });
                    }
                    Action::SetBackup { slot, backup } => {
                        self.changes.push((self.now, slot, backup));
                        self.subflows[slot].backup = backup;
                    }
                    Action::Wake { at_us } => self.wake = at_us,
                    Action::Announce { .. } => {}
                }
            }
        }
    }

    fn run(&mut self, seconds: f64) {
        let step = 10_000;
        let end = self.now + (seconds * 1e6) as u64;
        while self.now < end {
            self.now += step;
            for s in self
                .subflows
                .iter_mut()
                .filter(|s| s.state == State::Established && !s.backup)
            {
                let model = self.models[s.path];
                let sent = model.rate * step / SECOND;
                self.owed[s.path] += sent as f64 * model.loss;
                let lost = self.owed[s.path] as u64;
                self.owed[s.path] -= lost as f64;
                s.stats.sent += sent;
                s.stats.lost += lost;
                s.stats.delivered += (sent - lost.min(sent)) * PACKET;
                s.stats.srtt_us = model.rtt_us;
                let lowest = s.stats.min_rtt_us;
                s.stats.min_rtt_us = if lowest == 0 {
                    model.rtt_us
                } else {
                    lowest.min(model.rtt_us)
                };
                self.bytes += (sent - lost.min(sent)) * PACKET;
            }
            if self.now >= self.wake {
                self.on(Event::Timer);
            }
        }
    }

    fn normal(&self) -> Vec<usize> {
        let on = |s: &&Subflow| s.state == State::Established && !s.backup;
        self.subflows.iter().filter(on).map(|s| s.path).collect()
    }

    fn reasons(&self) -> Vec<Option<Reason>> {
        self.manager.reasons(&View {
            now_us: self.now,
            paths: &self.paths,
            subflows: &self.subflows,
            bytes: self.bytes,
            held_us: self.held,
            coupled: self.coupled,
            window_limit: self.window_limit,
            client: true,
        })
    }
}

fn lossy(loss: f64) -> Model {
    Model {
        loss,
        rate: 300,
        ..CLEAN
    }
}

#[test]
fn a_lossy_path_is_parked_and_the_clean_one_stays() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    assert_eq!(w.normal(), [0, 1]);
    w.run(2.0);
    assert_eq!(w.normal(), [1]);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
}

#[test]
fn heavy_loss_is_noticed_within_half_a_second() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.0), CLEAN]);
    w.run(20.0);
    w.models[0].loss = 0.3;
    let onset = w.now;
    w.run(2.0);
    let (at, slot, backup) = w.changes[0];
    assert!(
        slot == 0 && backup && at - onset < SECOND / 2,
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
    let mut w = World::started(Config::loss_aware(), &[most, lossy(0.08), lossy(0.2)]);
    w.run(4.0);
    let parked: Vec<usize> = w.changes.iter().map(|c| c.1).collect();
    assert_eq!(parked, [2, 1]);
    w.run(300.0);
    assert!(w.normal().contains(&0));
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
    w.run(2.0);
    w.models[0].loss = 0.0;
    w.run(12.0);
    assert_eq!(w.normal(), [0, 1]);
    w.run(120.0);
    assert_eq!(w.changes.len(), 2);
}

#[test]
fn parkings_grow_longer_while_the_path_stays_bad() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.05), CLEAN]);
    w.run(600.0);
    let times = w.changes.windows(2).map(|c| (c[0].2, c[1].0 - c[0].0));
    let (parked, used): (Vec<_>, Vec<_>) = times.partition(|&(backup, _)| backup);
    let parked: Vec<u64> = parked.iter().map(|p| p.1).collect();
    assert_eq!(
        parked[..4],
        [10 * SECOND, 20 * SECOND, 40 * SECOND, 80 * SECOND]
    );
    // What the returns cost: the share of time that the lossy path was used.
    let used: u64 = used.iter().map(|u| u.1).sum();
    assert!(used < 600 * SECOND / 50, "{used} us of 600 s");
}

#[test]
fn loss_on_the_threshold_does_not_flap() {
    let threshold = Config::loss_aware().loss.unwrap().short.park;
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
    w.subflows[0].stats.sent += 1;
    w.subflows[0].stats.delivered += PACKET;
    w.models[0].loss = 0.0;
    w.run(0.1);
    assert_eq!(w.normal(), [0, 1]);
}

#[test]
fn a_path_that_was_dead_for_long_is_in_use_two_seconds_after_its_return() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, CLEAN]);
    w.run(5.0);
    w.models[0].loss = 1.0;
    w.run(60.0);
    assert_eq!(w.normal(), [1]);
    assert!(w.opened.len() < 45, "a SYN each 1.5 s: {}", w.opened.len());
    w.models[0].loss = 0.0;
    w.run(2.0);
    assert_eq!(w.normal(), [1, 0]);
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
fn a_preferred_path_is_given_up_last() {
    for preferred in [0, 1] {
        let mut w = World::new(
            Config::loss_aware(),
            &[lossy(0.08), lossy(0.08), Model { rate: 900, ..CLEAN }],
        );
        w.paths[preferred].rule = Rule::Preferred;
        w.on(Event::Established);
        w.run(3.0);
        let parked: Vec<usize> = w.changes.iter().map(|c| c.1).collect();
        assert_eq!(parked, [1 - preferred, preferred]);
    }
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
    obstructive(&mut w, 4.0, 700, 1_000);
    assert_eq!(w.normal(), [0]);
    assert_eq!(w.reasons(), [None, Some(Reason::Contribution)]);
    obstructive(&mut w, 55.0, 700, 1_000);
    assert_eq!(w.changes.len(), 1, "{:?}", w.changes);
}

#[test]
fn a_path_that_holds_up_the_stream_is_left_out_on_trial() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.run(3.0);
    obstructive(&mut w, 5.0, 700, 1_000); // 700 + 100 against 1,000 alone
    assert_eq!(w.normal(), [0, 1], "buffers take time to grow");
    obstructive(&mut w, 25.0, 700, 1_000);
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

#[test]
fn a_slow_path_that_holds_up_nobody_is_kept() {
    let mut w = World::started(Config::loss_aware(), &[CLEAN, SLOW]);
    w.window_limit = 1_000_000;
    w.run(3.0);
    obstructive(&mut w, 60.0, 950, 1_000); // 950 + 100: a gain
    assert_eq!(w.changes, []);
}

/// Losses that overflow a queue come with a high RTT.
#[test]
fn losses_of_a_full_queue_are_not_held_against_the_path() {
    for (rtt_us, parked) in [(10_000, true), (20_000, false)] {
        let mut w = World::started(Config::loss_aware(), &[lossy(0.0), CLEAN]);
        w.run(1.0); // which shows the minimum
        (w.models[0].loss, w.models[0].rtt_us) = (0.005, rtt_us);
        w.run(19.0);
        assert_eq!(!w.changes.is_empty(), parked, "{rtt_us} us");
    }
}

#[test]
fn slow_start_losing_hundreds_at_once_is_one_event() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.0), CLEAN]);
    w.run(1.0);
    w.subflows[0].stats.sent += 600;
    w.subflows[0].stats.lost += 300;
    w.run(30.0);
    assert_eq!(w.changes, []);
}

/// Coupled windows let losses on one path slow down the other; uncoupled ones do not.
#[test]
fn moderate_loss_matters_where_windows_are_coupled() {
    for coupled in [false, true] {
        let mut w = World::started(Config::loss_aware(), &[lossy(0.003), CLEAN]);
        w.coupled = coupled;
        w.run(15.0);
        assert_eq!(!w.changes.is_empty(), coupled);
    }
}

#[test]
fn moderate_loss_matters_where_the_other_path_alone_would_do_better() {
    let mut w = World::started(Config::loss_aware(), &[lossy(0.003), CLEAN]);
    w.coupled = false;
    w.run(5.0);
    w.models[1].rate = 400; // 300 + 400 against the 1,000 that it was seen to carry
    w.run(5.0);
    assert_eq!(w.reasons(), [Some(Reason::Loss), None]);
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

#[derive(Debug, Clone)]
enum Step {
    Run {
        ms: u64,
    },
    Model {
        path: usize,
        rate: u64,
        loss: f64,
        rtt_us: u32,
    },
    Up {
        path: usize,
        up: bool,
    },
    Signal {
        path: usize,
        dbm: i32,
    },
    Rule {
        path: usize,
        rule: Rule,
    },
    Hold {
        us: u64,
    },
    Refuse(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    let rule = prop_oneof![
        Just(Rule::None),
        Just(Rule::Preferred),
        Just(Rule::Metered),
        Just(Rule::Untrusted)
    ];
    prop_oneof![
        3 => (1u64..5_000).prop_map(|ms| Step::Run { ms }),
        2 => (0usize..4, 0u64..5_000, 0.0f64..1.0, 0u32..2_000_000)
            .prop_map(|(path, rate, loss, rtt_us)| Step::Model { path, rate, loss: loss * loss, rtt_us }),
        2 => (0usize..4, any::<bool>()).prop_map(|(path, up)| Step::Up { path, up }),
        1 => (0usize..4, -100i32..-30).prop_map(|(path, dbm)| Step::Signal { path, dbm }),
        1 => (0usize..4, rule).prop_map(|(path, rule)| Step::Rule { path, rule }),
        1 => (0u64..1_000_000).prop_map(|us| Step::Hold { us }),
        1 => any::<bool>().prop_map(Step::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens: while any subflow lives on a path that is up, one of them is normal; a metered one is normal
    /// only where it alone is; an untrusted path is never opened, nor one that is down; and nothing is set twice.
    #[test]
    fn invariants(paths in 1usize..5, signal in any::<bool>(), steps in prop::collection::vec(any_step(), 0..40)) {
        let both = Config { signal: Config::signal_aware().signal, ..Config::loss_aware() };
        let config = if signal { both } else { Config::loss_aware() };
        let mut w = World::started(config, &vec![CLEAN; paths]);
        for step in steps {
            let opened = w.opened.len();
            match step {
                Step::Run { ms } => w.run(ms as f64 / 1e3),
                Step::Model { path, rate, loss, rtt_us } => w.models[path % paths] = Model { rate, loss, rtt_us },
                Step::Up { path, up } => {
                    let path = path % paths;
                    if w.paths[path].up != up {
                        w.paths[path].up = up;
                        w.on(if up { Event::PathUp(path) } else { Event::PathDown(path) });
                    }
                }
                Step::Signal { path, dbm } => w.paths[path % paths].signal_dbm = Some(dbm),
                Step::Rule { path, rule } => w.paths[path % paths].rule = rule,
                Step::Hold { us } => w.held += us,
                Step::Refuse(refuse) => w.refuse = refuse,
            }
            for &(_, path, _) in &w.opened[opened..] {
                prop_assert!(w.paths[path].up && w.paths[path].rule != Rule::Untrusted);
            }
            let live = |s: &&Subflow| s.state == State::Established && w.paths[s.path].up;
            let normal = w.normal();
            prop_assert!(!normal.is_empty() || w.subflows.iter().filter(live).count() == 0, "{:?}", w.subflows);
            for path in 0..paths {
                let n = w.subflows.iter().filter(live).filter(|s| s.path == path).count();
                prop_assert!(n <= 1, "{n} subflows on path {path}");
            }
        }
        w.run(0.2); // rules take hold at the next judgement
        let normal = w.normal();
        let metered = normal.iter().filter(|&&p| w.paths[p].rule == Rule::Metered).count();
        prop_assert!(metered == 0 || normal.len() == 1, "{normal:?}");
    }
}
