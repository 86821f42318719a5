//! All of a path manager that learns where connections start, but for the world that it works in.

use super::context::{self, Reading, Readings, READINGS};
use super::reward::Judge;
use super::{Bandit, Decision, Invalid, Settings};

/// What one connection more counts in the memory of what a path was like.
const GAIN: f64 = 0.3;
/// A signal that has changed by so much, dB, is reason to choose anew before the last choice has been used.
const SIGNAL_STEP: f64 = 3.0;
/// So many outcomes make a model of a device's own, where a server is to choose but cannot.
const ENOUGH: u64 = 10;

/// Whether a path's signal is no longer what it was when the choice on offer was made.
pub fn signals_moved(then: &[Readings], now: &[Readings]) -> bool {
    let signal = |r: &Readings| r.get(Reading::Signal);
    let moved = |(then, now): (&Readings, &Readings)| match (signal(then), signal(now)) {
        (Some(then), Some(now)) => (then - now).abs() >= SIGNAL_STEP,
        (then, now) => then.is_some() != now.is_some(),
    };
    then.iter().zip(now).any(moved)
}

/// Whether a device whose server is away may choose by what it has learnt from so many outcomes.
pub fn may_choose_alone(outcomes: u64) -> bool {
    outcomes >= ENOUGH
}

/// A bandit, the judge of its outcomes, and what connections have seen of each path so far.
#[derive(Debug, Clone)]
pub struct Starter {
    pub bandit: Bandit,
    pub judge: Judge,
    seen: Vec<Readings>,
}

impl Starter {
    /// Over these paths, which are its arms.
    pub fn new(settings: Settings, paths: &[&str], seed: u64) -> Result<Starter, Invalid> {
        let features = context::names(paths.iter().copied());
        let bandit = Bandit::new(settings, paths.iter().copied(), features, seed)?;
        Ok(Starter::resume(bandit, Judge::default()))
    }

    /// With what was learnt before.
    pub fn resume(bandit: Bandit, judge: Judge) -> Starter {
        Starter {
            seen: vec![Readings::default(); bandit.arms().len()],
            bandit,
            judge,
        }
    }

    /// What a connection saw of a path; a value that is no number says nothing.
    pub fn note(&mut self, path: usize, reading: Reading, value: f64) {
        let Some(seen) = self.seen.get_mut(path) else {
            return;
        };
        if value.is_finite() {
            let before = seen.get(reading).unwrap_or(value);
            seen.set(reading, before + GAIN * (value - before));
        }
    }

    /// The path for the next connection, and the context that it was chosen in. `told` is what the radios say now: it
    /// counts before what connections have seen. A path without a mark in `available` is.
    pub fn decide(&mut self, told: &[Readings], available: &[bool]) -> (Decision, Vec<f64>) {
        let mut known = self.seen.clone();
        for (known, told) in known.iter_mut().zip(told) {
            for reading in Reading::ALL.iter().take(READINGS) {
                if let Some(value) = told.get(*reading) {
                    known.set(*reading, value);
                }
            }
        }
        let context = context::flatten(&known);
        (self.bandit.decide_among(&context, available), context)
    }

    /// What came of a connection: its throughput, and the round-trip time of the path it started on. NaN: it failed.
    pub fn learn(
        &mut self,
        context: &[f64],
        path: usize,
        throughput_mbps: f64,
        latency_ms: f64,
    ) -> bool {
        let reward = self.judge.judge(throughput_mbps, latency_ms);
        self.bandit.update(context, path, reward);
        reward
    }
}

#[cfg(test)]
mod tests {
    use super::super::Policy;
    use super::*;

    #[test]
    fn what_the_radio_tells_counts_before_what_was_seen_and_the_better_path_wins() {
        let settings = Settings::new(Policy::NAMED[0].1);
        let mut starter = Starter::new(settings, &["wifi", "lte"], 1).unwrap();
        starter.note(0, Reading::Rtt, 20.0);
        starter.note(0, Reading::Rtt, f64::NAN);
        starter.note(1, Reading::Rtt, 50.0);
        starter.note(1, Reading::Rtt, 60.0);
        let told = Readings::default().with(Reading::Rtt, 7.0);
        let (_, context) = starter.decide(&[told], &[]);
        assert_eq!((context[0], context[READINGS]), (7.0, 53.0));
        assert!(context[1].is_nan());

        let mut late = 0;
        for round in 0..300 {
            let (decision, context) = starter.decide(&[], &[]);
            late += usize::from(round >= 200 && decision.arm == 1);
            let (mbps, ms) = if decision.arm == 1 {
                (20.0, 50.0)
            } else {
                (2.0, 300.0)
            };
            starter.learn(&context, decision.arm, mbps, ms);
        }
        assert!(late > 80, "the better path started {late} of the last 100");
        let (decision, _) = starter.decide(&[], &[true, false]);
        assert_eq!(decision.arm, 0, "the only one there is");
    }

    #[test]
    fn a_signal_has_moved_by_three_decibels_or_where_it_came_or_went() {
        let dbm = |dbm| Readings::default().with(Reading::Signal, dbm);
        let none = Readings::default();
        assert!(!signals_moved(&[dbm(-60.0), none], &[dbm(-62.9), none]));
        assert!(signals_moved(&[none, dbm(-60.0)], &[none, dbm(-57.0)]));
        assert!(signals_moved(&[none], &[dbm(-60.0)]) && signals_moved(&[dbm(-60.0)], &[none]));
        let rtt = Readings::default().with(Reading::Rtt, 20.0);
        assert!(!signals_moved(&[none], &[rtt]));
    }
}
