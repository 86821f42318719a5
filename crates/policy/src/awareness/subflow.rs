//! A path's subflow: opened, refused, given up, opened again.

use super::state::{Path, State};
use super::{Awareness, Config};
use crate::path_manager::{Action, Rule, State as Slot, View};

/// A dead path gets a new subflow after so long, µs: retransmissions of the old one come ever more rarely, up to two
/// minutes apart, and would find out late that the path is back …
const GIVE_UP_US: u64 = 2_000_000;
/// … and again after so long, µs: a SYN each, about 40 bytes/s.
const RETRY_US: u64 = 1_500_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Timers {
    /// Failures to open in a row, and when to try again.
    failures: u32,
    reopen_us: Option<u64>,
    opening_us: u64,
}

impl Timers {
    pub fn opening(&mut self, now_us: u64) {
        self.opening_us = now_us;
    }

    pub fn opened(&mut self) {
        (self.failures, self.reopen_us) = (0, None);
    }

    /// A subflow was refused, reset, or timed out.
    pub fn failed(&mut self, now_us: u64, config: &Config) {
        self.reopen_us = Some(now_us + config.reopening.time(self.failures));
        self.failures += 1;
    }

    /// Once when it is time to open a subflow again.
    fn reopen_due(&mut self, now_us: u64) -> bool {
        self.reopen_us.take_if(|t| *t <= now_us).is_some()
    }
}

impl Path {
    /// Dead for so long that a new subflow is the better probe.
    fn given_up(&self, now_us: u64) -> bool {
        let State::Dead { since_us } = self.state else {
            return false;
        };
        now_us >= (self.timers.opening_us + RETRY_US).max(since_us + GIVE_UP_US)
    }

    /// The handshake on a path that has worked before is overdue.
    fn overdue(&self, now_us: u64) -> bool {
        let min_rtt_us = u64::from(self.estimate.min_rtt_us);
        min_rtt_us > 0 && now_us >= self.timers.opening_us + RETRY_US.max(3 * min_rtt_us)
    }

    /// A new subflow begins as a backup. Not on a dead path: its handshake alone ends that, and the kernel's path manager
    /// tells MP_PRIO to the first subflow of an address only, which may be the dead one (`mptcp_pm_mp_prio_send_ack`,
    /// net/mptcp/pm.c).
    fn opens_as_backup(&self) -> bool {
        self.backup().is_some()
    }

    /// A subflow is up, and with it the path.
    pub fn opened(&mut self, now_us: u64) {
        if let State::Dead { .. } = self.state {
            self.resume(now_us);
        }
        self.timers.opened();
        self.estimate.opened();
    }
}

impl Awareness {
    pub(super) fn open(&mut self, path: usize, view: &View<'_>, actions: &mut Vec<Action>) {
        let p = &view.paths[path];
        if view.client && p.up && p.rule != Rule::Untrusted && view.subflows_on(path) == 0 {
            self.push_open(path, view, actions);
        }
    }

    fn push_open(&mut self, path: usize, view: &View<'_>, actions: &mut Vec<Action>) {
        let metered = view.paths[path].rule == Rule::Metered;
        let backup = metered || self.paths[path].opens_as_backup();
        actions.push(Action::Open { path, backup });
        self.paths[path].timers.opening(view.now_us);
    }

    /// A dead path is tried with new subflows, one at a time, and one that failed is opened again in time.
    pub(super) fn reopen(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        for (slot, s) in view.subflows.iter().enumerate() {
            let state = &self.paths[s.path];
            let over = match s.state {
                Slot::Established => state.given_up(view.now_us),
                Slot::Opening => state.overdue(view.now_us),
                Slot::Closed => false,
            };
            let path = &view.paths[s.path];
            if over && path.up && path.rule != Rule::Untrusted {
                actions.push(Action::Close { slot });
                self.push_open(s.path, view, actions);
            }
        }
        for path in 0..view.paths.len() {
            if self.paths[path].timers.reopen_due(view.now_us) {
                self.open(path, view, actions);
            }
        }
    }
}
