//! The relay in the daemon: its file, and what the rules of the interfaces make of the links.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use crate::hosts::{until, Hosts, PUBLIC, RELAY};
use crate::program::{get, put};

/// Of a packet that may have been lost.
const ASK_AGAIN: Duration = Duration::from_secs(5);

const MB: u64 = 1_000_000;

fn connect(hosts: &Hosts) -> TcpStream {
    hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap())
}

fn download(hosts: &Hosts, bytes: u64) {
    assert_eq!(get(connect(hosts), bytes, &mut |_| ()), "whole");
}

/// Bytes on each link meanwhile.
fn carried(hosts: &Hosts, work: impl FnOnce()) -> [u64; 2] {
    let before = [1, 2].map(|link| hosts.carried(link));
    work();
    let after = [1, 2].map(|link| hosts.carried(link));
    [after[0] - before[0], after[1] - before[1]]
}

pub fn both_paths_open(hosts: &Hosts) {
    until("both paths of the datagram lane are open", || {
        hosts.relay_status()["datagrams"]["paths"]
            .as_array()
            .unwrap()
            .len()
            == 2
    });
}

#[test]
fn a_metered_link_carries_data_only_while_no_other_works() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.configure(
        "scheduler = \"round-robin\"",
        "[interfaces]\nlte.rule = \"metered\"",
    );
    hosts.up(&[]);
    until("the link is a backup", || {
        let lte = hosts.link("lte");
        lte["state"] == "backup" && lte["why"].as_str().unwrap().contains("metered")
    });
    // Longer than a flow waits with a backup link.
    let [wifi, lte] = carried(&hosts, || {
        download(&hosts, 12 * MB);
        assert_eq!(put(connect(&hosts), 12 * MB), "whole");
    });
    // Handshakes, and what keeps connections alive: some 100 kB. More goes there only where this machine stands still for so long
    // that the other link seems to be dead.
    assert!(wifi > 20 * MB && lte < 4 * MB, "{wifi} {lte}");

    both_paths_open(&hosts);
    let server = hosts.in_relay(|| UdpSocket::bind("198.51.100.2:53").unwrap());
    let client = hosts.in_device(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect("198.51.100.2:53").unwrap();
        socket
    });
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(ASK_AGAIN)).unwrap();
    }
    for _ in 0..20 {
        until("it is answered", || {
            client.send(b"?").unwrap();
            let Ok((_, from)) = server.recv_from(&mut [0; 10]) else {
                return false;
            };
            server.send_to(b"!", from).unwrap();
            client.recv(&mut [0; 10]).is_ok()
        });
    }
    let lane = hosts.relay_status()["datagrams"].clone();
    assert!(lane["sent"].as_u64() >= Some(20), "{lane}");
    for copied in ["copies", "duplicates"] {
        assert_eq!(lane[copied], 0, "{lane}");
    }

    // The other one goes in the middle of a download.
    let mut gone = false;
    let result = get(connect(&hosts), 20 * MB, &mut |received| {
        if received > 12 * MB && !std::mem::replace(&mut gone, true) {
            hosts.set_link(1, "down");
        }
    });
    assert_eq!(result, "whole");
    assert!(gone);
    let wifi = hosts.link("wifi");
    assert_eq!(
        (wifi["state"].as_str(), wifi["why"].as_str()),
        (Some("off"), Some("no link"))
    );
    assert!(hosts.carried(2) > 5 * MB);
}

#[test]
fn a_preferred_link_is_filled_first() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.configure("", "[interfaces]\nlte.rule = \"preferred\"");
    hosts.up(&[]);
    until("it is connected", || {
        hosts.link("lte")["state"] == "preferred" && hosts.link("lte")["ready"] == 2
    });
    // A little at a time: without the rule it would go over the first link.
    let listener = hosts.in_relay(|| TcpListener::bind("198.51.100.2:91").unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..30 {
            stream.write_all(&[7; 10_000]).unwrap();
            thread::sleep(Duration::from_millis(100));
        }
    });
    let mut stream = hosts.in_device(|| TcpStream::connect("198.51.100.2:91").unwrap());
    assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 300_000);
    server.join().unwrap();
    let received = |link: &str| hosts.link(link)["received_bytes"].as_u64().unwrap();
    assert!(received("lte") > received("wifi"), "{}", received("wifi"));
    // More than it carries.
    download(&hosts, 12 * MB);
    assert!(received("wifi") > MB / 2, "{}", received("wifi"));
}

#[test]
fn a_limit_takes_a_link_out_of_use_until_it_is_raised() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let limit = |limit: &str| format!("[interfaces]\nlte.limit = \"{limit}/month\"");
    hosts.configure("scheduler = \"round-robin\"", &limit("1MB"));
    hosts.up(&[]);
    let is_out = |hosts: &Hosts| {
        let lte = hosts.link("lte");
        lte["state"] == "off" && lte["why"].as_str().unwrap().contains("limit")
    };
    until("the limit counts", || {
        download(&hosts, 2 * MB);
        is_out(&hosts)
    });
    let month = hosts.link("lte")["month_bytes"].as_u64().unwrap();
    assert!(month > MB, "{month}");
    let table = hosts.multipilot(&["status"]).out;
    assert!(
        table.contains("of 1 it has carried what its limit allows this month"),
        "{table}"
    );
    let [wifi, lte] = carried(&hosts, || download(&hosts, 6 * MB));
    assert!(wifi > 6 * MB && lte < MB / 10, "{wifi} {lte}");

    // Another daemon knows.
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    hosts.up(&[]);
    assert!(is_out(&hosts), "{}", hosts.link("lte"));
    assert!(hosts.link("lte")["month_bytes"].as_u64().unwrap() >= month);
    hosts.configure("scheduler = \"round-robin\"", &limit("1GB"));
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    until("it is connected again", || {
        hosts.link("lte")["state"] == "normal" && hosts.link("lte")["ready"] == 2
    });
    let [_, lte] = carried(&hosts, || download(&hosts, 6 * MB));
    assert!(lte > MB / 2, "{lte}");
}

