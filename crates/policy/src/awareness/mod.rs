//! Path awareness: a subflow on every path, and those that harm the stream set to backup (MP_PRIO) until they are worth
//! it again.
//!
//! MPTCP-LA judges loss, MPTCP-MA signal strength. Both also see a subflow that has stalled and an interface's rule;
//! MPTCP-LA further judges what a path contributes: one that holds up the stream is left out. Whatever a path was parked
//! for, it comes back where the stream carries less without it than it did with it. How long it looks on is no matter of time, but of how far the stream has fallen
//! behind what the best path alone would have delivered; a parked path that still holds up the stream gets a new
//! subflow, so that what waits on the old one goes elsewhere.
//!
//! A path in backup is *parked*. One that carries no data cannot clear itself: one parked for its loss is probed
//! ([`Config::probing`]), and where nobody answers, or for another reason, parking ends by time, longer at each
//! repetition ([`Config::parking`]). A stalled one returns as soon as something gets through, one with a bad signal when
//! the signal is back. The last normal subflow is never parked, but where another one can stand in for a dead one.
//! `docs/path-awareness.md` has the rules with what was measured.

mod config;
mod judge;
mod loss;
mod memory;
mod missed;
mod probe;
mod revival;
#[cfg(test)]
mod tests;
mod verdict;

pub use config::{Backoff, Config, Contribution, Loss, Probing, Threshold};
pub use loss::lower_bound;
pub use memory::Memory;

use crate::path_manager::{Action, Event, Known, Manage, Rule, State, Subflow, View};
use judge::Judge;

/// Why a path is in backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Loss,
    /// It held up the stream and gave less than it cost.
    Contribution,
    Signal,
    Rtt,
    /// Nothing gets through.
    Stalled,
    /// The user's rule.
    Metered,
    /// A bandit has others carry data; [`Awareness`] never says so.
    Unchosen,
}

#[derive(Debug, Clone)]
pub struct Awareness {
    config: Config,
    paths: Vec<Judge>,
    /// Connection: bytes/s and share of time held, smoothed over about a second.
    goodput: f64,
    held: f64,
    /// The same over a fifth of a second.
    goodput_recent: f64,
    held_recent: f64,
    last: Option<Last>,
    /// Since the look before: seconds, bytes/s; `None` where it says nothing of the paths.
    step: Option<(f64, f64)>,
    /// Something was on the way at the look before.
    busy: bool,
    /// Seconds' worth of the best path that the stream lacks of what that one alone would have delivered; and of that,
    /// what it lacks because it is held up.
    behind: f64,
    held_up: f64,
    /// What the best path alone would carry, at the look before, bytes/s.
    best: f64,
    /// Paths that were normal at the look before.
    normal: Vec<usize>,
    /// No path is judged by the stream until then; paths that were missed in a row.
    peace_us: u64,
    acquittals: u32,
    /// When a path that is at work was last given more than it carries.
    pressed_us: u64,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    now_us: u64,
    bytes: u64,
    held_us: u64,
}

impl Awareness {
    pub fn new(config: Config) -> Self {
        Awareness {
            config,
            paths: Vec::new(),
            goodput: 0.0,
            held: 0.0,
            goodput_recent: 0.0,
            held_recent: 0.0,
            last: None,
            step: None,
            busy: false,
            behind: 0.0,
            held_up: 0.0,
            best: 0.0,
            normal: Vec::new(),
            peace_us: 0,
            acquittals: 0,
            pressed_us: 0,
        }
    }

