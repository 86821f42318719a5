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
use super::state::{Path, Reason, State};
use crate::view::{Rule as User, View};

/// Loss events below which nothing is concluded: slow start ends in two or three.
const EVENTS: u64 = 5;
/// A slow path has at least this many times the lowest RTT, and less than this share of what is delivered.
const SLOW_RTT: f64 = 2.0;
const SLOW_SHARE: f64 = 0.4;
/// A small path delivers less than this share, and a smaller deficit is enough, s. It has had so long to find its rate, µs.
const SMALL_SHARE: f64 = 0.15;
const SMALL_BEHIND_S: f64 = 0.2;
const GROWN_US: u64 = 2_000_000;
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
        let preferred = |path: usize| self.view.paths[path].rule == User::Preferred;
        let found = self.normal.iter();
        let found = found.filter_map(|&path| Some((path, rule(self, path)?)));
        let worst = found.max_by(|(a, bad), (b, worse)| {
            let preferred_last = preferred(*b).cmp(&preferred(*a));
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

    /// The connection lacks so much, s, and this path may be judged for it and replaced.
    fn is_due(&self, path: usize, behind_s: f64) -> bool {
        let of = &self.paths[path];
        self.config.harm.is_some()
            && self.behind_s >= behind_s
            && matches!(of.state, State::Active { .. })
            && of.rested(self.view.now_us, self.config)
            && of.estimate.responds(self.view.now_us, self.config)
            && self.is_replaceable(path)
    }

    /// The same of a path that delivers less than this share.
    fn adds_little(&self, path: usize, behind_s: f64, share: f64) -> bool {
        self.is_due(path, behind_s)
            && self.share(path) < share
            && self.view.paths[path].rule != User::Preferred
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
    let patience = (STALL_RTTS * u64::from(estimate.srtt_us)).max(STALL_US);
    let stalled_us = estimate.stalled_us(facts.view.now_us)?;
    (stalled_us >= patience).then_some(stalled_us as f64)
}

/// The signal is too weak to rely on.
fn weak_signal(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let dbm = facts.view.paths[path].signal_dbm?;
    let weak = dbm < facts.config.signal?.backup;
    let rested = facts.paths[path].rested(facts.view.now_us, facts.config);
    (weak && rested).then_some(-f64::from(dbm))
}

/// The connection is behind its best path alone, and this one loses.
fn lossy(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let due = facts.loses(path) && facts.is_due(path, BEHIND_S);
    due.then(|| facts.paths[path].estimate.window.lower_bound())
}

/// The connection is behind its best path alone, and waits for the path with the longest round trip.
fn slow(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let rtt = |p: &Path| f64::from(p.estimate.srtt_us);
    let own = rtt(&facts.paths[path]);
    let fastest = facts.others(path).map(rtt).fold(f64::MAX, f64::min);
    let due = facts.adds_little(path, BEHIND_S, SLOW_SHARE)
        && fastest > 0.0
        && own >= SLOW_RTT * fastest
        && facts.others(path).all(|p| rtt(p) <= own);
    due.then_some(own)
}

/// The connection is a little behind its best path alone, and this one carries so little that there is nothing to lose.
fn small(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let of = &facts.paths[path];
    let since_us = of.estimate.opened_us.max(of.changed_us().unwrap_or(0));
    let due = facts.adds_little(path, SMALL_BEHIND_S, SMALL_SHARE)
        && facts.view.now_us >= since_us + GROWN_US;
    due.then(|| 1.0 - facts.share(path))
}

/// Whether a path in backup, or a dead one, carries data again.
pub(super) fn is_restored(
    path: &Path,
    now_us: u64,
    signal_dbm: Option<i32>,
    config: &Config,
) -> bool {
    let backup = match &path.state {
        State::Backup(backup) => backup,
        State::Dead { .. } => return path.estimate.progressed,
        _ => return false,
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
