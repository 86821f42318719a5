//! Logistic regression by stochastic gradient descent: the oracle of one arm, P(reward | x).
//!
//! Loss of a row (z, r): −r ln p − (1 − r) ln(1 − p) + λ/2 ‖w − w₀‖², p = 1/(1 + exp(−w·z)), so that its gradient is
//! (p − r) z + λ (w − w₀). The constant input's weight is not held back. w₀ is 0, or the weights of a shared model.

use serde::{Deserialize, Serialize};

use super::draw::Draw;
use super::settings::Sgd;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Logistic {
    weights: Vec<f64>,
    /// w₀; empty for 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    anchor: Vec<f64>,
    /// Steps taken since the weights were at w₀.
    steps: u64,
}

/// One row of what was observed: inputs and reward.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub inputs: &'a [f64],
    pub reward: bool,
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn sigmoid(t: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-t))
}

impl Sgd {
    /// Rate of step t.
    fn rate(&self, t: u64) -> f64 {
        let lambda = self.lambda.max(1e-9);
        // scikit-learn's "optimal": a first step that would carry a typical weight, λ^(−1/4), once across.
        let typical = libm::sqrt(1.0 / libm::sqrt(lambda));
        let first = typical / sigmoid(typical).max(1.0);
        1.0 / (lambda * (t as f64) + 1.0 / first)
    }
}

impl Logistic {
    pub fn new(width: usize) -> Logistic {
        Logistic {
            weights: vec![0.0; width],
            anchor: Vec::new(),
            steps: 0,
        }
    }

    /// A model that begins at another's weights and is pulled back to them.
    pub fn anchored(to: &Logistic) -> Logistic {
        Logistic {
            weights: to.weights.clone(),
            anchor: to.weights.clone(),
            steps: 0,
        }
    }

    /// Of this width, and made of numbers.
    pub fn shaped(&self, width: usize) -> bool {
        let finite = |v: &[f64]| v.iter().all(|w| w.is_finite());
        self.weights.len() == width
            && (self.anchor.is_empty() || self.anchor.len() == width)
            && finite(&self.weights)
            && finite(&self.anchor)
    }

    pub fn predict(&self, inputs: &[f64]) -> f64 {
        sigmoid(dot(&self.weights, inputs))
    }

    /// ‖∂loss/∂w‖ that observing `reward` would give, the pull to w₀ aside: |p − r|·‖z‖.
    pub fn gradient_norm(prediction: f64, inputs: &[f64], reward: bool) -> f64 {
        (prediction - f64::from(reward)).abs() * libm::sqrt(dot(inputs, inputs))
    }

    fn begin(&mut self) {
        self.steps = 0;
        if self.anchor.is_empty() {
            self.weights.fill(0.0);
        } else {
            self.weights.copy_from_slice(&self.anchor);
        }
    }

    /// One step on one row, which counts `weight` times. The rate is 1/(λ(t + t₀)) (Bottou 2012), t₀ such that the first
    /// step is as long as scikit-learn's schedule "optimal" makes it, and never below `floor`.
    pub fn step(&mut self, row: &Row<'_>, weight: f64, sgd: &Sgd, floor: f64) {
        let rate = sgd.rate(self.steps).max(floor);
        self.steps += 1;
        let pull = rate * sgd.lambda;
        let push = rate * weight * (f64::from(row.reward) - self.predict(row.inputs));
        let last = self.weights.len().saturating_sub(1);
        for (i, (w, &z)) in self.weights.iter_mut().zip(row.inputs).enumerate() {
            if i != last {
                let home = self.anchor.get(i).copied().unwrap_or(0.0);
                *w -= pull.min(1.0) * (*w - home);
            }
            *w += push * z;
        }
    }

