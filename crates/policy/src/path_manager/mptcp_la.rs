//! MPTCP-LA by the rule of its paper alone: a path whose subflows lose a share of γ or more over N packets is set to
//! backup, and restored once it loses less.
//!
//! ```text
//! lost / sent ≥ γ over N sent packets   →  MP_PRIO backup, unless no other path is normal
//! lost / sent < γ over N probes         →  MP_PRIO normal
//! ```
//!
//! The ratio is the point estimate of the paper and no bound: with N = 1,000 and γ = 0.01 % a single loss is enough. The
//! path manager `loss-aware` is this project's own rule. Where the paper is silent:
//!
//! - A receiver does not know what its sender lost: a poll with holes in the sequence counts as one loss
//!   ([`Counters::since`]).
//! - γ belongs to an interface. Here it follows the minimum RTT: below `long_rtt_us` that of Wi-Fi, else that of LTE.
//! - If several paths exceed γ, the one with the highest ratio goes first, one in a poll.
//! - A backup subflow carries no data, so its counters stand still: probes ([`Action::Probe`]) take the place of the
//!   packets. Where nobody answers them, the path is tried again after [`Config::hold_us`], twice as long each time.

use mp_parameter::{Parameter, Unit};

use super::fullmesh::{cover, open};
use super::{Action, Backoff, Counters, Event, Manage, Path, Probes, State, Subflow, View};
use crate::awareness::Reason;
use crate::estimate::Count;

/// Between two evaluations, µs.
const POLL_US: u64 = 50_000;
/// Echo requests for each poll: 100 a second, 48 kbit/s.
const PROBES: u32 = 5;
/// The longest time without an answer after which a path is tried again, µs.
const LONGEST_HOLD_US: u64 = 160_000_000;
const MILLION: u64 = 1_000_000;

/// Units: packets per million, µs, packets. [`Manage::PARAMETERS`] has the ranges and the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// γ of paths with a minimum RTT below `long_rtt_us`: 0.01 %, the paper's value for Wi-Fi.
    pub gamma_ppm: u64,
    /// γ of the others: 1 %, the paper's value for LTE.
    pub gamma_long_ppm: u64,
    pub long_rtt_us: u64,
    /// N.
    pub window: u64,
    /// How long a path stays in backup at first if no probe is answered.
    pub hold_us: u64,
}

impl Default for Config {
    /// Those of the registry.
    fn default() -> Self {
        let mut config = Config {
            gamma_ppm: 0,
            gamma_long_ppm: 0,
            long_rtt_us: 0,
            window: 0,
            hold_us: 0,
        };
        for parameter in MptcpLa::PARAMETERS {
            config.set(parameter.name, parameter.default);
        }
        config
    }
}

impl Config {
    fn set(&mut self, parameter: &str, value: u64) {
        let own = match parameter {
            "gamma_ppm" => &mut self.gamma_ppm,
            "gamma_long_ppm" => &mut self.gamma_long_ppm,
            "long_rtt_us" => &mut self.long_rtt_us,
            "window" => &mut self.window,
            "hold_us" => &mut self.hold_us,
            other => unreachable!("{other} is in no list of parameters"),
        };
        *own = value;
    }

