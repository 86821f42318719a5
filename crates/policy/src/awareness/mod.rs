//! Path awareness: a subflow on every path, and those that harm the stream set to backup (MP_PRIO) until they are worth
//! it again.
//!
//! MPTCP-LA judges loss, MPTCP-MA signal strength. Both also see a subflow that has stalled and an interface's rule;
//! MPTCP-LA further judges what a path contributes: one that holds up the stream is left out on trial, and stays out
//! if the goodput without it is no lower.
//!
//! A path in backup is *parked*. One that carries no data cannot clear itself, so parking ends by time, longer at each
//! repetition ([`Config::parking`]); a stalled one returns as soon as something gets through, one with a bad signal when
//! the signal is back. The last normal subflow is never parked. `docs/path-awareness.md` has the rules with what was
//! measured.

mod config;
mod judge;
mod loss;
#[cfg(test)]
mod tests;

pub use config::{Backoff, Config, Contribution, Loss, Threshold};
pub use loss::lower_bound;

use crate::path_manager::{Action, Event, Manage, Rule, State, View};
use judge::{Judge, Parked};

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
}

#[derive(Debug, Clone)]
pub struct Awareness {
    config: Config,
    paths: Vec<Judge>,
    /// Connection: bytes/s and share of time held, smoothed over about a second.
    goodput: f64,
    held: f64,
    last: Option<Last>,
    trial: Option<Trial>,
    /// Since when the goodput has been below what the best path alone would carry.
    slower_since_us: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    now_us: u64,
    bytes: u64,
    held_us: u64,
}

/// A path left out to see whether the connection does better without it.
#[derive(Debug, Clone, Copy)]
struct Trial {
    path: usize,
    goodput_before: f64,
    ends_us: u64,
}

