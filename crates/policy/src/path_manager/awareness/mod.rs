//! Path awareness: a subflow on every path, and those that harm the connection set to backup (MP_PRIO) until they are worth
//! it again.
//!
//! At each poll: estimate ([`estimate`], [`deficit`]), restore paths, set one path to backup at most ([`rules`] says both).
//! The last normal path stays, unless nothing gets through it and another one can replace it.
//! `docs/reference/path-awareness.md` is the same list for users; `docs/notes/2026-11-23-path-awareness.md` says what each
//! rule is worth.

mod actions;
mod config;
mod deficit;
mod estimate;
mod loss;
mod memory;
mod probe;
mod rules;
mod state;
mod subflow;
#[cfg(test)]
mod tests;

pub use config::{Backoff, Config, Harm, Threshold};
pub use memory::Memory;
pub use state::Reason;

use crate::path_manager::{Action, Event, Known, Manage, Rule, State, Subflow, View};
use deficit::{Deficit, Goodput};
use estimate::Progress;
use rules::Facts;
use state::Path;

/// The rules by which a path is set to backup, in the order in which they are asked.
pub fn rules() -> impl Iterator<Item = Reason> {
    rules::RULES.iter().map(|(reason, _)| *reason)
}

/// Some ten round trips of a long path for the window to grow, and some for what it overshoots, µs.
const START_US: u64 = 3_000_000;
/// A connection that did better than its best path may stall for so long, s.
const AHEAD_S: f64 = 1.0;

#[derive(Debug, Clone)]
pub struct Awareness {
    config: Config,
    paths: Vec<Path>,
    goodput: Goodput,
    /// Goodput deficit behind the best path alone.
    deficit: Deficit,
    /// Paths that were normal at the last poll.
    normal: Vec<usize>,
}

impl Awareness {
    pub fn new(config: Config) -> Self {
        Awareness {
            config,
            paths: Vec::new(),
            goodput: Goodput::default(),
            deficit: Deficit::default(),
            normal: Vec::new(),
        }
    }

    pub fn config(&self) -> Config {
        self.config
    }

