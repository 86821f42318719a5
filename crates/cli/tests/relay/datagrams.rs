//! UDP of the host over the relay: who answers, over which links, and what becomes of packets when links misbehave.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use serde_json::Value;

use crate::common::PATIENCE;
use crate::hosts::{until, Hosts, LINKS, RELAY};

/// Behind the relay, of either family.
pub const ECHO: [&str; 2] = ["198.51.100.2:53", "[2001:db8:99::2]:53"];
/// Between two packets of a call.
const GAP: Duration = Duration::from_millis(20);
const AGAIN: Duration = Duration::from_secs(5);

/// Answers every packet with what it says, backwards.
pub fn echo(hosts: &Hosts, address: &str) {
    let socket = hosts.in_relay(|| UdpSocket::bind(address).unwrap());
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            buffer[..count].reverse();
            let _ = socket.send_to(&buffer[..count], from);
        }
    });
}

pub fn connect(hosts: &Hosts, address: &str) -> UdpSocket {
    let there: SocketAddr = address.parse().unwrap();
    let any = if there.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = hosts.in_device(|| {
        let socket = UdpSocket::bind(any).unwrap();
        socket.connect(there).unwrap();
        socket
    });
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Until it is answered: on a busy machine a packet may be lost.
pub fn ask(socket: &UdpSocket, question: &[u8]) {
    let backwards: Vec<u8> = question.iter().rev().copied().collect();
    let mut buffer = vec![0; 1 << 16];
    let patience = socket.read_timeout().unwrap();
    socket.set_read_timeout(Some(AGAIN)).unwrap();
    until("a question is answered", || {
        socket.send(question).unwrap();
        let received = socket.recv(&mut buffer);
        received.is_ok_and(|count| buffer[..count] == backwards)
    });
    socket.set_read_timeout(patience).unwrap();
}

/// What `status` says of UDP.
pub fn lane(hosts: &Hosts) -> Value {
    let reply = hosts.multipilot(&["status", "--json"]);
    let status: Value = serde_json::from_str(&reply.out).unwrap();
    status["relay"]["datagrams"].clone()
}

pub fn both_paths(hosts: &Hosts) {
    until("both paths are open, with all the room they have", || {
        let lane = lane(hosts);
        let paths = lane["paths"].as_array().unwrap();
        paths.len() == 2
            && paths
                .iter()
                .all(|path| path["largest"].as_u64().unwrap() > 1300)
    });
}

/// Two links, a relay, and an echo behind it; the device's UDP goes there.
pub fn ready() -> Option<Hosts> {
    let mut hosts = Hosts::new("40mbit")?;
    hosts.check_sources();
    ECHO.iter().for_each(|address| echo(&hosts, address));
    hosts.up(&[]);
    both_paths(&hosts);
    Some(hosts)
}

/// Packets with numbers, 20 ms apart; how many came to the other end. `happens` hears of each before it is sent.
pub fn call(hosts: &Hosts, packets: u32, mut happens: impl FnMut(u32)) -> usize {
    let there = "198.51.100.2:4000";
    let server = hosts.in_relay(|| UdpSocket::bind(there).unwrap());
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let client = connect(hosts, there);
    let heard = std::thread::spawn(move || {
        let mut heard = Vec::new();
        let mut buffer = [0; 2000];
        // The last one is sent again and again: it cannot be lost.
        while heard.last() != Some(&packets) {
            let count = server.recv(&mut buffer).unwrap();
            assert_eq!(count, 172);
            heard.push(u32::from_be_bytes(buffer[..4].try_into().unwrap()));
        }
        heard
    });
    let mut packet = [0; 172];
    for number in 0..packets {
        happens(number);
        packet[..4].copy_from_slice(&number.to_be_bytes());
        client.send(&packet).unwrap();
        std::thread::sleep(GAP);
    }
    packet[..4].copy_from_slice(&packets.to_be_bytes());
    until("the end arrives", || {
        client.send(&packet).unwrap();
        heard.is_finished()
    });
    let mut heard = heard.join().unwrap();
    heard.pop();
    let all = heard.len();
    heard.sort_unstable();
    heard.dedup();
    assert_eq!(heard.len(), all, "no copy reaches the program");
    all
}

#[test]
fn a_query_is_copied_and_answered_once() {
    let Some(hosts) = ready() else { return };
    for (number, address) in (1..).zip(ECHO) {
        let socket = connect(&hosts, address);
        let before = [1, 2].map(|link| hosts.carried(link));
        ask(&socket, b"who is there?");
        until("the second copies come", || {
            let lane = lane(&hosts);
            let counts = ["sent", "copies", "received", "duplicates", "dropped"];
            let [sent, copies, received, duplicates, dropped] =
                counts.map(|name| lane[name].as_u64().unwrap());
            // A query that stays without an answer is asked again.
            sent >= number && copies == sent && duplicates == received && dropped == 0
        });
        for (link, before) in [1, 2].into_iter().zip(before) {
            assert!(hosts.carried(link) > before, "link {link}");
        }
        socket
            .set_read_timeout(Some(Duration::from_millis(10)))
            .unwrap();
        let more = socket.recv(&mut [0; 100]).map_err(|e| e.kind());
        assert_eq!(more, Err(ErrorKind::WouldBlock));
    }
    let table = hosts.multipilot(&["status"]).out;
    assert!(table.contains("direct: nothing; leak direct"), "{table}");
    assert!(
        table
            .contains("UDP and ICMP: 2 flows; packets: 2 sent, 2 copies, 2 received, 2 duplicates"),
        "{table}"
    );
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

#[test]
fn refusals_and_what_fits_reach_the_program() {
    let Some(hosts) = ready() else { return };
    let largest = lane(&hosts)["paths"][0]["largest"].as_u64().unwrap() as usize;
    for (echo, closed) in ECHO
        .into_iter()
        .zip(["198.51.100.2:9", "[2001:db8:99::2]:9"])
    {
        let socket = connect(&hosts, closed);
        socket.send(b"?").unwrap();
        let refused = socket.recv(&mut [0; 10]).map_err(|e| e.kind());
        assert_eq!(refused, Err(ErrorKind::ConnectionRefused), "{closed}");

        let socket = connect(&hosts, echo);
        ask(&socket, &vec![7; largest]);
        // Ethernet takes it, no path does.
        socket.send(&[7; 1450]).unwrap();
        let error = socket.recv(&mut [0; 10]).map_err(|e| e.raw_os_error());
        assert_eq!(error, Err(Some(90)), "EMSGSIZE: {echo}");
    }
    assert_eq!(lane(&hosts)["too_big"], 2);
}

#[test]
fn packets_that_ethernet_would_fragment_arrive_whole() {
    let Some(hosts) = ready() else { return };
    // Longer than four segments of the largest path MTU, and the longest there is.
    for (echo, longest) in ECHO.into_iter().zip([65_507, 65_487]) {
        let socket = connect(&hosts, echo);
        for length in [3000, longest] {
            let question: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
            ask(&socket, &question);
        }
        // From now on the kernel knows the path MTU, and fragments.
        socket.send(&[7; 1450]).unwrap();
        let error = socket.recv(&mut [0; 10]).map_err(|e| e.raw_os_error());
        assert_eq!(error, Err(Some(90)), "EMSGSIZE: {echo}");
        ask(&socket, &[7; 1450]);
        ask(&socket, &[7; 5000]);
    }
    assert_eq!(lane(&hosts)["dropped"], 0);
}

/// The numbers of its packets begin again then.
#[test]
fn a_flow_that_the_relay_has_forgotten_is_answered_again() {
    let Some(mut hosts) = ready() else { return };
    let socket = connect(&hosts, ECHO[0]);
    for _ in 0..300 {
        ask(&socket, b"who is there?");
    }
    let fresh = |path: &Value| path["sent"].as_u64().unwrap() < 100;
    assert!(!fresh(&lane(&hosts)["paths"][0]));
    hosts.kill_relay();
    hosts.restart_relay();
    until("the lane has connected anew", || {
        let lane = lane(&hosts);
        let paths = lane["paths"].as_array().unwrap();
        !paths.is_empty() && paths.iter().all(fresh)
    });
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut asked = 0;
    until("it is answered", || {
        let sent = socket.send(b"who is there?");
        asked += u32::from(sent.is_ok());
        socket.recv(&mut [0; 100]).is_ok()
    });
    // Well before its numbers reach those of before.
    assert!(asked < 200, "{asked}");
}

#[test]
fn status_shows_the_flows_that_carry_most() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    ECHO.iter().for_each(|address| echo(&hosts, address));
    hosts.up(&["--scheduler", "round-robin"]);
    both_paths(&hosts);
    let mut stream = hosts.in_device(|| TcpStream::connect("198.51.100.2:80").unwrap());
    stream.write_all(b"get 50000000\n").unwrap();
    stream.read_exact(&mut vec![0; 6_000_000]).unwrap();
    let (small, bulk) = (connect(&hosts, ECHO[0]), connect(&hosts, ECHO[1]));
    ask(&small, b"who is there?");
    let shown = |target: &str| {
        let status = hosts.relay_status();
        let flows = status["busiest_flows"].as_array().unwrap().clone();
        flows.into_iter().find(|flow| flow["target"] == target)
    };
    let both = |flow: &Value| {
        let paths = flow["paths"].as_array().unwrap();
        let links: Vec<_> = paths.iter().map(|path| path["link"].clone()).collect();
        let shares = paths.iter().map(|path| path["share"].as_f64().unwrap());
        let (least, sum) = shares.fold((1.0f64, 0.0), |(least, sum), s| (least.min(s), sum + s));
        links.len() == 2
            && LINKS.iter().all(|link| links.contains(&(*link).into()))
            && least > 0.1
            && (sum - 1.0).abs() < 1e-6
    };
    for (target, lane, class, why) in [
        (
            "198.51.100.2:80",
            "stream",
            "stream",
            "round-robin chooses the path of each segment",
        ),
        (
            ECHO[0],
            "datagram",
            "copied",
            "small: each packet goes over every path",
        ),
        (
            ECHO[1],
            "datagram",
            "bulk",
            "over 3 Mbit/s: round-robin chooses the path of each packet",
        ),
    ] {
        let mut flow = Value::Null;
        until("status shows the flow, on both links", || {
            // Again and again: quiet, or slower than 3 Mbit/s on a busy machine, it would be a small one.
            for _ in 0..400 {
                bulk.send(&[7; 1200]).unwrap();
            }
            flow = shown(target).unwrap_or_default();
            !flow.is_null() && both(&flow) && flow["class"] == class
        });
        assert_eq!(flow["lane"], lane, "{flow}");
        assert_eq!(flow["class"], class, "{flow}");
        assert_eq!(flow["why"], why, "{flow}");
    }
    let table = hosts.multipilot(&["status"]).out;
    assert!(
        table.contains("\nflow to ") && table.contains("small: each packet"),
        "{table}"
    );
    drop(stream);
    until("the stream's row ends with it", || {
        shown("198.51.100.2:80").is_none()
    });
}

#[test]
fn a_call_survives_loss_on_both_paths() {
    let Some(hosts) = ready() else { return };
    let object = hosts.path("loss.o");
    hosts.compile("loss", &[], &object);
    for link in LINKS {
        hosts.filter(link, "egress", &object);
    }
    let arrived = call(&hosts, 500, |_| ());
    // Both copies of one packet in 400: 1.25 of 500. More than 15 come once in 10^12 calls; a single path loses 25.
    assert!(arrived >= 485, "{arrived} of 500");
    let lost = |path: usize| lane(&hosts)["paths"][path]["lost"].as_u64().unwrap();
    // Fewer than 5 of some 500: once in 10^6, on either.
    assert!(lost(0) >= 5 && lost(1) >= 5, "{} {}", lost(0), lost(1));
    // Once the losses are known, more than one copy.
    let counted = |what: &str| lane(&hosts)[what].as_u64().unwrap();
    let (sent, copies) = (counted("sent"), counted("copies"));
    assert!(copies > sent + 50, "{copies} copies of {sent}");
}

/// As a server of QUIC: 500 packets with numbers, at most 20 Mbit/s, to whoever asks.
fn serve_bulk(hosts: &Hosts, address: &str) {
    let socket = hosts.in_relay(|| UdpSocket::bind(address).unwrap());
    std::thread::spawn(move || {
        while let Ok((_, from)) = socket.recv_from(&mut [0; 100]) {
            for number in 0..500u32 {
                let mut packet = [0; 1100];
                packet[..4].copy_from_slice(&number.to_be_bytes());
                let _ = socket.send_to(&packet, from);
                if number % 2 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    });
}

#[test]
fn what_the_links_lose_of_bulk_to_port_443_is_sent_again() {
    let Some(hosts) = ready() else { return };
    let object = hosts.path("loss.o");
    hosts.compile("loss", &[], &object);
    for link in LINKS {
        hosts.filter(link, "ingress", &object);
    }
    serve_bulk(&hosts, "198.51.100.2:443");
    let client = connect(&hosts, "198.51.100.2:443");
    client.set_read_timeout(Some(AGAIN / 5)).unwrap();
    // Some 60 are copied, and of the others one of 20 is lost: 5 or fewer of them come once in 10,000 downloads.
    until("a download is nearly whole", || {
        client.send(b"all").unwrap();
        let mut packet = [0; 2000];
        let numbers = std::iter::from_fn(|| {
            let count = client.recv(&mut packet).ok()?;
            assert_eq!(count, 1100);
            Some(u32::from_be_bytes(packet[..4].try_into().unwrap()))
        });
        numbers.collect::<std::collections::HashSet<_>>().len() >= 495
    });
}

#[test]
fn a_path_that_dies_in_a_call_costs_no_packet() {
    let Some(hosts) = ready() else { return };
    let arrived = call(&hosts, 150, |number| {
        if number == 50 {
            hosts.silence(1);
        }
    });
    assert_eq!(arrived, 150);
    until("the dead path is known", || {
        let lane = lane(&hosts);
        let paths = lane["paths"].as_array().unwrap();
        paths.len() == 1 || paths[0]["stale"] == true
    });
}

#[test]
fn a_link_that_flaps_and_has_another_address_then_costs_a_call_no_packet() {
    let Some(hosts) = ready() else { return };
    let arrived = call(&hosts, 150, |number| match number {
        30 | 60 => hosts.set_link(1, "down"),
        31 | 70 => {
            hosts.set_link(1, "up");
            hosts.route(1);
        }
        100 => hosts.renumber(1),
        _ => {}
    });
    assert_eq!(arrived, 150);
    both_paths(&hosts);
}

#[test]
fn without_udp_to_the_relay_it_is_direct_or_refused_and_tcp_goes_on() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    // Somebody else has the port, and does not answer.
    let elsewhere = "10.99.0.1:8443";
    let _taken = hosts.in_relay(|| UdpSocket::bind(elsewhere).unwrap());
    hosts.line = hosts.start_relay(elsewhere, &["--allow=198.51.100.0/24"]);
    echo(&hosts, ECHO[0]);
    for leak in ["direct", "block"] {
        hosts.up(&["--leak", leak]);
        let tcp = hosts.in_device(|| std::net::TcpStream::connect("198.51.100.2:80").unwrap());
        assert_eq!(tcp.local_addr().unwrap().ip().to_string(), "198.18.77.1");
        let socket = connect(&hosts, ECHO[0]);
        match leak {
            "direct" => {
                assert_eq!(socket.local_addr().unwrap().ip().to_string(), "10.77.1.1");
                ask(&socket, b"who is there?");
                let table = hosts.multipilot(&["status"]).out;
                assert!(table.contains("direct: UDP, ICMP; leak direct"), "{table}");
            }
            _ => {
                socket.send(b"?").unwrap();
                let refused = socket.recv(&mut [0; 10]).map_err(|e| e.kind());
                assert_eq!(refused, Err(ErrorKind::HostUnreachable));
            }
        }
        assert_eq!(hosts.multipilot(&["down"]).code, 0);
    }
}

/// To every version that it does not speak a QUIC server says which it does, and refuses first packets that are wrong.
#[test]
fn strangers_get_no_packet() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let socket = connect(&hosts, RELAY);
    let padded = |head: &[u8]| [head, &vec![7; 1200 - head.len()]].concat();
    for packet in [
        padded(&[0xc3, 0x1a, 0x2a, 0x3a, 0x4a, 8]),
        padded(&[0xc3, 0, 0, 0, 1, 4]),
        padded(&[0xc3, 0, 0, 0, 1, 20]),
        padded(&[0x43]),
        vec![0x80],
        vec![],
    ] {
        socket.send(&packet).unwrap();
    }
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let answer = socket.recv(&mut [0; 1500]).map_err(|e| e.kind());
    assert_eq!(answer, Err(ErrorKind::WouldBlock));
}
