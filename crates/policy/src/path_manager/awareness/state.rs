//! The state of a path, and every way from one to another.
//!
//! ```text
//!                     rules 2 to 4                    time, probes, signal,
//!            ┌──────────────────────────────▶ Backup ──the connection misses it──┐
//!            │                                                                   ▼
//!         Active ◀──────────────────── time ─────────────────────────────── Probation
//!            │                                                                   ▲
//!            └──nothing gets through (rule 1)─▶ Dead ──something is delivered,───┘
//!                                                      a new subflow is established
//! ```

use super::config::{Backoff, Config};
use super::deficit::{Deficit, Step, DEFICIT_S};
use super::estimate::Estimate;
use super::probe::Evidence;
use super::subflow::Timers;

/// A path that has been active for so long starts again at the first backup time, µs.
const FORGET_US: u64 = 60_000_000;
/// Backup times of a path that does not lose.
const REST: Backoff = Backoff {
    first_us: 60_000_000,
    most_us: 240_000_000,
};
/// A path that nothing was delivered on for so long is a new one, µs.
const MEMORY_US: u64 = 600_000_000;
/// The others find their rate before the connection can miss a path, µs.
const MISSED_AFTER_US: u64 = 500_000;

/// Why a path is in backup, the least bad first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It delays the connection or carries little.
    SmallShare,
    Loss,
    Signal,
    /// Nothing gets through.
    Stalled,
    /// The user's rule.
    Metered,
    /// A bandit has others carry data; [`Awareness`](super::Awareness) never says so.
    Unchosen,
}

impl Reason {
    pub const ALL: [Reason; 6] = [
        Reason::SmallShare,
        Reason::Loss,
        Reason::Signal,
        Reason::Stalled,
        Reason::Metered,
        Reason::Unchosen,
    ];

    /// As the documentation calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::SmallShare => "small share",
            Reason::Loss => "loss",
            Reason::Signal => "signal",
            Reason::Stalled => "stalled",
            Reason::Metered => "metered",
            Reason::Unchosen => "unchosen",
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) enum State {
    #[default]
    Active,
    /// It carries data again, and only rules 1 and 2 judge it.
    Probation {
        until_us: u64,
    },
    Backup(Backup),
    /// Nothing gets through.
    Dead,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Backup {
    pub reason: Reason,
    /// When time restores it.
    pub until_us: u64,
    /// Its loss before, packets lost per packet.
    pub loss: f64,
    /// Goodput with the path, or what that alone would carry, bytes/s; 0: nobody knows.
    claim: f64,
    /// Behind the claim.
    missed: Deficit,
}

/// One path: its state, and what that rests on.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    pub state: State,
    /// When it came into this state; `None` once that is forgotten.
    pub since_us: Option<u64>,
    pub estimate: Estimate,
    pub evidence: Evidence,
    pub timers: Timers,
    /// It was dead, or in backup for its loss, and that is not forgotten.
    pub was_bad: bool,
    /// It lost when something was last delivered on it.
    pub was_lossy: bool,
    /// Timed backup states in a row.
    backups: u32,
    /// When something was last delivered on it in an earlier connection, µs.
    known_us: u64,
}

impl Path {
    pub fn reason(&self) -> Option<Reason> {
        match self.state {
            State::Active | State::Probation { .. } => None,
            State::Backup(backup) => Some(backup.reason),
            State::Dead => Some(Reason::Stalled),
        }
    }

    fn enter(&mut self, state: State, now_us: u64) {
        (self.state, self.since_us) = (state, Some(now_us));
    }

    /// When it died.
    pub fn dead_us(&self) -> Option<u64> {
        self.since_us.filter(|_| matches!(self.state, State::Dead))
    }

    /// A signal is trusted no sooner after its path was set to backup.
    pub fn rested(&self, now_us: u64, config: &Config) -> bool {
        self.since_us
            .is_none_or(|at| now_us >= at + config.dwell_us)
    }

    /// When something was last delivered on the path, or a probe answered; 0: never.
    pub fn known_us(&self) -> u64 {
        let own = self.estimate.delivered_us.max(self.evidence.answered_us());
        self.known_us.max(own)
    }

    pub fn is_known(&self, now_us: u64) -> bool {
        now_us < self.known_us() + MEMORY_US
    }

    /// A subflow is up, and with it the path.
    pub fn opened(&mut self, now_us: u64, config: &Config) {
        if self.dead_us().is_some() {
            self.resume(now_us, config);
        }
        self.timers.opened();
        self.estimate.opened();
    }

