//! Controllers and their agent on the running kernel, by `load`, `unload`, `agent`, `run` and `compare`, on bad days too.
//! The tests need root and MPTCP; with CI=true they fail where there is neither.

mod agent;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/foreign.rs"]
mod foreign;
mod pair;
mod taken;

use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{call, multipilot, wait_until, Reply};
use mp_testing::{Turn, Turns};
use pair::Pair;
use serde_json::Value;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// One emulation at a time.
#[track_caller]
fn turn() -> Option<Turn<'static>> {
    static TURNS: Turns = Turns::new(1);
    TURNS.take(mp_kernel::check::check().err())
}

fn sh(command: &str) {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
}

/// A setting that nobody else uses, so that the controller is this test's alone.
fn unique(number: u32) -> u32 {
    2_000_000 + std::process::id() % 100_000 * 10 + number
}

fn is_available(name: &str) -> bool {
    let names = fs::read_to_string(AVAILABLE).unwrap();
    names.split_whitespace().any(|available| available == name)
}

/// What `multipilot list loaded` says of the controllers that were loaded with this setting.
fn loaded(target_us: u32) -> Vec<Value> {
    let about = format!("rsf-db target_us={target_us}");
    let document = call(&["list", "loaded", "--json"]).json();
    let all = document["loaded"].as_array().unwrap().clone();
    all.into_iter()
        .filter(|one| one["controller"] == about.as_str())
        .collect()
}

#[test]
fn what_is_loaded_stays_until_unloaded_and_its_sockets_keep_it() {
    let Some(_turn) = turn() else { return };
    let target_us = unique(1);
    let reply = call(&["load", "rsf-db", "--set", &format!("target_us={target_us}")]);
    assert_eq!((reply.code, reply.err.as_str()), (0, ""));
    let name = reply.out.trim().to_owned();
    assert!(name.starts_with("rsf_db_") && is_available(&name), "{name}");
    let listed = loaded(target_us);
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (&listed[0]["name"], &listed[0]["kept"]),
        (&name.as_str().into(), &true.into())
    );

    let pair = Pair::new();
    sh(&format!(
        "ip netns exec {} sysctl -qw net.ipv4.tcp_congestion_control={name}",
        pair.client()
    ));
    let mut unloaded = None;
    let reply = pair.upload(&[], || unloaded = Some(call(&["unload", &name])));
    assert_eq!(
        (reply.code, reply.err.as_str()),
        (0, ""),
        "the transfer goes on to its end"
    );
    let unloaded = unloaded.unwrap();
    assert_eq!(
        (unloaded.code, unloaded.err),
        (
            0,
            format!("multipilot: 1 sockets go on with {name} until they close\n")
        )
    );
    assert!(!is_available(&name) && loaded(target_us).is_empty());
    assert!(!Path::new("/sys/fs/bpf/multipilot").join(&name).exists());
    let again = call(&["unload", &name]);
    assert_eq!(
        (again.code, again.err),
        (2, format!("multipilot: {name}: no such controller is registered (multipilot list loaded shows them)\n"))
    );
}

#[test]
fn wrong_settings_and_names_load_nothing() {
    let Some(_turn) = turn() else { return };
    for (arguments, line) in [
        (
            &["load", "lai"][..],
            "unknown controller lai (did you mean \"lia\"?); expected one of ",
        ),
        (
            &["load", "lia", "--set", "d=5"],
            "lia has no parameter \"d\"; expected no parameters",
        ),
        (
            &["load", "rsf-db", "--set", "target_us=soon"],
            "--set target_us=soon: expected KEY=N with a whole number",
        ),
    ] {
        call(arguments).refused(2, line);
    }
}

const SCENARIO: &str = "duration = '60s'\n[paths.a]\nrate = '20Mbit'\ndelay = '5ms'\n[paths.b]\nrate = '10Mbit'\ndelay = '10ms'\n[[connections]]\nbytes = '20MB'\n";

