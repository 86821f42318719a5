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

use crate::http::ConnectionCounts;
use crate::openmetrics;
use crate::store::DatabaseUse;

type Label = (&'static str, Cow<'static, str>);

/// Seconds: a device waits for 5 ms.
const BUCKETS: [f64; 10] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5,
];

fn buckets() -> Histogram {
    Histogram::new(BUCKETS)
}

/// Registered under that name.
fn new<M>(registry: &mut Registry, name: &str, about: &str) -> M
where
    M: prometheus_client::registry::Metric + Clone + Default,
{
    let metric = M::default();
    registry.register(name, about, metric.clone());
    metric
}

pub struct Metrics {
    registry: Registry,
    requests: Family<[Label; 3], Counter>,
    durations: Family<[Label; 1], Histogram, fn() -> Histogram>,
    choices: Family<[Label; 1], Counter>,
    pub outcomes: Counter,
    pub duplicates: Counter,
    pub http: ConnectionCounts,
    pub behind: Gauge,
    pub locations: Gauge,
    pub uptime: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// `limit` is that of the database, in bytes.
    pub fn new(limit: u64, in_use: &DatabaseUse) -> Metrics {
        let mut r = Registry::with_prefix("multipilot_server");
        let durations = Family::new_with_constructor(buckets as fn() -> Histogram);
        r.register_with_unit(
            "request_duration",
            "Time from a request's head to its answer",
            Unit::Seconds,
            durations.clone(),
        );
        let uptime = Gauge::default();
        let (about, unit) = ("Since the server's start", Unit::Seconds);
        r.register_with_unit("uptime", about, unit, uptime.clone());
        let (about, unit) = ("Size of what the database holds", Unit::Bytes);
        r.register_with_unit("database", about, unit, in_use.used.clone());
        let most: Gauge = Gauge::default();
        most.set(limit as i64);
        r.register_with_unit("database_limit", "limits.database", Unit::Bytes, most);
        r.register(
            "deleted_outcomes",
            "Old outcomes deleted (limits.database, limits.days)",
            in_use.deleted.clone(),
        );
        Metrics {
            requests: new(&mut r, "requests", "Requests answered"),
            durations,
            choices: new(&mut r, "choices", "Questions answered, by the path chosen"),
            outcomes: new(&mut r, "outcomes", "Outcomes stored"),
            duplicates: new(
                &mut r,
                "duplicate_outcomes",
                "Outcomes sent again that were stored already",
            ),
            http: ConnectionCounts {
                open: new(&mut r, "connections", "Open connections"),
                handshakes_failed: new(
                    &mut r,
                    "tls_handshakes_failed",
                    "Connections that ended before TLS was set up",
                ),
            },
            behind: new(
                &mut r,
                "outcomes_behind",
                "Outcomes stored and not learnt from yet",
            ),
            locations: new(&mut r, "locations", "Locations with outcomes"),
            uptime,
            registry: r,
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
