//! What a location's outcomes came to, for the page: reward over time, paths chosen, calibration.
//!
//! Every prediction in it was made before its outcome was learnt from (prequential), so it flatters no model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The paper's batch: figure 4 is the mean reward over 50 connections.
pub const BATCH: u32 = 50;
/// Points of a curve at most; then two become one, so that a curve always covers everything.
const MOST_POINTS: usize = 200;
const BINS: usize = 10;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    pub outcomes: u32,
    /// Outcomes whose reward was 1
    pub rewards: u32,
    /// Sum of the rewards that the model expected
    pub expected: f64,
    /// Outcomes by path, in the order of `paths`
    pub chosen: Vec<u32>,
}

/// Predictions that were alike, and what came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bin {
    pub outcomes: u64,
    pub expected: f64,
    pub rewards: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tally {
    pub outcomes: u64,
    pub rewards: u64,
    /// Outcomes of choices that this server made
    pub chosen_here: u64,
    /// Outcomes to a point of the curve
    pub width: u32,
    pub curve: Vec<Point>,
    /// Ten equal bins of the expected reward
    pub calibration: Vec<Bin>,
    /// Sum of the squared errors of prediction
    pub brier_sum: f64,
}

impl Tally {
    pub fn add(&mut self, paths: usize, path: usize, expected: f64, reward: bool, here: bool) {
        self.outcomes += 1;
        self.rewards += u64::from(reward);
        self.chosen_here += u64::from(here);
        self.brier_sum += (expected - f64::from(u8::from(reward))).powi(2);
        self.calibration.resize(BINS, Bin::default());
        let bin = &mut self.calibration[((expected * BINS as f64) as usize).min(BINS - 1)];
        bin.outcomes += 1;
        bin.expected += expected;
        bin.rewards += u64::from(reward);
        self.width = self.width.max(BATCH);
        if self.curve.last().is_none_or(|p| p.outcomes >= self.width) {
            if self.curve.len() == MOST_POINTS {
                self.halve();
            }
            self.curve.push(Point::default());
        }
        let point = self.curve.last_mut().expect("one was pushed");
        point.outcomes += 1;
        point.rewards += u32::from(reward);
        point.expected += expected;
        point.chosen.resize(paths, 0);
        point.chosen[path] += 1;
    }

    /// Adds another one's sums; curves of different locations have no common time and are left as they are.
    pub fn absorb(&mut self, other: &Tally) {
        self.outcomes += other.outcomes;
        self.rewards += other.rewards;
        self.chosen_here += other.chosen_here;
        self.brier_sum += other.brier_sum;
        self.calibration.resize(BINS, Bin::default());
        for (bin, more) in self.calibration.iter_mut().zip(&other.calibration) {
            bin.outcomes += more.outcomes;
            bin.expected += more.expected;
            bin.rewards += more.rewards;
        }
    }

    fn halve(&mut self) {
        self.width *= 2;
        let merge = |pair: &[Point]| {
            let mut sum = pair[0].clone();
            for more in &pair[1..] {
                sum.outcomes += more.outcomes;
                sum.rewards += more.rewards;
                sum.expected += more.expected;
                for (a, b) in sum.chosen.iter_mut().zip(&more.chosen) {
                    *a += b;
                }
            }
            sum
        };
        self.curve = self.curve.chunks(2).map(merge).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(outcomes: usize) -> Tally {
        let mut tally = Tally::default();
        for i in 0..outcomes {
            tally.add(2, i % 2, 0.75, i % 4 != 0, true);
        }
        tally
    }

    #[test]
    fn a_curve_covers_everything_whatever_its_length() {
        for outcomes in [1, 49, 50, 51, 10_000, 10_001, 123_457] {
            let tally = filled(outcomes);
            let sum: u32 = tally.curve.iter().map(|p| p.outcomes).sum();
            let chosen: u32 = tally.curve.iter().flat_map(|p| &p.chosen).sum();
            assert_eq!((sum as usize, chosen as usize), (outcomes, outcomes));
            assert!(tally.curve.len() <= MOST_POINTS);
            let (_, full) = tally.curve.split_last().unwrap();
            assert!(full.iter().all(|p| p.outcomes == tally.width));
        }
    }

    #[test]
    fn a_calibrated_model_has_its_rewards_where_it_expects_them() {
        let tally = filled(4000);
        let bin = tally.calibration[7];
        assert_eq!((bin.outcomes, bin.rewards), (4000, 3000));
        assert_eq!(bin.expected, 3000.0);
        // ¾·¼² + ¼·¾²
        assert!((tally.brier_sum / 4000.0 - 0.1875).abs() < 1e-12);
    }

    #[test]
    fn a_certain_prediction_has_a_bin() {
        let mut tally = Tally::default();
        tally.add(1, 0, 1.0, true, false);
        tally.add(1, 0, 0.0, false, false);
        assert_eq!(
            (tally.calibration[9].outcomes, tally.calibration[0].outcomes),
            (1, 1)
        );
    }
}
