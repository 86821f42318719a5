//! Whether a path does more harm than good.

use super::judge::REVISED;
use super::{Awareness, Backoff, Contribution, Reason};
use crate::path_manager::{Rule, State, View};

impl Awareness {
    pub(super) fn judge(&mut self, view: &View<'_>) {
        let now = view.now_us;
        for (path, judge) in self.paths.iter_mut().enumerate() {
            judge.evidence.hear(now, view.paths[path].probes);
            judge.settle(now, view.paths[path].signal_dbm, &self.config);
        }
        self.take_back_missed(now);
        let normal = self.choose(view);
        self.remember_together(now, &normal);
        if normal.len() < 2 {
            (self.behind, self.held_up) = (0.0, 0.0);
            self.leave_the_dead(&normal, view);
            return;
        }
        let total: f64 = normal.iter().map(|&p| self.paths[p].rate).sum();
        let best = normal
            .iter()
            .map(|&p| self.paths[p].potential())
            .fold(0.0, f64::max);
        let arriving = normal.iter().map(|&p| self.paths[p].recent).sum();
        // What was lacking of more than the best path can carry was not lacking.
        if best < REVISED * self.best {
            (self.behind, self.held_up) = (0.0, 0.0);
        }
        self.best = best;
        self.fall_behind(best, arriving);
        let peace = now < self.peace_us;
        if peace {
            (self.behind, self.held_up) = (0.0, 0.0);
        }
        let grounds = |p: usize| {
            let judge = &self.paths[p];
            judge
                .grounds(now, view.paths[p].signal_dbm, &self.config)
                .or_else(|| {
                    let loss = judge.lossy(now, &self.config).filter(|_| !peace)?;
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
            self.leave_out(path, reason, now, self.config.parking);
        } else if !self.leave_out_the_slowest(&normal, view, total) && !peace {
            self.leave_out_the_least(&normal, view, total);
        }
    }

    /// The accounts of the paths that are left begin anew.
    fn leave_out(&mut self, path: usize, reason: Reason, now_us: u64, parking: Backoff) {
        self.paths[path].park(reason, now_us, &parking);
        (self.behind, self.held_up) = (0.0, 0.0);
    }

    /// The only normal path, once nothing gets through, where another one can stand in: metered, or parked for less.
    fn leave_the_dead(&mut self, normal: &[usize], view: &View<'_>) {
        let &[path] = normal else { return };
        let (now, signal) = (view.now_us, view.paths[path].signal_dbm);
        let stalled = Some(Reason::Stalled);
        let stands_in = |p: usize| {
            let why = self.paths[p].parked.map(|p| p.reason);
            p != path && view.paths[p].up && why != stalled
        };
        let mut live = (view.subflows.iter()).filter(|s| s.state == State::Established);
        let grounds = self.paths[path].grounds(now, signal, &self.config);
        if grounds.map(|(reason, _)| reason) == stalled && live.any(|s| stands_in(s.path)) {
            self.paths[path].park(Reason::Stalled, now, &self.config.parking);
        }
    }

    /// Whether a lossy path is better left out: another one alone is better than it, and
    ///
    /// - the stream has fallen behind what the best path alone would have delivered, or
    /// - the loss is heavy and the controller couples the paths, so that losses here also slow down the other one, or
    /// - it is heavier yet, and what gets through is little;
    ///
    /// the latter two not where the stream has missed it of late.
    fn harms(&self, path: usize, loss: f64, normal: &[usize], view: &View<'_>) -> bool {
        let others = normal
            .iter()
            .filter(|&&p| p != path)
            .map(|&p| self.paths[p].potential());
        let other = others.fold(0.0, f64::max);

        let potential = self.paths[path].potential();
        let slower = self.behind >= self.config.behind_s;
        let coupled = view.coupled && self.config.loss.is_some_and(|rule| loss > rule.coupled);
        let useless = self
            .config
            .loss
            .is_some_and(|rule| loss > rule.heavy && potential < rule.little * other);
        let missed = self.paths[path].acquitted(view.now_us, &self.config);
        potential < other && (slower || !missed && (coupled || useless))
    }

    /// Keeps the accounts of what the stream lacks of what the best path alone would have delivered, and of what of that
    /// it lacks because it is held up: an application that has no more to send holds up nothing.
    fn fall_behind(&mut self, best: f64, arriving: f64) {
        let Some((seconds, rate)) = self.step else {
            return;
        };
        let lack = |due: f64| match due > 0.0 {
            true => seconds * (self.config.slower - rate / due) * due / best,
            false => 0.0,
        };
        let waits = |c: Contribution| self.held >= c.held;
        let due = match self.config.contribution.is_some_and(waits) {
            true => best,
            false => best.min(arriving),
        };
        let (least, most) = (-self.config.ahead_s, 2.0 * self.config.behind_s);
        self.behind = (self.behind + lack(best)).clamp(least, most);
        self.held_up = (self.held_up + lack(due)).clamp(least, most);
    }

    /// A slow path that holds up the stream. While its packets are under way the others fill the receive buffer with what
    /// comes after them, so that together they carry no more than
    ///
    /// ```text
    /// receive buffer / RTT of the slow path
    /// ```
    ///
    /// Where that is below what the others carry alone, however far the buffer grows, the path is parked; so is one that
    /// could add little. Any other is, once the stream has fallen further behind. Says whether it was.
    fn leave_out_the_slowest(&mut self, normal: &[usize], view: &View<'_>, total: f64) -> bool {
        let Some(rule) = self.config.contribution else {
            return false;
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
        // What is silent may be dead, whatever it carried.
        let best = others()
            .filter(|&p| !self.paths[p].silent(now, &self.config))
            .map(|p| self.paths[p].potential())
            .fold(0.0, f64::max);
        let suspect = view.paths[slowest].rule != Rule::Preferred
            && fastest > 0.0
            && rtt(slowest) >= rule.rtt_ratio * fastest
            && self.paths[slowest].rate < self.config.keep_share * total
            && self.held_up >= rule.held_up_s
            && self.paths[slowest].answers(now, &self.config)
            && self.paths[slowest].potential() < best
            && !others().any(|p| self.paths[p].sinks(now, &self.config))
            && self.paths[slowest].rested(now, &self.config);
        if !suspect {
            return false;
        }
        let blocked = best * rtt(slowest) / 1e6 > view.window_limit as f64;
        let little = self.paths[slowest].potential() < rule.little * best;
        let due = blocked || little || self.held_up >= rule.trial_s;
        if due {
            self.leave_out(slowest, Reason::Contribution, now, rule.parking);
        }
        due
    }

    /// A path that carries so little that the stream is better off without it as soon as it slows down the others at all, by
    /// what waits for it, or by the bursts in which the others send once that has come (a queue of 20 packets loses them, and
    /// halves a stream beside which another path carries a twentieth).
    fn leave_out_the_least(&mut self, normal: &[usize], view: &View<'_>, total: f64) {
        let Some(rule) = self.config.contribution else {
            return;
        };
        let now = view.now_us;
        let by_rate =
            |a: &&usize, b: &&usize| self.paths[**a].rate.total_cmp(&self.paths[**b].rate);
        let Some(&least) = normal.iter().min_by(by_rate) else {
            return;
        };
        let judge = &self.paths[least];
        let stands_in = |p: &usize| {
            let other = &self.paths[*p];
            *p != least && judge.potential() < other.potential() && other.answers(now, &self.config)
        };
        let others: Vec<usize> = normal.iter().copied().filter(stands_in).collect();
        let slower = self.behind >= rule.least_behind_s;
        // Nobody knows what it would carry alone if it has been disturbed all the while.
        let disturbed = |&p: &usize| self.paths[p].lossy(now, &self.config).is_some();
        let suspect = judge.rate < rule.least_share * total
            && judge.grown(now, &rule)
            && judge.rested(now, &self.config)
            && judge.answers(now, &self.config)
            && !judge.acquitted(now, &self.config)
            && view.paths[least].rule != Rule::Preferred
            && !others.is_empty()
            && (slower || others.iter().all(disturbed));
        if !suspect {
            return;
        }
        // One that loses is probed, and so is one that was bad of late: it has hardly shown yet what it can carry.
        let loses = (self.config.loss).is_some_and(|loss| judge.loss() > loss.long.park);
        let lossy = loses || judge.was_bad();
        let (reason, parking) = match lossy {
            true => (Reason::Loss, self.config.parking),
            false => (Reason::Contribution, rule.parking),
        };
        self.leave_out(least, reason, now, parking);
        if !slower {
            self.paths[least].on_trial(self.config.proof_gain * self.goodput);
        }
    }
}