    /// `together`: what the connection carried with it, bytes/s.
    pub fn set_backup(&mut self, reason: Reason, now_us: u64, together: f64, config: &Config) {
        self.was_bad = matches!(reason, Reason::Loss | Reason::Stalled);
        if reason == Reason::Stalled {
            return self.enter(State::Dead, now_us);
        }
        let (times, claim) = match reason {
            Reason::SmallShare => (REST, together),
            Reason::Loss => (config.backup_time, together.max(self.estimate.standalone())),
            _ => (config.backup_time, 0.0),
        };
        let backup = Backup {
            reason,
            until_us: now_us + times.time(self.backups),
            loss: self.estimate.window.share(),
            claim,
            missed: Deficit::default(),
        };
        self.enter(State::Backup(backup), now_us);
        self.evidence = Evidence::default();
        self.backups += u32::from(reason != Reason::Signal);
    }

    /// Ends a probation, and forgets earlier backup states once the path has been active for long.
    pub fn settle(&mut self, now_us: u64) {
        if let State::Probation { until_us } = self.state {
            if now_us >= until_us {
                self.enter(State::Active, until_us);
            }
        }
        let active = matches!(self.state, State::Active);
        if active && self.since_us.is_some_and(|at| now_us >= at + FORGET_US) {
            (self.backups, self.was_bad, self.since_us) = (0, false, None);
            self.timers.delivered();
        }
    }

    /// Carries data again, with new estimates: the old ones say nothing of what the path does now.
    pub fn resume(&mut self, now_us: u64, config: &Config) {
        self.resume_until(now_us, now_us + config.dwell_us);
    }

    /// The same, on probation for as long as it would be in backup.
    pub fn resume_missed(&mut self, now_us: u64, config: &Config) {
        let backup_us = config.backup_time.time(self.backups.saturating_sub(1));
        self.resume_until(now_us, now_us + backup_us + config.dwell_us);
    }

    fn resume_until(&mut self, now_us: u64, until_us: u64) {
        self.estimate.begin_anew();
        self.enter(State::Probation { until_us }, now_us);
    }

    /// Whether the connection carries less than it did with this path. Not while data of the path still arrive, nor while the
    /// others deliver as much, bytes/s: then the connection waits for the last data of the path.
    pub fn is_missed(&mut self, now_us: u64, step: Step, others: f64) -> bool {
        let last_us = self.estimate.delivered_us.max(self.since_us.unwrap_or(0));
        let State::Backup(backup) = &mut self.state else {
            return false;
        };
        if now_us < last_us + MISSED_AFTER_US {
            return false;
        }
        backup.missed.add(step, backup.claim, 0.0);
        backup.missed.seconds() >= DEFICIT_S && others < backup.claim
    }

    /// No time passes for a backup state while nothing is in flight, until the path is forgotten.
    pub fn pause(&mut self, now_us: u64, us: u64) {
        let known = self.is_known(now_us);
        if let (State::Backup(backup), true) = (&mut self.state, known) {
            backup.until_us += us;
        }
    }

    /// What the next connection begins with at `now_us`, where this one was last polled at `polled_us`. In between nobody
    /// could use the path, so that no time has passed for it. A handshake will tell whether a dead path is back.
    pub fn carried_over(&self, polled_us: u64, now_us: u64, config: &Config) -> Path {
        let gap = now_us.saturating_sub(polled_us);
        let state = match self.state {
            State::Backup(backup) => {
                // Probes that fail keep it in backup, whatever the time. Those of the next connection go to another end,
                // which may answer none: one more backup time.
                let more = match self.evidence.fails(polled_us) {
                    true => config.backup_time.time(self.backups.saturating_sub(1)),
                    false => 0,
                };
                State::Backup(Backup {
                    until_us: (backup.until_us + gap).max(now_us + more),
                    loss: self.evidence.loss(backup.loss),
                    // What one connection carried says nothing of what the next one has to send.
                    claim: 0.0,
                    ..backup
                })
            }
            State::Probation { until_us } => State::Probation {
                until_us: until_us + gap,
            },
            State::Active | State::Dead => State::Active,
        };
        Path {
            state,
            since_us: self.since_us.map(|at| at + gap),
            estimate: self.estimate.inherited(),
            was_bad: self.was_bad,
            backups: self.backups,
            known_us: self.known_us(),
            ..Path::default()
        }
    }
}
