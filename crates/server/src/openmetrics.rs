//! Metrics in Prometheus' OpenMetrics text, of the server and of the daemon.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("a string takes everything");
    text
}
