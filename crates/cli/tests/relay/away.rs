//! The relay out of reach: new connections go out directly, or nowhere, and to the relay again when it answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::datagrams::lane;
use crate::hosts::{until, Hosts, PUBLIC};
use crate::namespace::sh;
use crate::program::get;

const WIFI: &str = "10.77.1.1";

/// The address that a new UDP socket gets: the TUN's where it is led there.
fn own(hosts: &Hosts) -> String {
    let socket = hosts.in_device(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect("198.51.100.2:53").unwrap();
        socket
    });
    socket.local_addr().unwrap().ip().to_string()
}

fn connect(hosts: &Hosts) -> Result<TcpStream, ErrorKind> {
    let there: SocketAddr = PUBLIC[0].parse().unwrap();
    let within = Duration::from_secs(20);
    hosts.in_device(|| TcpStream::connect_timeout(&there, within).map_err(|e| e.kind()))
}

fn source(hosts: &Hosts) -> Result<String, ErrorKind> {
    connect(hosts).map(|stream| stream.local_addr().unwrap().ip().to_string())
}

fn direct(hosts: &Hosts) -> serde_json::Value {
    hosts.multipilot(&["status", "--json"]).json()["relay"]["not_captured"].clone()
}

#[test]
fn without_the_relay_new_connections_are_direct_until_it_is_back() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let before = hosts.network();
    hosts.up(&[]);
    assert_eq!(source(&hosts).as_deref(), Ok("198.18.77.1"));
    assert_eq!(direct(&hosts), serde_json::json!([]));
    hosts.kill_relay();
    until("connections go out directly", || {
        source(&hosts).as_deref() == Ok(WIFI)
    });
    until("all else does too", || {
        own(&hosts) == WIFI && direct(&hosts) == serde_json::json!(["TCP", "UDP", "ICMP"])
    });
    let stream = connect(&hosts).unwrap();
    assert_eq!(get(stream, 100_000, &mut |_| ()), "whole");

    hosts.restart_relay();
    until("connections go to the relay", || {
        source(&hosts).as_deref() == Ok("198.18.77.1")
    });
    until("UDP does too", || own(&hosts) == "198.18.77.1");
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(hosts.network(), before);
}

/// As in a network that lets UDP through for a while.
#[test]
fn udp_that_is_blocked_in_a_session_is_direct_until_it_gets_through_again() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    until("UDP goes to the relay", || own(&hosts) == "198.18.77.1");
    let rule = |change: &str| {
        let blocked = "ipproto udp sport 443 blackhole";
        hosts.in_relay(|| sh(&format!("ip rule {change} {blocked}")));
    };
    rule("add");
    until("UDP goes out directly", || own(&hosts) == WIFI);
    let stream = connect(&hosts).unwrap();
    let source = stream.local_addr().unwrap().ip().to_string();
    assert_eq!(source, "198.18.77.1");
    assert_eq!(get(stream, 100_000, &mut |_| ()), "whole");
    rule("del");
    until("UDP goes to the relay again", || {
        own(&hosts) == "198.18.77.1"
    });
}

#[test]
fn flows_outlast_a_relay_that_is_silent_for_a_while() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    let mut stream = connect(&hosts).unwrap();
    stream.write_all(b"get 30000000\n").unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    [1, 2].iter().for_each(|link| hosts.silence(*link));
    until("the relay is known to be away", || own(&hosts) == WIFI);
    [1, 2].iter().for_each(|link| hosts.unsilence(*link));
    until("it is known to be back", || own(&hosts) == "198.18.77.1");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() >= 30_000_000 - 1000, "{}", rest.len());
}

#[test]
fn blocked_is_blocked_without_the_relay() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&["--leak", "block"]);
    hosts.kill_relay();
    until("no path is left", || {
        lane(&hosts)["paths"].as_array().unwrap().is_empty()
    });
    // Longer than it would take to go out directly.
    assert!(connect(&hosts).is_err());
    assert_eq!(own(&hosts), "198.18.77.1");
    assert_eq!(direct(&hosts), serde_json::json!([]));
}
