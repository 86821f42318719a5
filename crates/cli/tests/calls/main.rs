//! Wrong calls: each earns one line and its exit code.

#[path = "../common/mod.rs"]
mod common;
mod external;
mod help;
mod machine;
mod relay;
mod scenarios;

use common::*;

#[test]
fn commands() {
    refused(&[], "no command; see multipilot --help");
    refused(
        &["comparee"],
        "unknown command comparee (did you mean \"compare\"?), and there is no multipilot-comparee on the PATH; see multipilot --help",
    );
    refused(&["../../bin/sh"], "unknown command ../../bin/sh, and there is no multipilot-../../bin/sh on the PATH; see multipilot --help");
    refused(
        &["compare"],
        "the following required arguments were not provided: <SCENARIO>; see multipilot compare --help",
    );
    refused(
        &["compare", "wifi-lte", "--world", "moon"],
        "invalid value 'moon' for '--world <WORLD>' [possible values: sim, kernel, relay]; see multipilot compare --help",
    );
    refused(
        &["compare", "wifi-lte", "--seeds", "0"],
        "invalid value '0' for '--seeds <N>': expected a number of runs from 1 to 100000; see multipilot compare --help",
    );
    refused(
        &["compare", "wifi-lte", "--seeds", "-1"],
        "invalid value '-1' for '--seeds <N>': expected a number of runs from 1 to 100000; see multipilot compare --help",
    );
    refused(
        &["compare", "wifi-lte", "--jobs", "0"],
        "unexpected argument '--jobs' found; see multipilot compare --help",
    );
    refused(
        &["help", "nothing"],
        "unknown command nothing, and there is no multipilot-nothing on the PATH; see multipilot --help",
    );
    refused(
        &["list", "controlers"],
        "invalid value 'controlers' for '[KIND]' [possible values: controllers, schedulers, path-managers, initial-paths, allocations, agents, scenarios, loaded] \
         — a similar value exists: 'controllers'; see multipilot list --help",
    );
}

#[test]
fn a_misspelt_controller_has_a_suggestion() {
    let state = tempfile::tempdir().unwrap();
    let relay = ["relay", "--listen", "127.0.0.1:0", "--state"];
    let relay = [&relay[..], &[state.path().to_str().unwrap()]].concat();
    let line = format!("mp1:127.0.0.1:9#{}.{}", "A".repeat(43), "A".repeat(22));
    let calls = [
        &["load", "pilt"][..],
        &["run", "--controller", "pilt", "--", "true"],
        &[
            "run",
            "--relay",
            &line,
            "--controller",
            "pilt",
            "--",
            "true",
        ],
        &[&relay[..], &["--controller", "pilt"]].concat(),
    ];
    for words in calls {
        call(words).refused(
            2,
            "unknown controller pilt (did you mean \"pilot\"?); expected one of linux-reno, cubic,",
        );
    }
}

#[test]
fn an_actor_that_is_missing_says_what_to_give() {
    refused(
        &["agent", "--actor", "/nonexistent/actor.json"],
        "/nonexistent/actor.json: there is no such file; give an actor that `multipilot train` wrote",
    );
}

#[test]
fn commands_without_a_daemon_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("none.sock");
    let shown = socket.to_str().unwrap();
    // What is left of a daemon that has died is a socket that nobody listens on.
    let nobody = folder.path().join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&nobody).unwrap());
    for (command, socket, advice) in [
        ("status", shown, ": multipilot up starts one"),
        ("top", shown, ": multipilot up starts one"),
        ("reload", shown, ": multipilot up starts one"),
        (
            "status",
            nobody.to_str().unwrap(),
            ": multipilot up starts one",
        ),
        ("down", shown, ""),
    ] {
        let mut words = vec![command, "--socket", socket];
        if command != "reload" {
            words.extend(["--relay-socket", shown]);
        }
        let reply = call(&words);
        let line = format!("no multipilot daemon listens on {socket}{advice}");
        assert_eq!(reply.err, format!("multipilot: {line}\n"), "{command}");
        assert_eq!((reply.code, reply.out.as_str()), (1, ""));
    }
}
