//! What the policy asks of the world: subflows opened, set to backup or restored, and probes.

use super::state;
use super::{Awareness, Reason};
use crate::path_manager::{Action, Rule, State, View};

/// Probes sent at each poll.
const PROBES: u32 = 2;
/// Nobody waits for a path in backup where the connection carries less, bytes/s.
const GOODPUT: f64 = 10_000.0;

impl Awareness {
    /// A subflow on a path that has none.
    pub(super) fn open(&mut self, path: usize, view: &View<'_>, actions: &mut Vec<Action>) {
        let p = &view.paths[path];
        if p.up && p.rule != Rule::Untrusted && view.subflows_on(path) == 0 {
            self.push_open(path, view, actions);
        }
    }

    /// As a backup where the path is in backup. Not on a dead path: its handshake alone ends that, and the kernel's path
    /// manager tells MP_PRIO to the first subflow of an address only, which may be the dead one
    /// (`mptcp_pm_mp_prio_send_ack`, net/mptcp/pm.c).
    fn push_open(&mut self, path: usize, view: &View<'_>, actions: &mut Vec<Action>) {
        let metered = view.paths[path].rule == Rule::Metered;
        let backup = metered || matches!(self.paths[path].state, state::State::Backup(_));
        actions.push(Action::Open { path, backup });
        self.paths[path].timers.opening(view.now_us);
    }

    /// A dead path is tried with new subflows, one at a time and with exponential backoff, and one that failed is opened again in
    /// time.
    pub(super) fn reopen(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        for (slot, s) in view.subflows.iter().enumerate() {
            let state = &self.paths[s.path];
            let over = match s.state {
                // A new subflow is the better probe by then.
                State::Established => state
                    .dead_us()
                    .is_some_and(|at| state.timers.may_retry(view.now_us, at)),
                State::Opening => state.timers.overdue(view.now_us, state.estimate.min_rtt_us),
                State::Closed => false,
            };
            let path = &view.paths[s.path];
            if over && path.up && path.rule != Rule::Untrusted {
                actions.push(Action::Close { slot });
                self.push_open(s.path, view, actions);
                self.paths[s.path].timers.replaces();
            }
        }
        for path in 0..view.paths.len() {
            if self.paths[path].timers.reopen_due(view.now_us) {
                self.open(path, view, actions);
            }
        }
    }

    /// A path that is in backup for its loss is probed while there are data to send.
    pub(super) fn probe(&self, view: &View<'_>, actions: &mut Vec<Action>) {
        if self.goodput.smoothed < GOODPUT {
            return;
        }
        for (path, state) in self.paths.iter().enumerate() {
            let of = &view.paths[path];
            let usable = of.up && !matches!(of.rule, Rule::Untrusted | Rule::Metered);
            if usable && state.reason() == Some(Reason::Loss) {
                let count = PROBES;
                actions.push(Action::Probe { path, count });
            }
        }
    }

    /// MP_PRIO for the subflows that do not have the state of their path.
    pub(super) fn apply(&self, view: &View<'_>, actions: &mut Vec<Action>) {
        let normal = self.choose(view);
        // First the promotions: never a moment without a normal subflow.
        for backup in [false, true] {
            for (slot, s) in view.subflows.iter().enumerate() {
                let wanted = !normal.contains(&s.path);
                if s.state == State::Established && s.backup != wanted && wanted == backup {
                    actions.push(Action::SetBackup { slot, backup });
                }
            }
        }
    }
}
