//! `multipilot try`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::{unprivileged, Reply};
use crate::{hosts, multipilot};

/// Of a process: the identifiers of its namespaces.
fn claims_of(process: &str) -> Vec<String> {
    let entries = fs::read_dir("/run/multipilot/testbed")
        .into_iter()
        .flatten();
    let own = |entry: &fs::DirEntry| fs::read_to_string(entry.path()).is_ok_and(|by| by == process);
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    entries.flatten().filter(own).filter_map(name).collect()
}

/// Congestion controllers of ours that a process holds.
fn controllers_of(process: &str) -> Vec<String> {
    let folders = fs::read_dir("/run/multipilot/controllers")
        .into_iter()
        .flatten();
    let held = |folder: &Path| {
        let holders = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names = holders.filter_map(|holder| holder.file_name().into_string().ok());
        let own = format!("holder-{process}-");
        names.any(|name| name.starts_with(&own))
    };
    let folders = folders.flatten().map(|folder| folder.path());
    folders
        .filter(|folder| held(folder))
        .filter_map(|folder| fs::read_to_string(folder.join("about")).ok())
        .collect()
}

#[test]
fn a_relay_carries_a_download_beyond_the_death_of_the_wifi() {
    let Some(_turn) = hosts::turn() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = multipilot();
    let command = command
        .args(["try", "--only", "direct,relay", "--json"])
        .args(["--scheduler", "ecf"])
        .current_dir(folder.path());
    let running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let running = running.unwrap();
    let process = running.id().to_string();
    let (mut ids, mut controllers) = (BTreeSet::new(), BTreeSet::new());
    let output = thread::scope(|scope| {
        let waiting = scope.spawn(|| running.wait_with_output().unwrap());
        while !waiting.is_finished() {
            ids.extend(claims_of(&process));
            controllers.extend(controllers_of(&process));
            thread::sleep(Duration::from_millis(20));
        }
        waiting.join().unwrap()
    });
    let reply = Reply::from(output);
    assert_eq!(reply.code, 0, "{}", reply.err);
    if mp_testing::runs(mp_kernel::check::check().err()) {
        assert_eq!(controllers, BTreeSet::from(["pilot".to_owned()]));
    }
    let record = reply.document();
    assert_eq!(record["scheduler"], "ecf");
    assert_eq!(record["marks"][1]["what"], "wifi is gone");
    let gone = record["marks"][1]["at_s"].as_f64().unwrap();
    let step = record["step_s"].as_f64().unwrap();
    // The packets that the path still delivers have arrived then, and have been read, by a busy machine too.
    let later = ((gone + 3.0) / step) as usize;
    for (trial, way) in [(0, "direct"), (1, "relay")] {
        let trial = &record["trials"][trial];
        assert_eq!(trial["way"], way);
        let had = &trial["experience"];
        assert_eq!(had["download"]["intact"], true);
        let steps = had["download"]["steps"].as_array().unwrap();
        let bytes = |steps: &[Value]| steps.iter().map(|b| b.as_u64().unwrap()).sum::<u64>();
        assert!(bytes(&steps[..later]) > 0, "{way}");
        assert_eq!(
            bytes(&steps[later..]) > 0,
            way == "relay",
            "{way}: {steps:?}"
        );
        let answers = had["call"]["round_trips_ms"].as_array().unwrap();
        // 14 s less .4 s of patience, every 20 ms.
        assert_eq!(answers.len(), 680);
        let pages = had["pages"].as_array().unwrap();
        assert_eq!(pages.len(), 23);
    }
    // 20 ms a packet: those of a second without Wi-Fi, whose end comes late where this machine is busy.
    let first = ((gone + 1.0) / 0.02) as usize;
    let call = |trial: usize| {
        let answers = &record["trials"][trial]["experience"]["call"]["round_trips_ms"];
        let answers = answers.as_array().unwrap()[first..first + 50].to_vec();
        answers.iter().filter(|answer| !answer.is_null()).count()
    };
    assert_eq!(call(0), 0);
    assert!(call(1) > 0);
    let left = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let left = String::from_utf8(left.stdout).unwrap();
    assert!(!ids.is_empty());
    for id in ids {
        assert!(!left.contains(&format!("multipilot-{id}-")), "{left}");
    }
    assert_eq!(claims_of(&process).len(), 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_unknown_way_and_a_user_without_root_get_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let reply = Reply::from(unprivileged(folder.path()).arg("try").output().unwrap());
    assert_eq!(reply.code, 3);
    assert!(
        reply.err.contains("lacks root") && reply.err.contains("--world sim"),
        "{}",
        reply.err
    );
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (wrong, line) in [
        (
            ["--only", "wifi"],
            "--only wifi: expected one of direct, lte, mptcp, relay",
        ),
        (
            ["--scheduler", "best"],
            "--scheduler best: no such scheduler; see multipilot list schedulers",
        ),
    ] {
        let mut command = multipilot();
        let reply = Reply::from(command.arg("try").args(wrong).output().unwrap());
        assert_eq!(
            (reply.code, reply.err),
            (2, format!("multipilot: {line}\n"))
        );
    }
}
