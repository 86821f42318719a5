//! The server learns, shares what it learns, notices changes, and knows after a restart what it knew before.

mod common;

use common::{open, TestServer};
use serde_json::{json, Value};

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// A place where Wi-Fi is good while its signal is above −65 dBm, and cellular otherwise; or the other way round.
fn throughput(path: &str, signal: f64, upside_down: bool) -> f64 {
    let wifi_is_good = (signal > -65.0) != upside_down;
    if (path == "wifi") == wifi_is_good {
        50.0
    } else {
        5.0
    }
}

const FAST: &str = "reward = { throughput = \"20Mbit\" }\nlimits.requests = 1000000\n";

/// Asks, connects, reports: the mean reward of so many connections.
async fn live(
    server: &TestServer,
    location: &str,
    from: usize,
    connections: usize,
    upside_down: bool,
) -> f64 {
    let mut dice = Dice(from as u64 ^ 99);
    let mut good = 0;
    for i in from..from + connections {
        let signal = -90.0 + 50.0 * dice.roll();
        let context = json!({"wifi.signal_dbm": signal, "cellular.cqi": 9.0});
        let question = json!({"location": location, "context": context});
        let answer = server.post("/v1/choose", &question).await.body;
        let path = answer["path"].as_str().unwrap();
        let mbps = throughput(path, signal, upside_down);
        good += usize::from(mbps > 20.0);
        let outcome = json!({"id": format!("{location}-{i}"), "location": location, "path": path, "context": context,
            "chosen_by": "server", "throughput_mbps": mbps, "latency_ms": 20.0});
        assert_eq!(server.report(outcome).await.status, 200);
        server.learnt().await;
    }
    good as f64 / connections as f64
}

#[tokio::test]
async fn a_location_is_learnt_and_a_new_one_begins_with_what_others_know() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), FAST);
    live(&server, "old", 0, 600, false).await;
    let late = live(&server, "old", 600, 200, false).await;
    assert!(late > 0.75, "{late} of the last connections were good");
    let state = server.get("/v1/state/old").await.body;
    assert_eq!(state["own_model"], true);
    let first = live(&server, "new", 0, 40, false).await;
    assert!(
        first > 0.7,
        "{first} of a new place's first connections were good"
    );
    assert_eq!(server.get("/v1/state/new").await.body["own_model"], false);
}

#[tokio::test]
async fn a_sudden_change_raises_an_alarm_and_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), FAST);
    live(&server, "x", 0, 900, false).await;
    let calm = server.get("/v1/state/x").await.body["drift"]["alarms"]
        .as_u64()
        .unwrap();
    live(&server, "x", 900, 300, true).await;
    let drift = server.get("/v1/state/x").await.body["drift"].clone();
    assert!(drift["alarms"].as_u64().unwrap() > calm, "{drift}");
    let after = live(&server, "x", 1200, 200, true).await;
    assert!(
        after > 0.65,
        "{after} of the connections after the change were good"
    );
}

fn figures(state: &Value) -> (Value, Value, Value) {
    let tally = &state["tally"];
    (
        tally["outcomes"].clone(),
        tally["rewards"].clone(),
        tally["curve"].clone(),
    )
}

#[tokio::test]
async fn a_restart_goes_on_where_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), FAST);
    live(&server, "x", 0, 700, false).await;
    let before = server.get("/v1/state/x").await.body;
    drop(server);
    let server = open(folder.path(), FAST);
    assert_eq!(server.get("/v1/state/x").await.body, before);
    drop(server);
    // Without what was kept of the models, all is learnt again from the outcomes.
    let base = rusqlite::Connection::open(folder.path().join("experience.db")).unwrap();
    base.execute("DELETE FROM progress", []).unwrap();
    drop(base);
    let server = open(folder.path(), FAST);
    let anew = server.get("/v1/state/x").await.body;
    assert_eq!(figures(&anew).0, figures(&before).0);
    assert_eq!(figures(&anew).1, figures(&before).1, "the same rewards");
    let late = live(&server, "x", 700, 100, false).await;
    assert!(late > 0.75, "{late} of the connections after it were good");
}

#[tokio::test]
async fn other_settings_learn_anew() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), FAST);
    live(&server, "x", 0, 100, false).await;
    drop(server);
    let server = open(
        folder.path(),
        &format!("{FAST}policy.name = \"thompson\"\n"),
    );
    let state = server.get("/v1/state").await.body;
    assert_eq!(
        (state["policy"].as_str(), &state["all"]["outcomes"]),
        (Some("thompson"), &json!(100))
    );
}

#[tokio::test]
async fn an_operator_has_models_fitted() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), FAST);
    live(&server, "x", 0, 60, false).await;
    let refit = |body: Value| common::post("/v1/refit", Some(&server.operator), body.to_string());
    assert_eq!(server.send(refit(json!({}))).await.status, 202);
    assert_eq!(
        server.send(refit(json!({"location": "x"}))).await.status,
        202
    );
    let nowhere = server.send(refit(json!({"location": "y"}))).await;
    common::refused(&nowhere, 404, "nothing was reported");
}

#[tokio::test]
async fn a_device_takes_a_model_along() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), FAST);
    live(&server, "x", 0, 700, false).await;
    let model = server.get("/v1/model/x").await.body;
    let text = model["bandit"].to_string();
    let bandit = mp_policy::bandit::file::decode("model", text.as_bytes()).unwrap();
    let signal = bandit
        .features()
        .iter()
        .position(|f| f == "wifi.signal_dbm")
        .unwrap();
    let mut context = vec![f64::NAN; bandit.features().len()];
    let mut best = |dbm: f64| {
        context[signal] = dbm;
        bandit.arms()[bandit.best(&context, &[])].clone()
    };
    assert_eq!(
        (best(-45.0).as_str(), best(-88.0).as_str()),
        ("wifi", "cellular")
    );
}

/// `latency_ms` is null where no answer came: bad only if latency is judged.
#[tokio::test]
async fn an_outcome_without_an_answer_is_judged_by_what_counts() {
    for (reward, good) in [("throughput = \"20Mbit\"", 1), ("latency = \"80ms\"", 0)] {
        let folder = tempfile::tempdir().unwrap();
        let server = open(folder.path(), &format!("reward = {{ {reward} }}\n"));
        let outcome = json!({"id": "x-1", "location": "x", "path": "wifi", "context": {}, "chosen_by": "device",
            "throughput_mbps": 50.0, "latency_ms": null});
        assert_eq!(server.report(outcome).await.status, 200);
        server.learnt().await;
        let state = server.get("/v1/state").await.body;
        let all = (&state["all"]["outcomes"], &state["all"]["rewards"]);
        assert_eq!(all, (&json!(1), &json!(good)), "{reward}");
    }
}