    /// Why each path is in backup; `None` where it is not.
    pub fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        let normal = self.choose(view);
        let metered = |path: usize| view.paths[path].rule == Rule::Metered;
        let reason = |path: usize| {
            let own = self.paths.get(path).and_then(Path::reason);
            own.or(metered(path).then_some(Reason::Metered))
        };
        (0..view.paths.len())
            .map(|path| reason(path).filter(|_| !normal.contains(&path)))
            .collect()
    }

    fn poll(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        self.estimate(view);
        self.restore(view);
        self.judge(view);
        self.probe(view, actions);
        self.reopen(view, actions);
    }

    fn estimate(&mut self, view: &View<'_>) {
        let now = view.now_us;
        let in_flight = self.in_flight(view);
        let any = in_flight.contains(&true);
        let Some(elapsed_us) = self.goodput.update(now, view.bytes, any) else {
            return;
        };
        for (path, state) in self.paths.iter_mut().enumerate() {
            if self.goodput.idle {
                state.pause(now, elapsed_us);
            }
            let subflow = established(view).find(|s| s.path == path);
            let counters = subflow.map(|s| &s.counters);
            let (progress, in_flight) = (progress(view), in_flight[path]);
            let estimate = &mut state.estimate;
            estimate.update(now, elapsed_us, counters, progress, in_flight, &self.config);
            if estimate.delivered_at(now) {
                state.timers.delivered();
            }
            state.evidence.update(now, view.paths[path].probes);
        }
    }

    /// Paths with data in flight: the sender's own count, or what a receiver concludes.
    fn in_flight(&mut self, view: &View<'_>) -> Vec<bool> {
        let mut in_flight = vec![false; view.paths.len()];
        let mut follows = false;
        for s in established(view) {
            follows |= (self.paths[s.path].estimate).follows(view.now_us, &s.counters);
        }
        for s in established(view) {
            let sent = s.counters.sent.is_some_and(|sent| sent.in_flight > 0);
            let waits = self.paths[s.path].estimate.waits(progress(view));
            let received = |r: crate::view::Received| follows || r.silent && !waits;
            in_flight[s.path] |= sent || s.counters.received.is_some_and(received);
        }
        in_flight
    }

    fn restore(&mut self, view: &View<'_>) {
        let now = view.now_us;
        // Connections that have just begun have small windows. If those that carried data when a path was set to backup are
        // gone, goodput seems to fall, and the path to be missed.
        let began_us = view.began_us.filter(|at| now < at + START_US).unwrap_or(0);
        let recent = self.normal.iter().map(|&p| self.paths[p].estimate.recent);
        let others = self.goodput.smoothed.max(recent.sum());
        let mut missed = false;
        for (path, state) in self.paths.iter_mut().enumerate() {
            let step = (self.goodput.step).filter(|_| state.since_us >= Some(began_us));
            if rules::is_restored(state, now, view.paths[path].signal_dbm, &self.config) {
                state.resume(now, &self.config);
            } else if step.is_some_and(|step| state.is_missed(now, step, others)) {
                state.resume_missed(now, &self.config);
                missed = true;
            }
            state.settle(now);
        }
        // The others have shown what they carry alone.
        for &path in self.normal.iter().filter(|_| missed) {
            self.paths[path].estimate.forget_peaks();
        }
    }

    fn judge(&mut self, view: &View<'_>) {
        let normal = self.choose(view);
        let mut differs = normal != self.normal;
        self.normal = normal;
        for &path in &self.normal {
            let state = &mut self.paths[path];
            let loses = rules::loses(state, &self.config);
            differs |= loses && !state.was_lossy;
            // While nothing is delivered on it, it counts as losing still.
            if state.estimate.responds(view.now_us, &self.config) {
                state.was_lossy = loses;
            }
        }
        if differs {
            self.goodput.begin_anew();
        }
        let standalone = |&path: &usize| self.paths[path].estimate.standalone();
        let best = self.normal.iter().map(standalone).fold(0.0, f64::max);
        match self.goodput.step {
            _ if self.normal.len() < 2 => self.deficit = Deficit::default(),
            Some(step) => self.deficit.add(step, best, AHEAD_S),
            None => {}
        }
        let facts = Facts {
            view,
            config: &self.config,
            paths: &self.paths,
            normal: &self.normal,
            deficit_s: self.deficit.seconds(),
        };
        if let Some((path, reason)) = facts.verdict() {
            let together = self.goodput.together;
            self.paths[path].set_backup(reason, view.now_us, together, &self.config);
            self.deficit = Deficit::default();
        }
    }

    /// Paths that are to be normal: not in backup, not metered; else the least bad one, so that there is always one.
    fn choose(&self, view: &View<'_>) -> Vec<usize> {
        let subflow = |path: &usize| established(view).any(|s| s.path == *path);
        let up = (0..view.paths.len()).filter(|&path| view.paths[path].up);
        let live: Vec<usize> = up.filter(subflow).collect();
        let reason = |path: usize| self.paths.get(path).and_then(Path::reason);
        let metered = |path: usize| view.paths[path].rule == Rule::Metered;
        let good = |path: &usize| reason(*path).is_none() && !metered(*path);
        let normal: Vec<usize> = live.iter().copied().filter(good).collect();
        if !normal.is_empty() {
            return normal;
        }
        // A metered path stands in for a dead one, and not for one that merely loses.
        let badness = |&path: &usize| {
            let loss = |p: &Path| (p.estimate.window.lower_bound() * 1e9) as u64;
            let dead = reason(path) == Some(Reason::Stalled);
            let loss = self.paths.get(path).map_or(0, loss);
            ((dead, metered(path)), (reason(path), loss))
        };
        live.into_iter().min_by_key(badness).into_iter().collect()
    }
}

fn progress(view: &View<'_>) -> Progress {
    Progress {
        in_order: view.bytes,
        delivered: established(view).map(|s| s.counters.bytes()).sum(),
    }
}

fn established<'a>(view: &'a View<'a>) -> impl Iterator<Item = &'a Subflow> {
    let subflows = view.subflows.iter();
    subflows.filter(|s| s.state == State::Established)
}

impl Manage for Awareness {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        let paths = view.paths.len().max(self.paths.len());
        self.paths.resize_with(paths, Path::default);
        match event {
            Event::Established | Event::PathUp(_) => {
                (0..view.paths.len()).for_each(|path| self.open(path, view, actions));
            }
            Event::PathDown(path) => {
                // It comes back as another one.
                self.paths[path] = Path::default();
                // Its data go elsewhere at once, rather than after timeouts.
                let on = |s: &Subflow| s.state != State::Closed && s.path == path;
                let slots = (0..view.subflows.len()).filter(|&i| on(&view.subflows[i]));
                actions.extend(slots.map(|slot| Action::Close { slot }));
            }
            Event::SubflowEstablished(slot) => {
                self.paths[view.subflows[slot].path].opened(view.now_us, &self.config)
            }
            Event::SubflowClosed { path, error, .. } if error => {
                self.paths[path].timers.failed(view.now_us, &self.config);
            }
            Event::SubflowClosed { .. } | Event::Timer => {}
        }
        if event == Event::Timer || event == Event::Established {
            self.poll(view, actions);
            let at_us = view.now_us + self.config.interval_us;
            actions.push(Action::Wake { at_us });
        }
        self.apply(view, actions);
    }

    fn export_state(&self) -> Option<Vec<Known>> {
        Some(self.export())
    }

    fn import_state(&mut self, known: &[Known], now_us: u64) {
        self.import(known, now_us);
    }
}
