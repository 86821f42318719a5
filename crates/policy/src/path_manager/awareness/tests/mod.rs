mod contribution;
mod loss;
mod memory;
mod paths;
mod probes;
mod receiver;

use proptest::prelude::*;

use super::*;
use crate::path_manager::{Path, Received, Role, Sent, Subflow};

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
    /// Losses not yet whole packets, by path.
    owed: Vec<f64>,
    wake: u64,
    /// Times, slots and new values of MP_PRIO.
    changes: Vec<(u64, usize, bool)>,
    opened: Vec<(u64, usize, bool)>,
    refuse: bool,
    /// Probes are answered as often as the path's loss allows.
    answers: bool,
    unanswered: Vec<f64>,
    /// From the second second on, a path that loses slows down the others to a tenth.
    coupled: bool,
    /// The data come to this end.
    receives: bool,
    began_us: Option<u64>,
    /// Dead-path detection finds the path dead.
    silent: Option<usize>,
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
            owed: vec![0.0; models.len()],
            wake: u64::MAX,
            changes: Vec::new(),
            opened: Vec::new(),
            refuse: false,
            answers: false,
            unanswered: vec![0.0; models.len()],
            coupled: true,
            receives: false,
            began_us: None,
            silent: None,
        }
    }

    /// Subflows as this end sees them.
    fn seen(&self) -> Vec<Subflow> {
        let mut seen = self.subflows.clone();
        for s in seen.iter_mut().filter(|_| self.receives) {
            let arrived = s.counters.sent.take().unwrap_or_default();
            s.counters.received = Some(Received {
                packets: arrived.packets - arrived.lost,
                out_of_order: 7 * arrived.lost,
                bytes: arrived.bytes,
                silent: self.silent == Some(s.path),
            });
        }
        seen
    }

    fn view<'a>(&'a self, seen: &'a [Subflow]) -> View<'a> {
        View {
            now_us: self.now,
            role: match self.receives {
                true => Role::Receiver,
                false => Role::Sender,
            },
            connections: 1,
            paths: &self.paths,
            subflows: seen,
            bytes: self.bytes,
            began_us: self.began_us,
            client: true,
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
            let seen = self.seen();
            let mut manager =
                std::mem::replace(&mut self.manager, Awareness::new(Config::loss_aware()));
            manager.observe(event, &self.view(&seen), &mut actions);
            self.manager = manager;
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
                    Action::Probe { path, count } => self.probe(path, count),
                    Action::Announce { .. } => {}
                }
            }
        }
    }

    fn probe(&mut self, path: usize, count: u32) {
        let loss = self.models[path].loss;
        if !self.answers {
            return;
        }
        for _ in 0..count {
            self.unanswered[path] += loss;
            if loss >= 1.0 {
                continue; // known once one is answered again
            }
            let lost = self.unanswered[path].floor();
            self.unanswered[path] -= lost;
            let probes = &mut self.paths[path].probes;
            probes.lost += lost as u64;
            probes.answered += u64::from(lost == 0.0);
        }
    }

    fn run(&mut self, seconds: f64) {
        let step = 10_000;
        let end = self.now + (seconds * 1e6) as u64;
        while self.now < end {
            self.now += step;
            let loses = |path: usize| self.models[path].loss >= 0.002;
            let normal = self.normal();
            let slowed = self.coupled && self.now > SECOND && normal.iter().any(|&p| loses(p));
            for s in self
                .subflows
                .iter_mut()
                .filter(|s| s.state == State::Established && !s.backup)
            {
                let model = self.models[s.path];
                let tenth = slowed && model.loss < 0.002;
                let sent = model.rate * step / SECOND / if tenth { 10 } else { 1 };
                self.owed[s.path] += sent as f64 * model.loss;
                let lost = self.owed[s.path] as u64;
                self.owed[s.path] -= lost as f64;
                let counted = s.counters.sent.get_or_insert_default();
                counted.packets += sent;
                counted.lost += lost;
                counted.bytes += (sent - lost.min(sent)) * PACKET;
                counted.in_flight = u64::from(model.rate > 0);
                s.counters.srtt_us = Some(model.rtt_us);
                let lowest = s.counters.min_rtt_us.unwrap_or(u32::MAX);
                s.counters.min_rtt_us = Some(lowest.min(model.rtt_us));
                self.bytes += (sent - lost.min(sent)) * PACKET;
            }
            if self.now >= self.wake {
                self.on(Event::Timer);
            }
        }
    }

    /// Counters of the subflow in a slot.
    fn sent(&mut self, slot: usize) -> &mut Sent {
        self.subflows[slot].counters.sent.get_or_insert_default()
    }

    fn normal(&self) -> Vec<usize> {
        let on = |s: &&Subflow| s.state == State::Established && !s.backup;
        self.subflows.iter().filter(on).map(|s| s.path).collect()
    }

    fn reasons(&self) -> Vec<Option<Reason>> {
        self.manager.reasons(&self.view(&self.seen()))
    }
}

fn lossy(loss: f64) -> Model {
    Model {
        loss,
        rate: 300,
        ..CLEAN
    }
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
