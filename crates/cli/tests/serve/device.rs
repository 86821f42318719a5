//! A device with the server, without it, and with one that hangs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mp_server::client::{Client, Settings};
use mp_server::wire::{Chooser, Context};
use rustix::process::Signal;
use serde_json::{json, Value};

use crate::common::{call, PATIENCE};
use crate::server::{get, post, token, Server};
use crate::tls::device;

fn context() -> Context {
    BTreeMap::from([("wifi.rtt_ms".to_owned(), Some(12.0))])
}

/// Tries until it holds; what is waited for happens in the background.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_device_goes_on_without_the_server() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let folder = data.path().to_str().unwrap();
    let desk = [
        "serve",
        "--data",
        folder,
        "--new-token",
        "desk",
        "--operator",
    ];
    let operator = call(&desk).out;
    let operator = operator.trim();
    let server = Server::start(data.path(), &token, "");
    let (address, config) = (server.address, data.path().join("server.toml"));
    let models = data.path().join("models.json");
    let settings = Settings {
        // On a busy machine the test's server needs longer; the fallback below is what is tested.
        deadline: Duration::from_secs(2),
        file: Some(models.clone()),
        ..Settings::new(address, &token)
    };
    let client = Client::start(settings.clone()).unwrap();
    eventually("the server chooses", || {
        let choice = client.choose("cafe", &context(), None);
        choice.chosen_by == Chooser::Server && choice.path.is_some()
    });
    eventually("the device keeps a model of its own", || models.exists());

    // A server that hangs is as good as none.
    server.signal(Signal::STOP);
    eventually("the device chooses", || {
        let choice = client.choose("cafe", &context(), None);
        choice.chosen_by == Chooser::Device && choice.path.is_some()
    });
    let started = Instant::now();
    let choice = client.choose("cafe", &context(), None);
    assert_eq!(choice.chosen_by, Chooser::Device);
    assert!(
        started.elapsed() < settings.deadline,
        "the second question does not wait"
    );
    let only = ["cellular".to_owned()];
    assert_eq!(
        client
            .choose("cafe", &context(), Some(&only))
            .path
            .as_deref(),
        Some("cellular")
    );
    // Nothing is known of another place: the system decides.
    let elsewhere = client.choose("station", &context(), None);
    assert_eq!(
        (elsewhere.chosen_by, elsewhere.path.clone()),
        (Chooser::Stock, None)
    );

    // What came of it is handed in when the server is back, once.
    client.report(choice.outcome("c1", 12.0, Some(30.0)));
    drop(server);
    let server = Server::launch(data.path(), &token, &address.to_string(), &config);
    eventually("the outcome arrives", || {
        let (_, state) = get(address, operator, "/v1/state/cafe").unwrap();
        serde_json::from_str::<Value>(&state).unwrap()["tally"]["outcomes"] == 1
    });
    let body = json!({"outcomes": [{"id": "c1", "location": "cafe", "path": "wifi", "chosen_by": "stock",
        "throughput_mbps": 1.0}]});
    let (_, receipt) = post(address, &token, "/v1/outcomes", &body).unwrap();
    assert_eq!(receipt["duplicates"], 1);
    eventually("the server is asked again", || {
        client.choose("cafe", &context(), None).chosen_by == Chooser::Server
    });
    drop(client);
    drop(server);

    // The models outlive the device's restart.
    let client = Client::start(settings).unwrap();
    assert_eq!(
        client.choose("cafe", &context(), None).chosen_by,
        Chooser::Device
    );
}

#[test]
fn a_device_without_server_and_model_leaves_it_to_the_system() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let client = Client::start(Settings::new(closed, "x")).unwrap();
    let choice = client.choose("cafe", &context(), None);
    assert_eq!((choice.chosen_by, choice.path), (Chooser::Stock, None));
}

#[test]
fn a_device_says_once_why_its_words_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let server = Server::start(data.path(), &token, "");
    let (client, said) = device(&server.url, &token, None);
    let only = ["satellite".to_owned()];
    for _ in 0..3 {
        let choice = client.choose("cafe", &context(), Some(&only));
        assert_ne!(choice.chosen_by, Chooser::Server);
    }
    // What is asked for later is answered later.
    eventually("the server chooses", || {
        client.choose("cafe", &context(), None).chosen_by == Chooser::Server
    });
    let lines: Vec<String> = said.try_iter().collect();
    assert!(
        matches!(&lines[..], [line] if line.contains("refuses") && line.contains("no such path")),
        "{lines:?}"
    );
}
