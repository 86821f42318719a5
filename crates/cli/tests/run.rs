//! `multipilot run` as a user calls it. The last tests need root and MPTCP; with CI=true they fail where there is neither.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn multipilot(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multipilot"));
    command.arg("run").args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    multipilot(arguments).output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a shell command that has to succeed.
fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", complaint(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn mptcp() -> bool {
    mp_testing::runs(mp_kernel::check::mptcp().err().map(|lack| lack.what))
}

#[track_caller]
fn kernel() -> bool {
    mp_testing::runs(mp_kernel::check::check().err())
}

#[test]
fn wrong_calls_are_refused_in_one_line() {
    let output = run(&["--path-manager", "fulmesh", "--", "true"]);
    assert_eq!(code(&output), Some(2));
    assert!(
        complaint(&output).contains("unknown path manager fulmesh"),
        "{}",
        complaint(&output)
    );
    assert_eq!(complaint(&output).lines().count(), 1);
    assert_eq!(code(&run(&[])), Some(2));
    if mptcp() {
        let output = run(&["--controller", "lai", "--", "true"]);
        assert_eq!(code(&output), Some(2));
        assert!(complaint(&output).contains("unknown controller lai (known: reno, lia"));
        let output = run(&["--", "no-such-program-anywhere"]);
        assert_eq!(code(&output), Some(127));
    }
}

#[test]
fn the_programs_exit_code_and_output_are_its_own() {
    if !mptcp() {
        return;
    }
    let output = run(&["--", "sh", "-c", "echo said; echo complained >&2; exit 7"]);
    assert_eq!(
        (code(&output), &output.stdout[..]),
        (Some(7), &b"said\n"[..])
    );
    assert_eq!(complaint(&output), "complained\n");
    assert_eq!(
        code(&run(&["--", "sh", "-c", "kill -KILL $$"])),
        Some(128 + 9)
    );
    assert_eq!(
        code(&run(&["sh", "-c", "exit 3"])),
        Some(3),
        "-- may be left out"
    );
}

#[test]
fn signals_go_on_to_the_program() {
    if !mptcp() {
        return;
    }
    for (signal, status) in [("TERM", 5), ("INT", 6), ("USR1", 7)] {
        let script =
            format!("trap 'exit {status}' {signal}; echo ready; while :; do sleep 0.05; done");
        let (mut child, mut lines) = start(multipilot(&["--", "sh", "-c", &script]));
        assert_eq!(line(&mut lines), "ready");
        sh(&format!("kill -{signal} {}", child.id()));
        assert_eq!(child.wait().unwrap().code(), Some(status), "{signal}");
    }
}

