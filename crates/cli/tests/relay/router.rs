//! The device as a router: hosts behind it reach the relay too.

use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;

use mp_kernel::choose::inside;
use serde_json::json;

use crate::common::PATIENCE;
use crate::datagrams::{both_paths, echo, lane};
use crate::hosts::{Hosts, PUBLIC};
use crate::namespace::Namespace;
use crate::program::get;

const MB: u64 = 1_000_000;

/// In the device's LAN, with the device for its router.
fn client(hosts: &Hosts) -> Namespace {
    let client = Namespace::new("c");
    let name = &client.0;
    hosts.on_device(&format!(
        "ip link add lan type veth peer name lan netns {name}
         ip address add 192.168.7.1/24 dev lan
         ip address add fd07::1/64 dev lan nodad
         ip link set lan up
         ip -n {name} address add 192.168.7.9/24 dev lan
         ip -n {name} address add fd07::9/64 dev lan nodad
         ip -n {name} link set lan up
         ip -n {name} route add default via 192.168.7.1
         ip -n {name} route add default via fd07::1
         echo 1 > /proc/sys/net/ipv4/ip_forward
         echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"
    ));
    client
}

#[test]
fn who_is_forwarded_for_without_the_relay_is_named() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let _client = client(&hosts);
    let unserved =
        |hosts: &Hosts| hosts.multipilot(&["status", "--json"]).json()["relay"]["unserved"].clone();
    let said = hosts.up(&[]).err;
    assert!(
        said.contains("other hosts behind lan reach the network directly"),
        "{said}"
    );
    assert_eq!(unserved(&hosts), json!(["lan"]));
    let told = hosts.multipilot(&["status"]).out;
    assert!(told.contains("--lan lan sends them to the relay"), "{told}");
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    let said = hosts.up(&["--lan", "lan"]).err;
    assert!(!said.contains("behind lan"), "{said}");
    assert_eq!(unserved(&hosts), json!([]));
}

#[test]
fn hosts_of_the_lan_reach_the_relay_too() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let client = client(&hosts);
    let before = hosts.network();
    let echoes = ["198.51.100.2:4000", "[2001:db8:99::2]:4000"];
    echoes.iter().for_each(|address| echo(&hosts, address));
    hosts.on_device("echo 0 > /proc/sys/net/ipv4/ip_forward");
    let said = hosts
        .up(&["--lan", "lan", "--scheduler", "round-robin"])
        .err;
    assert!(said.contains("sysctl -w net.ipv4.ip_forward=1"), "{said}");
    hosts.on_device("echo 1 > /proc/sys/net/ipv4/ip_forward");
    both_paths(&hosts);
    let mut sockets = Vec::new();
    for (address, echo) in PUBLIC.into_iter().zip(echoes) {
        let (stream, socket) = inside(client.file().as_fd(), || {
            let any = if echo.starts_with('[') {
                "[::]:0"
            } else {
                "0.0.0.0:0"
            };
            let socket = UdpSocket::bind(any).unwrap();
            socket.connect(echo).unwrap();
            (TcpStream::connect(address).unwrap(), socket)
        })
        .unwrap();
        let links = [1, 2].map(|link| hosts.carried(link));
        assert_eq!(get(stream, 6 * MB, &mut |_| ()), "whole", "{address}");
        for (link, before) in [1, 2].into_iter().zip(links) {
            let carried = hosts.carried(link) - before;
            assert!(carried > MB / 2, "{address}: link {link}: {carried}");
        }
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send(b"ab").unwrap();
        let mut answer = [0; 10];
        assert_eq!(socket.recv(&mut answer).unwrap(), 2);
        assert_eq!(answer[..2], *b"ba", "{echo}");
        sockets.push(socket);
    }
    assert_eq!(lane(&hosts)["received"], 2);
    // More than the LAN takes at once: IPv6 has to be divided before it comes there.
    let long: Vec<u8> = (0..4000).map(|at| (at * 7 % 251) as u8).collect();
    for (socket, echo) in sockets.iter().zip(echoes) {
        socket.send(&long).unwrap();
        let mut answer = [0; 5000];
        let count = socket.recv(&mut answer).unwrap();
        assert!(
            answer[..count].iter().eq(long.iter().rev()),
            "{echo}: {count}"
        );
    }
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(hosts.network(), before);
    let line = hosts.relay_command(&["--new-device", "foreground"]).out;
    let reply = hosts.multipilot(&["run", "--relay", line.trim(), "--all", "--lan", "wan"]);
    reply.refused(2, "--lan wan: there is no such interface");
}
