//! One location: its model, what counts as good there, and how it has been doing.

use std::collections::VecDeque;

use mp_policy::bandit::reward::{Judge, Thresholds};
use mp_policy::bandit::{file, Bandit};
use serde::{Deserialize, Serialize};

use crate::drift::Drift;
use crate::tally::{Tally, BATCH};

/// Counted up when a saved model of before would be read wrongly or not at all, and not with each version: what the log no
/// longer has could not be learnt again.
pub const MODEL_FORMAT: u32 = 1;

/// An outcome as a model takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingSample {
    /// In the order of the features; `None` where nothing was measured.
    pub context: Vec<Option<f64>>,
    pub path: usize,
    pub reward: bool,
}

impl TrainingSample {
    /// The context as a bandit takes it.
    pub fn values(&self) -> Vec<f64> {
        let hole = |v: &Option<f64>| v.unwrap_or(f64::NAN);
        self.context.iter().map(hole).collect()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LocationModel {
    pub judge: Judge,
    pub tally: Tally,
    pub drift: Drift,
    /// The last batch, from which a model of its own begins.
    pub recent: VecDeque<TrainingSample>,
    /// Outcomes since the model was fitted.
    pub since_fit: u32,
    /// A model of its own, once there is enough to make one from; before, the shared one answers.
    #[serde(with = "saved")]
    pub own: Option<Bandit>,
}

impl LocationModel {
    pub fn new(thresholds: Thresholds) -> LocationModel {
        LocationModel {
            judge: Judge::new(thresholds),
            tally: Tally::default(),
            drift: Drift::default(),
            recent: VecDeque::new(),
            since_fit: 0,
            own: None,
        }
    }

    pub fn remember(&mut self, sample: TrainingSample) {
        if self.recent.len() == BATCH as usize {
            self.recent.pop_front();
        }
        self.recent.push_back(sample);
    }

    /// Goes on with this model, once it has learnt the location's last outcomes, of the last batch at most.
    pub fn begin(&mut self, mut own: Bandit, last: u64) {
        let skipped = self.recent.len().saturating_sub(last as usize);
        for sample in self.recent.iter().skip(skipped) {
            own.update(&sample.values(), sample.path, sample.reward);
        }
        own.refit();
        self.own = Some(own);
        self.since_fit = 0;
    }
}

/// A model inside of JSON, as its own file has it: what does not fit is not taken.
mod saved {
    use super::{file, Bandit};
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub fn serialize<S: Serializer>(bandit: &Option<Bandit>, to: S) -> Result<S::Ok, S::Error> {
        let value = bandit.as_ref().map(super::encoded).transpose();
        value.map_err(S::Error::custom)?.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bandit>, D::Error> {
        let value = Option::<Value>::deserialize(from)?;
        let read = |v: Value| file::decode("model", v.to_string().as_bytes());
        value.map(read).transpose().map_err(D::Error::custom)
    }
}

/// A bandit's file as a JSON value.
pub fn encoded(bandit: &Bandit) -> serde_json::Result<serde_json::Value> {
    serde_json::from_slice(&file::encode(bandit))
}
