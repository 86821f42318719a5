//! The state of a path, and every way from one to another.
//!
//! ```text
//!            a rule of rules.rs              nothing gets through
//! Active ───────────────────────▶ Backup    any state ──────────────▶ Dead
//!   ▲  ▲                            │ │                                 │
//!   │  └── time, probes, signal ────┘ │ the connection falls behind     │ something is delivered,
//!   │                                 ▼ without it                      │ a new subflow is established
//!   ├──── its time is over ─────  Probation                             │
//!   └───────────────────────────────────────────────────────────────────┘
//! ```

use super::config::{Backoff, Config};
use super::deficit::{Missed, Step, Together};
use super::estimate::Estimate;
use super::probe::Evidence;
use super::subflow::Timers;

/// A path that has been active for so long starts again at the first backup time, µs.
const FORGET_US: u64 = 60_000_000;
/// Backup times of a slow or small path.
const REST: Backoff = Backoff {
    first_us: 60_000_000,
    most_us: 240_000_000,
};
/// A path of which nothing was heard for so long is a new one, µs.
const MEMORY_US: u64 = 600_000_000;

/// Why a path is in backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Loss,
    /// It held up the connection, or carried little.
    Contribution,
    Signal,
    /// Nothing gets through.
    Stalled,
    /// The user's rule.
    Metered,
    /// A bandit has others carry data; [`Awareness`](super::Awareness) never says so.
    Unchosen,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    /// Judged by all rules. `since_us`: the last change; `None` once it is forgotten.
    Active {
        since_us: Option<u64>,
    },
    /// It was set to backup wrongly, and is not judged by a goodput deficit until then.
    Probation {
        since_us: u64,
        until_us: u64,
    },
    Backup(Backup),
    /// Nothing gets through.
    Dead {
        since_us: u64,
    },
}

impl Default for State {
    fn default() -> State {
        State::Active { since_us: None }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Backup {
    pub reason: Reason,
    pub since_us: u64,
    /// When time restores it.
    pub until_us: u64,
    /// Its loss before, packets lost per packet.
    pub loss: f64,
    pub missed: Missed,
}

/// One path: its state, and what that rests on.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    pub state: State,
    pub estimate: Estimate,
    pub evidence: Evidence,
    pub timers: Timers,
    /// Goodput of the connection with this path, since it last began to lose.
    pub together: Together,
    pub was_lossy: bool,
    /// It was dead, or in backup for its loss, and that is not forgotten.
    pub was_bad: bool,
    /// Timed backup states in a row, and probations in a row.
    pub backups: u32,
    pub probations: u32,
    /// When an earlier connection last heard of the path, µs.
    pub known_us: u64,
}

impl Path {
    pub fn is_normal(&self) -> bool {
        matches!(self.state, State::Active { .. } | State::Probation { .. })
    }

    pub fn backup(&self) -> Option<&Backup> {
        match &self.state {
            State::Backup(backup) => Some(backup),
            _ => None,
        }
    }

    pub fn reason(&self) -> Option<Reason> {
        match self.state {
            State::Backup(backup) => Some(backup.reason),
            State::Dead { .. } => Some(Reason::Stalled),
            _ => None,
        }
    }

    /// When it last changed its state.
    pub fn changed_us(&self) -> Option<u64> {
        match self.state {
            State::Active { since_us } => since_us,
            State::Probation { since_us, .. } | State::Dead { since_us } => Some(since_us),
            State::Backup(backup) => Some(backup.since_us),
        }
    }

    /// When it died.
    pub fn dead_us(&self) -> Option<u64> {
        match self.state {
            State::Dead { since_us } => Some(since_us),
            _ => None,
        }
    }

    /// It has kept its state for long enough to be judged.
    pub fn rested(&self, now_us: u64, config: &Config) -> bool {
        self.changed_us()
            .is_none_or(|at| now_us >= at + config.dwell_us)
    }

    /// When something was last heard of the path; 0: never.
    pub fn known_us(&self) -> u64 {
        let own = self.estimate.heard_us.max(self.evidence.heard_us());
        self.known_us.max(own)
    }

    /// No time passes for a path in backup while nothing is in flight, but not for ever.
    pub fn is_known(&self, now_us: u64) -> bool {
        now_us < self.known_us() + MEMORY_US
    }

