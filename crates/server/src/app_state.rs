//! What the routes share.

use std::sync::Arc;
use std::time::Instant;

use crate::config::Config;
use crate::guard::Guard;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::refusal::Refusal;
use crate::store::Store;
use crate::wire::{self, Outcome};

pub struct AppState {
    pub config: Config,
    pub guard: Arc<Guard>,
    pub metrics: Arc<Metrics>,
    pub store: Arc<Store>,
    pub models: Arc<Models>,
    /// Has a model fitted anew; false where too many wait for that.
    pub refit: Box<dyn Fn(Option<String>) -> bool + Send + Sync>,
    pub started: Instant,
}

impl AppState {
    pub fn check_location(&self, location: &str, context: &wire::Context) -> Result<(), Refusal> {
        wire::check_name("location", location)
            .and_then(|()| wire::check_context(context, self.models.features()))
            .map_err(Refusal::impossible)
    }

    pub fn check(&self, outcome: &Outcome) -> Result<(), Refusal> {
        self.check_location(&outcome.location, &outcome.context)?;
        wire::check_name("id", &outcome.id)
            .and_then(|()| wire::check_path("path", &outcome.path, &self.config.paths))
            .and_then(|()| wire::check_measure("throughput_mbps", outcome.throughput_mbps))
            .and_then(|()| match outcome.latency_ms {
                Some(latency) => wire::check_measure("latency_ms", latency),
                None => Ok(()),
            })
            .map_err(Refusal::impossible)
    }
}
