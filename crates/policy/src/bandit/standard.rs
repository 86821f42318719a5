//! Standardisation of a context, feature by feature, with missing values.
//!
//! The oracle sees two inputs a feature (its standardised value, and whether it is missing) and a constant 1. A missing
//! value stands at the feature's mean, so that it says nothing by itself; that it is missing may say something (a modem
//! that reports no CQI is another modem), which the second input carries.

use serde::{Deserialize, Serialize};

/// Values beyond this are no reading of anything and count as missing, as NaN and infinities do.
const ABSURD: f64 = 1e9;
/// Standard deviations at which an input is cut off: one outlier must not throw a model that learns by gradients.
const CLIP: f64 = 5.0;
/// Readings of a feature before outliers are cut off in its mean and variance too.
const WARM: u64 = 10;

/// Running mean and variance of one feature (Welford 1962).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        libm::sqrt(self.squares / self.count as f64)
    }

    fn observe(&mut self, value: f64) {
        let mut value = value;
        if self.count >= WARM {
            // A feature that was constant so far may begin to move: it gets a width to move in.
            let width = (CLIP * self.deviation())
                .max(1e-3 * self.mean.abs())
                .max(1e-6);
            value = value.clamp(self.mean - width, self.mean + width);
        }
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn standard(&self, value: f64) -> f64 {
        let deviation = self.deviation();
        if deviation <= 1e-12 * self.mean.abs().max(1e-12) {
            return 0.0;
        }
        ((value - self.mean) / deviation).clamp(-CLIP, CLIP)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Standard {
    features: Vec<Moments>,
}

pub(super) fn present(value: f64) -> bool {
    value.abs() <= ABSURD
}

impl Standard {
    pub fn new(features: usize) -> Standard {
        Standard {
            features: vec![Moments::default(); features],
        }
    }

    /// Inputs that [`Standard::inputs`] gives.
    pub fn width(features: usize) -> usize {
        2 * features + 1
    }

    pub fn features(&self) -> usize {
        self.features.len()
    }

    pub fn finite(&self) -> bool {
        let all = |m: &Moments| m.mean.is_finite() && m.squares.is_finite() && m.squares >= 0.0;
        self.features.iter().all(all)
    }

    pub fn observe(&mut self, context: &[f64]) {
        for (moments, &value) in self.features.iter_mut().zip(context) {
            if present(value) {
                moments.observe(value);
            }
        }
    }

    /// Standardised values, marks of what is missing, and 1. A context that is too short lacks its last features.
    pub fn inputs(&self, context: &[f64], inputs: &mut Vec<f64>) {
        inputs.clear();
        let value = |i: usize| context.get(i).copied().filter(|v| present(*v));
        inputs.extend(
            self.features
                .iter()
                .enumerate()
                .map(|(i, m)| value(i).map_or(0.0, |v| m.standard(v))),
        );
        inputs.extend((0..self.features.len()).map(|i| f64::from(value(i).is_none())));
        inputs.push(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(standard: &Standard, context: &[f64]) -> Vec<f64> {
        let mut inputs = Vec::new();
        standard.inputs(context, &mut inputs);
        inputs
    }

    #[test]
    fn values_are_standardised_and_holes_marked() {
        let mut standard = Standard::new(2);
        for x in [1.0, 3.0] {
            standard.observe(&[x, 10.0 * x]);
        }
        assert_eq!(inputs(&standard, &[3.0, 10.0]), [1.0, -1.0, 0.0, 0.0, 1.0]);
        assert_eq!(
            inputs(&standard, &[f64::NAN, 10.0]),
            [0.0, -1.0, 1.0, 0.0, 1.0]
        );
        assert_eq!(inputs(&standard, &[3.0]), [1.0, 0.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn a_constant_feature_says_nothing() {
        let mut standard = Standard::new(1);
        (0..5).for_each(|_| standard.observe(&[7.0]));
        assert_eq!(inputs(&standard, &[7.0]), [0.0, 0.0, 1.0]);
        assert_eq!(inputs(&standard, &[8.0]), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn no_single_reading_moves_the_scale_far() {
        let mut standard = Standard::new(1);
        (0..100).for_each(|i| standard.observe(&[f64::from(i % 10)]));
        let before = inputs(&standard, &[9.0])[0];
        for absurd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 1e8] {
            standard.observe(&[absurd]);
        }
        let after = inputs(&standard, &[9.0])[0];
        assert!((before - after).abs() < 0.25, "{before} became {after}");
        assert_eq!(inputs(&standard, &[1e8])[0], CLIP);
    }
}
