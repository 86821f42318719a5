//! A captured run as Wireshark's dissector reads it.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;

use mp_scenario::{parse, Overrides, Scenario};

const TWO_PATHS: &str = r#"
title = "two paths"
duration = "20s"
[paths.wifi]
rate = "10Mbit"
delay = "5ms"
loss = 0.005
queue = "50p"
[paths.lte]
rate = "5Mbit"
delay = "30ms"
queue = "100p"
[[connections]]
paths = ["wifi", "lte"]
bytes = "1000001B"
[[events]]
at = "400ms"
path = "lte"
backup = true
[[variants]]
controller = "lia"
"#;

fn scenario(text: &str) -> Scenario {
    let none = |_: &Path| unreachable!("no trace");
    let experiment = parse(
        "capture.toml",
        text,
        ".".as_ref(),
        &none,
        &Overrides::default(),
    )
    .expect("a valid scenario");
    experiment.cells[0].scenario.clone()
}

fn capture(text: &str) -> Vec<u8> {
    let scenario = scenario(text);
    let mut out = Vec::new();
    let run = mp_simulator::capture(&scenario, &scenario.variants[0], 1, &mut out).expect("runs");
    assert_eq!(
        run,
        mp_simulator::simulate(&scenario, &scenario.variants[0], 1).expect("runs"),
        "watching changes nothing"
    );
    assert!(run.transfers[0].end_s.is_some(), "the transfer ends");
    out
}

