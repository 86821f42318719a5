//! Wrong calls: each earns one line and its exit code.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use common::*;
use serde_json::json;

#[test]
fn commands() {
    refused(&[], "no command; see multipilot --help");
    refused(
        &["comparee"],
        "unknown command comparee (did you mean \"compare\"?), and there is no multipilot-comparee on the PATH; see multipilot --help",
    );
    refused(&["../../bin/sh"], "unknown command ../../bin/sh, and there is no multipilot-../../bin/sh on the PATH; see multipilot --help");
    refused(
        &["compare"],
        "the following required arguments were not provided: <SCENARIO>; see multipilot compare --help",
    );
    refused(
        &["compare", "wifi-lte", "--world", "moon"],
        "invalid value 'moon' for '--world <WORLD>' [possible values: sim, kernel, relay]; see multipilot compare --help",
    );
    refused(
        &["compare", "wifi-lte", "--seeds", "0"],
        "invalid value '0' for '--seeds <N>': expected a number of runs from 1 to 100000; see multipilot compare --help",
    );
    refused(
        &["compare", "wifi-lte", "--seeds", "-1"],
        "invalid value '-1' for '--seeds <N>': expected a number of runs from 1 to 100000; see multipilot compare --help",
    );
    refused(
        &["compare", "wifi-lte", "--jobs", "0"],
        "unexpected argument '--jobs' found; see multipilot compare --help",
    );
    refused(
        &["help", "nothing"],
        "unknown command nothing, and there is no multipilot-nothing on the PATH; see multipilot --help",
    );
    refused(
        &["list", "controlers"],
        "invalid value 'controlers' for '[KIND]' [possible values: controllers, schedulers, path-managers, initial-paths, allocations, agents, scenarios, loaded] \
         — a similar value exists: 'controllers'; see multipilot list --help",
    );
}

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
fn a_misspelt_controller_has_a_suggestion() {
    let state = tempfile::tempdir().unwrap();
    let relay = ["relay", "--listen", "127.0.0.1:0", "--state"];
    let relay = [&relay[..], &[state.path().to_str().unwrap()]].concat();
    let line = format!("mp1:127.0.0.1:9#{}.{}", "A".repeat(43), "A".repeat(22));
    let calls = [
        &["load", "pilt"][..],
        &["run", "--controller", "pilt", "--", "true"],
        &[
            "run",
            "--relay",
            &line,
            "--controller",
            "pilt",
            "--",
            "true",
        ],
        &[&relay[..], &["--controller", "pilt"]].concat(),
    ];
    for words in calls {
        call(words).refused(
            2,
            "unknown controller pilt (did you mean \"pilot\"?); expected one of linux-reno, cubic,",
        );
    }
}

#[test]
fn an_actor_that_is_missing_says_what_to_give() {
    refused(
        &["agent", "--actor", "/nonexistent/actor.json"],
        "/nonexistent/actor.json: there is no such file; give an actor that `multipilot train` wrote",
    );
}

#[test]
fn a_place_is_no_line_of_a_relay() {
    refused(
        &["probe", "example.com"],
        "the relay's line: not a line of multipilot relay (a line begins with mp1:); it looks so: mp1:HOST:PORT#KEY.SECRET",
    );
}

#[test]
fn commands_without_a_daemon_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("none.sock");
    let shown = socket.to_str().unwrap();
    // What is left of a daemon that has died is a socket that nobody listens on.
    let nobody = folder.path().join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&nobody).unwrap());
    for (command, socket, advice) in [
        ("status", shown, ": multipilot up starts one"),
        ("top", shown, ": multipilot up starts one"),
        ("reload", shown, ": multipilot up starts one"),
        (
            "status",
            nobody.to_str().unwrap(),
            ": multipilot up starts one",
        ),
        ("down", shown, ""),
    ] {
        let mut words = vec![command, "--socket", socket];
        if command != "reload" {
            words.extend(["--relay-socket", shown]);
        }
        let reply = call(&words);
        let line = format!("no multipilot daemon listens on {socket}{advice}");
        assert_eq!(reply.err, format!("multipilot: {line}\n"), "{command}");
        assert_eq!((reply.code, reply.out.as_str()), (1, ""));
    }
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

