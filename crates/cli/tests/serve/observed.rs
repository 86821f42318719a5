//! What the server says of itself: the access log and `/metrics`; and who may ask.

use rustix::process::Signal;
use serde_json::json;

use crate::common::call;
use crate::device::eventually;
use crate::server::{get, post, token, Server};

#[test]
fn the_access_log_names_who_and_what_and_neither_tokens_nor_contents() {
    let data = tempfile::tempdir().unwrap();
    let phone = token(data.path(), "phone-1");
    let server = Server::start(data.path(), &phone, "access-log = \"all\"\n");
    let ask = json!({"location": "my-home", "context": {"wifi.rtt_ms": 4711.5}});
    assert_eq!(
        post(server.address, &phone, "/v1/choose", &ask).unwrap().0,
        200
    );
    assert_eq!(
        post(server.address, "guessed-token", "/v1/choose", &ask)
            .unwrap()
            .0,
        401
    );
    assert_eq!(
        get(server.address, &phone, "/v1/model/my-home").unwrap().0,
        200
    );
    assert_eq!(
        get(server.address, &phone, "/my-secret-path").unwrap().0,
        404
    );
    eventually("four requests are logged", || {
        server.said().matches("method=").count() == 4
    });
    let said = server.said();
    for word in [
        "token=\"phone-1\" method=\"POST\" route=\"/v1/choose\" status=200",
        "status=401",
        "route=\"/v1/model/{location}\"",
        "route=\"none\" status=404",
        "peer=127.0.0.1:",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    for secret in [
        phone.as_str(),
        "guessed-token",
        "my-home",
        "4711",
        "my-secret-path",
    ] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}

#[test]
fn only_refused_requests_are_logged_unless_all_are_wanted() {
    let data = tempfile::tempdir().unwrap();
    let phone = token(data.path(), "phone");
    let server = Server::start(data.path(), &phone, "");
    assert_eq!(server.report(0..1).unwrap().0, 200);
    assert_eq!(get(server.address, &phone, "/metrics").unwrap().0, 403);
    eventually("the refusal is logged", || {
        server
            .said()
            .contains("token=\"phone\" method=\"GET\" route=\"/metrics\" status=403")
    });
    assert!(!server.said().contains("/v1/outcomes"), "{}", server.said());
}

#[test]
fn an_operator_reads_the_metrics() {
    let data = tempfile::tempdir().unwrap();
    let phone = token(data.path(), "phone");
    let folder = data.path().to_str().unwrap();
    let operator = call(&[
        "serve",
        "--data",
        folder,
        "--new-token",
        "prometheus",
        "--operator",
    ])
    .out;
    let operator = operator.trim();
    let server = Server::start(data.path(), &phone, "");
    assert_eq!(server.report(0..10).unwrap().0, 200);
    assert_eq!(server.report(5..10).unwrap().0, 200);
    let ask = json!({"location": "cafe", "paths": ["wifi"]});
    assert_eq!(
        post(server.address, &phone, "/v1/choose", &ask).unwrap().0,
        200
    );
    let mut text = String::new();
    eventually(
        "what was reported is learnt, and former connections are closed",
        || {
            let (status, said) = get(server.address, operator, "/metrics").unwrap();
            assert_eq!(status, 200, "{said}");
            text = said;
            ["outcomes_behind 0", "connections 1"]
                .iter()
                .all(|line| text.contains(&format!("multipilot_server_{line}\n")))
        },
    );
    for line in [
        "multipilot_server_outcomes_total 10",
        "multipilot_server_duplicate_outcomes_total 5",
        "multipilot_server_deleted_outcomes_total 0",
        "multipilot_server_choices_total{path=\"wifi\"} 1",
        "multipilot_server_locations 1",
        "multipilot_server_requests_total{route=\"/v1/outcomes\",method=\"POST\",status=\"200\"} 2",
        "multipilot_server_request_duration_seconds_count{route=\"/v1/outcomes\"} 2",
        "multipilot_server_database_limit_bytes 4294967296",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
    }
    assert!(text.ends_with("# EOF\n"));
    let counters: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("# TYPE "))
        .filter_map(|l| l.strip_suffix(" counter"))
        .collect();
    assert!(counters.len() >= 6, "{counters:?}");
}

#[test]
fn a_running_server_follows_the_tokens() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let first = token(data.path(), "phone-1");
    let server = Server::start(data.path(), &first, "");
    let second = token(data.path(), "phone-2");
    let ask = |token: &str| {
        post(
            server.address,
            token,
            "/v1/choose",
            &json!({"location": "x"}),
        )
        .unwrap()
        .0
    };
    eventually("the new token is taken up", || ask(&second) == 200);
    let listed = call(&["serve", "--data", folder, "--tokens"]);
    assert_eq!(
        (listed.code, listed.out.as_str()),
        (0, "phone-1 device\nphone-2 device\n")
    );
    let revoked = call(&["serve", "--data", folder, "--revoke", "phone-1"]);
    assert_eq!(
        (revoked.code, revoked.out.as_str(), revoked.err.as_str()),
        (0, "", "")
    );
    eventually("the revoked token is refused", || ask(&first) == 401);
    assert_eq!(ask(&second), 200);
    let again = call(&["serve", "--data", folder, "--revoke", "phone-1"]);
    again.refused(
        2,
        &format!("{folder}/tokens: phone-1 has no token: --tokens lists"),
    );
    // A file that cannot be read takes no token away, and SIGHUP reads it at once.
    std::fs::write(data.path().join("tokens"), "nonsense\n").unwrap();
    server.signal(Signal::HUP);
    eventually("it says so", || {
        server.said().contains("the tokens stay as they were")
    });
    assert_eq!(ask(&second), 200);
}
