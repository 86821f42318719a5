//! `multipilot probe`.

use std::fs;

use crate::common::{multipilot, Reply};
use crate::hosts::Hosts;

#[test]
fn a_probe_writes_a_scenario_of_the_links() {
    let Some(hosts) = Hosts::new("20mbit") else {
        return;
    };
    let line = hosts.line.clone();
    let out = hosts.path("network.toml");
    let call = |more: &[&str]| {
        let mut words = vec![
            "probe",
            &line,
            "--seconds",
            "2",
            "--out",
            out.to_str().unwrap(),
        ];
        words.extend(more);
        hosts.plainly(&words)
    };
    let reply = call(&["--trace", "--link", "wifi"]);
    assert_eq!(reply.code, 0, "{}", reply.err);
    assert!(reply.out.contains("wifi"), "{}", reply.out);
    let mut command = multipilot();
    let check = Reply::from(command.arg("check").arg(&out).output().unwrap());
    assert_eq!(check.code, 0, "{}", check.err);
    let scenario = fs::read_to_string(&out).unwrap();
    assert!(
        scenario.contains("trace = \"wifi.down.mahi\""),
        "{scenario}"
    );
    assert!(!scenario.contains("lte"), "{scenario}");

    let reply = call(&["--link", "wifi"]);
    assert_eq!(reply.code, 2);
    assert!(reply.err.contains("network.toml: exists"), "{}", reply.err);

    let mut command = hosts.plain(&["probe", "-", "--seconds", "2", "--json"]);
    let folder = tempfile::tempdir().unwrap();
    let given = folder.path().join("line");
    fs::write(&given, &line).unwrap();
    command.stdin(fs::File::open(&given).unwrap());
    let reply = Reply::from(command.output().unwrap());
    assert_eq!(reply.code, 0, "{}", reply.err);
    let record = reply.document();
    for (number, name) in ["wifi", "lte"].into_iter().enumerate() {
        let link = &record["links"][number];
        assert_eq!(link["link"], name);
        for way in ["downlink", "uplink"] {
            let rate = link[way]["goodput_mbps"].as_f64().unwrap();
            // No more than the link carries, and what had to wait for a busy machine; it may carry less.
            assert!(rate > 0.0 && rate < 40.0, "{link}");
        }
        assert!(link["rtt_min_ms"].as_f64().unwrap() > 0.0, "{link}");
    }
}
