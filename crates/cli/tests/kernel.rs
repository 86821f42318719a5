//! `multipilot compare` on the running kernel, over emulated paths. Without root these tests say so and do nothing; on CI
//! that is a failure.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use common::*;
use mp_testing::{Turn, Turns};
use rustix::process::{kill_process, Pid, Signal};

const PATHS: &str = "duration = '60s'\n[paths.a]\nrate = '20Mbit'\ndelay = '5ms'\n[paths.b]\nrate = '10Mbit'\ndelay = '10ms'\n";

/// One emulation at a time: two would take each other's CPU.
#[track_caller]
fn turn() -> Option<Turn<'static>> {
    static TURNS: Turns = Turns::new(1);
    let root = rustix::process::geteuid().is_root();
    TURNS.take((!root).then_some("the kernel world needs root"))
}

/// Calls `multipilot compare` on a scenario of this text.
fn compare(text: &str, more: &[&str]) -> Reply {
    compare_in("kernel", text, more)
}

fn compare_in(world: &str, text: &str, more: &[&str]) -> Reply {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    fs::write(&file, text).unwrap();
    let args = [
        "compare",
        file.to_str().unwrap(),
        "--world",
        world,
        "--seeds",
        "1",
    ];
    call(&[&args[..], more].concat())
}

#[test]
fn a_file_over_two_paths_with_a_controller_of_the_kernel_and_ours() {
    let Some(_turn) = turn() else { return };
    let text = format!(
        "{PATHS}[[connections]]\nbytes = '4MB'\n[[variants]]\ncontroller = ['linux-reno', 'lia']\n"
    );
    let reply = compare(&text, &["--json"]);
    assert_eq!(reply.code, 0, "{}", reply.err);
    let rows = reply.json()["rows"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(
            (&row["fallback"], &row["unfinished"]),
            (&false.into(), &0.into()),
            "{row}"
        );
        let goodput = row["goodput_mbps"].as_f64().unwrap();
        assert!(
            (1.0..30.0).contains(&goodput),
            "the paths give 30 Mbit/s: {row}"
        );
        for path in ["a", "b"] {
            let share = row["path_mbps"][path].as_f64().unwrap() / goodput;
            assert!(share > 0.05, "path {path} carried next to nothing: {row}");
        }
    }
}

