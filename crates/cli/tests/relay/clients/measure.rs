//! iperf3, ping and traceroute.

use std::process::Command;

use serde_json::Value;

use super::{installed, on_device, serve, MB, SERVER};
use crate::datagrams::both_paths;
use crate::hosts::Hosts;

#[test]
fn iperf3_measures_streams_and_datagrams() {
    if !installed(&["iperf3"]) {
        return;
    }
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&["--scheduler", "round-robin"]);
    both_paths(&hosts);
    let end = |words: &str| -> Value {
        // One server for each: between two tests it resets a client that is already in its queue.
        let mut server = Command::new("iperf3");
        let _served = serve(&hosts, server.args(["-s", "-1", "-B", SERVER[0]]), 5201);
        let mut client = Command::new("iperf3");
        client.args(["-J", "-c", SERVER[0]]).args(words.split(' '));
        let said: Value = serde_json::from_str(&on_device(&hosts, &mut client)).unwrap();
        assert_eq!(said["error"], Value::Null, "{words}");
        said["end"].clone()
    };
    // Uploads end with the time: the sockets take megabytes at once.
    for (words, streams, least) in [
        ("-t 1", 1, MB / 10),
        ("-R -n 4M", 1, 4 * MB),
        ("-P 32 -t 1", 32, MB / 10),
        ("-R -P 32 -n 4M", 32, 4 * MB),
    ] {
        let end = end(words);
        assert_eq!(end["streams"].as_array().unwrap().len(), streams, "{words}");
        let received = end["sum_received"]["bytes"].as_u64().unwrap();
        assert!(received >= least, "{words}: {received}");
    }
    // Without a length it takes that of the segments of its connection, some 64 KiB.
    for (words, least) in [
        ("-u -l 1200 -b 4M -t 1", 100),
        ("-u -l 1200 -R -b 4M -t 1", 100),
        ("-u -b 4M -t 2", 5),
        ("-u -R -b 4M -t 2", 5),
    ] {
        let sum = end(words)["sum"].clone();
        let [packets, lost] = ["packets", "lost_packets"].map(|of| sum[of].as_u64().unwrap());
        // The path of a bulk flow's packet may be lost with it; a busy machine loses some.
        assert!(packets > least && lost < packets / 2, "{words}: {sum}");
    }
}

#[test]
fn ping_and_traceroute_see_what_is_behind_the_relay() {
    if !installed(&["ping", "traceroute"]) {
        return;
    }
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.check_sources();
    let _router = hosts.router();
    hosts.up(&[]);
    both_paths(&hosts);
    for there in SERVER {
        let mut ping = Command::new("ping");
        let said = on_device(&hosts, ping.args(["-c", "3", "-i", "0.2", there]));
        assert!(said.contains(" 3 received, 0% packet loss"), "{said}");
        assert!(!said.contains("DUP"), "{said}");
        let mut long = Command::new("ping");
        let said = on_device(
            &hosts,
            long.args(["-c", "3", "-i", "0.2", "-s", "9000", there]),
        );
        assert!(said.contains(" 3 received, 0% packet loss"), "{said}");
    }
    for (there, router) in [
        ("198.51.100.200", "198.51.100.130"),
        ("2001:db8:99:2::9", "2001:db8:99:1::2"),
    ] {
        let mut trace = Command::new("traceroute");
        trace.args(["-I", "-n", "-q", "1", "-m", "1", "-w", "30", there]);
        let said = on_device(&hosts, &mut trace);
        let first = said.lines().last().unwrap().trim();
        assert!(first.starts_with(&format!("1  {router}  ")), "{said}");
    }
    // Without -I it probes by UDP, which loses its hop limit: the target answers at once, that nobody listens there.
    for there in SERVER {
        let mut trace = Command::new("traceroute");
        let said = on_device(&hosts, trace.args(["-n", "-q", "1", "-w", "30", there]));
        let hops: Vec<_> = said.lines().skip(1).map(str::trim).collect();
        assert!(
            hops.len() == 1 && hops[0].starts_with(&format!("1  {there}  ")),
            "{said}"
        );
    }
}
