//! The document of a comparison: `result.json`, and what `--json` prints.

use serde::{Deserialize, Serialize};

use crate::row::Row;

/// Version of the document; it grows when a column changes its meaning, not when one is added.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub schema: u32,
    /// Name of the scenario.
    pub scenario: String,
    #[serde(default)]
    pub title: String,
    /// `sim` or `kernel`.
    pub world: String,
    /// Version of multipilot that wrote this.
    #[serde(default)]
    pub multipilot: String,
    /// Release of the running kernel.
    #[serde(default)]
    pub kernel: Option<String>,
    pub rows: Vec<Row>,
    /// Runs that gave no row, and why.
    #[serde(default)]
    pub failed: Vec<Failure>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub variant: String,
    pub seed: u64,
    pub error: String,
}

impl Document {
    pub fn new(scenario: &str, title: &str, world: &str) -> Document {
        Document {
            schema: SCHEMA,
            scenario: scenario.to_owned(),
            title: title.to_owned(),
            world: world.to_owned(),
            multipilot: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|s| s.trim().to_owned()),
            ..Document::default()
        }
    }

    /// On one line a row, so that a difference of two records reads well.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
