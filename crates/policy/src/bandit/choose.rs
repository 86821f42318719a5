//! From scores to a choice: each policy says how likely it takes each arm, and one draw decides.

use serde::{Deserialize, Serialize};

use super::arm::percentile;
use super::draw::Draw;
use super::logistic::Logistic;
use super::settings::{Explore, Policy, Threshold};

/// What a policy keeps from round to round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// Rounds decided so far.
    pub rounds: u64,
    /// The threshold in force, once it has been set.
    threshold: Option<f64>,
    /// Best predictions since it was.
    window: Vec<f64>,
}

/// A distribution over arms, and whether it is more than the best arm.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mix {
    /// With this probability by `greedy`, else by `other`; both sum to 1.
    pub exploit: f64,
    pub greedy: Vec<f64>,
    pub other: Vec<f64>,
}

impl Mix {
    pub fn probabilities(&self) -> Vec<f64> {
        let pairs = self.greedy.iter().zip(&self.other);
        pairs
            .map(|(g, o)| self.exploit * g + (1.0 - self.exploit) * o)
            .collect()
    }

    /// The arm, and whether it was taken for the sake of learning.
    pub fn pick(&self, draw: &mut Draw) -> (usize, bool) {
        let explore = draw.unit() >= self.exploit;
        let from = if explore { &self.other } else { &self.greedy };
        let mut left = draw.unit();
        let mut last = 0;
        for (arm, &p) in from.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            last = arm;
            left -= p;
            if left < 0.0 {
                break;
            }
        }
        (last, explore)
    }
}

fn is_open(arm: usize, available: &[bool]) -> bool {
    available.get(arm).copied().unwrap_or(true)
}

/// The largest score among the arms that there are; -∞ where there are none.
fn top(scores: &[f64], available: &[bool]) -> f64 {
    let open = scores.iter().enumerate();
    let open = open.filter(|(arm, _)| is_open(*arm, available));
    open.fold(f64::NEG_INFINITY, |top, (_, score)| top.max(*score))
}

/// Equal shares of the largest scores among the arms that there are.
pub(super) fn best(scores: &[f64], available: &[bool]) -> Vec<f64> {
    let top = top(scores, available);
    shares(scores.len(), |a| is_open(a, available) && scores[a] >= top)
}

fn shares(arms: usize, chosen: impl Fn(usize) -> bool) -> Vec<f64> {
    let count = (0..arms).filter(|&a| chosen(a)).count();
    if count == 0 {
        // Nothing to choose from: any arm, rather than none.
        return vec![1.0 / arms.max(1) as f64; arms];
    }
    let share = 1.0 / count as f64;
    (0..arms)
        .map(|a| if chosen(a) { share } else { 0.0 })
        .collect()
}

/// Expected size of the step that an arm's outcome would make its oracle take.
pub(super) fn informative(score: f64, inputs: &[f64], by: Explore) -> f64 {
    let norm = |reward| Logistic::gradient_norm(score, inputs, reward);
    match by {
        Explore::Random => 0.0,
        Explore::Active => (1.0 - score) * norm(false) + score * norm(true),
        Explore::ActiveSquared => score * (norm(false).powi(2) + norm(true).powi(2)),
    }
}

/// How the policy mixes following its scores with learning in this round.
pub(super) fn mix(
    policy: &Policy,
    memory: &Memory,
    scores: &[f64],
    inputs: &[f64],
    available: &[bool],
) -> Mix {
    let explore = |by: Explore| match by {
        Explore::Random => shares(scores.len(), |arm| is_open(arm, available)),
        _ => {
            let weights: Vec<f64> = scores.iter().map(|&f| informative(f, inputs, by)).collect();
            best(&weights, available)
        }
    };
    let t = memory.rounds;
    let (exploit, by) = match *policy {
        Policy::EpsilonGreedy {
            epsilon,
            decay,
            until,
        } => match until {
            Some(until) if t >= until => (1.0, Explore::Random),
            _ => (1.0 - epsilon * power(decay, t), Explore::Random),
        },
        Policy::AdaptiveGreedy {
            threshold,
            otherwise,
        } => {
            let reached = top(scores, available) > memory.threshold(&threshold);
            (if reached { 1.0 } else { 0.0 }, otherwise)
        }
        Policy::ExploreFirst { rounds } => (f64::from(t >= rounds), Explore::Random),
        Policy::ActiveExplorer { exploit, decay, by } => {
            (1.0 - (1.0 - exploit) * power(decay, t), by)
        }
        Policy::BootstrappedUcb { .. } | Policy::LinUcb { .. } | Policy::Thompson { .. } => {
            (1.0, Explore::Random)
        }
    };
    Mix {
        exploit,
        greedy: best(scores, available),
        other: if exploit < 1.0 {
            explore(by)
        } else {
            vec![0.0; scores.len()]
        },
    }
}

fn power(decay: f64, t: u64) -> f64 {
    libm::pow(decay.clamp(0.0, 1.0), t as f64)
}

impl Memory {
    fn threshold(&self, threshold: &Threshold) -> f64 {
        match *threshold {
            Threshold::Fixed { start, decay } => start * power(decay, self.rounds),
            Threshold::Percentile { start, .. } => self.threshold.unwrap_or(start),
        }
    }

    /// A round has been decided by these scores, among these arms. With none available it says nothing of predictions.
    pub fn advance(&mut self, policy: &Policy, scores: &[f64], available: &[bool]) {
        self.rounds += 1;
        let top = top(scores, available);
        if let Policy::AdaptiveGreedy {
            threshold:
                Threshold::Percentile {
                    window,
                    percentile: p,
                    decay,
                    ..
                },
            ..
        } = *policy
        {
            if top.is_finite() {
                self.window.push(top);
            }
            if self.window.len() >= window.max(1) as usize {
                let p = p * power(decay, self.rounds);
                self.threshold = Some(percentile(&mut self.window, p));
                self.window.clear();
            }
        }
    }
}

#[cfg(test)]
#[test]
fn the_threshold_learns_from_the_arms_that_there_are() {
    let policy = Policy::AdaptiveGreedy {
        threshold: Threshold::Percentile {
            start: 0.5,
            window: 4,
            percentile: 100.0,
            decay: 1.0,
        },
        otherwise: Explore::Random,
    };
    let mut memory = Memory::default();
    memory.advance(&policy, &[0.9, 0.3], &[false, false]);
    for score in [0.1, 0.2, 0.4, 0.3] {
        assert_eq!(memory.threshold, None);
        memory.advance(&policy, &[0.9, score], &[false, true]);
    }
    assert_eq!(memory.threshold, Some(0.4));
}
