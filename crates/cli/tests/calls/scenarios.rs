//! Scenarios, and what the call changes in them.

use std::fs;

use crate::common::*;

#[test]
fn scenarios() {
    let sim = |scenario: &str, more: &[&str], line: &str| {
        let args: Vec<&str> = ["compare", scenario, "--world", "sim"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        refused(&args, line);
    };
    sim(
        "wifi-lt",
        &[],
        "scenario wifi-lt: no such file and no built-in of that name (did you mean \"wifi-lte\"?); see multipilot list scenarios",
    );
    sim(
        "/",
        &[],
        "scenario /: is a folder; name a scenario file in it",
    );
    sim(
        "wifi-lte",
        &["--set", "paths.wifi.loss=2"],
        "--set paths.wifi.loss=2: paths.wifi.loss: 2 is impossible; expected a probability from 0 to 1 (0.05 is 5 %)",
    );
    sim(
        "wifi-lte",
        &["--duration", "5 parsecs"],
        "--duration 5 parsecs: duration: \"5 parsecs\" has the unknown unit \"parsecs\"; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"",
    );
    let known = "linux-reno, cubic, bbr";
    let reply = call(&[
        "compare",
        "wifi-lte",
        "--world",
        "sim",
        "--controllers",
        "lea",
    ]);
    assert_eq!(reply.code, 2);
    assert!(
        reply.err.starts_with(&format!(
            "multipilot: --controllers lea: variants.0.controller: \"lea\" is unknown (did you mean \"lia\"?); expected one of {known}"
        )),
        "{}",
        reply.err
    );
    let reply = call(&[
        "compare",
        "wifi-lte",
        "--world",
        "sim",
        "--path-managers",
        "fulmesh",
    ]);
    assert!(
        reply.err.contains(
            "variants.0.path_manager.0: \"fulmesh\" is unknown (did you mean \"fullmesh\"?)"
        ),
        "{}",
        reply.err
    );
    let reply = call(&[
        "compare",
        "wifi-lte",
        "--world",
        "sim",
        "--schedulers",
        "blessed",
    ]);
    assert!(
        reply
            .err
            .contains("variants.0.scheduler.0: \"blessed\" is unknown (did you mean \"blest\"?)"),
        "{}",
        reply.err
    );
    sim(
        "wifi-lte",
        &["--path-managers", "bandit-thompson"],
        "--path-managers bandit-thompson: variants.0.path_manager.0: \"bandit-thompson\" is no path manager: it chooses the initial path; \
         expected initial_path = \"thompson\" (--initial-paths)",
    );
    sim(
        "wifi-lte",
        &["--initial-paths", "tompson"],
        "--initial-paths tompson: variants.0.initial_path.0: \"tompson\" is unknown (did you mean \"thompson\"?); expected one of \
         first, lin-ucb, active-explorer, epsilon-greedy, bootstrapped-ucb, adaptive-greedy, explore-first, adaptive-active-greedy, thompson",
    );
}

#[test]
fn settings_of_controllers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    let check = |variant: &str, line: &str| {
        fs::write(
            &file,
            format!("[paths.a]\nrate = '1Mbit'\n[[variants]]\n{variant}"),
        )
        .unwrap();
        let file = file.to_str().unwrap();
        refused(
            &["compare", file, "--world", "sim"],
            &format!("{file}:5:{line}"),
        );
    };
    check(
        "controller = 'rsf-db'\nparameters.target_us = '50MB'",
        "24: variants.0.parameters.target_us: \"50MB\" is no duration; expected a duration from \"100us\" to \"60s\"",
    );
    check(
        "controller = 'rsf-db'\nparameters.target_us = '2min'",
        "24: variants.0.parameters.target_us: \"2min\" is out of range; expected a duration from \"100us\" to \"60s\"",
    );
    check(
        "controller = 'lia'\nparameters.d = 5",
        "16: variants.0.parameters.d: lia has no parameter \"d\"; expected no parameters",
    );
}

