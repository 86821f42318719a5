//! What the API takes, and how it refuses the rest.

mod common;

use common::{get, open, outcome, post, refused};
use serde_json::{json, Value};

#[tokio::test]
async fn a_device_asks_and_reports() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "");
    let about = server.get("/v1/about").await.body;
    assert_eq!(about["paths"], json!(["wifi", "cellular"]));
    assert!(about["features"]
        .as_array()
        .unwrap()
        .contains(&json!("wifi.rtt_ms")));
    let question = json!({"location": "cafe", "context": {"wifi.rtt_ms": 12.5, "wifi.loss": null}});
    let answer = server.post("/v1/choose", &question).await;
    assert_eq!(answer.status, 200);
    let path = answer.body["path"].as_str().unwrap();
    assert!(["wifi", "cellular"].contains(&path));
    assert_eq!(answer.body["outcomes"], 0, "nobody reported from there");
    let receipt = server.report(outcome(1, "cafe", path, 20.0)).await.body;
    assert_eq!(receipt, json!({"stored": 1, "duplicates": 0}));
    server.learnt().await;
    let state = server.get("/v1/state/cafe").await.body;
    assert_eq!(state["tally"]["outcomes"], 1);
}

#[tokio::test]
async fn only_paths_that_can_be_used_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "paths = [\"a\", \"b\", \"c\"]");
    for _ in 0..50 {
        let question = json!({"location": "x", "paths": ["c"]});
        assert_eq!(server.post("/v1/choose", &question).await.body["path"], "c");
    }
    let none = server
        .post("/v1/choose", &json!({"location": "x", "paths": []}))
        .await;
    refused(&none, 422, "expected at least one");
    let other = server
        .post("/v1/choose", &json!({"location": "x", "paths": ["d"]}))
        .await;
    refused(&other, 422, "this server knows a, b, c");
}

#[tokio::test]
async fn an_outcome_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "");
    let twice = json!({"outcomes": [outcome(1, "x", "wifi", 1.0), outcome(1, "x", "wifi", 2.0), outcome(2, "x", "wifi", 1.0)]});
    let receipt = server.post("/v1/outcomes", &twice).await.body;
    assert_eq!(receipt, json!({"stored": 2, "duplicates": 1}));
    let again = server.post("/v1/outcomes", &twice).await.body;
    assert_eq!(again, json!({"stored": 0, "duplicates": 3}));
    // Another device's connections have names of their own.
    let body = json!({"outcomes": [outcome(1, "x", "wifi", 1.0)]}).to_string();
    let other = server
        .send(post("/v1/outcomes", Some(&server.operator), body))
        .await;
    assert_eq!(other.body["stored"], 1);
}

#[tokio::test]
async fn a_report_is_taken_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "");
    let mut bad = outcome(2, "x", "wifi", 1.0);
    bad["path"] = json!("ethernet");
    let report = json!({"outcomes": [outcome(1, "x", "wifi", 1.0), bad]});
    refused(
        &server.post("/v1/outcomes", &report).await,
        422,
        "path: no such path",
    );
    let receipt = server.report(outcome(1, "x", "wifi", 1.0)).await.body;
    assert_eq!(receipt["stored"], 1, "the good one had not been kept");
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "");
    let with = |key: &str, value: Value| {
        let mut outcome = outcome(1, "x", "wifi", 1.0);
        outcome[key] = value;
        outcome
    };
    let cases = [
        (with("id", json!("")), "id: expected 1 to 64"),
        (with("location", json!("a b")), "location: expected 1 to 64"),
        (
            with("location", json!("x".repeat(65))),
            "location: expected 1 to 64",
        ),
        (
            with("context", json!({"wifi.rt_ms": 1.0})),
            "did you mean \"wifi.rtt_ms\"?",
        ),
        (
            with("context", json!({"wifi.rtt_ms": -1.0})),
            "context.wifi.rtt_ms: expected a number from 0 to 600000, or null",
        ),
        (
            with("context", json!({"cellular.cqi": 16.0})),
            "cellular.cqi: expected a number from 0 to 15",
        ),
        (
            with("context", json!({"wifi.loss": 1.01})),
            "wifi.loss: expected a number from 0 to 1",
        ),
        (
            with("throughput_mbps", json!(-1.0)),
            "throughput_mbps: expected",
        ),
        (with("latency_ms", json!(-1.0)), "latency_ms: expected"),
        (with("chosen_by", json!("me")), "chosen_by"),
        (with("colour", json!("red")), "colour"),
    ];
    for (outcome, says) in cases {
        refused(&server.report(outcome).await, 422, says);
    }
    let many: Vec<Value> = (0..65).map(|i| outcome(i, "x", "wifi", 1.0)).collect();
    let report = server
        .post("/v1/outcomes", &json!({"outcomes": many}))
        .await;
    refused(&report, 422, "expected 1 to 64");
    let none = server.post("/v1/outcomes", &json!({"outcomes": []})).await;
    refused(&none, 422, "expected 1 to 64");
}