    /// A subflow is up, and with it the path.
    pub fn opened(&mut self, now_us: u64) {
        if self.dead_us().is_some() {
            self.resume(now_us);
        }
        self.timers.opened();
        self.estimate.opened();
    }

    pub fn die(&mut self, now_us: u64) {
        self.state = State::Dead { since_us: now_us };
        self.was_bad = true;
    }

    pub fn set_backup(&mut self, reason: Reason, now_us: u64, config: &Config) {
        let times = match reason {
            Reason::Contribution => REST,
            _ => config.backup_time,
        };
        let alone = match reason {
            Reason::Loss => self.estimate.standalone(),
            _ => 0.0,
        };
        self.state = State::Backup(Backup {
            reason,
            since_us: now_us,
            until_us: now_us + times.time(self.backups),
            loss: self.estimate.window.share(),
            missed: Missed::new(now_us, self.together.mean().max(alone)),
        });
        self.evidence = Evidence::default();
        self.was_bad = reason == Reason::Loss;
        self.backups += u32::from(reason != Reason::Signal);
    }

    /// Ends a probation, and forgets what is long past.
    pub fn settle(&mut self, now_us: u64) {
        match self.state {
            State::Active { since_us: Some(at) } if now_us >= at + FORGET_US => {
                (self.backups, self.probations, self.was_bad) = (0, 0, false);
                self.state = State::Active { since_us: None };
            }
            State::Probation { until_us, .. } if now_us >= until_us => self.activate(now_us),
            _ => {}
        }
    }

    fn activate(&mut self, now_us: u64) {
        self.state = State::Active {
            since_us: Some(now_us),
        };
    }

    /// Active again, and what it did before says nothing of what it does now.
    pub fn resume(&mut self, now_us: u64) {
        self.estimate.begin_anew(now_us);
        self.activate(now_us);
    }

    /// Whether the connection, which carries so much, misses this path.
    pub fn is_missed(&mut self, now_us: u64, step: Step, carried: f64, config: &Config) -> bool {
        let delivers = self.estimate.delivers(now_us, config);
        let State::Backup(backup) = &mut self.state else {
            return false;
        };
        if delivers {
            backup.missed.wait(now_us);
        }
        matches!(backup.reason, Reason::Loss | Reason::Contribution)
            && backup.missed.proven(now_us, step, carried)
    }

    pub fn probation(&mut self, now_us: u64, config: &Config) {
        self.estimate.begin_anew(now_us);
        self.backups = self.backups.saturating_sub(1);
        self.state = State::Probation {
            since_us: now_us,
            until_us: now_us + config.backup_time.time(self.probations),
        };
        self.probations += 1;
    }

    /// No time passes for a backup state while nothing is in flight.
    pub fn rest(&mut self, us: u64) {
        if let State::Backup(backup) = &mut self.state {
            backup.until_us += us;
        }
    }

    /// What the next connection begins with at `now_us`, where this one was last polled at `polled_us`. In between nobody
    /// could use the path, so that no time has passed for it. A handshake will tell whether a dead path is back.
    pub fn succeed(&self, polled_us: u64, now_us: u64, config: &Config) -> Path {
        let gap = now_us.saturating_sub(polled_us);
        let state = match self.state {
            State::Backup(backup) => {
                // Probes that fail keep it in backup, whatever the time. Those of the next connection go to another end,
                // which may answer none: one more backup time.
                let more = match self.evidence.condemns(polled_us) {
                    true => config.backup_time.time(self.backups.saturating_sub(1)),
                    false => 0,
                };
                State::Backup(Backup {
                    since_us: backup.since_us + gap,
                    until_us: (backup.until_us + gap).max(now_us + more),
                    loss: self.evidence.loss(backup.loss),
                    // What one connection carried says nothing of what the next one has to send.
                    missed: Missed::default(),
                    ..backup
                })
            }
            State::Probation { since_us, until_us } => State::Probation {
                since_us: since_us + gap,
                until_us: until_us + gap,
            },
            State::Active { since_us } => State::Active {
                since_us: since_us.map(|at| at + gap),
            },
            State::Dead { .. } => State::default(),
        };
        Path {
            state,
            estimate: self.estimate.inherited(self.backup().is_some()),
            backups: self.backups,
            probations: self.probations,
            was_bad: self.was_bad,
            known_us: self.known_us(),
            ..Path::default()
        }
    }
}
