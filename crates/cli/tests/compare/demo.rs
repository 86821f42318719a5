//! `multipilot demo`, in the simulator.

use crate::common::*;

#[test]
fn the_demo_names_a_winner_and_the_report() {
    let cwd = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    let report = tools.path().join("multipilot-report");
    script(&report, "#!/bin/sh\necho '<html>' > \"$1/report.html\"\n");
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
    let rows = reply.out.lines().skip_while(|l| !l.starts_with("variant"));
    let names: Vec<&str> = (rows.skip(1).take(6))
        .filter_map(|row| Some(row.split_once("  ")?.0))
        .collect();
    let (both, alone) = names.split_at(4);
    let mut alone = alone.to_vec();
    alone.sort_unstable();
    let has = |name: &&str| both.contains(name);
    assert!(
        ["pilot", "cubic", "bbr", "linux-reno"].iter().all(has),
        "{}",
        reply.out
    );
    assert_eq!(alone, ["cubic [tcp on lte]", "cubic [tcp on wifi]"]);
    assert!(reply.out.contains("Winner: pilot "), "{}", reply.out);
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