#[test]
fn help_fits_a_terminal() {
    const COLUMNS: usize = 100;
    let help = |words: &[&str]| {
        let mut command = multipilot();
        // No terminal, so that clap wraps at its default of as many columns.
        let command = command.args(words).arg("--help").stdin(Stdio::null());
        let reply = Reply::from(
            command
                .env("COLUMNS", COLUMNS.to_string())
                .output()
                .unwrap(),
        );
        assert_eq!(reply.code, 0, "{}", reply.err);
        reply.out
    };
    let all = help(&[]);
    let listed = all.lines().skip_while(|l| *l != "Commands:").skip(1);
    let names: Vec<&str> = listed
        .take_while(|l| !l.is_empty())
        .filter_map(|l| l.strip_prefix("  ")?.split_once(' '))
        .map(|(name, _)| name)
        .filter(|name| !["", "help"].contains(name))
        .collect();
    assert!(
        names.contains(&"run") && names.contains(&"completions"),
        "{names:?}"
    );
    let pages = names.iter().map(|name| help(&[name]));
    for page in std::iter::once(all.clone()).chain(pages) {
        let lines: Vec<&str> = page.lines().collect();
        let width = |line: &str| line.chars().count();
        assert!(lines.iter().all(|l| width(l) <= COLUMNS), "{page}");
        for pair in lines.windows(2) {
            let [line, next] = pair else { unreachable!() };
            let flows = |l: &str| !l.is_empty() && !l.starts_with(' ') && !l.ends_with(':');
            let word = next.split(' ').next().unwrap_or_default();
            // A break of the text's own, and the line is wrapped again beside it.
            let early = width(line) + 1 + width(word) <= COLUMNS;
            assert!(
                !(flows(line) && flows(next) && early),
                "{line}\n{next}\nin {page}"
            );
        }
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    for flag in [&["--help"][..], &["--version"], &["help", "help"]] {
        let reply = call(flag);
        assert_eq!((reply.code, reply.err.as_str()), (0, ""));
        assert!(reply.out.contains("multipilot"));
    }
}

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
fn without_root_the_kernel_world_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = unprivileged(folder.path());
    command.args(["compare", "wifi-lte", "--controllers", "reno"]);
    let reply = Reply::from(command.output().unwrap());
    assert_eq!(reply.code, 3, "{}", reply.err);
    assert!(
        reply.err.starts_with("multipilot: this machine lacks ")
            && reply.err.ends_with("; --world sim works here\n"),
        "{}",
        reply.err
    );
}

#[test]
fn without_root_a_command_that_needs_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let ends = |args: &[&str], code: i32, line: &str| {
        let output = unprivileged(folder.path()).args(args).output().unwrap();
        Reply::from(output).refused(code, line);
    };
    for args in [["list", "loaded"], ["unload", "mp_lia"], ["load", "lia"]] {
        ends(&args, 3, "this machine lacks root for this user");
    }
    fs::create_dir(folder.path().join("data")).unwrap();
    let closed = fs::Permissions::from_mode(0o500);
    fs::set_permissions(folder.path().join("data"), closed).unwrap();
    let serve = ["serve", "--data", "data/edge", "--new-token", "phone"];
    ends(&serve, 2, "data/edge: this user may not write there");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let reply = call(&[
        "compare",
        "wifi-lte",
        "--world",
        "sim",
        "--out",
        "/proc/nowhere",
    ]);
    assert_eq!(reply.code, 2);
    assert_eq!(
        reply.err,
        "multipilot: /proc/nowhere: No such file or directory (os error 2); choose a folder that can be written with --out\n"
    );
}

#[test]
fn external_commands_are_found_and_their_exit_code_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("multipilot-hello");
    script(&program, "#!/bin/sh\necho \"hello $*\"\nexit 7\n");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let reply = Reply::from(
        multipilot()
            .args(["hello", "--to", "you"])
            .env("PATH", path)
            .output()
            .unwrap(),
    );
    assert_eq!(
        (reply.code, reply.out.as_str(), reply.err.as_str()),
        (7, "hello --to you\n", "")
    );
    let reply = Reply::from(
        multipilot()
            .args(["help", "hello", "world"])
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
            .output()
            .unwrap(),
    );
    assert_eq!(reply.out, "hello world --help\n");
    // Beside a link, as an environment of Python has one: sudo leaves nothing of the PATH.
    let link = folder.path().join("multipilot");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_multipilot"), &link).unwrap();
    let mut linked = std::process::Command::new(&link);
    let output = linked.arg("hello").env("PATH", "/usr/bin:/bin").output();
    assert_eq!(Reply::from(output.unwrap()).out, "hello \n");

    let reply = Reply::from(
        multipilot()
            .args(["paper", "rsf"])
            .env("PATH", "/nowhere")
            .output()
            .unwrap(),
    );
    assert_eq!(reply.code, 2);
    assert_eq!(
        reply.err,
        "multipilot: paper is a command of the Python package, and there is no multipilot-paper on the PATH; the wheel brings it, or make python\n"
    );
}

#[test]
fn signals_reach_external_commands() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("multipilot-waits");
    script(&program, "#!/bin/sh\necho ready\nexec sleep 600\n");
    let mut command = multipilot();
    command.arg("waits").stdout(std::process::Stdio::piped());
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut child = command.env("PATH", path).spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15), "{line}");
}

