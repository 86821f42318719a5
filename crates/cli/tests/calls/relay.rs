//! Calls of `relay` and `probe`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::*;

#[test]
fn a_relay_of_a_wrong_address_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let relay = ["relay", "--listen", "127.0.0.1:0", "--state", state];
    refused(
        &[&relay[..], &["--address", "a b"]].concat(),
        "--address a b: expected HOST, HOST:PORT or [ADDRESS]:PORT",
    );
}

#[test]
fn what_is_for_the_whole_host_is_refused_for_a_program() {
    for (option, value) in [("--leak", "block"), ("--dns", "direct"), ("--lan", "br0")] {
        refused(
            &["run", "--relay", "mp1:a:443#b", option, value, "--", "true"],
            &format!(
                "{option}: with --all only; of one program all TCP connections go over the relay"
            ),
        );
    }
}

#[test]
fn a_line_whose_address_devices_elsewhere_do_not_reach_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    for (name, option, address, is_told) in [
        ("behind-nat", "--listen", "10.1.2.3:443", true),
        ("lan", "--address", "10.1.2.3", false),
        ("public", "--listen", "1.2.3.4:443", false),
        ("named", "--address", "relay.example", false),
    ] {
        let words = [
            "relay",
            "--state",
            state,
            "--new-device",
            name,
            option,
            address,
        ];
        let reply = call(&words);
        assert!(
            reply.code == 0 && reply.out.starts_with("mp1:"),
            "{}",
            reply.err
        );
        let told = reply.err.contains(" is no public address: ");
        assert_eq!(told, is_told, "{address}: {}", reply.err);
    }
}

#[test]
fn a_place_is_no_line_of_a_relay() {
    refused(
        &["probe", "example.com"],
        "the relay's line: not a line of multipilot relay (a line begins with mp1:); it looks so: mp1:HOST:PORT#KEY.SECRET",
    );
}

#[test]
fn a_relay_that_may_write_nowhere_says_what_to_give() {
    let program = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let mut command = unprivileged(program.path());
    let command = command.args(["relay", "--listen", "127.0.0.1:0"]);
    let command = command
        .env_remove("XDG_STATE_HOME")
        .env("HOME", home.path());
    let reply = Reply::from(command.output().unwrap());
    let folder = home.path().join(".local/state/multipilot/relay");
    let folder = folder.display();
    assert_eq!(reply.code, 2, "{}", reply.err);
    assert_eq!(
        reply.err,
        format!("multipilot: {folder}: this user may not write there: run it as root, or give the relay a folder of its own (--state)\n")
    );
}

#[test]
fn a_relay_without_devices_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let reply = call(&["relay", "--state", state, "--devices"]);
    assert_eq!((reply.code, reply.out.as_str()), (0, ""));
    assert_eq!(
        reply.err,
        "multipilot: there is no device; --new-device NAME makes a line for one\n"
    );
}

#[test]
fn a_probe_of_a_link_that_is_missing_is_a_wrong_call() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("mp1:127.0.0.1:9#{}.{}", "A".repeat(43), "A".repeat(22));
    let mut command = multipilot();
    let command = command.args(["probe", &line, "--link", "nosuch0", "--json"]);
    let reply = Reply::from(
        command
            .env("XDG_STATE_HOME", folder.path())
            .output()
            .unwrap(),
    );
    assert_eq!(reply.code, 2, "{}", reply.err);
    assert!(
        reply
            .err
            .ends_with("multipilot: --link nosuch0: there is no such interface\n"),
        "{}",
        reply.err
    );
}
