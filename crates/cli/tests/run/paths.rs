//! Which paths its connections use, and which they start on.

use crate::hosts::{downloads, TwoPaths};
use crate::namespace::{sh, Namespace};
use crate::{code, complaint, kernel, line, multipilot, start};

#[test]
fn paths_are_chosen_for_the_time_of_the_run_even_if_it_is_killed() {
    if !kernel() {
        return;
    }
    let host = Namespace::new("");
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
        let mut command = host.enter(run.get_program());
        command.args(run.get_args());
        command
    };
    let waiting = || {
        let script = "echo ready; read line";
        let words = ["--path-manager", "fullmesh", "--", "sh", "-c", script];
        let (child, mut lines) = start(inside(&words));
        assert_eq!(line(&mut lines), "ready");
        (child, lines)
    };
    let (mut child, _lines) = waiting();
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

    let (mut child, _lines) = waiting();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(endpoints().contains("10.78.1.1"), "nobody has looked yet");
    let next = inside(&["--path-manager", "single", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(code(&next), Some(0), "{}", complaint(&next));
    assert_eq!((endpoints(), limits()), (String::new(), before));
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
        "--initial-path",
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
    // The server knows TCP alone.
    assert!(
        complaint(&output).contains("0 MPTCP, 2 fell back to TCP"),
        "{}",
        complaint(&output)
    );
    let (output, _) = paths.run(&["--initial-path", "p3", "--", "true"], state.path());
    assert_eq!(code(&output), Some(2));
    assert!(complaint(&output)
        .contains("no such interface that is up and has an address (there are: p1, p2)"));
    for (former, line) in [
        (["--primary", "p1"], "--initial-path p1"),
        (["--path-manager", "bandit"], "use --initial-path lin-ucb"),
        (
            ["--initial-path", "thompson"],
            "run has first, lin-ucb, and the interfaces",
        ),
    ] {
        let (output, _) = paths.run(&[former[0], former[1], "--", "true"], state.path());
        assert_eq!(code(&output), Some(2));
        assert!(complaint(&output).contains(line), "{}", complaint(&output));
    }
}

#[test]
fn the_bandit_chooses_and_remembers() {
    if !kernel() {
        return;
    }
    let (paths, state) = (TwoPaths::new("1mbit"), tempfile::tempdir().unwrap());
    std::fs::write(state.path().join("signals"), "p1 -61\np2 -93\n").unwrap();
    let script = downloads(30);
    let bandit = [
        "--initial-path",
        "lin-ucb",
        "--path-manager",
        "fullmesh",
        "--",
        "bash",
        "-c",
        &script,
    ];
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
    let experience = state.path().join("multipilot/experience");
    let files = || std::fs::read_dir(&experience).unwrap().count();
    assert_eq!(files(), 1, "the outcomes of the connections");
    assert!(
        from.contains(&2),
        "routes alone never begin there: {from:?}"
    );

    // That the choice is the better one is tested on emulated paths: here the slow one soon lends its connections the other.
    let (output, from) = paths.run(&bandit, state.path());
    assert_eq!(
        (code(&output), from.len(), remembered(), files()),
        (Some(0), 30, 60, 2),
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