#[test]
fn the_file_alone_connects_again_and_again_and_a_wrong_one_changes_nothing() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let before = hosts.network();
    let (first, second) = (hosts.path("line"), hosts.path("other"));
    let elsewhere = "10.99.0.1:8443";
    let other = hosts.line.replace(RELAY, elsewhere);
    for (file, line) in [(&first, &hosts.line), (&second, &other)] {
        fs::write(file, format!("{line}\n")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let metrics = "[metrics]\nlisten = \"127.0.0.1:9464\"";
    // Nobody answers there, which keeps nobody from starting.
    hosts.configure(&format!("line-file = {second:?}"), metrics);
    hosts.up_with(&[]);
    until("it says why it has no relay", || {
        let relay = hosts.relay_status();
        let why = relay["why"].as_str().unwrap();
        relay["state"] == "connecting" && why.contains(elsewhere)
    });
    assert_eq!(hosts.network().matches("tun-multipilot").count(), 0);

    hosts.configure(&format!("line-file = {first:?}"), metrics);
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    until("it is connected", || hosts.relay_status()["state"] == "on");
    let mut open = connect(&hosts);
    open.write_all(b"get 20000000\n").unwrap();
    open.read_exact(&mut [0; 1000]).unwrap();

    let config = hosts.path("daemon.toml");
    let check = ["daemon", "--check", config.to_str().unwrap()];
    for (relay, what) in [
        (
            "line-file = \"/nonexistent/line\"".to_owned(),
            "No such file",
        ),
        (
            "scheduler = \"min-rt\"".to_owned(),
            "did you mean \"min-rtt\"?",
        ),
        (format!("line-file = {config:?}"), "chmod 600"),
    ] {
        hosts.configure(&relay, metrics);
        for words in [&check[..], &["reload"]] {
            let reply = hosts.daemon(words);
            assert_eq!(
                (reply.code, reply.err.lines().count()),
                (2, 1),
                "{}",
                reply.err
            );
            assert!(reply.err.contains(what), "{}", reply.err);
        }
    }
    // The same relay all the while, and its flow.
    assert_eq!(hosts.relay_status()["opened"], 1);
    assert_eq!(
        open.read_to_end(&mut Vec::new()).unwrap(),
        20_000_000 - 1000
    );
    let page = hosts.in_device(|| {
        let mut stream = TcpStream::connect("127.0.0.1:9464").unwrap();
        let ask = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(ask.as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    });
    for line in [
        "multipilot_relay_up 1.0",
        "multipilot_relay_flows_opened_total 1",
        "multipilot_relay_link_used{link=\"lte\"} 1.0",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }

    hosts.configure("", metrics);
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    assert!(hosts.relay_status().is_null());
    assert_eq!(hosts.network(), before);
}

#[test]
fn up_hands_a_line_to_the_daemon_that_is_at_work() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let wrong = hosts.line.replace(RELAY, "10.99.0.1:8443");
    // Started for nothing.
    hosts.configure("", "");
    let config = hosts.path("daemon.toml");
    let reply = hosts.multipilot(&[
        "up",
        "--relay",
        &wrong,
        "--config",
        config.to_str().unwrap(),
        "--log",
        "up.log",
    ]);
    assert_eq!(
        (reply.code, reply.err.lines().count()),
        (1, 1),
        "{}",
        reply.err
    );
    assert!(reply.err.contains("relay 10.99.0.1:8443"), "{}", reply.err);
    assert_eq!(hosts.multipilot(&["status"]).code, 1);

    hosts.up_with(&[]);
    let pid = || hosts.multipilot(&["status", "--json"]).json()["pid"].clone();
    let before = pid();
    assert_eq!(hosts.multipilot(&["up", "--relay", &wrong]).code, 1);
    assert!(hosts.relay_status().is_null());
    let reply = hosts.multipilot(&["up", "--relay", &hosts.line, "--leak", "block"]);
    assert_eq!(reply.code, 0, "{}", reply.err);
    assert!(
        reply.err.contains("goes to the relay over wifi, lte"),
        "{}",
        reply.err
    );
    assert_eq!(
        (hosts.relay_status()["leak"].as_str(), pid()),
        (Some("block"), before)
    );
    download(&hosts, 1000);
    // What was asked for outlives a reload.
    assert_eq!(hosts.daemon(&["reload"]).code, 0);
    assert_eq!(hosts.relay_status()["opened"], 1);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

#[test]
fn a_link_that_lets_nothing_through_is_seen() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    both_paths_open(&hosts);
    hosts.silence(1);
    until("the link is known to be dead", || {
        hosts.link("wifi")["state"] == "dead"
    });
    assert_eq!(hosts.link("lte")["state"], "normal");
    download(&hosts, 1000);
}