#[test]
fn a_controller_is_there_for_as_long_as_the_program_runs() {
    if !kernel() {
        return;
    }
    let available = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let script = "echo $MULTIPILOT_CONTROLLER; read line";
    let (mut child, mut lines) = start(multipilot(&[
        "--controller",
        "dalia",
        "--",
        "sh",
        "-c",
        script,
    ]));
    let name = line(&mut lines);
    assert!(name.starts_with("dalia_"), "{name}");
    assert!(std::fs::read_to_string(available).unwrap().contains(&name));
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn paths_are_chosen_for_the_time_of_the_run_even_if_it_is_killed() {
    if !kernel() {
        return;
    }
    let host = Namespace::new();
    sh(&format!(
        "ip -n {} link add d1 type veth peer name d2",
        host.0
    ));
    sh(&format!("ip -n {} addr add 10.78.1.1/24 dev d1", host.0));
    sh(&format!(
        "ip -n {0} link set d1 up && ip -n {0} link set d2 up",
        host.0
    ));
    let endpoints = || sh(&format!("ip -n {} mptcp endpoint", host.0));
    let limits = || sh(&format!("ip -n {} mptcp limits", host.0));
    let before = limits();

    let inside = |arguments: &[&str]| {
        let run = multipilot(arguments);
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", host.0))
            .arg(run.get_program())
            .args(run.get_args());
        command
    };
    let (mut child, mut lines) = start(inside(&[
        "--path-manager",
        "fullmesh",
        "--",
        "sh",
        "-c",
        "echo ready; read line",
    ]));
    line(&mut lines);
    assert!(
        endpoints().contains("10.78.1.1") && endpoints().contains("fullmesh"),
        "{}",
        endpoints()
    );
    assert!(limits().contains("subflows 8"));
    let other = inside(&["--path-manager", "single", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(code(&other), Some(1), "two choices at once");
    assert!(complaint(&other).contains("another path manager"));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!((endpoints(), limits()), (String::new(), before.clone()));

    let (mut child, mut lines) = start(inside(&[
        "--path-manager",
        "fullmesh",
        "--",
        "sh",
        "-c",
        "echo ready; read line",
    ]));
    line(&mut lines);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(endpoints().contains("10.78.1.1"), "nobody has looked yet");
    let next = inside(&["--path-manager", "single", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(code(&next), Some(0), "{}", complaint(&next));
    assert_eq!((endpoints(), limits()), (String::new(), before));
}

/// Two paths to a server that answers each connection with some bytes; routes prefer the first.
struct TwoPaths {
    host: Namespace,
    server: Namespace,
}

const ANSWER: usize = 60_000;

impl TwoPaths {
    fn new(first_rate: &str) -> TwoPaths {
        let (host, server) = (Namespace::named("h"), Namespace::named("s"));
        let (h, s) = (&host.0, &server.0);
        sh(&format!(
            "ip -n {s} addr add 10.99.0.1/32 dev lo && ip -n {s} link set lo up"
        ));
        for (path, rate) in [(1, first_rate), (2, "40mbit")] {
            sh(&format!(
                "ip link add p{path} netns {h} type veth peer name p{path} netns {s}"
            ));
            for (namespace, end) in [(h, 1), (s, 2)] {
                sh(&format!(
                    "ip -n {namespace} addr add 10.77.{path}.{end}/24 dev p{path}"
                ));
                sh(&format!("ip -n {namespace} link set p{path} up"));
                sh(&format!("tc -n {namespace} qdisc add dev p{path} root tbf rate {rate} burst 4kb latency 100ms"));
            }
            sh(&format!(
                "ip -n {h} route add default via 10.77.{path}.2 metric {path}"
            ));
        }
        TwoPaths { host, server }
    }

    /// Runs the command on the host; returns its output, and from which path each of its connections started.
    fn run(&self, arguments: &[&str], state: &Path) -> (Output, Vec<u8>) {
        let namespace = File::open(format!("/run/netns/{}", self.server.0)).unwrap();
        // A child that another test is starting may still hold the listener of the run before, until it becomes its program.
        let bind = || loop {
            match TcpListener::bind("10.99.0.1:5001") {
                Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                bound => break bound.unwrap(),
            }
        };
        let listener = mp_kernel::choose::inside(namespace.as_fd(), bind).unwrap();
        listener.set_nonblocking(true).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut paths = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let Ok((mut socket, peer)) = listener.accept() else {
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    let std::net::IpAddr::V4(from) = peer.ip() else {
                        unreachable!()
                    };
                    paths.push(from.octets()[2]);
                    socket.set_nonblocking(false).unwrap();
                    std::thread::spawn(move || socket.write_all(&vec![7; ANSWER]));
                }
                paths
            });
            let run = multipilot(arguments);
            let output = Command::new("nsenter")
                .arg(format!("--net=/run/netns/{}", self.host.0))
                .arg(run.get_program())
                .args(run.get_args())
                .env("XDG_STATE_HOME", state)
                .env("MULTIPILOT_SIGNALS", state.join("signals"))
                .output()
                .unwrap();
            done.store(true, Ordering::Relaxed);
            (output, serving.join().unwrap())
        })
    }
}

/// Downloads so many times, one after the other.
fn downloads(times: usize) -> String {
    format!("for i in $(seq {times}); do [ $(cat < /dev/tcp/10.99.0.1/5001 | wc -c) = {ANSWER} ] || exit 9; done")
}

#[test]
fn connections_start_on_the_interface_that_the_user_names() {
    if !kernel() {
        return;
    }
    let (paths, state) = (TwoPaths::new("40mbit"), tempfile::tempdir().unwrap());
    let script = downloads(2);
    let (output, from) = paths.run(&["--", "bash", "-c", &script], state.path());
    assert_eq!(
        (code(&output), from),
        (Some(0), vec![1, 1]),
        "{}",
        complaint(&output)
    );
    let chosen = [
        "--primary",
        "p2",
        "--path-manager",
        "fullmesh",
        "--",
        "bash",
        "-c",
        &script,
    ];
    let (output, from) = paths.run(&chosen, state.path());
    assert_eq!(
        (code(&output), from),
        (Some(0), vec![2, 2]),
        "{}",
        complaint(&output)
    );
    assert_eq!(complaint(&output), "");
    let (output, _) = paths.run(&["--primary", "p3", "--", "true"], state.path());
    assert_eq!(code(&output), Some(2));
    assert!(complaint(&output)
        .contains("no such interface that is up and has an address (there are: p1, p2)"));
    let (output, _) = paths.run(
        &["--primary", "p1", "--path-manager", "bandit", "--", "true"],
        state.path(),
    );
    assert_eq!(code(&output), Some(2));
}

#[test]
fn the_bandit_chooses_and_remembers() {
    if !kernel() {
        return;
    }
    let (paths, state) = (TwoPaths::new("1mbit"), tempfile::tempdir().unwrap());
    std::fs::write(state.path().join("signals"), "p1 -61\np2 -93\n").unwrap();
    let script = downloads(30);
    let bandit = ["--path-manager", "bandit", "--", "bash", "-c", &script];
    let (output, from) = paths.run(&bandit, state.path());
    assert_eq!(
        (code(&output), from.len()),
        (Some(0), 30),
        "{}",
        complaint(&output)
    );
    let memory = state.path().join("multipilot/bandit-p1+p2.json");
    let remembered = || {
        let text = std::fs::read_to_string(&memory).unwrap();
        let outcomes = text.matches("\"reward\":").count();
        assert!(text.contains("\"reward\":true"), "{text}");
        for told in ["-61.0", "-93.0"] {
            assert!(text.contains(told), "{told}: {text}");
        }
        outcomes
    };
    assert_eq!(remembered(), 30);
    assert!(
        from.contains(&2),
        "routes alone never begin there: {from:?}"
    );

    // That the choice is the better one is tested on emulated paths: here the slow one soon lends its connections the other.
    let (output, from) = paths.run(&bandit, state.path());
    assert_eq!(
        (code(&output), from.len(), remembered()),
        (Some(0), 30, 60),
        "{}",
        complaint(&output)
    );

    std::fs::write(&memory, "nonsense").unwrap();
    let (output, from) = paths.run(&bandit, state.path());
    assert_eq!((code(&output), from.len()), (Some(2), 0));
    assert!(
        complaint(&output).contains("remove it to begin anew"),
        "{}",
        complaint(&output)
    );
}

/// A host of its own; removed also after a panic.
struct Namespace(String);

impl Namespace {
    fn new() -> Namespace {
        Namespace::named("")
    }

    fn named(what: &str) -> Namespace {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mpr{}{what}{number}", std::process::id());
        sh(&format!("ip netns add {name}"));
        Namespace(name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn start(mut command: Command) -> (Child, BufReader<Box<dyn Read>>) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output: Box<dyn Read> = Box::new(child.stdout.take().unwrap());
    (child, BufReader::new(output))
}

fn line(lines: &mut BufReader<Box<dyn Read>>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}
