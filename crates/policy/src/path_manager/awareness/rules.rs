//! When a path is set to backup ([`RULES`]) and when it is restored ([`is_restored`]).
//!
//! A rule takes one path and says how bad it is, or nothing. The first rule that finds any path decides, for the worst one
//! that it finds; paths that the user prefers come last. One path at a poll: what the worst one does to the others goes with
//! it.
//!
//! Two events restore a path beside [`is_restored`]: the connection misses it ([`Path::is_missed`]), or the handshake of a new
//! subflow shows that a dead path is back ([`Path::opened`]).

use super::config::Config;
use super::deficit::BEHIND_S;
use super::established;
use super::state::{Path, Reason, State};
use crate::view::{Rule as User, View};

/// Loss events below which nothing is concluded: slow start ends in two or three.
const EVENTS: u64 = 5;

/// A path costs more than it adds once the connection is so far behind, s, for each share that the path delivers: what a
/// wrong verdict costs goes with the share. No verdict rests on less than this, s.
const WORTH_S: f64 = 2.0;
const LEAST_S: f64 = 0.1;
/// A path without loss is set to backup only below this share, and once it has had so long to find its rate, µs.
const SMALL_SHARE: f64 = 0.15;
const GROWN_US: u64 = 1_000_000;
/// The same of a path with so many times the lowest RTT, which the connection waits for.
const SLOW_SHARE: f64 = 0.4;
const SLOW_RTT: f64 = 2.0;
/// A path is dead after so many round trips without a delivery, and so long, µs.
const STALL_RTTS: u64 = 4;
const STALL_US: u64 = 500_000;

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

pub(super) const RULES: [(Reason, Rule); 4] = [
    (Reason::Stalled, stalled),
    (Reason::Signal, weak_signal),
    (Reason::Loss, lossy),
    (Reason::Contribution, minor),
];

impl Facts<'_> {
    /// The path to set to backup now, and why.
    pub fn verdict(&self) -> Option<(usize, Reason)> {
        let of = |(reason, rule): &(Reason, Rule)| Some((self.worst(*rule)?, *reason));
        let (path, reason) = RULES.iter().find_map(of)?;
        // What loses, or did lately, is probed: it has hardly shown yet what it can carry.
        let lossy = self.paths[path].was_bad || exceeds(&self.paths[path], self.config);
        match reason == Reason::Contribution && lossy {
            true => Some((path, Reason::Loss)),
            false => Some((path, reason)),
        }
    }

    fn worst(&self, rule: Rule) -> Option<usize> {
        let preferred = |path: usize| self.view.paths[path].rule == User::Preferred;
        let found = self.normal.iter();
        let found = found.filter_map(|&path| Some((path, rule(self, path)?)));
        let worst = found.max_by(|(a, bad), (b, worse)| {
            let preferred_last = preferred(*b).cmp(&preferred(*a));
            preferred_last.then(bad.total_cmp(worse))
        });
        worst.map(|(path, _)| path)
    }

    /// Another path that is not silent would carry more alone.
    fn is_replaceable(&self, path: usize) -> bool {
        let own = self.paths[path].estimate.standalone();
        let (now, config) = (self.view.now_us, self.config);
        let better = |p: &Path| p.estimate.standalone() > own && !p.estimate.silent(now, config);
        self.normal.iter().any(|&p| better(&self.paths[p]))
    }

    /// Data can go over another path, be it metered, or in backup for less than a stall.
    fn has_other(&self, path: usize) -> bool {
        established(self.view).any(|s| {
            let dead = matches!(self.paths[s.path].state, State::Dead);
            s.path != path && self.view.paths[s.path].up && !dead
        })
    }

    /// The connection is further behind its best path alone than this one is worth, and may do without it.
    fn costs(&self, path: usize) -> bool {
        let of = &self.paths[path];
        self.config.harm.is_some()
            && self.behind_s >= (WORTH_S * self.share(path)).clamp(LEAST_S, BEHIND_S)
            && of.rested(self.view.now_us, self.config)
            && of.estimate.responds(self.view.now_us, self.config)
            && self.is_replaceable(path)
    }

    /// The connection waits for it.
    fn is_slow(&self, path: usize) -> bool {
        let rtt = |path: usize| f64::from(self.paths[path].estimate.srtt_us);
        let lowest = self.normal.iter().map(|&p| rtt(p)).fold(f64::MAX, f64::min);
        lowest > 0.0 && rtt(path) >= SLOW_RTT * lowest
    }

    fn share(&self, path: usize) -> f64 {
        let rate = |&path: &usize| self.paths[path].estimate.rate;
        let total: f64 = self.normal.iter().map(rate).sum();
        rate(&path) / total.max(1.0)
    }
}

/// Its loss bound is above the threshold.
fn exceeds(path: &Path, config: &Config) -> bool {
    let bound = path.estimate.window.lower_bound();
    config.harm.is_some_and(|harm| bound > harm.loss)
}

/// The same, beyond doubt.
pub(super) fn loses(path: &Path, config: &Config) -> bool {
    path.estimate.window.lost() >= EVENTS && exceeds(path, config)
}

/// Data are in flight, and nothing is delivered.
fn stalled(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let estimate = &facts.paths[path].estimate;
    let patience = (STALL_RTTS * u64::from(estimate.srtt_us)).max(STALL_US);
    let stalled_us = estimate.stalled_us(facts.view.now_us)?;
    (stalled_us >= patience && facts.has_other(path)).then_some(stalled_us as f64)
}

/// The signal is too weak to rely on.
fn weak_signal(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let dbm = facts.view.paths[path].signal_dbm?;
    let weak = dbm < facts.config.signal?.backup;
    (weak && facts.normal.len() > 1).then_some(-f64::from(dbm))
}

/// It costs more than it adds, and it loses.
fn lossy(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let of = &facts.paths[path];
    let due = loses(of, facts.config) && facts.costs(path);
    due.then(|| of.estimate.window.lower_bound())
}

/// It costs more than it adds, and carries little, or less than the rest and late.
fn minor(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let of = &facts.paths[path];
    let share = facts.share(path);
    let most = match facts.is_slow(path) {
        true => SLOW_SHARE,
        false => SMALL_SHARE,
    };
    let judged_us = of.since_us.map_or(0, |at| at + facts.config.dwell_us);
    let grown_us = of.estimate.opened_us.max(judged_us) + GROWN_US;
    let due = share < most
        && facts.view.paths[path].rule != User::Preferred
        && facts.view.now_us >= grown_us
        && facts.costs(path);
    due.then_some(1.0 - share)
}

/// Whether a path in backup, or a dead one, carries data again.
pub(super) fn is_restored(
    path: &Path,
    now_us: u64,
    signal_dbm: Option<i32>,
    config: &Config,
) -> bool {
    let backup = match &path.state {
        State::Active => return false,
        State::Dead => return path.since_us.is_some_and(|at| path.estimate.heard_us > at),
        State::Backup(backup) => backup,
    };
    let timed = now_us >= backup.until_us;
    match backup.reason {
        Reason::Signal => {
            let strong = |dbm| config.signal.is_none_or(|s| dbm >= s.restore);
            path.rested(now_us, config) && signal_dbm.is_none_or(strong)
        }
        Reason::Loss => {
            let evidence = &path.evidence;
            evidence.clears(backup.loss) || timed && !evidence.condemns(now_us)
        }
        _ => timed,
    }
}
