//! Whether a location still behaves as its model expects.
//!
//! Two-sided CUSUM (Page 1954) for each path over standardised residuals (r − p)/√(p(1 − p)): zero mean and unit variance
//! while the model is calibrated. A model that follows slow changes by itself raises no alarm; a sudden one does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Half the shift that is to be found, in standard deviations.
const SLACK: f64 = 0.25;
/// Alarm from this sum on. In-control run length by simulation: about 3,500 outcomes of a path (see the test).
const LIMIT: f64 = 12.0;
/// Outcomes after an alarm that count for no sum.
const REST: u64 = 50;
/// A prediction nearer to 0 or 1 is taken for this: one surprise of a sure model is no drift.
const SUREST: f64 = 0.05;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Side {
    /// Better than expected
    pub up: f64,
    /// Worse than expected
    pub down: f64,
    /// The location's count of outcomes when the sums were last 0: where a change began, if it was one
    pub up_since: u64,
    pub down_since: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Drift {
    /// Sums by path
    pub sums: Vec<Side>,
    pub alarms: u32,
    /// The location's count of outcomes at the last alarm
    pub last: Option<u64>,
}

impl Drift {
    /// Takes an outcome, the location's `at`th. On an alarm it says how many outcomes of the location came since the
    /// change; the sums begin anew then, after some rest in which the model may settle.
    pub fn add(
        &mut self,
        paths: usize,
        path: usize,
        expected: f64,
        reward: bool,
        at: u64,
    ) -> Option<u64> {
        self.sums.resize(paths, Side::default());
        if self.last.is_some_and(|last| at < last + REST) {
            return None;
        }
        let p = expected.clamp(SUREST, 1.0 - SUREST);
        let residual = (f64::from(u8::from(reward)) - p) / (p * (1.0 - p)).sqrt();
        let side = &mut self.sums[path];
        side.up += residual - SLACK;
        side.down -= residual + SLACK;
        if side.up <= 0.0 {
            (side.up, side.up_since) = (0.0, at);
        }
        if side.down <= 0.0 {
            (side.down, side.down_since) = (0.0, at);
        }
        let since = match (side.up > LIMIT, side.down > LIMIT) {
            (true, _) => side.up_since,
            (_, true) => side.down_since,
            _ => return None,
        };
        self.sums.fill(Side::default());
        self.alarms += 1;
        self.last = Some(at);
        Some(at.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64's numbers as uniform ones: the test needs no better.
    fn uniform(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Outcomes until the alarm while the model says `expected` and `truth` holds, the mean of many.
    fn run_length(expected: f64, truth: f64) -> f64 {
        let mut seed = 7;
        let runs = 200;
        let one = |seed: &mut u64| {
            let mut drift = Drift::default();
            (1..=200_000u64)
                .find(|&n| {
                    drift
                        .add(1, 0, expected, uniform(seed) < truth, n)
                        .is_some()
                })
                .unwrap_or(200_000)
        };
        (0..runs).map(|_| one(&mut seed)).sum::<u64>() as f64 / f64::from(runs)
    }

    #[test]
    fn a_calibrated_model_raises_few_alarms_and_a_change_one_soon() {
        for expected in [0.2, 0.5, 0.8] {
            let calm = run_length(expected, expected);
            assert!(calm > 1500.0, "{expected}: an alarm every {calm}");
        }
        assert!(run_length(0.8, 0.3) < 30.0);
        assert!(run_length(0.3, 0.8) < 30.0);
    }

    #[test]
    fn an_alarm_knows_when_the_change_began() {
        let (mut drift, mut seed) = (Drift::default(), 3);
        for at in 1..=200 {
            assert_eq!(drift.add(1, 0, 0.8, uniform(&mut seed) < 0.8, at), None);
        }
        let alarm = (201..).find_map(|at| Some((at, drift.add(1, 0, 0.8, false, at)?)));
        let (at, ago) = alarm.unwrap();
        let began = at - ago;
        assert!((190..=201).contains(&began), "{began}");
    }

    #[test]
    fn surprises_of_a_sure_model_are_bounded() {
        let mut drift = Drift::default();
        assert_eq!(drift.add(2, 1, 1.0, false, 1), None);
        assert_eq!(drift.add(2, 1, 1.0, false, 2), None);
        assert!(drift.sums.iter().all(|s| s.down.is_finite()));
    }
}
