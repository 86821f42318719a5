//! Wrong calls: each earns one line and its exit code.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::*;

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
        "the following required arguments were not provided: <SCENARIO>; see multipilot --help",
    );
    refused(
        &["compare", "wifi-lte", "--world", "moon"],
        "invalid value 'moon' for '--world <WORLD>' [possible values: sim, kernel]; see multipilot --help",
    );
    refused(
        &["compare", "wifi-lte", "--seeds", "0"],
        "invalid value '0' for '--seeds <N>': 0 is not in 1..=100000; see multipilot --help",
    );
    refused(
        &["list", "controlers"],
        "invalid value 'controlers' for '[KIND]' [possible values: controllers, schedulers, path-managers, allocations, agents, scenarios, loaded] \
         — a similar value exists: 'controllers'; see multipilot --help",
    );
}

#[test]
fn help_and_version_go_to_stdout() {
    for flag in ["--help", "--version"] {
        let reply = call(&[flag]);
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
            "multipilot: variant \"lea\": unknown controller \"lea\" (did you mean \"lia\"?); expected one of {known}"
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
        reply
            .err
            .contains("unknown path manager \"fulmesh\" (did you mean \"fullmesh\"?)"),
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
            .contains("unknown scheduler \"blessed\" (did you mean \"blest\"?)"),
        "{}",
        reply.err
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
        refused(&["compare", file.to_str().unwrap(), "--world", "sim"], line);
    };
    check(
        "controller = 'lia'\nparameters.d = 5",
        "variant \"lia\": lia has no setting \"d\"; remove it",
    );
    check(
        "controller = 'cubic'\nparameters.d = 5",
        "variant \"cubic\": cubic has no setting \"d\"; remove it",
    );
    check(
        "controller = 'rsf-db'\nparameters.target = 5",
        "variant \"rsf-db\": unknown setting of rsf-db \"target\" (did you mean \"target_us\"?); expected one of target_us",
    );
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
        &format!("{shown}: cannot read the scenario: stream did not contain valid UTF-8; expected a readable TOML file"),
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
        "multipilot: variant \"linux-reno\": scheduler \"blest\": a stock kernel has only \"default\"; leave it out, or use --world sim\n"
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
    fs::write(&program, "#!/bin/sh\necho \"hello $*\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
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
            .args(["paper", "rsf"])
            .env("PATH", "/nowhere")
            .output()
            .unwrap(),
    );
    assert_eq!(reply.code, 2);
    assert_eq!(
        reply.err,
        "multipilot: paper is a command of the Python package, and there is no multipilot-paper on the PATH; make python builds it\n"
    );
}

#[test]
fn list_shows_every_name() {
    let reply = call(&["list", "--json"]);
    let document = reply.json();
    assert_eq!(
        (reply.code, reply.err.as_str(), &document["schema"]),
        (0, "", &serde_json::json!(1))
    );
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
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let reply = call(&["completions", shell]);
        assert_eq!(reply.code, 0);
        assert!(reply.out.contains("compare"), "{shell}");
    }
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