/// Values of `fields` of each packet that `filter` lets through; `None` without tshark, which is an error under CI.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    // Relative numbers would hide what is really on the wire.
    command.args([
        "-r",
        file.to_str().expect("UTF-8"),
        "-o",
        "tcp.relative_sequence_numbers:false",
        "-T",
        "fields",
    ]);
    command.args(["-Y", filter]);
    for f in fields {
        command.args(["-e", f]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(e) => {
            assert!(std::env::var_os("CI").is_none(), "tshark is needed: {e}");
            eprintln!("SKIPPED: tshark is not installed ({e})");
            return None;
        }
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    Some(
        text.lines()
            .map(|l| l.split('\t').map(str::to_owned).collect())
            .collect(),
    )
}

fn written(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("run.pcapng");
    std::fs::write(&file, capture(text)).expect("written");
    (folder, file)
}

#[test]
fn wireshark_sees_one_connection_of_two_subflows() {
    let (_folder, file) = written(TWO_PATHS);
    let Some(all) = tshark(
        &file,
        "mptcp",
        &["tcp.stream", "mptcp.stream", "frame.interface_name"],
    ) else {
        return;
    };
    let streams: HashMap<&str, &str> = all.iter().map(|p| (p[0].as_str(), p[1].as_str())).collect();
    assert_eq!(streams.len(), 2, "two subflows: {streams:?}");
    assert_eq!(
        streams.values().collect::<HashSet<_>>().len(),
        1,
        "of one connection: {streams:?}"
    );
    let interfaces: HashSet<&str> = all.iter().map(|p| p[2].as_str()).collect();
    assert_eq!(interfaces, HashSet::from(["wifi", "lte"]));

    // The dissector checks what it decodes; it must not find fault.
    let faults = "_ws.malformed || mptcp.connection.echoed_key_mismatch || mptcp.connection.missing_algorithm \
        || mptcp.connection.unsupported_algorithm || mptcp.dss.missing_mapping || mptcp.dss.infinite_mapping \
        || tcp.analysis.ack_lost_segment || ip.checksum.status == 0";
    let faults = tshark(&file, faults, &["frame.number"]);
    assert_eq!(faults, Some(vec![]));
}

#[test]
fn handshakes_are_those_of_the_rfc() {
    let (_folder, file) = written(TWO_PATHS);
    let flags = [
        "tcp.flags.syn",
        "tcp.flags.ack",
        "tcp.options.mptcp.subtype",
        "tcp.option_len",
    ];
    let Some(capable) = tshark(&file, "tcp.options.mptcp.subtype == 0", &flags) else {
        return;
    };
    assert_eq!(capable.len(), 3, "{capable:?}");
    let joins = tshark(&file, "tcp.options.mptcp.subtype == 1", &flags).expect("tshark");
    assert_eq!(joins.len(), 3, "{joins:?}");
    let prio = tshark(
        &file,
        "tcp.options.mptcp.subtype == 5",
        &["frame.time_relative", "tcp.options.mptcp.backup.flag"],
    )
    .expect("tshark");
    assert_eq!(prio.len(), 1);
    assert_eq!(prio[0][1], "1");
    assert!(
        (prio[0][0].parse::<f64>().expect("a time") - 0.4).abs() < 0.001,
        "{prio:?}"
    );
    let address = tshark(
        &file,
        "tcp.options.mptcp.subtype == 3",
        &["tcp.options.mptcp.ipv4", "tcp.options.mptcp.echo"],
    )
    .expect("tshark");
    assert_eq!(address, [["10.2.2.1", "0"], ["10.2.2.1", "1"]]);
}

#[test]
fn mappings_cover_the_transfer_once_and_in_full() {
    let (_folder, file) = written(TWO_PATHS);
    let fields = [
        "tcp.options.mptcp.rawdataseqno",
        "tcp.options.mptcp.datalvllen",
        "tcp.len",
        "ip.src",
    ];
    let Some(data) = tshark(&file, "tcp.len > 0 && tcp.srcport == 5001", &fields) else {
        return;
    };
    let mut ranges: Vec<(u64, u64)> = data
        .iter()
        .map(|p| {
            let (start, len): (u64, u64) = (
                p[0].parse().expect("a number"),
                p[1].parse().expect("a number"),
            );
            assert_eq!(p[1], p[2], "a mapping a segment");
            (start, start + len)
        })
        .collect();
    ranges.sort_unstable();
    let first = ranges[0].0;
    let mut end = first;
    for (start, stop) in ranges {
        assert!(start <= end, "a hole before {start}");
        end = end.max(stop);
    }
    assert_eq!(end - first, 1_000_001);
    // The last data-level acknowledgement is the end of it.
    let acks = tshark(
        &file,
        "tcp.dstport == 5001 && tcp.options.mptcp.rawdataack",
        &["tcp.options.mptcp.rawdataack"],
    )
    .expect("tshark");
    let last = acks
        .iter()
        .map(|a| a[0].parse::<u64>().expect("a number"))
        .max();
    assert_eq!(last, Some(end));
}

#[test]
fn plain_tcp_has_no_multipath_options() {
    let text = TWO_PATHS.replace(
        "paths = [\"wifi\", \"lte\"]\n",
        "paths = [\"wifi\"]\nprotocol = \"tcp\"\n",
    );
    let (_folder, file) = written(&text);
    let Some(all) = tshark(&file, "tcp", &["tcp.stream", "tcp.options.mptcp.subtype"]) else {
        return;
    };
    assert!(all.len() > 500);
    assert!(all
        .iter()
        .all(|p| p[0] == "0" && p.get(1).is_none_or(String::is_empty)));
}

#[test]
fn the_same_run_gives_the_same_file() {
    assert_eq!(capture(TWO_PATHS), capture(TWO_PATHS));
}

/// A full segment is a packet of 1500 bytes, whatever options it carries, and nothing is longer.
#[test]
fn packets_are_as_long_as_simulated() {
    for text in [
        TWO_PATHS.to_owned(),
        TWO_PATHS.replace(
            "paths = [\"wifi\", \"lte\"]\n",
            "paths = [\"wifi\"]\nprotocol = \"tcp\"\n",
        ),
    ] {
        let (_folder, file) = written(&text);
        let Some(all) = tshark(&file, "tcp", &["frame.len", "ip.len", "tcp.len"]) else {
            return;
        };
        assert!(all.iter().all(|p| p[0] == p[1]));
        let longest = all
            .iter()
            .map(|p| p[1].parse::<u32>().expect("a length"))
            .max();
        assert_eq!(longest, Some(1500));
        let full = all.iter().filter(|p| p[1] == "1500").count();
        assert!(full > 600, "{full} full segments");
    }
}
