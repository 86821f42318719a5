//! Programs that ask for TCP, while the daemon is at work and under `run`. This test's own process is such a program.
//! Where the kernel refuses the hook, the commands say so and name the way that is left; with MULTIPILOT_EXPECT_HOOK
//! (tests/kernels) a refusal is a failure.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use socket2::{Protocol, SockRef};

use crate::hosts::{until, Hosts, BINARY, SERVER};
use crate::up::{call, kill, up};

const PORT: u16 = 5001;

fn is_mptcp(hosts: &Hosts) -> bool {
    let socket = hosts.bind("127.0.0.1:0");
    SockRef::from(&socket).protocol().unwrap() == Some(Protocol::MPTCP)
}

/// Whether the hook is on, as status has it; if not, a reason for it.
fn is_on(hosts: &Hosts) -> bool {
    let status = hosts.status();
    let (on, why) = (&status["mptcpify"], status["mptcpify_why"].as_str());
    assert_eq!(on == true, why == Some(""), "{status}");
    on == true
}

#[test]
fn up_gives_programs_of_this_host_mptcp_or_says_what_else_does() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let _service = hosts.listen(PORT, |mut stream| stream.write_all(b"x").unwrap());
    assert!(!is_mptcp(&hosts));
    let (code, said) = up(&hosts, "");
    assert_eq!(code, 0, "{said}");
    let on = is_on(&hosts);
    let shown = hosts.multipilot(&["status"]);
    if on {
        let line = "programs that ask for TCP get MPTCP\n";
        assert!(
            said.ends_with(line) && shown.contains(line),
            "{said}{shown}"
        );
    } else {
        assert!(
            std::env::var_os("MULTIPILOT_EXPECT_HOOK").is_none(),
            "{said}"
        );
        let status = hosts.status();
        let why = status["mptcpify_why"].as_str().unwrap();
        assert!(why.contains("update_socket_protocol"), "{why}");
        let line = format!(
            "programs that ask for TCP get TCP ({why}); multipilot run -- COMMAND gives one MPTCP, mptcpify.sessions = true those of new user sessions\n"
        );
        assert!(
            said.ends_with(&line) && shown.contains(&line),
            "{said}{shown}"
        );
    }
    assert_eq!(is_mptcp(&hosts), on);
    // Elsewhere nothing has changed.
    let elsewhere = [
        hosts.on_server(|| TcpListener::bind("127.0.0.1:0").unwrap()),
        TcpListener::bind("127.0.0.1:0").unwrap(),
    ];
    for socket in &elsewhere {
        let protocol = SockRef::from(socket).protocol().unwrap();
        assert_eq!(protocol, Some(Protocol::TCP));
    }

    let mut stream = hosts.on_device(|| TcpStream::connect((SERVER, PORT)).unwrap());
    stream.read_exact(&mut [0]).unwrap();
    let counted = |status: &serde_json::Value| status["since_start"]["mptcp"].clone();
    assert_eq!(counted(&hosts.status()), u64::from(on));
    drop(stream);

    let config = hosts.path("daemon.toml");
    std::fs::write(&config, "mptcpify.enabled = false").unwrap();
    assert_eq!(call(&hosts, &["reload"]), (0, String::new()));
    assert!(!is_on(&hosts) && !is_mptcp(&hosts));
    assert_eq!(hosts.status()["mptcpify_why"], "the configuration says so");
    std::fs::write(&config, "").unwrap();
    assert_eq!(call(&hosts, &["reload"]), (0, String::new()));
    assert_eq!((is_on(&hosts), is_mptcp(&hosts)), (on, on));

    kill(&hosts);
    until("the kernel has let go of the hook", || !is_mptcp(&hosts));
    assert_eq!(up(&hosts, "").0, 0);
    assert_eq!(is_mptcp(&hosts), on);
    assert_eq!(call(&hosts, &["down"]).0, 0);
    until("the kernel has let go of the hook", || !is_mptcp(&hosts));
}

#[test]
fn run_covers_a_statically_linked_program_or_says_why_not() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let _service = hosts.listen(PORT, |mut stream| stream.write_all(b"x").unwrap());
    let mut command = hosts.enter(BINARY);
    command.args(["run", "--verbose", "--", "/bin/busybox", "nc"]);
    command.arg(SERVER.to_string()).arg(PORT.to_string());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.stdout, b"x", "{said}");
    let count = |count| {
        format!(
            "multipilot: connections of this host meanwhile: {count} MPTCP, 0 fell back to TCP\n"
        )
    };
    let lines: Vec<&str> = said.split_inclusive('\n').collect();
    match &lines[..] {
        [counted] => assert_eq!(counted, &count(1)),
        [why, counted] => {
            assert!(
                std::env::var_os("MULTIPILOT_EXPECT_HOOK").is_none(),
                "{why}"
            );
            let start = "multipilot: /bin/busybox is statically linked: its connections stay with TCP: kernel ";
            assert!(why.starts_with(start), "{why}");
            assert_eq!(counted, &count(0));
        }
        _ => panic!("{said}"),
    }
}
