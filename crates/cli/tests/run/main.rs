//! `multipilot run` as a user calls it. The last tests need root and MPTCP; with CI=true they fail where there is neither.

mod hosts;
#[path = "../common/namespace.rs"]
mod namespace;
mod off;
mod paths;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use namespace::sh;

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
    for (name, line) in [
        ("bandit", "use --initial-path lin-ucb"),
        ("bandit-lin-ucb", "use --initial-path lin-ucb"),
        ("bandit-thompson", "compare has thompson (--initial-paths)"),
        (
            "ndiffports",
            "path manager ndiffports runs in sim, kernel; run has fullmesh, backup, single",
        ),
    ] {
        let output = run(&["--path-manager", name, "--", "true"]);
        assert_eq!(code(&output), Some(2));
        assert!(complaint(&output).contains(line), "{}", complaint(&output));
    }
    assert_eq!(code(&run(&[])), Some(2));
    if mptcp() {
        let output = run(&["--controller", "lai", "--", "true"]);
        assert_eq!(code(&output), Some(2));
        assert!(complaint(&output).contains(
            "unknown controller lai (did you mean \"lia\"?); expected one of linux-reno, "
        ));
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
    // Of other programs' connections, which fall back meanwhile, it speaks too.
    let complaint = complaint(&output);
    let of_host = |l: &&str| l.starts_with("multipilot: connections of this host");
    let own: Vec<&str> = complaint.lines().filter(|l| !of_host(l)).collect();
    assert_eq!(own, ["complained"]);
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
