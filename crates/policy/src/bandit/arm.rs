//! What is known of one arm: how often it was rewarded, and the oracles that predict whether it will be.

use serde::{Deserialize, Serialize};

use super::draw::Draw;
use super::linear::Linear;
use super::logistic::{Logistic, Row};
use super::settings::{Policy, Prior, Settings, Sgd};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Arm {
    pub rewards: u64,
    pub failures: u64,
    oracle: Logistic,
    /// Oracles on bootstraps, for a policy that asks how sure the oracle is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bootstraps: Vec<Logistic>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    linear: Option<Linear>,
    /// The oracle was trained elsewhere: it speaks at once.
    taught: bool,
}

impl Arm {
    pub fn new(width: usize, policy: &Policy) -> Arm {
        let oracle = Logistic::new(width);
        Arm {
            rewards: 0,
            failures: 0,
            bootstraps: vec![oracle.clone(); policy.bootstraps()],
            linear: policy.linear().map(|ridge| Linear::new(width, ridge)),
            oracle,
            taught: false,
        }
    }

    /// An arm without experience of its own whose oracle begins where this one is.
    pub fn child(&self) -> Arm {
        Arm {
            rewards: 0,
            failures: 0,
            oracle: Logistic::anchored(&self.oracle),
            bootstraps: self.bootstraps.iter().map(Logistic::anchored).collect(),
            linear: self.linear.as_ref().map(Linear::anchored),
            taught: self.taught || (self.rewards > 0 && self.failures > 0),
        }
    }

    /// The oracle has seen enough to be asked in place of the prior.
    pub fn speaks(&self, prior: &Prior) -> bool {
        self.taught || self.rewards.min(self.failures) >= prior.outcomes.max(1)
    }

    /// P(reward | x); the prior's mean, updated by the counts, while the oracle is silent.
    pub fn expected(&self, inputs: &[f64], prior: &Prior) -> f64 {
        if self.speaks(prior) {
            return self.oracle.predict(inputs);
        }
        let (a, b) = self.posterior(prior);
        a / (a + b)
    }

    /// What the linear model expects; 0 without one.
    pub fn linear_mean(&self, inputs: &[f64]) -> f64 {
        self.linear.as_ref().map_or(0.0, |l| l.predict(inputs).0)
    }

    fn posterior(&self, prior: &Prior) -> (f64, f64) {
        (
            prior.a + self.rewards as f64,
            prior.b + self.failures as f64,
        )
    }

    /// What the policy ranks this arm by.
    pub fn score(&self, inputs: &[f64], settings: &Settings, draw: &mut Draw) -> f64 {
        if let Some(linear) = &self.linear {
            let (mean, spread) = linear.predict(inputs);
            return match settings.policy {
                Policy::Thompson { scale, .. } => mean + scale * spread * draw.normal(),
                Policy::LinUcb { alpha, .. } => mean + alpha * spread,
                _ => mean,
            };
        }
        if !self.speaks(&settings.prior) {
            let (a, b) = self.posterior(&settings.prior);
            return draw.beta(a, b);
        }
        match settings.policy {
            Policy::BootstrappedUcb { percentile: p, .. } if !self.bootstraps.is_empty() => {
                let mut values: Vec<f64> =
                    self.bootstraps.iter().map(|b| b.predict(inputs)).collect();
                percentile(&mut values, p)
            }
            _ => self.oracle.predict(inputs),
        }
    }

    pub fn count(&mut self, reward: bool) {
        if reward {
            self.rewards += 1;
        } else {
            self.failures += 1;
        }
    }

    /// Learns from one outcome at once.
    pub fn step(&mut self, row: &Row<'_>, sgd: &Sgd, draw: &mut Draw) {
        if let Some(linear) = &mut self.linear {
            return linear.observe(row.inputs, row.reward);
        }
        self.oracle.step(row, 1.0, sgd, sgd.floor);
        for oracle in &mut self.bootstraps {
            // A bootstrap online: each row counts Exp(1) times (Rubin 1981).
            oracle.step(row, draw.exponential(), sgd, sgd.floor);
        }
    }

    /// Learns anew from all that is remembered of it.
    pub fn fit(&mut self, rows: &[Row<'_>], settings: &Settings, draw: &mut Draw) {
        if let (Some(linear), Some(ridge)) = (&mut self.linear, settings.policy.linear()) {
            linear.begin(ridge);
            rows.iter().for_each(|r| linear.observe(r.inputs, r.reward));
            return;
        }
        if rows.is_empty() {
            return;
        }
        self.oracle.fit(rows, &settings.sgd, draw);
        for oracle in &mut self.bootstraps {
            let resampled: Vec<Row<'_>> = (0..rows.len())
                .map(|_| rows[draw.below(rows.len())])
                .collect();
            oracle.fit(&resampled, &settings.sgd, draw);
        }
    }

    /// Its parts have the shapes that the settings ask for (a file may say anything).
    pub fn fits(&self, width: usize, policy: &Policy) -> bool {
        self.oracle.shaped(width)
            && self.bootstraps.len() == policy.bootstraps()
            && self.bootstraps.iter().all(|b| b.shaped(width))
            && self.linear.is_some() == policy.linear().is_some()
            && self.linear.as_ref().is_none_or(|l| l.shaped(width))
    }
}

/// Percentile (0..100) with linear interpolation between the nearest ranks.
pub(super) fn percentile(values: &mut [f64], p: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else {
        return 0.0;
    };
    let place = (p / 100.0).clamp(0.0, 1.0) * last as f64;
    let (low, share) = (place as usize, place.fract());
    let high = values[(low + 1).min(last)];
    values[low] + share * (high - values[low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_ranks() {
        let mut values = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(percentile(&mut values, 0.0), 1.0);
        assert_eq!(percentile(&mut values, 80.0), 4.2);
        assert_eq!(percentile(&mut values, 100.0), 5.0);
        assert_eq!(percentile(&mut [], 50.0), 0.0);
    }
}
