//! The API does what its description says, for requests of all kinds.

mod common;

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Request;
use common::{open, TestServer};
use proptest::prelude::*;
use serde_json::{json, Value};

const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];

fn document() -> Value {
    serde_json::to_value(mp_server::api::document()).unwrap()
}

/// (path, method) of every operation.
fn operations() -> Vec<(String, String)> {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let each = |(path, methods): (&String, &Value)| {
        let names = methods.as_object().unwrap().keys();
        names
            .map(|m| (path.clone(), m.to_uppercase()))
            .collect::<Vec<_>>()
    };
    paths.iter().flat_map(each).collect()
}

#[test]
fn every_route_is_described() {
    let found: BTreeSet<String> = operations()
        .into_iter()
        .map(|(p, m)| format!("{m} {p}"))
        .collect();
    let expected = [
        "GET /health",
        "GET /metrics",
        "GET /v1/about",
        "GET /v1/model/{location}",
        "GET /v1/state",
        "GET /v1/state/{location}",
        "POST /v1/choose",
        "POST /v1/outcomes",
        "POST /v1/refit",
    ];
    assert_eq!(found, expected.iter().map(|s| s.to_string()).collect());
    let document = document();
    assert!(document["components"]["securitySchemes"]["token"].is_object());
    // Nothing refers to what is not there.
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
}

const REFERENCE: &str = include_str!("../../../docs/reference/server.md");

#[test]
fn the_reference_keeps_up() {
    for (section, keys) in mp_server::config::known_keys() {
        for key in keys {
            let named = REFERENCE.contains(&format!("`{section}{key}"));
            let table = ["policy", "reward", "limits", "tls"].contains(key);
            assert!(
                named || table,
                "docs/reference/server.md does not mention {section}{key}"
            );
        }
    }
    for (name, _) in mp_policy::bandit::Policy::NAMED {
        assert!(REFERENCE.contains(&format!("`{name}`")), "{name}");
    }
    for (path, method) in operations() {
        let shown = path.replace("{location}", "LOCATION");
        assert!(REFERENCE.contains(&shown), "{method} {path}");
    }
    let example = REFERENCE.split("```toml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let config = mp_server::Config::parse("docs/reference/server.md", example).unwrap();
    assert_eq!(config.latency_ms, Some(80.0));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,80}".prop_map(Value::from),
        Just(json!("wifi")),
        Just(json!("server")),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key(), inner, 0..6)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "location",
        "context",
        "paths",
        "outcomes",
        "id",
        "path",
        "chosen_by",
        "throughput_mbps",
        "wifi.rtt_ms",
    ];
    prop_oneof![
        prop::sample::select(KNOWN).prop_map(str::to_owned),
        ".{0,12}".prop_map(String::from)
    ]
}

/// A body near to what is right: one part of a good one is changed for another.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let near = (prop::bool::ANY, key(), json_value()).prop_map(|(asks, key, value)| {
        let mut outcome = common::outcome(1, "x", "wifi", 3.0);
        let mut question =
            json!({"location": "x", "context": {"wifi.loss": 0.1}, "paths": ["wifi"]});
        let target = if asks { &mut question } else { &mut outcome };
        target[&key] = value;
        let whole = if asks {
            question
        } else {
            json!({"outcomes": [outcome]})
        };
        whole.to_string().into_bytes()
    });
    prop_oneof![
        4 => near,
        2 => json_value().prop_map(|v| v.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![Just("x".to_owned()), "[ -~]{0,70}", ".{0,10}"].prop_map(|s| {
        s.bytes()
            .map(|b| {
                if b.is_ascii_alphanumeric() {
                    (b as char).to_string()
                } else {
                    format!("%{b:02X}")
                }
            })
            .collect()
    })
}

async fn hold(
    server: &TestServer,
    path: String,
    method: &str,
    token: Option<String>,
    typed: bool,
    body: Vec<u8>,
    name: String,
) {
    let described = document()["paths"][&path][method.to_lowercase()].clone();
    let mut request = Request::builder()
        .method(method)
        .uri(path.replace("{location}", &name));
    if let Some(token) = &token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if typed {
        request = request.header("content-type", "application/json");
    }
    let reply = server.send(request.body(Body::from(body)).unwrap()).await;
    let status = reply.status.to_string();
    // An empty name is another address.
    let elsewhere = reply.status == 404 && name.is_empty();
    if described.is_object() {
        assert!(
            elsewhere || described["responses"][&status].is_object(),
            "{method} {path}: {status} is not described"
        );
    } else if method == "HEAD" {
        assert!(reply.status < 500, "{method} {path}: {status}");
    } else {
        assert!(
            elsewhere || [405, 401, 403, 429].contains(&reply.status),
            "{method} {path}: {status}"
        );
    }
    if reply.status >= 400 && method != "HEAD" {
        let error = reply.body["error"].as_str();
        assert!(
            error.is_some_and(|e| !e.is_empty() && !e.contains('\n')),
            "{method} {path}: {}",
            reply.body
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_described(
        at in any::<prop::sample::Index>(), method in prop::sample::select(METHODS), usual in prop::bool::weighted(0.8),
        who in 0..4, typed in prop::bool::weighted(0.9), body in body(), name in segment(),
    ) {
        use std::sync::OnceLock;
        static SHARED: OnceLock<(tempfile::TempDir, TestServer, tokio::runtime::Runtime)> = OnceLock::new();
        let (_, server, runtime) = SHARED.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let server = open(folder.path(), "limits.requests = 1000000");
            (folder, server, tokio::runtime::Runtime::new().unwrap())
        });
        let (path, described) = at.get(&operations()).clone();
        let method = if usual { described } else { method.to_owned() };
        let token = match who {
            0 => None,
            1 => Some("x".to_owned()),
            2 => Some(server.device.clone()),
            _ => Some(server.operator.clone()),
        };
        runtime.block_on(hold(server, path, &method, token, typed, body, name));
    }
}
