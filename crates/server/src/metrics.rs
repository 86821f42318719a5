//! `/metrics`. No label comes from a client but its path's and route's names, of which
//! there are few.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::openmetrics;
use crate::store::Room;

type Label = (&'static str, Cow<'static, str>);

/// Seconds: a device waits for 5 ms.
const BUCKETS: [f64; 10] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5,
];

fn buckets() -> Histogram {
    Histogram::new(BUCKETS)
}

pub struct Metrics {
    registry: Registry,
    requests: Family<[Label; 3], Counter>,
    durations: Family<[Label; 1], Histogram, fn() -> Histogram>,
    choices: Family<[Label; 1], Counter>,
    pub outcomes: Counter,
    pub duplicates: Counter,
    pub connections: Gauge,
    pub handshakes_failed: Counter,
    pub behind: Gauge,
    pub locations: Gauge,
    pub uptime: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// `limit` is that of the database, in bytes.
    pub fn new(limit: u64, room: &Room) -> Metrics {
        let mut r = Registry::with_prefix("multipilot_server");
        let metrics = Metrics {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(buckets),
            choices: Family::default(),
            outcomes: Counter::default(),
            duplicates: Counter::default(),
            connections: Gauge::default(),
            handshakes_failed: Counter::default(),
            behind: Gauge::default(),
            locations: Gauge::default(),
            uptime: Gauge::default(),
        };
        let most: Gauge = Gauge::default();
        most.set(limit as i64);
        r.register("requests", "Requests answered", metrics.requests.clone());
        r.register_with_unit(
            "request_duration",
            "Time from a request's head to its answer",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        r.register(
            "choices",
            "Questions answered, by the path chosen",
            metrics.choices.clone(),
        );
        r.register("outcomes", "Outcomes stored", metrics.outcomes.clone());
        r.register(
            "duplicate_outcomes",
            "Outcomes sent again that were stored already",
            metrics.duplicates.clone(),
        );
        r.register(
            "deleted_outcomes",
            "Old outcomes deleted (limits.database, limits.days)",
            room.deleted.clone(),
        );
        r.register(
            "outcomes_behind",
            "Outcomes stored and not learnt from yet",
            metrics.behind.clone(),
        );
        r.register(
            "locations",
            "Locations with outcomes",
            metrics.locations.clone(),
        );
        r.register(
            "connections",
            "Open connections",
            metrics.connections.clone(),
        );
        r.register(
            "tls_handshakes_failed",
            "Connections that ended before TLS was set up",
            metrics.handshakes_failed.clone(),
        );
        r.register_with_unit(
            "database",
            "Size of what the database holds",
            Unit::Bytes,
            room.used.clone(),
        );
        r.register_with_unit("database_limit", "limits.database", Unit::Bytes, most);
        r.register_with_unit(
            "uptime",
            "Since the server's start",
            Unit::Seconds,
            metrics.uptime.clone(),
        );
        Metrics {
            registry: r,
            ..metrics
        }
    }

    /// `route` and `method` are of a bounded set.
    pub fn answered(&self, route: String, method: &'static str, status: u16, took: Duration) {
        let labels = [
            ("route", route.clone().into()),
            ("method", method.into()),
            ("status", status.to_string().into()),
        ];
        self.requests.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&[("route", route.into())])
            .observe(took.as_secs_f64());
    }

    pub fn chosen(&self, path: &str) {
        self.choices
            .get_or_create(&[("path", path.to_owned().into())])
            .inc();
    }

    pub fn text(&self) -> String {
        openmetrics::text(&self.registry)
    }
}
