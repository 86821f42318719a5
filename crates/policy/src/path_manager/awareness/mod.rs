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
use deficit::{Deficit, Goodput, Polled, Together, AHEAD_S, BEHIND_S};
use estimate::Progress;
use rules::Facts;
use state::Path;

/// Some ten round trips of a long path for the window to grow, and some for what it overshoots, µs.
const START_US: u64 = 3_000_000;

#[derive(Debug, Clone)]
pub struct Awareness {
    config: Config,
    paths: Vec<Path>,
    goodput: Goodput,
    /// Behind the best path alone.
    behind: Deficit,
    /// Paths that were normal at the last poll.
    normal: Vec<usize>,
}

impl Awareness {
    pub fn new(config: Config) -> Self {
        Awareness {
            config,
            paths: Vec::new(),
            goodput: Goodput::default(),
            behind: Deficit::default(),
            normal: Vec::new(),
        }
    }

    /// Why each path is in backup; `None` where it is not.
    pub fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        let normal = self.choose(view);
        let metered = |path: usize| view.paths[path].rule == Rule::Metered;
        let reason = |path: usize| match self.paths.get(path).and_then(Path::reason) {
            None if metered(path) => Some(Reason::Metered),
            reason => reason,
        };
        (0..view.paths.len())
            .map(|path| (!normal.contains(&path)).then(|| reason(path)).flatten())
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
        let polled = (self.goodput).update(now, view.bytes, in_flight.contains(&true));
        let Some(Polled { since_us, idle }) = polled else {
            return;
        };
        for (path, state) in self.paths.iter_mut().enumerate() {
            if idle && state.is_known(now) {
                state.rest(now - since_us);
            }
            let subflow = established(view).find(|s| s.path == path);
            let counters = subflow.map(|s| &s.counters);
            let elapsed = (now - since_us) as f64;
            let (progress, in_flight) = (progress(view), in_flight[path]);
            (state.estimate).update(now, elapsed, counters, progress, in_flight, &self.config);
            state.evidence.hear(now, view.paths[path].probes);
        }
    }

    /// Paths with data in flight: the sender's own count, or what a receiver concludes.
    fn in_flight(&mut self, view: &View<'_>) -> Vec<bool> {
        let mut in_flight = vec![false; view.paths.len()];
        let mut follows = false;
        for s in established(view) {
            follows |= (self.paths[s.path].estimate).follows(view.now_us, &s.counters);
        }
        // As while there is nothing to send: no deficit moves.
        if self.begins(view) {
            return in_flight;
        }
        for s in established(view) {
            let sent = s.counters.sent.is_some_and(|sent| sent.in_flight > 0);
            let waits = self.paths[s.path].estimate.waits(progress(view));
            let received = |r: crate::view::Received| follows || r.silent && !waits;
            in_flight[s.path] |= sent || s.counters.received.is_some_and(received);
        }
        in_flight
    }

    /// Connections that have just begun have small windows. If those that carried data when a path was set to backup are
    /// gone, goodput seems to fall, and the path to be missed.
    fn begins(&self, view: &View<'_>) -> bool {
        let Some(began_us) = view.began_us.filter(|at| view.now_us < at + START_US) else {
            return false;
        };
        self.paths.iter().zip(view.paths).any(|(state, path)| {
            let usable = path.up && path.rule != Rule::Metered;
            usable && !state.is_normal() && state.changed_us().is_some_and(|at| at < began_us)
        })
    }

    fn restore(&mut self, view: &View<'_>) {
        let now = view.now_us;
        for (path, state) in self.paths.iter_mut().enumerate() {
            match rules::is_restored(state, now, view.paths[path].signal_dbm, &self.config) {
                true => state.resume(now),
                false => state.settle(now),
            }
        }
        let Some(step) = self.goodput.step else {
            return;
        };
        let recent = self.normal.iter().map(|&p| self.paths[p].estimate.recent);
        let carried = self.goodput.smoothed.max(recent.sum());
        let mut any = false;
        for state in &mut self.paths {
            if state.is_missed(now, step, carried, &self.config) {
                state.probation(now, &self.config);
                any = true;
            }
        }
        if any {
            // The others have shown what they carry alone.
            for &path in &self.normal {
                self.paths[path].estimate.forget_peaks();
            }
        }
    }

    fn judge(&mut self, view: &View<'_>) {
        let normal = self.choose(view);
        self.remember_together(view, &normal);
        if normal.len() < 2 {
            self.behind = Deficit::default();
            self.leave_the_dead(&normal, view);
            return;
        }
        let standalone = |&path: &usize| self.paths[path].estimate.standalone();
        let best = normal.iter().map(standalone).fold(0.0, f64::max);
        if let Some(step) = self.goodput.step {
            self.behind.add(step, best, AHEAD_S, 2.0 * BEHIND_S);
        }
        let facts = self.facts(view, &normal);
        if let Some((path, reason)) = facts.verdict() {
            self.leave_out(path, reason, view.now_us);
        }
    }

    fn facts<'a>(&'a self, view: &'a View<'a>, normal: &'a [usize]) -> Facts<'a> {
        Facts {
            view,
            config: &self.config,
            paths: &self.paths,
            normal,
            behind_s: self.behind.seconds(),
        }
    }

    fn leave_out(&mut self, path: usize, reason: Reason, now_us: u64) {
        match reason {
            Reason::Stalled => self.paths[path].die(now_us),
            _ => self.paths[path].set_backup(reason, now_us, &self.config),
        }
        self.behind = Deficit::default();
    }

    /// The only normal path, once nothing gets through, where another one can replace it: metered, or in backup for less.
    fn leave_the_dead(&mut self, normal: &[usize], view: &View<'_>) {
        let &[path] = normal else { return };
        let replaces = |p: usize| {
            let dead = self.paths[p].reason() == Some(Reason::Stalled);
            p != path && view.paths[p].up && !dead
        };
        let replaceable = established(view).any(|s| replaces(s.path));
        if replaceable && rules::stalled(&self.facts(view, normal), path).is_some() {
            self.leave_out(path, Reason::Stalled, view.now_us);
        }
    }

    /// What the connection carries with the paths that are in use.
    fn remember_together(&mut self, view: &View<'_>, normal: &[usize]) {
        if normal != self.normal {
            for path in &mut self.paths {
                path.together = Together::default();
            }
            self.normal = normal.to_vec();
        }
        let Some(step) = self.goodput.step else {
            return;
        };
        for &path in normal {
            let loses = self.facts(view, normal).loses(path);
            let responds = (self.paths[path].estimate).responds(view.now_us, &self.config);
            let state = &mut self.paths[path];
            if loses && !state.was_lossy {
                state.together = Together::default();
            }
            // While nothing is heard of it, it has not ceased to lose.
            if responds {
                state.was_lossy = loses;
            }
            state.together.add(step);
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
        // A metered path stands in where the others lose, but is preferred to a dead one.
        let badness = |&path: &usize| {
            let reason = reason(path);
            let loss = |p: &Path| (p.estimate.window.lower_bound() * 1e9) as u64;
            Badness {
                dead: reason == Some(Reason::Stalled),
                metered: metered(path),
                reason: match reason {
                    None => 0,
                    Some(Reason::Loss) => 2,
                    Some(Reason::Signal) => 3,
                    Some(_) => 1,
                },
                loss: self.paths.get(path).map_or(0, loss),
            }
        };
        live.into_iter().min_by_key(badness).into_iter().collect()
    }
}

/// By which paths of which none is good are compared, the first difference first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Badness {
    dead: bool,
    metered: bool,
    reason: u8,
    /// Lower bound, packets in 10⁹.
    loss: u64,
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
        if !view.client {
            return;
        }
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
                self.paths[view.subflows[slot].path].opened(view.now_us)
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
        Some(self.remembered())
    }

    fn import_state(&mut self, known: &[Known], now_us: u64) {
        self.succeed(known, now_us);
    }
}
