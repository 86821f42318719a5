//! The congestion controller of new sockets.

use std::process::{Child, Command};

use crate::hosts::{until, Hosts, BINARY};
use crate::namespace::Namespace;

const DEFAULT: &str = "cat /proc/sys/net/ipv4/tcp_congestion_control";

#[test]
fn without_a_word_about_it_pilot_is_the_default_until_down() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let before = hosts.device(DEFAULT);
    hosts.up("", &[]);
    let now = hosts.device(DEFAULT);
    assert!(now.starts_with("pilot_"), "{now}");
    assert_eq!(hosts.status()["controller"], now.trim());
    assert_eq!(hosts.status()["controller_why"], "");

    hosts.daemon_command("controller = \"system\"");
    hosts.signal("HUP");
    until("the system's is back", || hosts.device(DEFAULT) == before);
    hosts.daemon_command("");
    hosts.signal("HUP");
    until("pilot is back", || hosts.device(DEFAULT) == now);
    hosts.down();
    assert_eq!(hosts.device(DEFAULT), before);
}

#[test]
fn where_pilot_cannot_be_loaded_the_systems_stays_and_it_is_said_why() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let before = hosts.device(DEFAULT);
    hosts.up_without_bpf();
    let status = hosts.status();
    let why = status["controller_why"].as_str().unwrap();
    assert!(why.contains("CAP_BPF"), "{status}");
    assert!(status["controller"].is_null(), "{status}");
    let log = hosts.read("log");
    let said = "WARN the system's congestion controller stays not=pilot why=";
    assert_eq!(log.matches(said).count(), 1, "{log}");
    let shown = hosts.multipilot(&["status"]);
    assert!(shown.contains("controller the system's"), "{shown}");
    assert!(shown.contains("pilot is not used: "), "{shown}");
    assert_eq!(hosts.device(DEFAULT), before);
    hosts.down();
}

/// The next one has another configuration.
#[test]
fn a_controller_of_a_killed_daemon_does_not_stay_in_the_kernel() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let before = hosts.device(DEFAULT);
    let (config, is_there) = of_its_own(1);
    hosts.up(&config, &[]);
    hosts.kill();
    let now = hosts.device(DEFAULT);
    assert!(now.starts_with("ld_mpsp"), "{now}");
    assert!(is_there(), "{:?}", mp_kernel::controller::list());
    hosts.up("controller = \"system\"", &[]);
    assert_eq!(hosts.device(DEFAULT), before);
    assert!(!is_there());
    hosts.down();
}

/// Settings that no other test has make a controller of its own. Its configuration, and whether it is in the kernel.
fn of_its_own(number: u32) -> (String, impl Fn() -> bool) {
    let target = 2_000_000 + std::process::id() % 100_000 * 10 + number;
    let config = format!("controller = \"ld-mpsp\"\nparameters.target_us = \"{target}us\"\n");
    let is_there = move || {
        let all = mp_kernel::controller::list().unwrap();
        let about = format!("ld-mpsp target_us={target}");
        all.iter().any(|c| c.about == about)
    };
    (config, is_there)
}

#[test]
fn a_controller_stays_in_the_kernel_for_as_long_as_one_namespace_has_it() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let (config, is_there) = of_its_own(2);
    hosts.up(&config, &[]);
    let other = Namespace::new("o");
    let (socket, file) = (hosts.path("other.sock"), hosts.path("daemon.toml"));
    let in_other = |words: &[&str]| -> Command {
        let mut command = other.enter(BINARY);
        command.args(words).arg("--socket").arg(&socket);
        command
    };
    let start = || -> Child {
        let mut command = in_other(&["daemon"]);
        let daemon = command.arg("--config").arg(&file).spawn();
        until("it answers", || {
            in_other(&["status"]).output().unwrap().status.success()
        });
        daemon.unwrap()
    };
    let mut second = start();
    hosts.down();
    assert!(is_there());

    // Ended by SIGTERM, all stays as it is until down.
    crate::namespace::sh(&format!("kill -TERM {}", second.id()));
    assert!(second.wait().unwrap().success());
    assert!(is_there());
    assert!(in_other(&["down"]).output().unwrap().status.success());
    assert!(!is_there());

    // Killed, and gone with its namespace: the next one anywhere clears up.
    second = start();
    second.kill().unwrap();
    second.wait().unwrap();
    drop(other);
    assert!(is_there());
    hosts.up("controller = \"system\"", &[]);
    assert!(!is_there());
    hosts.down();
}
