//! What goes over the wire, and what of it is taken.

use std::collections::BTreeMap;

use mp_policy::bandit::context::Reading;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Outcomes in one report at most: a device that was away for long sends several.
pub const MOST_OUTCOMES: usize = 64;
pub const LONGEST_NAME: usize = 64;
/// Beyond this no measurement of ours goes, in any unit.
const LARGEST: f64 = 1e9;

/// Radio and path measurements by name; one that is missing or null was not measured.
pub type Context = BTreeMap<String, Option<f64>>;

/// A device asks on which path a connection is to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Where the device is: what it is near, e.g. an access point's or a cell's name
    #[schema(max_length = 64, pattern = "^[A-Za-z0-9._:-]{1,64}$")]
    pub location: String,
    /// Measurements by name, null where there is none
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<f64>>)]
    pub context: Context,
    /// Paths that can be used now; all that the server knows when left out
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 8)]
    pub paths: Option<Vec<String>>,
}

/// On which path to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answer {
    pub path: String,
    /// It was chosen in order to learn, not for the best expectation
    pub explored: bool,
    /// What is expected of each path: the probability that throughput and latency are good enough
    pub expected: BTreeMap<String, f64>,
    /// Outcomes behind this location's model; 0 where the shared model answered
    pub outcomes: u64,
}

/// Who chose the path of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Chooser {
    /// This server
    Server,
    /// The device by its own model, the server being away
    Device,
    /// The device's system
    Stock,
}

impl Chooser {
    pub fn word(self) -> &'static str {
        match self {
            Chooser::Server => "server",
            Chooser::Device => "device",
            Chooser::Stock => "stock",
        }
    }
}

/// What came of a connection. It carries its context, so that choices made while the server was away teach as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The device's own name of the connection: sent again, an outcome counts once
    #[schema(max_length = 64, pattern = "^[A-Za-z0-9._:-]{1,64}$")]
    pub id: String,
    #[schema(max_length = 64, pattern = "^[A-Za-z0-9._:-]{1,64}$")]
    pub location: String,
    /// The path on which the connection started
    #[schema(max_length = 64)]
    pub path: String,
    /// Measurements at its start
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<f64>>)]
    pub context: Context,
    pub chosen_by: Chooser,
    /// Goodput over the connection's life, Mbit/s; 0 where it carried nothing
    #[schema(minimum = 0)]
    pub throughput_mbps: f64,
    /// Latency, ms; null where no answer ever came
    #[serde(default)]
    #[schema(minimum = 0)]
    pub latency_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    #[schema(min_items = 1, max_items = 64)]
    pub outcomes: Vec<Outcome>,
}

/// The outcomes of this report are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// New ones
    pub stored: usize,
    /// Of those sent, how many were here already
    pub duplicates: usize,
}

/// Why a request was refused: what, where, how to fix it, in one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    pub error: String,
}

/// Letters, digits and `._:-`, so that a name can stand in a URL, a log line and a page as it is.
pub fn check_name(key: &str, name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    match !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(fits) {
        true => Ok(()),
        false => Err(format!(
            "{key}: expected 1 to {LONGEST_NAME} letters, digits or any of . _ : -"
        )),
    }
}

pub fn check_context(context: &Context, known: &[String]) -> Result<(), String> {
    for (name, value) in context {
        if !known.contains(name) {
            let shown: String = name.chars().take(LONGEST_NAME).collect();
            let hint = mp_scenario::did_you_mean(&shown, known.iter().map(String::as_str));
            return Err(format!("context: {shown:?} is no feature{hint}"));
        }
        let range = Reading::of_feature(name).map_or(-LARGEST..=LARGEST, Reading::range);
        if value.is_some_and(|v| !range.contains(&v)) {
            return Err(format!(
                "context.{name}: expected a number from {} to {}, or null",
                range.start(),
                range.end()
            ));
        }
    }
    Ok(())
}

pub fn check_path(key: &str, path: &str, known: &[String]) -> Result<(), String> {
    match known.iter().any(|k| k == path) {
        true => Ok(()),
        false => Err(format!(
            "{key}: no such path; this server knows {}",
            known.join(", ")
        )),
    }
}

pub fn check_measure(key: &str, value: f64) -> Result<(), String> {
    match (0.0..=LARGEST).contains(&value) {
        true => Ok(()),
        false => Err(format!("{key}: expected a number from 0 to 1e9")),
    }
}