    /// Trains anew on all rows: at most `epochs` passes in random order, fewer once the mean loss of a pass has not sunk by
    /// `tolerance` for `patience` passes. The weights are the mean over the last pass (Polyak and Juditsky 1992): single
    /// steps at these rates are noisy.
    pub fn fit(&mut self, rows: &[Row<'_>], sgd: &Sgd, draw: &mut Draw) {
        self.begin();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let (mut best, mut stale) = (f64::INFINITY, 0);
        let mut mean = vec![0.0; self.weights.len()];
        for _ in 0..sgd.epochs {
            draw.shuffle(&mut order);
            let mut loss = 0.0;
            mean.fill(0.0);
            for (n, &i) in order.iter().enumerate() {
                let row = &rows[i];
                let p = self.predict(row.inputs);
                let hit = if row.reward { p } else { 1.0 - p };
                loss -= libm::log(hit.max(1e-12));
                self.step(row, 1.0, sgd, 0.0);
                let share = 1.0 / (n + 1) as f64;
                for (m, w) in mean.iter_mut().zip(&self.weights) {
                    *m += share * (w - *m);
                }
            }
            loss /= rows.len().max(1) as f64;
            stale = if loss > best - sgd.tolerance {
                stale + 1
            } else {
                0
            };
            best = best.min(loss);
            if stale >= sgd.patience {
                break;
            }
        }
        if !rows.is_empty() {
            self.weights = mean;
        }
    }

    /// By ln(1 + exp(∓w·z)): 1 − p would have no digits left for a difference where p is near 1.
    #[cfg(test)]
    pub fn loss(&self, row: &Row<'_>) -> f64 {
        let t = dot(&self.weights, row.inputs);
        libm::log1p(libm::exp(if row.reward { -t } else { t }))
    }

    #[cfg(test)]
    pub fn nudged(&self, i: usize, by: f64) -> Logistic {
        let mut other = self.clone();
        other.weights[i] += by;
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(inputs: &[f64], reward: bool) -> Row<'_> {
        Row { inputs, reward }
    }

    proptest! {
        #[test]
        fn gradient_norms_are_those_of_finite_differences(
            weights in prop::collection::vec(-2.0..2.0f64, 5),
            inputs in prop::collection::vec(-3.0..3.0f64, 5),
            reward: bool,
        ) {
            let model = Logistic { weights, anchor: Vec::new(), steps: 0 };
            let row = row(&inputs, reward);
            let slope = |i| {
                let h = 1e-6;
                (model.nudged(i, h).loss(&row) - model.nudged(i, -h).loss(&row)) / (2.0 * h)
            };
            let numeric = (0..5).map(|i| { let s: f64 = slope(i); s * s }).sum::<f64>().sqrt();
            let norm = Logistic::gradient_norm(model.predict(&inputs), &inputs, reward);
            prop_assert!((norm - numeric).abs() < 1e-5 * (1.0 + norm), "{norm} against {numeric}");
        }

        #[test]
        fn a_step_goes_down_the_gradient_of_finite_differences(
            weights in prop::collection::vec(-2.0..2.0f64, 5),
            anchor in prop::collection::vec(-2.0..2.0f64, 5),
            inputs in prop::collection::vec(-3.0..3.0f64, 5),
            reward: bool,
            steps in 0..10_000u64,
        ) {
            let sgd = Sgd::default();
            let model = Logistic { weights, anchor, steps };
            let row = row(&inputs, reward);
            // The constant input's weight is not held back.
            let held = |m: &Logistic| {
                let off = m.weights.iter().zip(&m.anchor).take(4).map(|(w, home)| (w - home).powi(2));
                m.loss(&row) + sgd.lambda / 2.0 * off.sum::<f64>()
            };
            let mut moved = model.clone();
            moved.step(&row, 1.0, &sgd, 0.0);
            for i in 0..5 {
                let h = 1e-6;
                let slope = (held(&model.nudged(i, h)) - held(&model.nudged(i, -h))) / (2.0 * h);
                let went = (model.weights[i] - moved.weights[i]) / sgd.rate(steps);
                prop_assert!((went - slope).abs() < 1e-5 * (1.0 + slope.abs()), "weight {i}: {went} against {slope}");
            }
        }

        #[test]
        fn weights_stay_numbers(inputs in prop::collection::vec(-5.0..5.0f64, 3), rewards in prop::collection::vec(any::<bool>(), 1..200)) {
            let mut model = Logistic::new(3);
            for reward in rewards {
                model.step(&row(&inputs, reward), 3.0, &Sgd::default(), 0.01);
            }
            prop_assert!(model.shaped(3));
            prop_assert!((0.0..=1.0).contains(&model.predict(&inputs)));
        }
    }

    #[test]
    fn a_fit_finds_the_weights_that_made_the_data() {
        let mut draw = Draw::new(5);
        let truth = [1.5, -1.0, 0.5];
        let data: Vec<([f64; 3], bool)> = (0..4000)
            .map(|_| {
                let z = [draw.normal(), draw.normal(), 1.0];
                (z, draw.unit() < sigmoid(dot(&truth, &z)))
            })
            .collect();
        let rows: Vec<Row<'_>> = data.iter().map(|(z, r)| row(z, *r)).collect();
        let mut model = Logistic::new(3);
        let sgd = Sgd {
            lambda: 1e-3,
            ..Sgd::default()
        };
        model.fit(&rows, &sgd, &mut draw);
        for (w, t) in model.weights.iter().zip(truth) {
            assert!((w - t).abs() < 0.2, "{:?}", model.weights);
        }
    }

    #[test]
    fn an_anchored_model_begins_at_its_anchor_and_is_pulled_back() {
        let mut shared = Logistic::new(2);
        shared.weights = vec![2.0, 0.5];
        let mut own = Logistic::anchored(&shared);
        assert_eq!(own.predict(&[1.0, 1.0]), shared.predict(&[1.0, 1.0]));
        own.weights[0] = -2.0;
        let sgd = Sgd {
            lambda: 0.1,
            ..Sgd::default()
        };
        (0..2000).for_each(|_| own.step(&row(&[0.0, 0.0], true), 1.0, &sgd, 0.1));
        assert!((own.weights[0] - 2.0).abs() < 1e-3);
    }
}
