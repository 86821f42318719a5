//! Prometheus' text format over HTTP, on loopback.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;

use crate::control::{self, Call, Request};
use crate::status::{PathStatus, Priority, Status};
use crate::Error;

/// Ends when dropped.
pub struct Metrics(tokio::task::JoinHandle<()>);

impl Metrics {
    /// `None` where no address is configured.
    pub async fn start(
        address: Option<SocketAddr>,
        calls: &mpsc::Sender<Call>,
    ) -> Result<Option<Metrics>, Error> {
        let Some(address) = address else {
            return Ok(None);
        };
        let listener = mp_server::bind(address, "metrics.listen").await;
        let listener = listener.map_err(|e| Error::Failed(format!("cannot listen on {e}")))?;
        let calls = calls.clone();
        Ok(Some(Metrics(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let calls = calls.clone();
                let answer = service_fn(move |request: hyper::Request<_>| {
                    let calls = calls.clone();
                    async move { Ok::<_, Infallible>(answer(request.uri().path(), &calls).await) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), answer));
            }
        }))))
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn answer(path: &str, calls: &mpsc::Sender<Call>) -> Response<Full<Bytes>> {
    let status = match path {
        "/metrics" => serde_json::from_value(control::ask(Request::Status, calls).await).ok(),
        _ => None,
    };
    let mut response = Response::new(Full::new(
        status.as_ref().map(render).unwrap_or_default().into(),
    ));
    let kind = "text/plain; version=0.0.4".parse().expect("a header value");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    if status.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

type Value = fn(&PathStatus) -> f64;

/// Name, type, help and value of what there is of each path.
const OF_PATHS: &[(&str, &str, &str, Value)] = &[
    ("path_up", "gauge", "Whether the path can be used", |p| {
        f64::from(u8::from(p.up))
    }),
    ("path_backup", "gauge", "Whether it is in backup", |p| {
        f64::from(u8::from(p.priority == Priority::Backup))
    }),
    ("path_subflows", "gauge", "Established subflows", |p| {
        p.subflows as f64
    }),
    (
        "path_srtt_seconds",
        "gauge",
        "Smoothed round-trip time",
        |p| p.srtt_ms / 1e3,
    ),
    (
        "path_loss_ratio",
        "gauge",
        "Packets lost of late, of those sent or received",
        |p| p.loss,
    ),
    (
        "path_switches_total",
        "counter",
        "Changes between normal and backup",
        |p| p.switches as f64,
    ),
    (
        "path_sent_bytes_total",
        "counter",
        "Payload acknowledged",
        |p| p.sent_bytes as f64,
    ),
    (
        "path_received_bytes_total",
        "counter",
        "Payload received",
        |p| p.received_bytes as f64,
    ),
];

fn render(status: &Status) -> String {
    let mut out = String::new();
    let mut plain = |name: &str, kind: &str, help: &str, value: f64| {
        let _ = writeln!(
            out,
            "# HELP multipilot_{name} {help}\n# TYPE multipilot_{name} {kind}\nmultipilot_{name} {value}"
        );
    };
    plain(
        "connections",
        "gauge",
        "MPTCP connections",
        status.connections as f64,
    );
    plain(
        "polls_total",
        "counter",
        "Polls of the kernel's counters",
        status.looks as f64,
    );
    plain(
        "uptime_seconds",
        "gauge",
        "Since the daemon's start",
        status.uptime_s,
    );
    let counts = status.since_start;
    plain(
        "handshakes_total",
        "counter",
        "Connections that began as MPTCP",
        (counts.mptcp + counts.options_lost) as f64,
    );
    let _ = writeln!(
        out,
        "# HELP multipilot_fallbacks_total Connections that fell back to TCP\n# TYPE multipilot_fallbacks_total counter"
    );
    for (why, count) in [
        ("no_answer", counts.no_answer),
        ("syn_lost", counts.syn_lost),
        ("options_lost", counts.options_lost),
    ] {
        let _ = writeln!(out, "multipilot_fallbacks_total{{why=\"{why}\"}} {count}");
    }
    for (name, kind, help, value) in OF_PATHS {
        let _ = writeln!(
            out,
            "# HELP multipilot_{name} {help}\n# TYPE multipilot_{name} {kind}"
        );
        for path in &status.paths {
            let interface = path.interface.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(
                out,
                "multipilot_{name}{{interface=\"{interface}\"}} {}",
                value(path)
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prometheus takes rates of counters alone, and its conventions name those `_total`.
    #[test]
    fn counters_are_those_that_are_named_so() {
        let status = serde_json::json!({
            "schema": 1, "version": "", "pid": 1, "uptime_s": 1.5, "policy": "", "controller": null,
            "path_manager": "kernel", "connections": 1, "looks": 1, "look_ms": 0.0, "subflows": [],
            "since_start": { "mptcp": 3, "no_answer": 2, "syn_lost": 0, "options_lost": 1 },
            "paths": [{
                "interface": "wifi", "addresses": [], "up": true, "rule": "none", "priority": "normal", "why": "",
                "subflows": 1, "rate_mbps": 1.0, "srtt_ms": 1.0, "min_rtt_ms": 1.0, "loss": 0.0, "signal_dbm": null,
                "switches": 4, "sent_bytes": 5, "received_bytes": 6,
            }],
        });
        let text = render(&serde_json::from_value(status).unwrap());
        let kinds = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
        let mut names = Vec::new();
        for kind in kinds {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            names.push(name);
        }
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let name = line.split([' ', '{']).next().unwrap();
            assert!(names.contains(&name), "{line} has no type");
        }
        assert!(text.contains("multipilot_handshakes_total 4\n"), "{text}");
        assert!(text.contains("multipilot_fallbacks_total{why=\"no_answer\"} 2\n"));
    }
}
