//! `/metrics` over HTTP, on loopback.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;
use mp_relay::capture::Report;
use mp_relay::datagram::device::PathReport;
use mp_relay::device::LinkReport;
use mp_server::http::{self, ConnectionCounts, HttpSettings};
use mp_server::openmetrics;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use crate::control::{self, PendingRequest, Request};
use crate::status::{DaemonStatus, PathPriority, PathStatus};
use crate::Error;

/// Others wait: every user of the host may connect.
const CONNECTIONS: usize = 16;
/// For a request, for the next one of a connection, and to take more of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends when dropped.
pub struct MetricsServer(tokio::task::JoinHandle<()>);

impl MetricsServer {
    /// `None` where no address is configured.
    pub async fn start(
        address: Option<SocketAddr>,
        calls: &mpsc::Sender<PendingRequest>,
    ) -> Result<Option<MetricsServer>, Error> {
        let Some(address) = address else {
            return Ok(None);
        };
        let listener = http::bind(address, "metrics.listen").await;
        let listener = listener.map_err(|e| Error::Failed(format!("cannot listen on {e}")))?;
        let terms = HttpSettings {
            router: Router::new()
                .route("/metrics", get(answer))
                .with_state(calls.clone()),
            tls: None,
            connections: CONNECTIONS,
            patience: PATIENCE,
            counts: ConnectionCounts::default(),
        };
        let served = http::serve(listener, terms, pending());
        Ok(Some(MetricsServer(tokio::spawn(served))))
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn answer(State(calls): State<mpsc::Sender<PendingRequest>>) -> Response {
    let status = control::ask(Request::Status, &calls).await;
    match serde_json::from_value(status) {
        Ok(status) => {
            ([(CONTENT_TYPE, openmetrics::CONTENT_TYPE)], render(&status)).into_response()
        }
        // The daemon ends.
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

type Labels = [(&'static str, String); 1];

/// Name, help, and the value of each path or link.
type Row<T, V> = (&'static str, &'static str, fn(&T) -> V);

/// One answer: what the status says at that time.
struct Page(Registry);

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.0.register(name, help, ConstGauge::new(value));
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstCounter::new(value));
    }

    fn gauges(&mut self, name: &str, help: &str, rows: impl Iterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        rows.for_each(|(labels, value)| {
            family.get_or_create(&labels).set(value);
        });
        self.0.register(name, help, family);
    }

    fn counters(&mut self, name: &str, help: &str, rows: impl Iterator<Item = (Labels, u64)>) {
        let family = Family::<Labels, Counter>::default();
        rows.for_each(|(labels, value)| {
            family.get_or_create(&labels).inc_by(value);
        });
        self.0.register(name, help, family);
    }

    /// One counter for each value of a label.
    fn counted<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        counts: [(&str, u64); N],
    ) {
        let row = |(value, count): (&str, u64)| ([(label, value.to_owned())], count);
        self.counters(name, help, counts.into_iter().map(row));
    }
}

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn render(status: &DaemonStatus) -> String {
    let mut page = Page(Registry::with_prefix("multipilot"));
    page.gauge(
        "connections",
        "MPTCP connections",
        status.connections as f64,
    );
    page.counter("polls", "Polls of the kernel's counters", status.polls);
    page.gauge(
        "uptime_seconds",
        "Since the daemon's start",
        status.uptime_s,
    );
    let counts = status.since_start;
    page.counter(
        "handshakes",
        "Connections that began as MPTCP",
        counts.mptcp + counts.options_lost,
    );
    let fallbacks = [
        ("no_answer", counts.no_answer),
        ("syn_lost", counts.syn_lost),
        ("options_lost", counts.options_lost),
    ];
    page.counted(
        "fallbacks",
        "Connections that fell back to TCP",
        "why",
        fallbacks,
    );
    if let Some(offer) = &status.initial_path {
        page.counter(
            "initial_path_events_lost",
            "Events of connections that the bandit missed",
            offer.events_lost,
        );
    }
    paths(&mut page, &status.paths);
    if let Some(relay) = &status.relay {
        page.gauge(
            "relay_up",
            "Whether connections go to the relay",
            truth(relay.report.is_some()),
        );
        relay.report.iter().for_each(|r| carried(&mut page, r));
    }
    openmetrics::text(&page.0)
}

fn paths(page: &mut Page, paths: &[PathStatus]) {
    let label = |p: &PathStatus| [("interface", p.interface.clone())];
    let gauges: [Row<PathStatus, f64>; 5] = [
        ("path_up", "Whether the path can be used", |p| truth(p.up)),
        ("path_backup", "Whether it is in backup", |p| {
            truth(p.priority == PathPriority::Backup)
        }),
        ("path_subflows", "Established subflows", |p| {
            p.subflows as f64
        }),
        ("path_srtt_seconds", "Smoothed round-trip time", |p| {
            p.srtt_ms / 1e3
        }),
        (
            "path_loss_ratio",
            "Share of recent packets that were lost",
            |p| p.loss,
        ),
    ];
    for (name, help, value) in gauges {
        page.gauges(name, help, paths.iter().map(|p| (label(p), value(p))));
    }
    let counters: [Row<PathStatus, u64>; 3] = [
        ("path_switches", "Changes between normal and backup", |p| {
            p.switches
        }),
        ("path_sent_bytes", "Payload acknowledged", |p| p.sent_bytes),
        ("path_received_bytes", "Payload received", |p| {
            p.received_bytes
        }),
    ];
    for (name, help, value) in counters {
        page.counters(name, help, paths.iter().map(|p| (label(p), value(p))));
    }
}

fn carried(page: &mut Page, relay: &Report) {
    page.gauge("relay_flows", "TCP connections open", relay.flows as f64);
    page.counter("relay_flows_opened", "TCP connections so far", relay.opened);
    page.counter(
        "relay_flows_refused",
        "TCP connections that the relay did not connect",
        relay.refused,
    );
    let label = |l: &LinkReport| [("link", l.link.clone())];
    let gauges: [Row<LinkReport, Option<f64>>; 4] = [
        ("relay_link_used", "Whether the link may carry data", |l| {
            Some(truth(!["off", "dead"].contains(&l.state.as_str())))
        }),
        ("relay_link_backup", "Whether it is a backup", |l| {
            Some(truth(l.state == "backup"))
        }),
        (
            "relay_link_month_bytes",
            "TCP and UDP payload in this month, both ways",
            |l| l.month_bytes.map(|n| n as f64),
        ),
        ("relay_link_limit_bytes", "The limit of a month", |l| {
            l.limit_bytes.map(|n| n as f64)
        }),
    ];
    for (name, help, value) in gauges {
        let rows = relay.links.iter();
        page.gauges(name, help, rows.filter_map(|l| Some((label(l), value(l)?))));
    }
    let counters: [Row<LinkReport, u64>; 3] = [
        ("relay_link_sent_bytes", "Bytes of streams", |l| {
            l.sent_bytes
        }),
        ("relay_link_received_bytes", "Bytes of streams", |l| {
            l.received_bytes
        }),
        (
            "relay_link_carried_bytes",
            "TCP and UDP payload, both ways",
            |l| l.carried_bytes,
        ),
    ];
    for (name, help, value) in counters {
        page.counters(name, help, relay.links.iter().map(|l| (label(l), value(l))));
    }
    let lane = &relay.datagrams;
    page.gauge("relay_datagram_flows", "UDP flows", lane.flows as f64);
    let packets = [
        ("sent", lane.sent),
        ("copied", lane.copies),
        ("received", lane.received),
        ("duplicate", lane.duplicates),
        ("too_big", lane.too_big),
        ("dropped", lane.dropped),
    ];
    page.counted(
        "relay_datagrams",
        "UDP packets of this host",
        "what",
        packets,
    );
    let rtt = |p: &PathReport| ([("link", p.link.clone())], p.rtt_ms / 1e3);
    page.gauges(
        "relay_datagram_rtt_seconds",
        "Smoothed round-trip time of the datagram lane",
        lane.paths.iter().map(rtt),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_status_says_is_there_under_its_names() {
        let relay = serde_json::json!({
            "state": "on", "why": "", "relay": "a:1", "scheduler": "default", "uptime_s": 1.0, "leak": "direct",
            "flows": 2, "opened": 9, "refused": 1, "failure": null, "not_captured": [], "absent_cgroups": [], "refused_cgroups": [], "unserved": [], "resolvers": [], "busiest_flows": [],
            "links": [{
                "link": "lte", "ready": 1, "sent_bytes": 7, "received_bytes": 8, "state": "backup", "why": "metered",
                "carried_bytes": 40, "month_bytes": 50, "limit_bytes": 60,
            }],
            "datagrams": {
                "flows": 1, "sent": 10, "copies": 3, "received": 9, "duplicates": 2, "too_big": 0, "dropped": 0,
                "failure": null,
                "paths": [{ "link": "lte", "rtt_ms": 40.0, "stale": false, "sent": 1, "lost": 0, "largest": 1386 }],
            },
        });
        let mut status = serde_json::json!({
            "schema": 1, "version": "", "pid": 1, "uptime_s": 1.5, "policy": "", "controller": null,
            "path_manager": "kernel", "connections": 1, "polls": 1, "poll_ms": 0.0, "subflows": [],
            "since_start": { "mptcp": 3, "no_answer": 2, "syn_lost": 0, "options_lost": 1 },
            "paths": [{
                "interface": "wi\"fi", "addresses": [], "up": true, "rule": "none", "priority": "normal", "why": "",
                "subflows": 1, "rate_mbps": 1.0, "srtt_ms": 1.0, "min_rtt_ms": 1.0, "loss": 0.0, "signal_dbm": null,
                "switches": 4, "sent_bytes": 5, "received_bytes": 6,
            }],
        });
        status["relay"] = relay;
        status["initial_path"] = serde_json::json!({
            "interface": null, "by": "stock", "why": "", "decisions": 1, "outcomes": 0, "events_lost": 12,
        });
        let text = render(&serde_json::from_value(status).unwrap());
        for line in [
            "# TYPE multipilot_handshakes counter",
            "multipilot_connections 1.0",
            "multipilot_handshakes_total 4",
            "multipilot_fallbacks_total{why=\"no_answer\"} 2",
            "multipilot_path_srtt_seconds{interface=\"wi\\\"fi\"} 0.001",
            "multipilot_path_switches_total{interface=\"wi\\\"fi\"} 4",
            "multipilot_path_sent_bytes_total{interface=\"wi\\\"fi\"} 5",
            "multipilot_initial_path_events_lost_total 12",
            "multipilot_relay_up 1.0",
            "multipilot_relay_flows_opened_total 9",
            "multipilot_relay_link_backup{link=\"lte\"} 1.0",
            "multipilot_relay_link_used{link=\"lte\"} 1.0",
            "multipilot_relay_link_month_bytes{link=\"lte\"} 50.0",
            "multipilot_relay_link_limit_bytes{link=\"lte\"} 60.0",
            "multipilot_relay_link_carried_bytes_total{link=\"lte\"} 40",
            "multipilot_relay_datagrams_total{what=\"copied\"} 3",
            "multipilot_relay_datagram_rtt_seconds{link=\"lte\"} 0.04",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let page = include_str!("../../../docs/reference/daemon.md");
        for line in text.lines() {
            let family = line
                .strip_prefix("# TYPE multipilot_")
                .and_then(|l| l.split_once(' '));
            let Some((name, kind)) = family else { continue };
            let total = if kind == "counter" { "_total" } else { "" };
            assert!(page.contains(&format!("`{name}{total}`")), "{name}");
        }
    }
}
