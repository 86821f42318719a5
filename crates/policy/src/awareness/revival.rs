//! New subflows in place of those that do not do.

use super::judge::Judge;
use super::{Awareness, Reason};
use crate::path_manager::{Action, Rule, State, View};

impl Awareness {
    /// A path that has died is tried with new subflows, one at a time.
    pub(super) fn revive(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        for (slot, s) in view.subflows.iter().enumerate() {
            let judge = &self.paths[s.path];
            let over = match s.state {
                State::Established => judge.given_up(view.now_us, &self.config),
                State::Opening => judge.overdue(view.now_us, &self.config),
                State::Closed => false,
            };
            let path = &view.paths[s.path];
            if over && path.up && path.rule != Rule::Untrusted {
                let backup = path.rule == Rule::Metered || judge.comes_parked();
                actions.push(Action::Close { slot });
                actions.push(Action::Open {
                    path: s.path,
                    backup,
                });
                self.paths[s.path].opening(view.now_us);
            }
        }
    }

    /// A path that rests for its loss is probed while there are data to send.
    pub(super) fn probe(&self, view: &View<'_>, actions: &mut Vec<Action>) {
        let Some(rule) = self.config.probing.filter(|p| self.goodput >= p.goodput) else {
            return;
        };
        for (path, judge) in self.paths.iter().enumerate() {
            let of = &view.paths[path];
            let usable = of.up && !matches!(of.rule, Rule::Untrusted | Rule::Metered);
            if usable && judge.parked.is_some_and(|p| p.reason == Reason::Loss) {
                let count = rule.count;
                actions.push(Action::Probe { path, count });
            }
        }
    }

    /// What waits on a path that was parked still holds up the stream: a new subflow takes the old one's place, whose data
    /// then go elsewhere.
    pub(super) fn relieve(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        let sum = |f: fn(&Judge) -> f64| -> f64 { self.paths.iter().map(f).sum() };
        let waits = self.goodput_recent < self.config.relief_flow * sum(|j| j.recent);
        // Where nothing gets through the others, it is all that the stream has.
        let silent = |&p: &usize| self.paths[p].silent(view.now_us, &self.config);
        if self.held_recent < self.config.relief_held && !waits || self.normal.iter().all(silent) {
            return;
        }
        for (slot, s) in view.subflows.iter().enumerate() {
            let path = &view.paths[s.path];
            let carried = s.state == State::Established && s.backup;
            let usable = path.up && path.rule != Rule::Untrusted;
            if carried && usable && self.paths[s.path].relief_due(view.now_us, &self.config) {
                actions.push(Action::Close { slot });
                actions.push(Action::Open {
                    path: s.path,
                    backup: true,
                });
                self.paths[s.path].opening(view.now_us);
            }
        }
    }
}
