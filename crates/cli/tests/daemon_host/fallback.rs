//! Connections that are plain TCP although a program asked for MPTCP: the commands say so, and why.

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use serde_json::Value;

use crate::hosts::{until, Hosts, BINARY, SERVER};
use crate::transfers::{flood, Service};

const MPTCP: u16 = 5001;
const TCP: u16 = 5002;
const BLOCK: usize = 10_000;

/// A server of a port that has never heard of MPTCP.
fn plain(hosts: &Hosts) -> Service {
    let listener = hosts.on_server(|| TcpListener::bind((SERVER, TCP)).unwrap());
    Service::start(listener, flood)
}

/// What status says of connections since the daemon's start, and why those that fell back did.
fn counted(status: &Value) -> (Vec<u64>, Vec<&str>) {
    let since = &status["since_start"];
    let names = ["mptcp", "no_answer", "syn_lost", "options_lost"];
    let live = status["fallbacks"].as_array().unwrap().iter();
    (
        names.map(|name| since[name].as_u64().unwrap()).to_vec(),
        live.map(|f| f["why"].as_str().unwrap()).collect(),
    )
}

/// A middlebox on the way of what the device sends: see strip.bpf.c.
fn strip_options(hosts: &Hosts) {
    let object = hosts.path("strip.o");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/daemon_host/strip.bpf.c");
    let status = Command::new("clang")
        .args(["-target", "bpf", "-O2", "-g", "-c", source, "-o"])
        .arg(&object)
        .status();
    assert!(status.unwrap().success());
    hosts.device(&format!(
        "tc qdisc add dev wifi clsact
         tc filter add dev wifi egress bpf direct-action object-file {} section tc",
        object.display()
    ));
}

#[test]
fn status_counts_connections_that_fell_back_and_says_why() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let _services = (hosts.listen(MPTCP, flood), plain(&hosts));
    // Before the daemon: not of its time.
    drop(hosts.connect(TCP, 1));
    // A connection with a second subflow resets one without options, and does not fall back.
    hosts.up("limits.subflows = 0", &[]);
    assert_eq!(counted(&hosts.status()), (vec![0; 4], vec![]));
    let shown = hosts.multipilot(&["status"]);
    let none = "0 MPTCP connections, 0 fell back to TCP\n";
    assert!(
        shown.contains(none) && !shown.contains("since the start"),
        "{shown}"
    );

    let both: Vec<TcpStream> = [MPTCP, TCP, TCP]
        .into_iter()
        .flat_map(|port| hosts.connect(port, 1))
        .collect();
    until("the daemon has seen them", || {
        hosts.status()["connections"] == 1
    });
    let status = hosts.status();
    let expected = (vec![1, 2, 0, 0], vec!["no_answer"; 2]);
    assert_eq!(counted(&status), expected, "{status}");
    let remote = &status["fallbacks"][0]["remote"];
    assert_eq!(remote, &format!("{SERVER}:{TCP}"));
    let shown = hosts.multipilot(&["status"]);
    assert!(shown.contains("2 fell back to TCP\n"), "{shown}");
    let line = "\nconnections since the start: 1 MPTCP, 2 fell back to TCP (2 × the peer has no MPTCP, or \
                a middlebox removes the option); multipilot run --relay takes all links to any server\n";
    assert!(shown.contains(line), "{shown}");

    // The handshake is still in MPTCP.
    strip_options(&hosts);
    let stripped = hosts.connect(MPTCP, 1);
    until("it has fallen back", || {
        counted(&hosts.status()).0 == [1, 2, 0, 1]
    });
    let status = hosts.status();
    assert_eq!(
        counted(&status)
            .1
            .iter()
            .filter(|why| **why == "options_lost")
            .count(),
        1,
        "{status}"
    );
    assert_eq!(status["connections"], 1, "{status}");
    drop((both, stripped));
    hosts.down();
}

#[test]
fn run_says_at_the_end_how_many_connections_fell_back() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let _services = (hosts.listen(MPTCP, flood), plain(&hosts));
    let run = |options: &[&str], ports: &[u16]| {
        let mut script = String::new();
        for port in ports {
            script += &format!("head -c {BLOCK} < /dev/tcp/{SERVER}/{port} > /dev/null; ");
        }
        let mut command = hosts.enter(BINARY);
        command.arg("run").args(options);
        let output = command
            .args(["--", "bash", "-c", &script])
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(run(&[], &[MPTCP]), "");
    assert_eq!(
        run(&["--verbose"], &[MPTCP, MPTCP]),
        "multipilot: connections of this host meanwhile: 2 MPTCP, 0 fell back to TCP\n"
    );
    assert_eq!(
        run(&[], &[MPTCP, TCP]),
        "multipilot: connections of this host meanwhile: 1 MPTCP, 1 fell back to TCP (1 × the peer has no MPTCP, or a \
         middlebox removes the option); multipilot run --relay takes all links to any server\n"
    );
}