impl Awareness {
    pub fn new(config: Config) -> Self {
        Awareness {
            config,
            paths: Vec::new(),
            goodput: 0.0,
            held: 0.0,
            last: None,
            trial: None,
            slower_since_us: None,
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
            let reserve =
                p.rule == Rule::Metered || self.paths.get(path).is_some_and(|j| j.parked.is_some());
            actions.push(Action::Open {
                path,
                backup: reserve,
            });
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
        let Some(last) = last.filter(|l| l.now_us < view.now_us) else {
            return;
        };
        let elapsed = (view.now_us - last.now_us) as f64;
        let weight = judge::weight(elapsed);
        let rate = view.bytes.saturating_sub(last.bytes) as f64 * 1e6 / elapsed;
        self.goodput += weight * (rate - self.goodput);
        let held = (view.held_us.saturating_sub(last.held_us) as f64 / elapsed).min(1.0);
        self.held += weight * (held - self.held);
        for (path, judge) in self.paths.iter_mut().enumerate() {
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
                Some(Reason::Contribution | Reason::Rtt | Reason::Metered) => 1,
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

    fn judge(&mut self, view: &View<'_>) {
        let now = view.now_us;
        for (path, judge) in self.paths.iter_mut().enumerate() {
            judge.settle(now, view.paths[path].signal_dbm, &self.config);
        }
        self.end_trial(now);
        let normal = self.choose(view);
        if normal.len() < 2 {
            self.slower_since_us = None;
            return;
        }
        let total: f64 = normal.iter().map(|&p| self.paths[p].rate).sum();
        let best = normal
            .iter()
            .map(|&p| self.paths[p].potential())
            .fold(0.0, f64::max);
        let slower = self.goodput < self.config.slower * best;
        self.slower_since_us = slower.then(|| self.slower_since_us.unwrap_or(now));
        let grounds = |p: usize| {
            let judge = &self.paths[p];
            judge
                .grounds(now, view.paths[p].signal_dbm, &self.config)
                .or_else(|| {
                    let loss = judge.lossy(now, &self.config)?;
                    self.harms(p, loss, &normal, view)
                        .then_some((Reason::Loss, 1.0 + loss))
                })
        };
        // One at a time: what the worst one does to the others goes with it.
        let worst = normal
            .iter()
            .filter_map(|&p| {
                grounds(p).map(|(reason, weight)| {
                    (view.paths[p].rule != Rule::Preferred, weight, p, reason)
                })
            })
            .max_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).expect("no NaN"));
        if let Some((_, _, path, reason)) = worst {
            self.paths[path].park(reason, now, &self.config.parking);
        } else if self.trial.is_none() {
            self.judge_contribution(&normal, view, total);
        }
    }

    /// Whether a lossy path is better left out: another one alone is better than it, and
    ///
    /// - the other one alone would do better than all together have done for a while, or
    /// - the loss is heavy and the controller couples the paths, so that losses here also slow down the other one.
    fn harms(&self, path: usize, loss: f64, normal: &[usize], view: &View<'_>) -> bool {
        let others = normal
            .iter()
            .filter(|&&p| p != path)
            .map(|&p| self.paths[p].potential());
        let other = others.fold(0.0, f64::max);

        let grace = if self.paths[path].was_parked() {
            self.config.dwell_us
        } else {
            self.config.settle_us
        };
        let slower = self.slower_for(view.now_us) >= grace;
        let coupled = view.coupled && self.config.loss.is_some_and(|rule| loss > rule.coupled);
        self.paths[path].potential() < other && (slower || coupled)
    }

    fn slower_for(&self, now_us: u64) -> u64 {
        self.slower_since_us.map_or(0, |since| now_us - since)
    }

    /// A slow path that holds up the stream. While its packets are under way the others fill the receive buffer with what
    /// comes after them, so that together they carry no more than
    ///
    /// ```text
    /// receive buffer / RTT of the slow path
    /// ```
    ///
    /// Where that is below what the others carry alone, however far the buffer grows, the path is parked. Else it is left
    /// out on trial, if the stream is slower than the best path alone for longer than a buffer takes to grow.
    fn judge_contribution(&mut self, normal: &[usize], view: &View<'_>, total: f64) {
        let Some(rule) = self.config.contribution.filter(|c| self.held >= c.held) else {
            return;
        };
        let now = view.now_us;
        let rtt = |p: usize| f64::from(self.paths[p].srtt_us);
        let slowest = normal
            .iter()
            .copied()
            .max_by(|&a, &b| rtt(a).total_cmp(&rtt(b)))
            .expect("two at least");
        let others = || normal.iter().copied().filter(|&p| p != slowest);
        let fastest = others().map(rtt).fold(f64::MAX, f64::min);
        let best = others()
            .map(|p| self.paths[p].potential())
            .fold(0.0, f64::max);
        let suspect = view.paths[slowest].rule != Rule::Preferred
            && fastest > 0.0
            && rtt(slowest) >= rule.rtt_ratio * fastest
            && self.paths[slowest].rate < self.config.keep_share * total
            && self.slower_for(now) >= self.config.dwell_us
            && self.paths[slowest].may_be_tried(now, &self.config);
        if !suspect {
            return;
        }
        let blocked = best * rtt(slowest) / 1e6 > view.window_limit as f64;
        if blocked {
            self.paths[slowest].park(Reason::Contribution, now, &rule.parking);
        } else if self.slower_for(now) >= rule.patience_us {
            self.trial = Some(Trial {
                path: slowest,
                goodput_before: self.goodput,
                // What is under way on the path holds up the stream until it has arrived.
                ends_us: now + rtt(slowest) as u64 * 3 / 2 + rule.trial_us,
            });
            self.paths[slowest].park(Reason::Contribution, now, &rule.parking);
        }
    }

    /// Without the path the stream was slower: it comes back, and is left in peace for longer each time.
    fn end_trial(&mut self, now: u64) {
        let Some(trial) = self.trial.filter(|t| now >= t.ends_us) else {
            return;
        };
        self.trial = None;
        let judge = &mut self.paths[trial.path];
        let still = judge
            .parked
            .is_some_and(|Parked { reason, .. }| reason == Reason::Contribution);
        if still && self.goodput < trial.goodput_before {
            judge.acquit(now);
        }
    }

    /// A path that has died is tried with new subflows, one at a time.
    fn revive(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        for (slot, s) in view.subflows.iter().enumerate() {
            let judge = &self.paths[s.path];
            let over = match s.state {
                State::Established => judge.given_up(view.now_us, &self.config),
                State::Opening => judge.overdue(view.now_us, &self.config),
                State::Closed => false,
            };
            let path = &view.paths[s.path];
            if over && path.up && path.rule != Rule::Untrusted {
                let backup = path.rule == Rule::Metered || judge.parked.is_some();
                actions.push(Action::Close { slot });
                actions.push(Action::Open {
                    path: s.path,
                    backup,
                });
                self.paths[s.path].opening(view.now_us);
            }
        }
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
                if let Event::PathUp(path) = event {
                    self.paths[path] = Judge::default();
                }
                (0..view.paths.len()).for_each(|path| self.open(path, view, actions));
            }
            Event::PathDown(path) => {
                // Its data go elsewhere at once, rather than after timeouts.
                let on =
                    |s: &crate::path_manager::Subflow| s.state != State::Closed && s.path == path;
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
            self.judge(view);
            self.revive(view, actions);
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
}
