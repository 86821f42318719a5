//! Comparisons that do not come to their end.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::common::*;

/// Long enough to be caught in the middle: some hundred runs.
const LONG: [&str; 7] = [
    "compare",
    "shared-bottleneck",
    "--world",
    "sim",
    "--seeds",
    "2000",
    "--out",
];

/// Starts a command and waits until its record has some rows.
fn start_and_wait_for_rows(args: &[&str], folder: &Path) -> Child {
    let mut child = multipilot()
        .args(args)
        .arg(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(&mut child, || rows_in(folder) >= 3);
    child
}

fn rows_in(folder: &Path) -> usize {
    let text = fs::read_to_string(folder.join("result.json")).unwrap_or_default();
    serde_json::from_str::<Value>(&text).map_or(0, |v| v["rows"].as_array().map_or(0, Vec::len))
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn ctrl_c_keeps_what_is_done_and_exits_130() {
    let folder = tempfile::tempdir().unwrap();
    let child = start_and_wait_for_rows(&LONG, folder.path());
    signal(&child, rustix::process::Signal::INT);
    let reply = Reply::from(child.wait_with_output().unwrap());
    assert_eq!(reply.code, 130, "{}", reply.err);
    let rows = rows_in(folder.path());
    let last = reply.err.lines().last().unwrap();
    let out = folder.path().display();
    assert_eq!(
        last,
        format!(
            "multipilot: interrupted; {rows} runs are kept, the same call with --out {out} goes on"
        )
    );
    assert!(reply.out.contains("variant"), "the table of what is done");
}

#[test]
fn ctrl_c_in_the_first_run_leaves_no_folder() {
    let cwd = tempfile::tempdir().unwrap();
    // No run ends before somebody ends it.
    let long = "duration = '10000s'\n[paths.a]\nrate = '1Gbit'\n";
    fs::write(cwd.path().join("long.toml"), long).unwrap();
    let mut child = multipilot()
        .args(["compare", "long.toml", "--world", "sim"])
        .current_dir(cwd.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let results = cwd.path().join("results");
    let begun = || fs::read_dir(&results).is_ok_and(|mut all| all.next().is_some());
    wait_until(&mut child, begun);
    signal(&child, rustix::process::Signal::INT);
    let reply = Reply::from(child.wait_with_output().unwrap());
    reply.refused(130, "interrupted in the first run: nothing is kept");
    assert!(!begun(), "a folder without a run is left");
}

#[test]
fn a_kill_loses_only_the_run_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start_and_wait_for_rows(&LONG, folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = rows_in(folder.path());
    assert!(kept >= 3);
    for index in 0..kept {
        let run = folder.path().join(format!("runs/{index:04}"));
        assert!(
            run.join("transfers.arrow").is_file() && run.join("samples.arrow").is_file(),
            "{}",
            run.display()
        );
    }
    // The same call goes on where it was cut.
    let mut again = start_and_wait_for_rows(&LONG, folder.path());
    wait_until(&mut again, || rows_in(folder.path()) > kept);
    signal(&again, rustix::process::Signal::INT);
    let reply = Reply::from(again.wait_with_output().unwrap());
    assert!(
        reply
            .err
            .starts_with(&format!("resuming: {kept} of 18000 runs are done\n")),
        "{}",
        reply.err
    );
}

#[test]
fn two_at_once_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = start_and_wait_for_rows(&LONG, folder.path());
    let out = folder.path().to_str().unwrap();
    let second = call(&[&LONG[..], &[out]].concat());
    signal(&first, rustix::process::Signal::INT);
    first.wait_with_output().unwrap();
    assert_eq!(second.code, 2);
    let line = format!("multipilot: {out}: another comparison is writing here; wait for it, or choose another folder with --out\n");
    assert_eq!(second.err, line);
}

#[test]
fn a_full_disk_fails_the_run_and_says_so() {
    let root = rustix::process::geteuid().is_root();
    if !mp_testing::runs((!root).then_some("a file system of its own needs root")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=12k none {0} && exec {1} compare wifi-lte --world sim --controllers lia --seeds 1 --out {0}/record",
        folder.path().display(),
        env!("CARGO_BIN_EXE_multipilot")
    );
    let mut command = std::process::Command::new("unshare");
    let reply = Reply::from(command.args(["-m", "sh", "-c", &script]).output().unwrap());
    assert_eq!(reply.code, 1, "{}", reply.err);
    assert!(
        reply.err.contains("/record/") && reply.err.contains("No space left on device"),
        "{}",
        reply.err
    );
}
