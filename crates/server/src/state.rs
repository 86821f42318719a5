//! What the page shows of what was learnt.

use mp_policy::bandit::reward::NO_LATENCY;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::drift::Drift;
use crate::models::{lock, Models};
use crate::tally::Tally;

/// A location in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    pub location: String,
    pub outcomes: u64,
    pub rewards: u64,
    /// It has a model of its own
    pub own_model: bool,
    /// Sudden changes that were noticed
    pub alarms: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct State {
    pub paths: Vec<String>,
    pub policy: String,
    pub uptime_s: u64,
    /// Outcomes that are stored but not learnt from yet
    pub behind: i64,
    /// All locations together, in the order of arrival
    pub all: Tally,
    pub locations: Vec<Summary>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaceState {
    pub location: String,
    pub own_model: bool,
    /// Thresholds of a reward now, null while nothing is known
    pub throughput_mbps: Option<f64>,
    pub latency_ms: Option<f64>,
    pub tally: Tally,
    pub drift: Drift,
}

impl Models {
    pub fn state(&self, policy: &str, uptime_s: u64) -> State {
        let summary = |location: String| {
            let model = self.find(&location)?;
            let model = lock(&model);
            Some(Summary {
                location,
                outcomes: model.tally.outcomes,
                rewards: model.tally.rewards,
                own_model: model.own.is_some(),
                alarms: model.drift.alarms,
            })
        };
        State {
            paths: self.paths.clone(),
            policy: policy.to_owned(),
            uptime_s,
            behind: self.behind(),
            all: lock(&self.shared).tally.clone(),
            locations: self.names().into_iter().filter_map(summary).collect(),
        }
    }

    pub fn location_state(&self, location: &str) -> Option<PlaceState> {
        let model = self.find(location)?;
        let model = lock(&model);
        let thresholds = model.judge.thresholds();
        Some(PlaceState {
            location: location.to_owned(),
            own_model: model.own.is_some(),
            throughput_mbps: thresholds.map(|(rate, _)| rate),
            latency_ms: thresholds
                .map(|(_, delay)| delay)
                .filter(|d| *d < NO_LATENCY),
            tally: model.tally.clone(),
            drift: model.drift.clone(),
        })
    }
}
