//! When a path is set to backup: one list of rules. A rule looks at one path and says how bad it is, or nothing.
//!
//! The first rule that finds any path decides, for the worst one that it finds; paths that the user prefers come last. One
//! path at a poll: what the worst one does to the others goes with it.

use super::config::Config;
use super::state::{Path, Reason, State};
use crate::view::{Rule as User, View};

/// Loss events below which nothing is concluded: slow start ends in two or three.
const EVENTS: u64 = 5;
/// A slow path has at least this many times the lowest RTT, and less than this share of what is delivered.
const SLOW_RTT: f64 = 2.0;
const SLOW_SHARE: f64 = 0.4;
/// A small path delivers less than this share. It has had so long to find its rate, µs.
const SMALL_SHARE: f64 = 0.15;
const GROWN_US: u64 = 2_000_000;
/// Round trips without a delivery after which a path is dead.
const STALL_RTTS: u64 = 4;

/// What the rules know at a poll.
pub(super) struct Facts<'a> {
    pub view: &'a View<'a>,
    pub config: &'a Config,
    pub paths: &'a [Path],
    /// Paths that are not in backup.
    pub normal: &'a [usize],
    /// Goodput deficit behind the best path alone, s.
    pub behind_s: f64,
}

type Rule = fn(&Facts<'_>, usize) -> Option<f64>;

pub(super) const RULES: [(Reason, Rule); 5] = [
    (Reason::Stalled, stalled),
    (Reason::Signal, weak_signal),
    (Reason::Loss, lossy),
    (Reason::Contribution, slow),
    (Reason::Contribution, small),
];

impl Facts<'_> {
    /// The path to set to backup now, and why.
    pub fn verdict(&self) -> Option<(usize, Reason)> {
        let of = |(reason, rule): &(Reason, Rule)| self.worst(*rule).map(|path| (path, *reason));
        let (path, reason) = RULES.iter().find_map(of)?;
        // What loses is probed, whatever else speaks against it; and what was bad has hardly shown yet what it can carry.
        let lossy = self.paths[path].was_bad || self.exceeds(path);
        match reason == Reason::Contribution && lossy {
            true => Some((path, Reason::Loss)),
            false => Some((path, reason)),
        }
    }

    fn worst(&self, rule: Rule) -> Option<usize> {
        let spared = |path: usize| self.view.paths[path].rule == User::Preferred;
        let found = self.normal.iter();
        let found = found.filter_map(|&path| Some((path, rule(self, path)?)));
        let worst = found.max_by(|(a, bad), (b, worse)| {
            let preferred_last = spared(*b).cmp(&spared(*a));
            preferred_last.then(bad.total_cmp(worse))
        });
        worst.map(|(path, _)| path)
    }

    fn others(&self, path: usize) -> impl Iterator<Item = &Path> {
        let others = self.normal.iter().filter(move |&&p| p != path);
        others.map(|&p| &self.paths[p])
    }

    /// Another path that is not silent would carry more alone.
    fn is_replaceable(&self, path: usize) -> bool {
        let own = self.paths[path].estimate.standalone();
        let (now, config) = (self.view.now_us, self.config);
        self.others(path)
            .any(|p| p.estimate.standalone() > own && !p.estimate.silent(now, config))
    }

    /// The path may be judged by what the connection lacks.
    fn is_judged(&self, path: usize) -> bool {
        let of = &self.paths[path];
        matches!(of.state, State::Active { .. })
            && of.rested(self.view.now_us, self.config)
            && of.estimate.responds(self.view.now_us, self.config)
    }

    fn share(&self, path: usize) -> f64 {
        let total: f64 = self
            .normal
            .iter()
            .map(|&p| self.paths[p].estimate.rate)
            .sum();
        self.paths[path].estimate.rate / total.max(1.0)
    }

    /// Its loss bound is above the threshold.
    fn exceeds(&self, path: usize) -> bool {
        let bound = self.paths[path].estimate.window.lower_bound();
        self.config.harm.is_some_and(|harm| bound > harm.loss)
    }

    pub fn loses(&self, path: usize) -> bool {
        self.paths[path].estimate.window.lost() >= EVENTS && self.exceeds(path)
    }
}

/// Data are in flight, and nothing is delivered.
pub(super) fn stalled(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let estimate = &facts.paths[path].estimate;
    let patience = (STALL_RTTS * u64::from(estimate.srtt_us)).max(facts.config.stall_us);
    let stalled_us = estimate.stalled_us(facts.view.now_us)?;
    (stalled_us >= patience).then_some(stalled_us as f64)
}

/// The signal is too weak to rely on.
fn weak_signal(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let dbm = facts.view.paths[path].signal_dbm?;
    let weak = dbm < facts.config.signal?.park;
    let rested = facts.paths[path].rested(facts.view.now_us, facts.config);
    (weak && rested).then_some(-f64::from(dbm))
}

/// The connection is behind its best path alone, and this one loses.
fn lossy(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let behind = facts.behind_s >= facts.config.harm?.behind_s;
    let due = behind && facts.loses(path) && facts.is_judged(path) && facts.is_replaceable(path);
    due.then(|| facts.paths[path].estimate.window.lower_bound())
}

/// The connection is behind its best path alone, and waits for the path with the longest round trip.
fn slow(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let rtt = |p: &Path| f64::from(p.estimate.srtt_us);
    let own = rtt(&facts.paths[path]);
    let fastest = facts.others(path).map(rtt).fold(f64::MAX, f64::min);
    let due = facts.behind_s >= facts.config.harm?.behind_s
        && facts.view.paths[path].rule != User::Preferred
        && fastest > 0.0
        && own >= SLOW_RTT * fastest
        && facts.others(path).all(|p| rtt(p) <= own)
        && facts.share(path) < SLOW_SHARE
        && facts.is_judged(path)
        && facts.is_replaceable(path);
    due.then_some(own)
}

/// The connection is a little behind its best path alone, and this one carries so little that there is nothing to lose.
fn small(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let share = facts.share(path);
    let of = &facts.paths[path];
    let since_us = of.estimate.opened_us.max(of.changed_us().unwrap_or(0));
    let due = facts.behind_s >= facts.config.harm?.small_behind_s
        && facts.view.paths[path].rule != User::Preferred
        && facts.view.now_us >= since_us + GROWN_US
        && share < SMALL_SHARE
        && facts.is_judged(path)
        && facts.is_replaceable(path);
    due.then_some(1.0 - share)
}