#[test]
fn schedulers_over_the_relay_have_rows_of_their_own_and_a_second_call_resumes() {
    let Some(_turn) = turn() else { return };
    let text = format!("{PATHS}[[connections]]\nbytes = '2MB'\n");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let more = ["--schedulers", "min-rtt,redundant", "--json", "--out", out];
    let reply = compare_in("relay", &text, &more);
    assert_eq!(reply.code, 0, "{}", reply.err);
    assert_eq!(reply.json()["world"], "relay");
    let rows = reply.json()["rows"].as_array().unwrap().clone();
    let of: Vec<_> = rows.iter().map(|row| &row["scheduler"]).collect();
    assert_eq!(of, ["min-rtt", "redundant"]);
    for row in &rows {
        assert_eq!(
            (&row["fallback"], &row["unfinished"], &row["transfers"]),
            (&false.into(), &0.into(), &1.into()),
            "{row}"
        );
        assert!(row["completion_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["path_mbps"]["a"].as_f64().unwrap() > 0.0, "{row}");
    }
    let again = compare_in("relay", &text, &more);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(again.err.contains("resuming: 2 of 2"), "{}", again.err);
    assert_eq!(again.json()["rows"], reply.json()["rows"]);
}

#[test]
fn the_relay_over_mptcp_is_a_row_beside_that_over_tcp() {
    let Some(_turn) = turn() else { return };
    let text = format!("{PATHS}[[connections]]\nbytes = '2MB'\n");
    let reply = compare_in("relay", &text, &["--carriers", "tcp,mptcp", "--json"]);
    assert_eq!(reply.code, 0, "{}", reply.err);
    let rows = reply.json()["rows"].as_array().unwrap().clone();
    let of: Vec<_> = rows.iter().map(|row| row["variant"].clone()).collect();
    assert_eq!(of, ["linux-reno/tcp", "linux-reno/mptcp"]);
    for row in &rows {
        assert_eq!(
            (&row["fallback"], &row["unfinished"], &row["transfers"]),
            (&false.into(), &0.into(), &1.into()),
            "{row}"
        );
        // Whether the machine is busy is no matter of the relay's.
        let mut notes = row["notes"].as_array().unwrap().iter();
        let other = notes.find(|note| !note.as_str().unwrap().contains("this machine is too busy"));
        assert_eq!(other, None, "{row}");
        assert!(row["path_mbps"]["a"].as_f64().unwrap() > 0.0, "{row}");
    }
    let elsewhere = compare_in("sim", &text, &["--carriers", "mptcp"]);
    let said = "carrier mptcp: only --world relay has it";
    assert_eq!(elsewhere.code, 3, "{}", elsewhere.err);
    assert!(elsewhere.err.contains(said), "{}", elsewhere.err);
}

#[test]
fn choices_that_the_relay_world_lacks_are_refused_with_those_that_it_has() {
    let Some(_turn) = turn() else { return };
    for (more, said) in [
        (
            ["--path-managers", "backup"],
            "--world relay has only fullmesh, ms-ucb, single",
        ),
        (
            ["--initial-paths", "thompson"],
            "--world relay has only first",
        ),
    ] {
        let reply = compare_in("relay", PATHS, &more);
        assert_eq!(reply.code, 3, "{}", reply.err);
        assert!(reply.err.contains(said), "{}", reply.err);
        assert_eq!(reply.err.lines().count(), 1, "{}", reply.err);
    }
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let Some(_turn) = turn() else { return };
    let text = format!(
        "{PATHS}[[connections]]\nbytes = '2MB'\n[[variants]]\ncontroller = ['lia', 'olia']\n"
    );
    let replies = std::thread::scope(|scope| {
        let calls = [(); 2].map(|()| scope.spawn(|| compare(&text, &["--json"])));
        calls.map(|call| call.join().unwrap())
    });
    for reply in replies {
        assert_eq!(reply.code, 0, "{}", reply.err);
        for row in reply.json()["rows"].as_array().unwrap() {
            assert_eq!(
                (&row["fallback"], &row["unfinished"]),
                (&false.into(), &0.into()),
                "{row}"
            );
        }
    }
}

#[test]
fn ctrl_c_in_the_middle_of_a_run_leaves_no_namespace() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    fs::write(&file, format!("{PATHS}[[variants]]\ncontroller = 'lia'\n")).unwrap();
    let out = folder.path().join("record");
    let namespaces = || -> BTreeSet<String> {
        let entries = fs::read_dir("/var/run/netns")
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| n.starts_with("multipilot-"))
            .collect()
    };
    let before = namespaces();
    let mut command = multipilot();
    command
        .arg("compare")
        .arg(&file)
        .args(["--world", "kernel", "--seeds", "1", "--out"])
        .arg(&out);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(&mut child, || !namespaces().is_subset(&before));
    let own: BTreeSet<String> = namespaces().difference(&before).cloned().collect();
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let reply = Reply::from(child.wait_with_output().unwrap());
    assert_eq!(reply.code, 130, "{}", reply.err);
    assert!(
        reply
            .err
            .contains("multipilot: interrupted; 0 runs are kept"),
        "{}",
        reply.err
    );
    assert!(own.is_disjoint(&namespaces()), "left behind: {own:?}");
}

#[test]
fn a_run_that_fails_is_named_and_the_exit_code_is_1() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    fs::write(
        &file,
        format!("{PATHS}[[variants]]\ncontroller = 'linux-reno'\n"),
    )
    .unwrap();
    // Too few file descriptors for a testbed.
    let script = format!(
        "ulimit -n 16; exec {} compare {} --world kernel --seeds 2 --json",
        env!("CARGO_BIN_EXE_multipilot"),
        file.display()
    );
    let reply = Reply::from(
        std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap(),
    );
    assert_eq!(reply.code, 1, "{}", reply.err);
    let document = reply.json();
    assert_eq!(
        (
            document["rows"].as_array().unwrap().len(),
            document["failed"].as_array().unwrap().len()
        ),
        (0, 2)
    );
    assert!(
        reply.err.contains("multipilot: linux-reno seed 1: ")
            && reply.err.ends_with("multipilot: 2 of 2 runs failed\n"),
        "{}",
        reply.err
    );
}

#[test]
fn mptcp_switched_off_is_said_with_how_to_mend_it() {
    let Some(_turn) = turn() else { return };
    // In a network namespace of its own, so that nobody else misses it.
    let script = format!(
        "echo 0 > /proc/sys/net/mptcp/enabled && exec {} compare wifi-lte --world kernel --controllers reno",
        env!("CARGO_BIN_EXE_multipilot")
    );
    let output = std::process::Command::new("unshare")
        .args(["-n", "sh", "-c", &script])
        .output()
        .unwrap();
    let reply = Reply::from(output);
    assert_eq!(
        reply.err,
        "multipilot: this machine lacks MPTCP switched on (sysctl -w net.mptcp.enabled=1); --world sim works here\n"
    );
    assert_eq!(reply.code, 3);
}