    fn gamma_ppm(&self, min_rtt_us: u32) -> u64 {
        match u64::from(min_rtt_us) < self.long_rtt_us {
            true => self.gamma_ppm,
            false => self.gamma_long_ppm,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Backup {
    /// Probes at the last poll, and those of the window.
    last: Probes,
    count: Count,
    /// Restored after so long without an answer.
    hold_us: u64,
    until_us: u64,
}

/// One path.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    /// Counters of its subflow at the last poll.
    last: Option<Counters>,
    count: Count,
    /// The last full window, if its ratio exceeds γ.
    exceeds: Option<Count>,
    backup: Option<Backup>,
    /// Times in a row that it was set to backup.
    times: u32,
}

impl Record {
    /// Takes in the counters of the path's subflow.
    fn measure(&mut self, counters: Counters, gamma_ppm: u64, config: &Config) {
        let last = self.last.replace(counters);
        let Some(moved) = last.and_then(|last| counters.since(&last)) else {
            return;
        };
        if self.backup.is_some() {
            return;
        }
        self.count.add(moved.packets, moved.lost);
        if let Some(full) = self.count.take_full(config.window) {
            self.exceeds = Some(full).filter(|f| f.exceeds(gamma_ppm));
            if self.exceeds.is_none() {
                self.times = 0;
            }
        }
    }

    /// Whether a path in backup is to be restored.
    fn recovered(&mut self, now_us: u64, probes: Probes, gamma_ppm: u64, config: &Config) -> bool {
        let Some(backup) = &mut self.backup else {
            return false;
        };
        let last = std::mem::replace(&mut backup.last, probes);
        let Probes { answered, lost } = probes.since(&last);
        if answered > 0 {
            backup.until_us = now_us.saturating_add(backup.hold_us);
        }
        backup.count.add(answered + lost, lost);
        match backup.count.take_full(config.window) {
            Some(full) => !full.exceeds(gamma_ppm),
            None => now_us >= backup.until_us,
        }
    }

    fn set_backup(&mut self, now_us: u64, probes: Probes, config: &Config) {
        let hold = Backoff {
            first_us: config.hold_us,
            most_us: LONGEST_HOLD_US,
        };
        let hold_us = hold.time(self.times);
        self.times += 1;
        self.exceeds = None;
        self.backup = Some(Backup {
            last: probes,
            count: Count::default(),
            hold_us,
            until_us: now_us.saturating_add(hold_us),
        });
    }

    fn restore(&mut self) {
        (self.backup, self.count) = (None, Count::default());
    }
}

#[derive(Debug, Clone, Default)]
pub struct MptcpLa {
    config: Config,
    paths: Vec<Record>,
}

impl MptcpLa {
    pub fn new(config: Config) -> Self {
        MptcpLa {
            config,
            paths: Vec::new(),
        }
    }

    pub fn config(&self) -> Config {
        self.config
    }

    /// Whether the rule has set a path to backup.
    fn is_backup(&self, path: usize) -> bool {
        self.paths.get(path).is_some_and(|p| p.backup.is_some())
    }

    fn poll(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        for (path, record) in self.paths.iter_mut().enumerate() {
            let on = |s: &&Subflow| s.state == State::Established && s.path == path;
            let counters = view.subflows.iter().find(on).map(|s| s.counters);
            let min_rtt_us = counters.and_then(|c| c.min_rtt_us).unwrap_or(0);
            let gamma_ppm = self.config.gamma_ppm(min_rtt_us);
            match counters {
                Some(counters) => record.measure(counters, gamma_ppm, &self.config),
                None => record.last = None,
            }
            let Path { up, probes, .. } = view.paths[path];
            if record.recovered(view.now_us, probes, gamma_ppm, &self.config) {
                record.restore();
            } else if record.backup.is_some() && up {
                let count = PROBES;
                actions.push(Action::Probe { path, count });
            }
        }
        let established = |path: &usize| {
            let on = |s: &Subflow| s.state == State::Established && s.path == *path;
            view.subflows.iter().any(on)
        };
        let normal: Vec<usize> = (0..self.paths.len())
            .filter(|p| view.paths[*p].up && self.paths[*p].backup.is_none())
            .filter(established)
            .collect();
        let ratio = |path: &usize| Some((self.paths[*path].exceeds?.ppm(), *path));
        let worst = normal.iter().filter_map(ratio).max();
        if let (Some((_, path)), true) = (worst, normal.len() > 1) {
            self.paths[path].set_backup(view.now_us, view.paths[path].probes, &self.config);
        }
    }

    /// First the promotions: never a moment without a normal subflow.
    fn apply(&self, view: &View<'_>, actions: &mut Vec<Action>) {
        for backup in [false, true] {
            for (slot, s) in view.subflows.iter().enumerate() {
                let differs = s.backup != backup && self.is_backup(s.path) == backup;
                if s.state == State::Established && differs {
                    actions.push(Action::SetBackup { slot, backup });
                }
            }
        }
    }
}

impl Manage for MptcpLa {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter {
            name: "gamma_ppm",
            unit: Unit::PacketsPerMillion,
            default: 100,
            least: 1,
            most: MILLION,
            about: "γ of paths with a short minimum RTT (Wi-Fi)",
        },
        Parameter {
            name: "gamma_long_ppm",
            unit: Unit::PacketsPerMillion,
            default: 10_000,
            least: 1,
            most: MILLION,
            about: "γ of the other paths (LTE)",
        },
        Parameter {
            name: "long_rtt_us",
            unit: Unit::Microseconds,
            default: 40_000,
            least: 1,
            most: 10 * MILLION,
            about: "minimum RTT from which a path has the γ of LTE",
        },
        Parameter {
            name: "window",
            unit: Unit::Packets,
            default: 1_000,
            least: 10,
            most: MILLION,
            about: "N: packets, or probes, over which the ratio is taken",
        },
        Parameter {
            name: "hold_us",
            unit: Unit::Microseconds,
            default: 10_000_000,
            least: 100_000,
            most: LONGEST_HOLD_US,
            about: "time in backup, at first, if no probe is answered",
        },
    ];

    fn set(&mut self, parameter: &str, value: u64) {
        self.config.set(parameter, value);
    }

    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        let paths = view.paths.len().max(self.paths.len());
        self.paths.resize_with(paths, Record::default);
        match event {
            Event::Established => {
                cover(view, false, actions);
                self.poll(view, actions);
            }
            Event::PathUp(path) => {
                let backup = self.is_backup(path);
                open(view, path, view.paths[path].up, backup, actions);
            }
            // It comes back as another one.
            Event::PathDown(path) => self.paths[path] = Record::default(),
            Event::Timer => self.poll(view, actions),
            Event::SubflowEstablished(_) | Event::SubflowClosed { .. } => {}
        }
        if matches!(event, Event::Established | Event::Timer) {
            actions.push(Action::Wake {
                at_us: view.now_us + POLL_US,
            });
        }
        self.apply(view, actions);
    }

    fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        let loss = |path: usize| self.is_backup(path).then_some(Reason::Loss);
        (0..view.paths.len()).map(loss).collect()
    }
}

#[cfg(test)]
mod tests;
