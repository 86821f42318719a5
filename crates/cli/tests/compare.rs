//! `multipilot compare` from end to end, in the simulator.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use common::*;
use serde_json::{json, Value};

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

fn strings(rows: &Value, column: &str) -> Vec<String> {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|r| r[column].as_str().unwrap().to_owned())
        .collect()
}

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
fn json_is_one_document_and_leaves_no_folder() {
    let cwd = tempfile::tempdir().unwrap();
    let reply = call_in(
        cwd.path(),
        &[
            "compare",
            "wifi-lte",
            "--world",
            "sim",
            "--seeds",
            "2",
            "--controllers",
            "lia,bbr",
            "--json",
        ],
    );
    assert_eq!(reply.code, 0, "{}", reply.err);
    let document = reply.json();
    assert_eq!(
        (
            &document["schema"],
            &document["scenario"],
            &document["world"]
        ),
        (&json!(1), &json!("wifi-lte"), &json!("sim"))
    );
    let rows = &document["rows"];
    assert_eq!(strings(rows, "variant"), ["lia", "bbr", "lia", "bbr"]);
    assert_eq!(
        rows.as_array()
            .unwrap()
            .iter()
            .map(|r| r["seed"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [1, 1, 2, 2]
    );
    for row in rows.as_array().unwrap() {
        let goodput = row["goodput_mbps"].as_f64().unwrap();
        assert!(
            (1.0..70.0).contains(&goodput),
            "the paths give 70 Mbit/s: {row}"
        );
        assert!(
            row["completion_s"].as_f64().unwrap() > 1.7,
            "15 MB take at least that: {row}"
        );
        assert_eq!(
            (&row["fallback"], &row["unfinished"], &row["ben"]),
            (&json!(false), &json!(0), &Value::Null)
        );
    }
    assert_eq!(
        fs::read_dir(cwd.path()).unwrap().count(),
        0,
        "nothing is left"
    );
    assert_eq!(
        reply.err.lines().count(),
        4,
        "one plain line of progress a run: {}",
        reply.err
    );
}

#[test]
fn the_same_call_gives_the_same_rows() {
    let call = || {
        call(&[
            "compare",
            "lossy-wifi",
            "--world",
            "sim",
            "--seeds",
            "2",
            "--duration",
            "3",
            "--json",
        ])
        .json()
    };
    assert_eq!(call(), call());
}

#[test]
fn the_table_is_sorted_and_names_the_winner_and_the_record() {
    let cwd = tempfile::tempdir().unwrap();
    let args = [
        "compare",
        "wifi-lte",
        "--world",
        "sim",
        "--controllers",
        "lia,bbr",
    ];
    let reply = call_in(cwd.path(), &args);
    assert_eq!(reply.code, 0, "{}", reply.err);
    let lines: Vec<&str> = reply.out.lines().collect();
    assert!(
        lines[0].starts_with("variant")
            && lines[1].starts_with("bbr ")
            && lines[2].starts_with("lia "),
        "{}",
        reply.out
    );
    assert!(
        lines[1].contains('±'),
        "three seeds have an interval: {}",
        reply.out
    );
    assert!(lines[3].starts_with("Winner: bbr with "), "{}", reply.out);
    assert!(
        reply.out.ends_with("record: results/wifi-lte-sim-001\n"),
        "{}",
        reply.out
    );
    assert!(call_in(cwd.path(), &args)
        .out
        .ends_with("record: results/wifi-lte-sim-002\n"));
    let record = cwd.path().join("results/wifi-lte-sim-001");
    for file in [
        "result.json",
        "scenario.toml",
        "runs/0000/transfers.arrow",
        "runs/0005/samples.arrow",
    ] {
        assert!(record.join(file).is_file(), "{file}");
    }
}

#[test]
fn a_record_is_resumed_with_more_seeds_and_refuses_another_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("record");
    let out = out.to_str().unwrap();
    let run = |seeds: &str, more: &[&str]| {
        let args = [
            "compare",
            "wifi-lte",
            "--world",
            "sim",
            "--controllers",
            "lia",
            "--seeds",
            seeds,
            "--out",
            out,
        ];
        call(&[&args[..], more].concat())
    };
    assert_eq!(run("2", &[]).code, 0);
    let reply = run("3", &["--json"]);
    assert!(
        reply
            .err
            .starts_with("resuming: 2 of 3 runs are done\n[1/1] lia seed 3: "),
        "{}",
        reply.err
    );
    let fresh = call(&[
        "compare",
        "wifi-lte",
        "--world",
        "sim",
        "--controllers",
        "lia",
        "--seeds",
        "3",
        "--json",
    ]);
    assert_eq!(reply.json()["rows"], fresh.json()["rows"]);

    let other = run("3", &["--set", "paths.wifi.loss=0.5"]);
    let line = format!("multipilot: {out}: holds another comparison (wifi-lte, sim world); choose another folder with --out\n");
    assert_eq!((other.code, other.err), (2, line));
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
fn schedulers_and_path_managers_multiply() {
    let reply = call(&[
        "compare",
        "wifi-lte",
        "--world",
        "sim",
        "--seeds",
        "1",
        "--controllers",
        "lia",
        "--schedulers",
        "default,blest",
        "--path-managers",
        "fullmesh,single",
        "--json",
    ]);
    let names = [
        "lia/fullmesh/default",
        "lia/fullmesh/blest",
        "lia/single/default",
        "lia/single/blest",
    ];
    assert_eq!(
        strings(&reply.json()["rows"], "variant"),
        names,
        "{}",
        reply.err
    );
    let on_lte = |index: usize| {
        reply.json()["rows"][index]["path_mbps"]["lte"]
            .as_f64()
            .unwrap()
    };
    assert!(
        on_lte(0) > 1.0 && on_lte(2) == 0.0,
        "single keeps to the first path"
    );
}

#[test]
fn a_grid_has_a_table_for_each_cell_and_the_benefit_its_yardsticks() {
    let cwd = tempfile::tempdir().unwrap();
    let args = [
        "compare",
        "lossy-wifi",
        "--world",
        "sim",
        "--seeds",
        "1",
        "--controllers",
        "linux-reno",
        "--ben",
        "--out",
        "r",
    ];
    let reply = call_in(cwd.path(), &args);
    assert_eq!(reply.code, 0, "{}", reply.err);
    for label in [
        "wifi.loss=0\n",
        "\nwifi.loss=0.001\n",
        "\nwifi.loss=0.01\n",
        "\nwifi.loss=0.05\n",
    ] {
        assert!(reply.out.contains(label), "{label:?} in {}", reply.out);
    }
    let text = fs::read_to_string(cwd.path().join("r/result.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let row = |variant: &str| {
        document["rows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|r| r["variant"] == variant)
            .unwrap()
            .clone()
    };
    let multipath = row("linux-reno wifi.loss=0");
    assert_eq!(multipath["cell"], json!({ "paths.wifi.loss": "0" }));
    let goodput = |variant: &str| row(variant)["goodput_mbps"].as_f64().unwrap();
    let (wifi, lte) = (
        goodput("linux-reno wifi.loss=0 [tcp on wifi]"),
        goodput("linux-reno wifi.loss=0 [tcp on lte]"),
    );
    let expected = (multipath["goodput_mbps"].as_f64().unwrap() - wifi.max(lte)) / wifi.min(lte);
    assert!(
        (multipath["ben"].as_f64().unwrap() - expected).abs() < 1e-9,
        "{multipath}"
    );
}

#[test]
fn every_built_in_scenario_runs() {
    let scenarios = call(&["list", "scenarios", "--json"]).json();
    for scenario in strings(&scenarios["scenarios"], "name") {
        let reply = call(&[
            "compare",
            &scenario,
            "--world",
            "sim",
            "--seeds",
            "1",
            "--duration",
            "500ms",
            "--json",
        ]);
        assert_eq!(reply.code, 0, "{scenario}: {}", reply.err);
    }
}

#[test]
fn the_demo_names_a_winner_and_the_report() {
    let cwd = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    let report = tools.path().join("multipilot-report");
    fs::write(&report, "#!/bin/sh\necho '<html>' > \"$1/report.html\"\n").unwrap();
    fs::set_permissions(&report, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.path().display());
    let demo = |path: &str| {
        Reply::from(
            multipilot()
                .args(["demo", "--world", "sim"])
                .env("PATH", path)
                .current_dir(cwd.path())
                .output()
                .unwrap(),
        )
    };
    let reply = demo(&path);
    assert_eq!(reply.code, 0, "{}", reply.err);
    assert!(reply.out.contains("Winner: "), "{}", reply.out);
    assert!(
        reply
            .out
            .ends_with("report: results/wifi-lte-sim-001/report.html\n"),
        "{}",
        reply.out
    );
    let reply = demo("/nowhere");
    assert!(
        reply
            .out
            .contains("report: there is no multipilot-report on the PATH"),
        "{}",
        reply.out
    );
}

#[test]
fn without_root_the_demo_says_why_and_runs_in_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let reply = Reply::from(unprivileged(folder.path()).arg("demo").output().unwrap());
    assert_eq!(reply.code, 0, "{}", reply.err);
    let why = reply.err.lines().next().unwrap();
    assert!(
        why.starts_with("this machine lacks ")
            && why.ends_with("so this demo runs in the simulator."),
        "{why}"
    );
    assert!(
        reply.out.contains("Winner: ") && reply.out.contains("record: results/wifi-lte-sim-001\n"),
        "{}",
        reply.out
    );
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