#[tokio::test]
async fn requests_that_are_none_get_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "limits.body = \"2kB\"");
    let device = Some(server.device.as_str());
    refused(
        &server.send(post("/v1/choose", device, "{")).await,
        400,
        "JSON",
    );
    refused(
        &server.send(post("/v1/choose", device, "[]")).await,
        422,
        "",
    );
    let nan = "{\"location\":\"x\",\"context\":{\"wifi.rtt_ms\":NaN}}";
    refused(
        &server.send(post("/v1/choose", device, nan)).await,
        400,
        "JSON",
    );
    let huge = "{\"location\":\"x\",\"context\":{\"wifi.rtt_ms\":1e999}}";
    refused(
        &server.send(post("/v1/choose", device, huge)).await,
        400,
        "out of range",
    );
    let large = format!("{{\"location\":\"{}\"}}", "x".repeat(5000));
    refused(
        &server.send(post("/v1/choose", device, large)).await,
        413,
        "",
    );
    let mut untyped = post("/v1/choose", device, "{}");
    untyped.headers_mut().remove("content-type");
    refused(&server.send(untyped).await, 415, "application/json");
    refused(
        &server.send(get("/v1/nothing", device)).await,
        404,
        "/openapi.json",
    );
    let wrong = server.send(get("/v1/choose", device)).await;
    refused(&wrong, 405, "no such method");
    assert_eq!(wrong.headers["allow"], "POST");
}

#[tokio::test]
async fn nobody_passes_without_a_token_of_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "");
    for token in [None, Some("wrong"), Some(""), Some("\u{e4}")] {
        for request in [
            get("/v1/about", token),
            get("/v1/state", token),
            post("/v1/choose", token, "{}"),
        ] {
            let reply = server.send(request).await;
            refused(&reply, 401, "--new-token");
            assert_eq!(reply.headers["www-authenticate"], "Bearer");
        }
    }
    for path in ["/v1/state", "/v1/state/x"] {
        refused(
            &server.send(get(path, Some(&server.device))).await,
            403,
            "phone is a device",
        );
    }
    let refit = post("/v1/refit", Some(&server.device), "{}");
    refused(&server.send(refit).await, 403, "operator");
    assert_eq!(server.send(get("/health", None)).await.status, 200);
    assert_eq!(server.send(get("/", None)).await.status, 200);
}

#[tokio::test]
async fn strangers_are_slowed_down_and_hold_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "");
    let mut slowed = 0;
    for _ in 0..300 {
        let status = server.send(get("/v1/about", Some("guess"))).await.status;
        slowed += usize::from(status == 429);
    }
    assert!(slowed > 0, "300 guesses at once");
    assert_eq!(server.get("/v1/about").await.status, 200);
}

#[tokio::test]
async fn each_token_has_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "limits = { requests = 1, burst = 5 }");
    let ask = json!({"location": "x"});
    // The burst, and one more for each second that this takes.
    let mut passed = 0;
    let reply = loop {
        let reply = server.post("/v1/choose", &ask).await;
        if reply.status != 200 {
            break reply;
        }
        passed += 1;
        assert!(passed < 1000, "no limit");
    };
    assert!(passed >= 5, "{passed}");
    refused(&reply, 429, "too many requests");
    assert_eq!(reply.headers["retry-after"], "1");
    assert_eq!(server.get("/v1/about").await.status, 200, "another token");
}

#[tokio::test]
async fn old_outcomes_make_room_for_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    // Its models are small: a tenth of the limit is theirs.
    let limits = "limits = { database = \"1MiB\", requests = 1000000 }\npolicy = { name = \"active-explorer\", memory = 100 }";
    let server = open(folder.path(), limits);
    // Several times what fits.
    let mut id = 0;
    while id < 30_000 {
        let many: Vec<Value> = (id..id + 64)
            .map(|i| outcome(i, "x", "wifi", 1.0))
            .collect();
        let reply = server
            .post("/v1/outcomes", &json!({"outcomes": many}))
            .await;
        match reply.status {
            200 => id += 64,
            // Until the models that contain the oldest are saved.
            507 => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            other => panic!("{other}: {}", reply.body),
        }
    }
    let again = |id: usize| json!({"outcomes": [outcome(id, "x", "wifi", 1.0)]});
    let last = server.post("/v1/outcomes", &again(id - 1)).await;
    assert_eq!(last.body["duplicates"], 1, "the newest are there");
    server.learnt().await;
    let state = server.get("/v1/state/x").await.body;
    assert_eq!(state["tally"]["outcomes"], id, "all were learnt from");
    drop(server);
    let size = std::fs::metadata(folder.path().join("experience.db"))
        .unwrap()
        .len();
    assert!(size <= 1 << 20, "{size} bytes");
    // What is deleted is in the models, which a start reads.
    let server = open(folder.path(), limits);
    let state = server.get("/v1/state/x").await.body;
    assert_eq!(state["tally"]["outcomes"], id);
    let first = server.post("/v1/outcomes", &again(0)).await;
    assert_eq!(first.body["stored"], 1, "the oldest are gone");
    server.learnt().await;
    let state = server.get("/v1/state/x").await.body;
    assert_eq!(state["tally"]["outcomes"], id + 1, "the log goes on");
}

#[tokio::test]
async fn locations_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), "limits.locations = 2");
    for location in ["a", "b"] {
        assert_eq!(
            server
                .report(outcome(1, location, "wifi", 1.0))
                .await
                .status,
            200
        );
    }
    let third = server.report(outcome(2, "c", "wifi", 1.0)).await;
    refused(&third, 422, "limits.locations");
    assert_eq!(
        server.report(outcome(3, "a", "wifi", 1.0)).await.status,
        200
    );
    let asked = server.post("/v1/choose", &json!({"location": "c"})).await;
    assert_eq!(asked.status, 200, "the shared model answers anywhere");
}