/// A file of that content and what `check` says of it with these options, in the simulator.
fn checked(content: &str, more: &[&str]) -> (Reply, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, content).unwrap();
    let shown = file.to_str().unwrap();
    let args = [&["check", shown, "--world", "sim"], more].concat();
    (call(&args), shown.to_owned())
}

const TWO: &str = "duration = '4s'\n[paths.wifi]\nrate = '8Mbit'\n[paths.lte]\nrate = '4Mbit'\n";

#[test]
fn a_misspelt_name_has_its_place() {
    let (reply, shown) = checked(
        &format!("{TWO}[[variants]]\ncontroller = ['lia', 'cubci']\n"),
        &[],
    );
    reply.refused(
        2,
        &format!(
            "{shown}:7:22: variants.0.controller.1: \"cubci\" is unknown (did you mean \"cubic\"?)"
        ),
    );
    let (reply, shown) = checked(&format!("{TWO}[[connections]]\nscheduler = 'blets'\n"), &[]);
    reply.refused(
        2,
        &format!(
            "{shown}:7:13: connections.0.scheduler: \"blets\" is unknown (did you mean \"blest\"?)"
        ),
    );
}

#[test]
fn a_misspelt_path_of_an_override_is_named() {
    let set = ["--set", "paths.wfi.loss=0.1"];
    let (reply, _) = checked(TWO, &set);
    reply.refused(
        2,
        "--set paths.wfi.loss=0.1: paths.wfi: there is no [paths.wfi] (did you mean \"wifi\"?); \
         expected wifi, lte, or a new one that the paths of a connection name (connections.0.paths)",
    );
    let (reply, shown) = checked(&format!("{TWO}[grid]\npaths.wfi.loss = [0, 0.1]\n"), &[]);
    reply.refused(
        2,
        &format!("{shown}:7:19: paths.wfi: there is no [paths.wfi]"),
    );
    // With a rate it would be a path of its own, and the comparison that of another network.
    let set = ["--set", "paths.wfi.rate=5Mbit"];
    let problem = "--set paths.wfi.rate=5Mbit: paths.wfi: there is no [paths.wfi]";
    let (reply, _) = checked(TWO, &set);
    reply.refused(2, problem);
    let compare = call(&[&["compare", "wifi-lte", "--world", "sim"][..], &set].concat());
    compare.refused(2, problem);
}

#[test]
fn check_says_which_world_cannot_run_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    let check = |tail: &str| {
        fs::write(&file, format!("{TWO}{tail}")).unwrap();
        call(&["check", file.to_str().unwrap()])
    };
    let scheduler = "[[variants]]\nscheduler = 'blest'\n";
    let command = "[[connections]]\ncommand = 'true'\n";
    for (tail, world) in [(scheduler, "kernel"), (command, "sim")] {
        let reply = check(tail);
        assert_eq!(reply.code, 0, "{}", reply.err);
        let no = |line: &&str| line.contains(" no: ");
        let refused: Vec<&str> = reply.out.lines().filter(no).collect();
        assert_eq!(refused.len(), 1, "{}", reply.out);
        assert!(refused[0].starts_with(world), "{}", reply.out);
    }
    let neither = check(&format!("{command}{scheduler}"));
    neither.refused(3, "variant ");
}

