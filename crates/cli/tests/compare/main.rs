//! `multipilot compare` from end to end, in the simulator.

#[path = "../common/mod.rs"]
mod common;
mod cut_short;
mod demo;

use std::fs;

use common::*;
use serde_json::{json, Value};

fn strings(rows: &Value, column: &str) -> Vec<String> {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|r| r[column].as_str().unwrap().to_owned())
        .collect()
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
    let document = reply.document();
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
    let ends = |reply: &Reply, number: u32| {
        let record = format!("results/wifi-lte-sim-{number:03}");
        let [.., kept, drawn] = &reply.out.lines().collect::<Vec<_>>()[..] else {
            panic!("{}", reply.out)
        };
        assert_eq!(*kept, format!("record: {record}"));
        let how = format!("multipilot report {record}");
        assert!(
            drawn.starts_with("report: ") && drawn.ends_with(&how),
            "{drawn}"
        );
    };
    ends(&reply, 1);
    ends(&call_in(cwd.path(), &args), 2);
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
fn a_grid_has_a_table_for_each_cell_and_the_benefit_its_baselines() {
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
        // Its connection starts at 20 s.
        let duration = match scenario.as_str() {
            "loss-aware/9-trace" => "20500ms",
            _ => "500ms",
        };
        let reply = call(&[
            "compare",
            &scenario,
            "--world",
            "sim",
            "--seeds",
            "1",
            "--duration",
            duration,
            "--json",
        ]);
        assert_eq!(reply.code, 0, "{scenario}: {}", reply.err);
    }
}