/// Starts a comparison of rsf-db with this setting, and waits until sockets use it; returns its kernel name too.
fn compare(folder: &Path, target_us: u32) -> (Child, String) {
    let file = folder.join("scenario.toml");
    let variant =
        format!("[[variants]]\ncontroller = 'rsf-db'\nparameters.target_us = {target_us}\n");
    fs::write(&file, format!("{SCENARIO}{variant}")).unwrap();
    let mut child = multipilot()
        .arg("compare")
        .arg(&file)
        .args(["--world", "kernel", "--seeds", "1", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let name = RefCell::new(String::new());
    wait_until(&mut child, || {
        let mut all = loaded(target_us).into_iter();
        let at_work = all.find(|one| one["sockets"].as_u64() > Some(1));
        at_work.is_some_and(|one| {
            name.replace(one["name"].as_str().unwrap().to_owned());
            true
        })
    });
    (child, name.into_inner())
}

#[test]
fn a_controller_that_is_unloaded_under_a_comparison_spoils_no_number() {
    let Some(_turn) = turn() else { return };
    let (folder, target_us) = (tempfile::tempdir().unwrap(), unique(2));
    let (child, name) = compare(folder.path(), target_us);
    let unloaded = call(&["unload", &name]);
    assert_eq!(unloaded.code, 0, "{}", unloaded.err);
    let reply = Reply::from(child.wait_with_output().unwrap());
    assert_eq!(reply.code, 0, "{}", reply.err);
    let rows = reply.json()["rows"].as_array().unwrap().clone();
    assert_eq!(
        (rows.len(), &rows[0]["fallback"], &rows[0]["unfinished"]),
        (1, &false.into(), &0.into())
    );
    let goodput = rows[0]["goodput_mbps"].as_f64().unwrap();
    assert!(
        (1.0..30.0).contains(&goodput),
        "the paths give 30 Mbit/s: {}",
        rows[0]
    );
    assert!(!is_available(&name) && loaded(target_us).is_empty());
}

#[test]
fn what_a_killed_comparison_left_the_next_command_collects() {
    let Some(_turn) = turn() else { return };
    let (folder, target_us) = (tempfile::tempdir().unwrap(), unique(3));
    let (mut child, name) = compare(folder.path(), target_us);
    // Its claim on its namespaces has its number in it.
    let claims = fs::read_dir("/run/multipilot/testbed").unwrap().flatten();
    let its = |claim: &fs::DirEntry| {
        fs::read_to_string(claim.path()).is_ok_and(|text| text == child.id().to_string())
    };
    let claim = claims.into_iter().find(its).expect("a claim");
    let prefix = format!("multipilot-{}-", claim.file_name().to_string_lossy());
    let left = || {
        let names = fs::read_dir("/var/run/netns")
            .into_iter()
            .flatten()
            .flatten();
        names
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
            .count()
    };
    assert!(left() > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_available(&name), "nobody has looked yet");
    assert!(loaded(target_us).is_empty());
    assert!(!is_available(&name));
    let args = [
        "compare",
        "wifi-lte",
        "--world",
        "kernel",
        "--controllers",
        "linux-reno",
        "--seeds",
        "1",
        "--duration",
        "1s",
        "--json",
    ];
    let reply = call(&args);
    assert_eq!((reply.code, left()), (0, 0), "{}", reply.err);
}

/// As with `ip netns exec`, which gives each of them a /sys of its own. No other test loads this controller.
#[test]
fn programs_that_do_not_see_each_others_pins_have_a_controller_each_and_leave_none() {
    let Some(_turn) = turn() else { return };
    let count = || {
        let names = fs::read_to_string(AVAILABLE).unwrap();
        let own = names.split_whitespace().filter(|n| n.starts_with("mpcc_l"));
        own.count()
    };
    let start = || {
        let script = format!(
            "mount -t bpf none /sys/fs/bpf && exec {} run --controller mpcc-loss -- sh -c 'echo; cat'",
            env!("CARGO_BIN_EXE_multipilot")
        );
        let mut child = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        let output = child.stdout.as_mut().unwrap();
        output.read_exact(&mut line).unwrap();
        child
    };
    let end = |mut child: Child| {
        drop(child.stdin.take());
        let reply = Reply::from(child.wait_with_output().unwrap());
        assert_eq!(reply.code, 0, "{}", reply.err);
        count()
    };
    assert_eq!(count(), 0);
    let (first, second) = (start(), start());
    assert_eq!(count(), 2);
    assert_eq!(end(first), 1);
    assert_eq!(end(second), 0);
}

#[test]
fn a_kernel_without_btf_is_said_with_how_to_mend_it() {
    let Some(_turn) = turn() else { return };
    // In a mount namespace of its own, so that nobody else misses it.
    for command in [
        "compare wifi-lte --world kernel --controllers lia",
        "load lia",
        "agent",
        "run --controller lia -- true",
    ] {
        let script = format!(
            "mount -t tmpfs none /sys/kernel/btf && exec {} {command}",
            env!("CARGO_BIN_EXE_multipilot")
        );
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .output()
            .unwrap();
        let line = "this machine lacks type information of the kernel in /sys/kernel/btf/vmlinux (";
        Reply::from(output).refused(3, line);
    }
}
