//! MPCC's utility of an interval, computed outside of the controller: U = X^α − (β L + γ dRTT/dT) X.

use mp_controllers::learned::Record;
use mp_scenario::{Rate, Scenario};

use crate::mptcp::Plan;

/// A slope of the round trip that is smaller is noise (controllers/mpcc_utility.h).
const LEAST_SLOPE: f64 = 0.03;

/// A connection's parameters of the utility.
#[derive(Debug, Clone, Copy)]
pub(super) struct Price {
    pub alpha: f64,
    beta: f64,
    gamma: f64,
    unit: u64,
}

impl Price {
    pub fn of(plan: &Plan) -> Price {
        let [alpha, beta, gamma, unit, ..] = plan.parameters.parameters;
        Price {
            alpha: alpha as f64 / 1000.0,
            beta: beta as f64 / 1000.0,
            gamma: gamma as f64 / 1000.0,
            unit: unit.max(1),
        }
    }

    /// Of bytes/s.
    pub fn in_unit(&self, rate: u64) -> f64 {
        rate as f64 * 8.0 / self.unit as f64
    }

    fn total(&self, record: &Record, others: u64) -> f64 {
        self.in_unit(record.rate + others).max(1e-9)
    }

    /// U without loss and queues.
    pub fn gain(&self, record: &Record, others: u64) -> f64 {
        libm::pow(self.total(record, others), self.alpha)
    }

    pub fn utility(&self, record: &Record, others: u64, slope: f64) -> f64 {
        let loss = record.lost as f64 / (record.lost + record.delivered).max(1) as f64;
        let cost = self.beta * loss + self.gamma * slope;
        self.gain(record, others) - cost * self.total(record, others)
    }

    /// β L + γ dRTT/dT, of a utility.
    pub fn cost(&self, record: &Record, others: u64, utility: f64) -> f64 {
        (self.gain(record, others) - utility) / self.total(record, others)
    }

    /// U if all paths of the connection were full, without loss.
    pub fn best(&self, plan: &Plan, capacities: &[f64]) -> f64 {
        let of = |p: &usize| capacities.get(*p).copied().unwrap_or(0.0);
        let bytes: f64 = plan.paths.iter().map(of).sum();
        libm::pow(bytes * 8.0 / self.unit as f64, self.alpha)
    }
}

/// dRTT/dT between the mean round trips of this interval and the last one, which `last` keeps; µs.
pub(super) fn slope(last: &mut Option<(u64, u64)>, rtt_us: u64, now_us: u64) -> f64 {
    let slope = last.replace((rtt_us, now_us)).map_or(0.0, |(rtt, at)| {
        (rtt_us as f64 - rtt as f64) / now_us.saturating_sub(at).max(1) as f64
    });
    if slope.abs() < LEAST_SLOPE {
        0.0
    } else {
        slope
    }
}

/// Payload that each path carries, bytes/s; 0: it varies.
pub(super) fn capacities(scenario: &Scenario) -> Vec<f64> {
    let mss = f64::from(scenario.mss);
    let of = |path: &mp_scenario::Path| {
        let own = match path.down.rate {
            Rate::Constant(bits) => bits,
            _ => 0,
        };
        let shared = path.link.as_ref().and_then(|l| scenario.links.get(l));
        let bits = match shared.map(|link| &link.down.rate) {
            Some(Rate::Constant(bits)) if own == 0 => *bits,
            Some(Rate::Constant(bits)) => own.min(*bits),
            _ => own,
        };
        bits as f64 / 8.0 * mss / (mss + 80.0)
    };
    scenario.paths.values().map(of).collect()
}