    /// Why each path is in backup; `None` where it is not.
    pub fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        let normal = self.choose(view);
        let reason = |path: usize| {
            self.paths
                .get(path)
                .and_then(|j| j.parked)
                .map(|p| p.reason)
        };
        let metered =
            |path: usize| (view.paths[path].rule == Rule::Metered).then_some(Reason::Metered);
        (0..view.paths.len())
            .map(|path| {
                if normal.contains(&path) {
                    None
                } else {
                    reason(path).or_else(|| metered(path))
                }
            })
            .collect()
    }

    fn open(&mut self, path: usize, view: &View<'_>, actions: &mut Vec<Action>) {
        let p = &view.paths[path];
        if view.client && p.up && p.rule != Rule::Untrusted && view.subflows_on(path) == 0 {
            let backup =
                p.rule == Rule::Metered || self.paths.get(path).is_some_and(Judge::comes_parked);
            actions.push(Action::Open { path, backup });
            self.paths[path].opening(view.now_us);
        }
    }

    fn measure(&mut self, view: &View<'_>) {
        self.paths.resize_with(view.paths.len(), Judge::default);
        let last = self.last.replace(Last {
            now_us: view.now_us,
            bytes: view.bytes,
            held_us: view.held_us,
        });
        self.step = None;
        let Some(last) = last.filter(|l| l.now_us < view.now_us) else {
            return;
        };
        let elapsed = (view.now_us - last.now_us) as f64;
        let weight = judge::weight(elapsed);
        let rate = view.bytes.saturating_sub(last.bytes) as f64 * 1e6 / elapsed;
        self.goodput += weight * (rate - self.goodput);
        let held = (view.held_us.saturating_sub(last.held_us) as f64 / elapsed).min(1.0);
        self.held += weight * (held - self.held);
        let brief = judge::brief_weight(elapsed);
        self.goodput_recent += brief * (rate - self.goodput_recent);
        self.held_recent += brief * (held - self.held_recent);
        // While nothing is on the way on any path, none of them holds up the stream: the application has nothing to send, or
        // the connection's window is closed, as where it was overrun (docs/drones.md) and a fragment comes and goes now and
        // then.
        let on_the_way = |s: &Subflow| s.state == State::Established && s.stats.unacked > 0;
        let busy = view.subflows.iter().any(on_the_way);
        let before = std::mem::replace(&mut self.busy, busy);
        self.step = (before && busy).then_some((elapsed / 1e6, rate));
        for (path, judge) in self.paths.iter_mut().enumerate() {
            if !before && !busy {
                judge.rest(last.now_us, view.now_us);
            }
            let slot = view
                .subflows
                .iter()
                .find(|s| s.state == State::Established && s.path == path);
            judge.measure(view.now_us, elapsed, slot.map(|s| &s.stats), &self.config);
        }
    }

    /// Paths that are to be normal: not parked, not metered; else the least bad one, so that there is always one.
    fn choose(&self, view: &View<'_>) -> Vec<usize> {
        let established = |path: &usize| {
            view.subflows
                .iter()
                .any(|s| s.state == State::Established && s.path == *path)
        };
        let parked = |path: usize| self.paths.get(path).and_then(|j| j.parked);
        let live: Vec<usize> = (0..view.paths.len())
            .filter(|p| view.paths[*p].up)
            .filter(established)
            .collect();
        let good: Vec<usize> = live
            .iter()
            .copied()
            .filter(|&p| parked(p).is_none() && view.paths[p].rule != Rule::Metered)
            .collect();
        if !good.is_empty() {
            return good;
        }
        let badness = |path: usize| {
            let judge = self.paths.get(path);
            let reason = match parked(path).map(|p| p.reason) {
                None => 0,
                Some(Reason::Contribution | Reason::Rtt | Reason::Metered | Reason::Unchosen) => 1,
                Some(Reason::Loss) => 2,
                Some(Reason::Signal) => 3,
                Some(Reason::Stalled) => 4,
            };
            // A metered path stands in where the others lose, but is preferred to one through which nothing gets.
            let metered = view.paths[path].rule == Rule::Metered;
            (
                reason == 4,
                metered,
                reason,
                judge.map_or(0, |j| (j.loss() * 1e9) as u64),
            )
        };
        live.into_iter()
            .min_by_key(|&p| badness(p))
            .into_iter()
            .collect()
    }

    fn apply(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
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

impl Manage for Awareness {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        if !view.client {
            return;
        }
        self.paths
            .resize_with(view.paths.len().max(self.paths.len()), Judge::default);
        match event {
            Event::Established | Event::PathUp(_) => {
                (0..view.paths.len()).for_each(|path| self.open(path, view, actions));
            }
            Event::PathDown(path) => {
                // It comes back as another one.
                self.paths[path] = Judge::default();
                // Its data go elsewhere at once, rather than after timeouts.
                let on = |s: &Subflow| s.state != State::Closed && s.path == path;
                actions.extend(
                    (0..view.subflows.len())
                        .filter(|&i| on(&view.subflows[i]))
                        .map(|slot| Action::Close { slot }),
                );
            }
            Event::SubflowEstablished(slot) => {
                self.paths[view.subflows[slot].path].opened(view.now_us)
            }
            Event::SubflowClosed { path, error, .. } => {
                if error {
                    self.paths[path].failed(view.now_us, &self.config);
                }
            }
            Event::Timer => {}
        }
        if event == Event::Timer || event == Event::Established {
            self.measure(view);
            self.hold_inherited(view.now_us);
            self.judge(view);
            self.relieve(view, actions);
            self.revive(view, actions);
            self.probe(view, actions);
            for path in 0..view.paths.len() {
                if self.paths[path].reopen_due(view.now_us) {
                    self.open(path, view, actions);
                }
            }
            actions.push(Action::Wake {
                at_us: view.now_us + self.config.interval_us,
            });
        }
        self.apply(view, actions);
    }

    fn told(&self) -> Option<Vec<Known>> {
        Some(self.remembered())
    }

    fn hear(&mut self, known: &[Known], now_us: u64) {
        self.succeed(known, now_us);
    }
}
