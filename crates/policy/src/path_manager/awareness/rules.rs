//! When a path is set to backup ([`RULES`]) and when it is restored ([`is_restored`]), as `docs/reference/path-awareness.md`
//! says it in words.
//!
//! A rule takes one path and returns how bad it is, or nothing where it does not apply. The first rule that applies to any path
//! decides, for the worst of those paths; paths that the user prefers come last. One path per poll at most is set to backup,
//! because the worst one may be the reason why others look bad.
//!
//! Two events restore a path beside [`is_restored`]: the connection misses it ([`Path::is_missed`]), or the handshake of a new
//! subflow shows that a dead path is back ([`Path::opened`]).

use super::config::Config;
use super::deficit::DEFICIT_S;
use super::established;
use super::state::{Path, Reason, State};
use crate::view::{Rule as User, View};

/// Loss events below which nothing is concluded: slow start ends in two or three.
const EVENTS: u64 = 5;

/// Goodput deficit that a path with all of the traffic would be worth, s. A path is worth its share of that, because a wrong
/// verdict costs its share of the goodput.
const WORTH_S: f64 = 2.0;
/// No path is worth less, s. None is worth more than [`DEFICIT_S`].
const LEAST_S: f64 = 0.1;
/// A path without loss is set to backup only below this share of the traffic, and once it has had so long to find its rate, µs.
const SMALL_SHARE: f64 = 0.15;
const GROWN_US: u64 = 1_000_000;
/// The share for a path with at least so many times the lowest RTT: the connection waits for its data.
const SLOW_SHARE: f64 = 0.4;
const SLOW_RTT: f64 = 2.0;
/// A path is stalled after so many round trips without a delivery, and no sooner than this, µs.
const STALL_RTTS: u64 = 4;
const STALL_US: u64 = 500_000;

/// What the rules know at a poll.
pub(super) struct Facts<'a> {
    pub view: &'a View<'a>,
    pub config: &'a Config,
    pub paths: &'a [Path],
    /// Paths that are not in backup.
    pub normal: &'a [usize],
    /// Goodput deficit: how far the connection is behind its best path alone, s of that rate.
    pub deficit_s: f64,
}

type Rule = fn(&Facts<'_>, usize) -> Option<f64>;

pub(super) const RULES: [(Reason, Rule); 4] = [
    (Reason::Stalled, stalled),
    (Reason::Signal, weak_signal),
    (Reason::Loss, lossy),
    (Reason::SmallShare, small_share),
];

impl Facts<'_> {
    /// The path to set to backup now, and why.
    pub fn verdict(&self) -> Option<(usize, Reason)> {
        let of = |(reason, rule): &(Reason, Rule)| Some((self.worst(*rule)?, *reason));
        let (path, reason) = RULES.iter().find_map(of)?;
        // A path that loses, or did lately, is in backup for its loss, so that probes restore it: it has hardly shown yet what
        // it can carry.
        let lossy = self.paths[path].was_bad || exceeds(&self.paths[path], self.config);
        match reason == Reason::SmallShare && lossy {
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

    /// Another normal path delivers, and would carry more alone.
    fn is_replaceable(&self, path: usize) -> bool {
        let own = self.paths[path].estimate.standalone();
        let (now, config) = (self.view.now_us, self.config);
        let better = |p: &Path| p.estimate.standalone() > own && !p.estimate.silent(now, config);
        self.normal.iter().any(|&p| better(&self.paths[p]))
    }

    /// Data can go over another path that is not dead, be it metered or in backup.
    fn has_other(&self, path: usize) -> bool {
        established(self.view).any(|s| {
            let dead = matches!(self.paths[s.path].state, State::Dead);
            s.path != path && self.view.paths[s.path].up && !dead
        })
    }

    /// The goodput deficit is higher than the path is worth, and the path may be judged.
    fn costs(&self, path: usize) -> bool {
        let of = &self.paths[path];
        self.config.harm.is_some()
            && self.deficit_s >= (WORTH_S * self.share(path)).clamp(LEAST_S, DEFICIT_S)
            && !matches!(of.state, State::Probation { .. })
            && of.estimate.responds(self.view.now_us, self.config)
            && self.is_replaceable(path)
    }

    /// The connection waits for its data.
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

/// The loss bound of the path is above the threshold.
fn exceeds(path: &Path, config: &Config) -> bool {
    let bound = path.estimate.window.lower_bound();
    config.harm.is_some_and(|harm| bound > harm.loss)
}

/// The same, with enough loss events to conclude it.
pub(super) fn loses(path: &Path, config: &Config) -> bool {
    path.estimate.window.lost() >= EVENTS && exceeds(path, config)
}

/// Rule 1. Data are in flight, and nothing is delivered.
fn stalled(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let estimate = &facts.paths[path].estimate;
    let patience = (STALL_RTTS * u64::from(estimate.srtt_us)).max(STALL_US);
    let stalled_us = estimate.stalled_us(facts.view.now_us)?;
    (stalled_us >= patience && facts.has_other(path)).then_some(stalled_us as f64)
}

/// Rule 2. The signal is too weak to rely on.
fn weak_signal(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let dbm = facts.view.paths[path].signal_dbm?;
    let weak = dbm < facts.config.signal?.backup;
    (weak && facts.normal.len() > 1).then_some(-f64::from(dbm))
}

/// Rule 3. The path loses, and costs the connection more than it is worth.
fn lossy(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let of = &facts.paths[path];
    let due = loses(of, facts.config) && facts.costs(path);
    due.then(|| of.estimate.window.lower_bound())
}

/// Rule 4. The path carries little, or its data arrive late, and it costs the connection more than it is worth.
fn small_share(facts: &Facts<'_>, path: usize) -> Option<f64> {
    let of = &facts.paths[path];
    let share = facts.share(path);
    let most = match facts.is_slow(path) {
        true => SLOW_SHARE,
        false => SMALL_SHARE,
    };
    let judged_us = of.since_us.unwrap_or(0);
    let grown_us = of.estimate.opened_us.max(judged_us) + GROWN_US;
    let due = share < most
        && facts.view.paths[path].rule != User::Preferred
        && facts.view.now_us >= grown_us
        && facts.costs(path);
    due.then_some(1.0 - share)
}

/// Whether a path in backup, or a dead one, carries data again from now on.
pub(super) fn is_restored(
    path: &Path,
    now_us: u64,
    signal_dbm: Option<i32>,
    config: &Config,
) -> bool {
    let backup = match &path.state {
        State::Active | State::Probation { .. } => return false,
        State::Dead => {
            return path
                .since_us
                .is_some_and(|at| path.estimate.delivered_us > at)
        }
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
            evidence.passes(backup.loss) || timed && !evidence.fails(now_us)
        }
        _ => timed,
    }
}
