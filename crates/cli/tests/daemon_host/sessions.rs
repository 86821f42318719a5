//! Programs of user sessions, where the kernel takes no program that gives MPTCP to all.

use std::io::Write;

use crate::hosts::{Hosts, BINARY, SERVER};

const PORT: u16 = 5001;
const CONFIG: &str = "mptcpify.sessions = true";
const ENVIRONMENT: &str = "run/environment.d/90-multipilot.conf";

/// What a program of a session says that opens a connection. A shell reads the variables as environment.d(5) does.
#[track_caller]
fn connect(hosts: &Hosts, variables: &str) -> String {
    let mut command = hosts.enter_apart("bash");
    let connect = format!("exec 3<>/dev/tcp/{SERVER}/{PORT}; head -c 1 <&3");
    let script = format!("set -a\n{variables}\nset +a; exec bash -c \"$0\"");
    let output = command.args(["-ec", &script, &connect]).output().unwrap();
    assert_eq!(output.stdout, b"x");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn programs_of_sessions_get_mptcp_while_the_daemon_is_at_work() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let _service = hosts.listen(PORT, |mut stream| stream.write_all(b"x").unwrap());
    hosts.up_apart(CONFIG);
    let status = hosts.status();
    let variables = hosts.read(ENVIRONMENT);
    if status["mptcpify"] == true {
        // All programs have it already.
        assert!(status["mptcpify_sessions"].is_null() && variables.is_empty());
        return;
    }
    assert_eq!(status["mptcpify_sessions"], true, "{}", hosts.read("log"));
    let shown = hosts.multipilot(&["status"]);
    let line = "\nprograms of user sessions that begin from now on get MPTCP, others TCP (";
    assert!(shown.contains(line), "{shown}");
    let counted = |hosts: &Hosts| hosts.status()["since_start"]["mptcp"].as_u64();
    assert_eq!(connect(&hosts, &variables), "");
    assert_eq!(counted(&hosts), Some(1));

    // Off and on by the configuration.
    for (config, on) in [("", false), (CONFIG, true)] {
        std::fs::write(hosts.path("daemon.toml"), config).unwrap();
        hosts.multipilot(&["reload"]);
        assert_eq!(hosts.status()["mptcpify_sessions"], on);
        assert_eq!(hosts.read(ENVIRONMENT), if on { &variables } else { "" });
    }
    assert_eq!(counted(&hosts), Some(1));

    // After a crash: down, and the next start.
    hosts.kill();
    assert_eq!(hosts.read(ENVIRONMENT), variables);
    let mut down = hosts.enter_apart(BINARY);
    let down = down
        .args(["down", "--socket"])
        .arg(hosts.path("control.sock"));
    assert!(down.status().unwrap().success());
    assert_eq!(hosts.read(ENVIRONMENT), "");
    hosts.up_apart(CONFIG);
    hosts.kill();
    hosts.up_apart("");
    assert_eq!(hosts.read(ENVIRONMENT), "");

    // Sessions of before go on, with plain TCP.
    assert_eq!(connect(&hosts, &variables), "");
    assert_eq!(counted(&hosts), Some(0));
    hosts.down();
    assert_eq!(connect(&hosts, &variables), "");
}
