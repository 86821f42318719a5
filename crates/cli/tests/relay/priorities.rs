//! Priorities of links that change while flows are open: they hold for the connections that are there, in both directions.

use std::collections::BTreeSet;
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::thread::JoinHandle;

use crate::hosts::{until, Hosts, PUBLIC};
use crate::namespace::sh;
use crate::program::{get, put};
use crate::rules::both_paths_open;

const MB: u64 = 1_000_000;
const ENDLESS: u64 = 1 << 40;

/// A download and an upload that go on until they are dropped.
struct Streams {
    sockets: [TcpStream; 2],
    threads: Vec<JoinHandle<String>>,
}

impl Streams {
    fn open(hosts: &Hosts) -> Streams {
        let connect = || hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap());
        let sockets = [connect(), connect()];
        let [down, up] = sockets.each_ref().map(|s| s.try_clone().unwrap());
        Streams {
            sockets,
            threads: vec![
                std::thread::spawn(|| get(down, ENDLESS, &mut |_| ())),
                std::thread::spawn(|| put(up, ENDLESS)),
            ],
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Bytes of streams that a link has brought, and carried away.
fn carried(hosts: &Hosts, link: &str) -> [u64; 2] {
    let link = hosts.link(link);
    ["received_bytes", "sent_bytes"].map(|way| link[way].as_u64().unwrap())
}

/// The same of the LTE, while the Wi-Fi carries 2 MB and more each way.
fn carried_by_lte(hosts: &Hosts) -> [u64; 2] {
    let (wifi, lte) = (carried(hosts, "wifi"), carried(hosts, "lte"));
    until("the Wi-Fi carries both", || {
        let now = carried(hosts, "wifi");
        now[0] >= wifi[0] + 2 * MB && now[1] >= wifi[1] + 2 * MB
    });
    let now = carried(hosts, "lte");
    [now[0] - lte[0], now[1] - lte[1]]
}

/// The device's ends of connections to the relay over the LTE.
fn over_lte(hosts: &Hosts) -> BTreeSet<String> {
    let all = hosts.in_device(|| sh("ss -HtnOi state established src 10.77.2.1"));
    let bytes = |line: &str, key: &str| {
        let value = line.split_whitespace().find_map(|f| f.strip_prefix(key));
        value.map_or(0, |value| value.parse::<u64>().unwrap())
    };
    // Not those that wait to be used.
    let carry =
        |line: &&str| bytes(line, "bytes_sent:").max(bytes(line, "bytes_received:")) > MB / 20;
    let local = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    all.lines().filter(carry).filter_map(local).collect()
}

#[test]
fn a_changed_rule_reaches_open_connections_in_both_directions() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let scheduler = "scheduler = \"round-robin\"";
    hosts.configure(scheduler, "");
    hosts.up(&[]);
    let _streams = Streams::open(&hosts);
    let uses_lte = || carried_by_lte(&hosts).iter().all(|bytes| *bytes > MB / 10);
    until("both links carry both", uses_lte);
    let before = over_lte(&hosts);
    hosts.configure(scheduler, "[interfaces]\nlte.rule = \"metered\"");
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    until("the backup carries nothing", || {
        carried_by_lte(&hosts) == [0, 0]
    });
    assert_eq!(hosts.link("lte")["state"], "backup");
    let after = over_lte(&hosts);
    assert!(after.is_superset(&before), "{before:?} {after:?}");
    hosts.configure(scheduler, "");
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    until("both links carry both again", uses_lte);
    let after = over_lte(&hosts);
    assert!(after.is_superset(&before), "{before:?} {after:?}");
}

/// Of packets of a small flow: sent again on another path by the device, and by the relay.
fn copies(hosts: &Hosts, client: &UdpSocket, server: &UdpSocket) -> [u64; 2] {
    let counted = || {
        let lane = &hosts.relay_status()["datagrams"];
        ["copies", "duplicates"].map(|name| lane[name].as_u64().unwrap())
    };
    let before = counted();
    for _ in 0..5 {
        client.send(b"?").unwrap();
        let (_, from) = server.recv_from(&mut [0; 10]).unwrap();
        server.send_to(b"!", from).unwrap();
        client.recv(&mut [0; 10]).unwrap();
    }
    let now = counted();
    [now[0] - before[0], now[1] - before[1]]
}

#[test]
fn a_changed_rule_reaches_the_open_paths_of_the_datagram_lane_at_both_ends() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    both_paths_open(&hosts);
    let server = hosts.in_relay(|| UdpSocket::bind("198.51.100.2:7007").unwrap());
    let client = hosts.in_device(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect("198.51.100.2:7007").unwrap();
        socket
    });
    let both_copy = || {
        copies(&hosts, &client, &server)
            .iter()
            .all(|count| *count > 0)
    };
    // A new connection would count from 0.
    let sent = || -> Vec<u64> {
        let paths = hosts.relay_status()["datagrams"]["paths"].clone();
        let paths = paths.as_array().unwrap().iter();
        paths.map(|path| path["sent"].as_u64().unwrap()).collect()
    };
    until("both ends copy", both_copy);
    let before = sent();
    hosts.configure("", "[interfaces]\nlte.rule = \"metered\"");
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    until("neither end copies to the backup", || {
        copies(&hosts, &client, &server) == [0, 0]
    });
    hosts.configure("", "");
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    until("both ends copy again", both_copy);
    let after = sent();
    assert!(
        before.iter().zip(&after).all(|(b, a)| b < a),
        "{before:?} {after:?}"
    );
}

#[test]
fn ms_ucb_of_the_daemon_sets_one_link_of_the_relay_to_backup() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.configure("", "[awareness]\npolicy = \"ms-ucb\"");
    hosts.up(&[]);
    let states = || {
        let links = ["wifi", "lte"].map(|link| hosts.link(link));
        links.map(|link| match link["state"].as_str() {
            Some("backup") => {
                assert!(link["why"].as_str().unwrap().contains("MS-UCB"), "{link}");
                true
            }
            _ => false,
        })
    };
    let polls = || hosts.multipilot(&["status", "--json"]).json()["polls"].as_u64();
    let before = polls();
    until("it has polled the links", || polls() > before);
    assert_eq!(states(), [false, false], "no flow, no choice");
    let _streams = Streams::open(&hosts);
    // Which one is the bandit's to judge: crates/policy tests that the better one wins.
    until("one of the two is in backup", || {
        let [wifi, lte] = states();
        wifi != lte
    });
    // Without the policy both carry data.
    hosts.configure("", "");
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    until("no link is in backup", || states() == [false, false]);
}