#[test]
fn too_many_cells_and_runs_are_counted_and_refused() {
    let list = |n: usize| {
        (1..=n)
            .map(|i| format!("'{i}ms'"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let grid = format!(
        "{TWO}[grid]\npaths.wifi.delay = [{}]\npaths.lte.delay = [{}]\n",
        list(1000),
        list(1000)
    );
    let (reply, shown) = checked(&grid, &[]);
    reply.refused(
        2,
        &format!("{shown}:6:2: grid: makes 1000000 cells; expected at most 10000"),
    );
    let grid = format!("{TWO}[grid]\npaths.wifi.delay = [{}]\n", list(100));
    let (reply, shown) = checked(&grid, &["--seeds", "100000"]);
    reply.refused(
        2,
        &format!(
            "{shown}: makes 10000000 runs (100 cells, 100000 seeds); expected at most 1000000"
        ),
    );
}

#[test]
fn what_never_happens_is_said() {
    let late = format!("{TWO}[[connections]]\nstart = '4s'\n");
    let (reply, _) = checked(&late, &[]);
    reply.refused(2, "every connection starts after the end of the run at 4 s");
    let late = format!("{TWO}[[connections]]\n[[connections]]\nname = 'cross'\nstart = '9s'\n[[events]]\nat = '5s'\npath = 'lte'\noutage = true\n");
    let (reply, _) = checked(&late, &[]);
    assert_eq!(reply.code, 0);
    assert_eq!(
        reply.err,
        "multipilot: note: connection \"cross\" never starts: it is due at 9s, and a run ends at 4s (duration)\n\
         multipilot: note: the event of \"lte\" never happens: it is due at 5s, and a run ends at 4s (duration)\n"
    );
}

#[test]
fn check_says_what_would_run() {
    let text = format!(
        "{TWO}[[variants]]\ncontroller = ['lia', 'cubic']\n[grid]\npaths.wifi.loss = [0, 0.1]\n"
    );
    let (reply, shown) = checked(&text, &["--seeds", "5"]);
    assert_eq!((reply.code, reply.err.as_str()), (0, ""));
    let lines: Vec<&str> = reply.out.lines().collect();
    assert_eq!(lines[0], format!("{shown}: valid"));
    assert_eq!(
        lines[1..5],
        [
            "cells     2 (paths.wifi.loss)",
            "variants  2 (lia; cubic)",
            "seeds     5",
            "runs      20"
        ]
    );
    assert!(lines[5].starts_with("sim       "), "{}", lines[5]);
    assert_eq!(lines.len(), 6);
}

#[test]
fn a_scenario_comes_from_stdin() {
    use std::io::Write;
    let mut child = multipilot()
        .args(["check", "-", "--world", "sim"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(TWO.replace("8Mbit", "8").as_bytes())
        .unwrap();
    drop(stdin);
    let reply = Reply::from(child.wait_with_output().unwrap());
    reply.refused(2, "stdin:3:8: paths.wifi.rate: \"8\" has no unit");
}

#[test]
fn a_broken_file_is_named_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, "[paths.a]\nrate = '1Mbit'\ndelay = 5\n").unwrap();
    let shown = file.to_str().unwrap();
    refused(
        &["compare", shown, "--world", "sim"],
        &format!("{shown}:3:9: paths.a.delay: 5 has no unit; expected a duration such as \"250us\", \"5ms\" or \"1.5s\""),
    );
    fs::write(&file, b"\xff\xfe").unwrap();
    refused(
        &["compare", shown, "--world", "sim"],
        &format!("{shown}: is no text (UTF-8); expected a TOML file"),
    );
}

/// What a stock kernel cannot do is said before anything else is looked at.
#[test]
fn the_kernel_world_has_one_scheduler() {
    let reply = call(&[
        "compare",
        "wifi-lte",
        "--world",
        "kernel",
        "--schedulers",
        "blest",
    ]);
    assert_eq!(
        reply.err,
        "multipilot: variant \"pilot\": scheduler \"blest\": --world kernel has only default; leave it out, or use another world\n"
    );
    assert_eq!(reply.code, 3);
}

#[test]
fn the_radio_of_a_scenario_is_a_document() {
    let set = ["--set", "duration=1s"];
    let document = call(&[&["radio", "drones/orbit", "--json"], &set[..]].concat()).document();
    let cells = document["cells"].as_array().unwrap();
    assert!(cells[0]["links"][0]["mean_mbps"].as_f64().unwrap() > 0.0);
}
