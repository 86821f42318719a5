//! What a daemon wants and another program has: a port, the name of a controller.

use std::net::TcpListener;
use std::process::Output;

use crate::foreign::Foreign;
use crate::hosts::{until, Hosts};

const METRICS: &str = "127.0.0.1:9464";

/// How the device is set up, and what daemons have left there.
fn traces(hosts: &Hosts) -> (Vec<String>, String) {
    let settings =
        "ip mptcp limits; ip mptcp endpoint; cat /proc/sys/net/ipv4/tcp_congestion_control; ls";
    (hosts.notes(), hosts.device(settings))
}

#[track_caller]
fn refused(output: &Output, line: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), complaint.into_owned()),
        (Some(1), format!("multipilot: {line}\n"))
    );
}

fn in_use(address: &str) -> String {
    format!("cannot listen on {address}: Address already in use (os error 98): another program has this port, choose another (metrics.listen)")
}

#[test]
fn a_daemon_that_cannot_start_says_why_in_a_line_and_leaves_nothing() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let metrics = format!("[metrics]\nlisten = \"{METRICS}\"\n[limits]\nsubflows = 3\n");
    hosts.daemon_command(""); // its file is there
    let before = traces(&hosts);

    let taken = hosts.bind(METRICS);
    refused(
        &hosts.daemon_command(&metrics).output().unwrap(),
        &in_use(METRICS),
    );
    assert_eq!(traces(&hosts), before);
    drop(taken);

    let named = hosts.device(&format!(
        "{} run --controller mpcc-code -- sh -c 'echo $MULTIPILOT_CONTROLLER'",
        crate::hosts::BINARY
    ));
    let theirs = Foreign::register(named.trim());
    let config = format!("controller = \"mpcc-code\"\n{metrics}");
    refused(
        &hosts.daemon_command(&config).output().unwrap(),
        &theirs.complaint(),
    );
    assert_eq!(traces(&hosts), before);
    theirs.is_left_alone();

    // At work: the old configuration stays, all of it.
    hosts.up("", &[]);
    hosts.daemon_command(&config);
    hosts.signal("HUP");
    until("it says what is wrong", || {
        hosts.read("log").contains(&theirs.complaint())
    });
    let mut taken = None;
    until("the daemon has let go of the port", || {
        taken = hosts.on_device(|| TcpListener::bind(METRICS).ok());
        taken.is_some()
    });
    hosts.daemon_command(&metrics);
    hosts.signal("HUP");
    until("it says what is wrong", || {
        hosts.read("log").contains(&in_use(METRICS))
    });
    drop(taken);
    drop(theirs);
    hosts.daemon_command(&config);
    hosts.signal("HUP");
    let ask =
        "exec 3<>/dev/tcp/127.0.0.1/9464; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
    until("it serves its figures", || {
        let mut bash = hosts.enter("bash");
        let output = bash.args(["-c", ask]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("multipilot_connections 0")
    });
    hosts.down();
    assert_eq!(hosts.notes(), [] as [String; 0]);
}

/// The kernel may have it, and the namespace refuse it.
#[test]
fn a_controller_that_cannot_be_the_default_is_not_left_behind() {
    const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    // Settings that no other test has: each makes a controller of its own.
    let chosen = |number: u32| {
        let target = 3_000_000 + std::process::id() % 100_000 * 10 + number;
        let config = format!("controller = \"ld-mpsp\"\nparameters.target_us = \"{target}us\"\n");
        (config, format!("ld-mpsp target_us={target}"))
    };
    let is_there = |about: &str| registered().iter().any(|c| c == about);
    let (old, old_name) = chosen(1);
    let (new, new_name) = chosen(2);
    let before = hosts.device(&format!("cat {DEFAULT}"));

    hosts.up(&old, &[]);
    let of_old = hosts.device(&format!("cat {DEFAULT}"));
    assert!(of_old.starts_with("ld_mpsp") && is_there(&old_name));
    hosts.to_its_files(&format!(
        "mount --bind {DEFAULT} {DEFAULT}; mount -o remount,bind,ro {DEFAULT}"
    ));
    hosts.daemon_command(&new);
    hosts.signal("HUP");
    until("it says what is wrong", || {
        let log = hosts.read("log");
        log.contains("the old configuration stays") && log.contains("Read-only file system")
    });
    assert_eq!(hosts.device(&format!("cat {DEFAULT}")), of_old);
    assert!(is_there(&old_name) && !is_there(&new_name));

    hosts.to_its_files(&format!("umount {DEFAULT}"));
    hosts.signal("HUP");
    until("the new one is the default", || {
        hosts.device(&format!("cat {DEFAULT}")) != of_old
    });
    until("the old one is gone", || {
        is_there(&new_name) && !is_there(&old_name)
    });
    hosts.down();
    assert_eq!(hosts.device(&format!("cat {DEFAULT}")), before);
    assert!(!is_there(&new_name));
}

/// What is registered, as it was asked for.
fn registered() -> Vec<String> {
    let all = mp_kernel::controller::list().unwrap();
    all.into_iter().map(|c| c.about).collect()
}