#[test]
fn list_shows_every_name() {
    let reply = call(&["list", "--json"]);
    let document = reply.document();
    assert_eq!(
        (reply.code, reply.err.as_str(), &document["schema"]),
        (0, "", &json!(1))
    );
    let source = |world: &str| document["sources"][world].as_str().unwrap().to_owned();
    for world in ["simulator", "kernel"] {
        let digits = source(world);
        assert_eq!(digits.len(), 16, "{digits}");
        assert!(digits.chars().all(|c| c.is_ascii_hexdigit()), "{digits}");
    }
    assert_ne!(source("simulator"), source("kernel"));
    let names = |kind: &str| -> Vec<String> {
        document[kind]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let controllers = names("controllers");
    for name in [
        "linux-reno",
        "cubic",
        "bbr",
        "reno",
        "lia",
        "olia",
        "balia",
        "wvegas",
        "rsf-db",
        "rsf-lb",
    ] {
        assert!(controllers.contains(&name.to_owned()), "{name} is missing");
    }
    assert!(names("schedulers").contains(&"blest".to_owned()));
    assert!(names("path_managers").contains(&"fullmesh".to_owned()));
    assert_eq!(names("initial_paths")[..2], ["first", "lin-ucb"]);
    let rsf = document["controllers"].as_array().unwrap();
    let rsf = rsf.iter().find(|c| c["name"] == "rsf-db").unwrap();
    assert_eq!(
        (&rsf["kind"], &rsf["coupled"], &rsf["parameters"][0]["most"]),
        (&json!("window"), &json!(false), &json!(60_000_000))
    );
    let worlds = |kind: &str, name: &str| {
        let all = document[kind].as_array().unwrap();
        all.iter().find(|e| e["name"] == name).unwrap()["worlds"].clone()
    };
    assert_eq!(worlds("schedulers", "blest"), json!(["sim", "relay"]));
    assert_eq!(
        worlds("path_managers", "ms-ucb-federated"),
        json!(["sim", "daemon"])
    );
    assert_eq!(
        names("allocations"),
        ["greedy", "exhaustive", "hekaton", "bush", "mu-mimo"]
    );
    for name in [
        "wifi-lte",
        "lossy-wifi",
        "shared-bottleneck",
        "simult-flows",
    ] {
        assert!(
            names("scenarios").contains(&name.to_owned()),
            "{name} is missing"
        );
    }
    let text = call(&["list"]).out;
    for kind in [
        "controllers",
        "schedulers",
        "path managers",
        "initial paths",
        "allocations",
        "agents",
        "scenarios",
    ] {
        assert!(
            text.contains(&format!("\n{kind}\n")) || text.starts_with(&format!("{kind}\n")),
            "{kind}"
        );
    }
    assert!(call(&["list", "controllers"]).out.lines().count() >= 10);
}

#[test]
fn the_radio_of_a_scenario_is_a_document() {
    let set = ["--set", "duration=1s"];
    let document = call(&[&["radio", "drones/orbit", "--json"], &set[..]].concat()).document();
    let cells = document["cells"].as_array().unwrap();
    assert!(cells[0]["links"][0]["mean_mbps"].as_f64().unwrap() > 0.0);
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let reply = call(&["completions", shell]);
        assert_eq!(reply.code, 0);
        for word in ["compare", "ld-mpsp", "loss-aware", "thompson", "blest"] {
            assert!(reply.out.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let reply = call(&["manual", folder.path().to_str().unwrap()]);
    assert_eq!((reply.code, reply.err.as_str()), (0, ""));
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    assert!(page("multipilot.1").contains("multipilot\\-compare(1)"));
    assert!(page("multipilot-compare.1").contains("\\-\\-seeds"));
    // The hidden one writes pages, and has none.
    assert!(!folder.path().join("multipilot-manual.1").exists());
    refused(
        &["manual", "/nowhere"],
        "/nowhere: No such file or directory (os error 2)",
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let script = format!("{} list; echo $? >&2", env!("CARGO_BIN_EXE_multipilot"));
    let mut child = std::process::Command::new("sh")
        .args(["-c", &script])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let reply = Reply::from(child.wait_with_output().unwrap());
    assert_eq!(reply.err, "0\n");
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = || fs::File::create("/dev/full").expect("Linux has it");
    let reply = Reply::from(multipilot().arg("list").stdout(full()).output().unwrap());
    assert_eq!(reply.code, 1);
    assert!(
        reply
            .err
            .starts_with("multipilot: cannot write to stdout: "),
        "{}",
        reply.err
    );
    assert_eq!(reply.err.lines().count(), 1);
}

#[test]
fn messages_that_nobody_can_read_do_not_end_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("record");
    let full = fs::File::create("/dev/full").expect("Linux has it");
    let reply = Reply::from(
        multipilot()
            .args(["compare", "wifi-lte", "--world", "sim", "--duration", "1s"])
            .args(["--controllers", "lia", "--out"])
            .arg(&out)
            .stderr(full)
            .output()
            .unwrap(),
    );
    assert_eq!(reply.code, 0);
    assert!(out.join("result.json").is_file());
}
