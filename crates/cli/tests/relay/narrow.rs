//! A path whose MTU falls while datagrams go over it, and no ICMP says so.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::datagrams::{connect, echo, lane};
use crate::hosts::{until, Hosts};
use crate::namespace::sh;
use crate::traffic::in_the_middle;

/// Which a path of Ethernet takes in one datagram, and a narrow one in parts.
const LONG: usize = 1350;
/// Answers with as many bytes as it is asked for.
const SERVER: &str = "198.51.100.2:4000";
/// On the link itself, and not over the relay.
const BESIDE: &str = "10.77.1.2:4002";
/// Counts what it gets.
const SINK: &str = "198.51.100.2:4001";

fn answer_at_length(hosts: &Hosts) {
    let socket = hosts.in_relay(|| UdpSocket::bind(SERVER).unwrap());
    thread::spawn(move || {
        let mut question = [0; 2000];
        while let Ok((_, from)) = socket.recv_from(&mut question) {
            let length = usize::from(u16::from_be_bytes([question[0], question[1]]));
            let _ = socket.send_to(&question[..length], from);
        }
    });
}

fn count(hosts: &Hosts) -> Arc<AtomicU64> {
    let counted = Arc::new(AtomicU64::new(0));
    let (socket, counting) = (hosts.in_relay(|| UdpSocket::bind(SINK)), counted.clone());
    let socket = socket.unwrap();
    thread::spawn(move || {
        while let Ok(count) = socket.recv(&mut [0; 2000]) {
            counting.fetch_add(u64::from(count == LONG), Ordering::Relaxed);
        }
    });
    counted
}

/// Whether this question, of so many bytes, is answered with so many.
fn is_answered(socket: &UdpSocket, number: u32, [asks, length]: [usize; 2]) -> bool {
    let mut question = vec![7; asks];
    question[..2].copy_from_slice(&(length as u16).to_be_bytes());
    question[2..6].copy_from_slice(&number.to_be_bytes());
    let mut answer = [0; 2000];
    if socket.send(&question).is_err() {
        // What fits, perhaps.
        return false;
    }
    while let Ok(count) = socket.recv(&mut answer) {
        if answer[..6] == question[..6] {
            return count == length;
        }
    }
    false
}

/// A program for one direction of a link.
fn compile(hosts: &Hosts) -> PathBuf {
    let narrow = hosts.path("narrow.o");
    hosts.compile("narrow", &["-DMTU=1280".to_owned()], &narrow);
    narrow
}

/// Without a search for the path MTU TCP is stuck on such a path.
#[test]
fn streams_go_on_over_the_other_path() {
    in_the_middle(|hosts| {
        let narrow = compile(hosts);
        for way in ["egress", "ingress"] {
            hosts.filter("wifi", way, &narrow);
        }
    });
}

#[test]
fn datagrams_go_on_where_the_mtu_falls_without_a_word() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    answer_at_length(&hosts);
    echo(&hosts, BESIDE);
    let arrived = count(&hosts);
    let narrow = compile(&hosts);
    // One path: a copy on another one would hide what happens to the first.
    hosts.set_link(2, "down");
    hosts.up(&[]);
    let path = |what: &str| lane(&hosts)["paths"][0][what].as_u64().unwrap_or(0);
    until("the path has all the room it has", || {
        path("largest") > LONG as u64
    });

    let open = |address: &str| {
        let socket = connect(&hosts, address);
        let patience = Some(Duration::from_millis(200));
        socket.set_read_timeout(patience).unwrap();
        socket
    };
    let (asking, bulk) = (open(SERVER), open(SINK));
    let mut number = 0;
    let mut flows_go = |when: &str| {
        let before = arrived.load(Ordering::Relaxed);
        until(&format!("a bulk flow goes {when}"), || {
            for _ in 0..50 {
                let _ = bulk.send(&[7; LONG]);
            }
            thread::sleep(Duration::from_millis(20));
            arrived.load(Ordering::Relaxed) > before + 500
        });
        // Down alone, both ways, and both ways with what every link takes.
        for lengths in [[10, LONG], [LONG, LONG], [1200, 1200]] {
            until(&format!("{lengths:?} go {when}"), || {
                number += 1;
                is_answered(&asking, number, lengths)
            });
        }
    };
    flows_go("at first");
    let sockets = || {
        let all = hosts.in_device(|| sh("ss --no-header -uan"));
        // Beside the address there are queues.
        let words = all.split_whitespace();
        let own = words.filter(|word| word.contains("%wifi:"));
        own.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = sockets();
    assert_eq!(before.len(), 1, "{before:?}");
    let passes = |length: usize| {
        // A socket of its own, to which no answer comes late.
        let beside = open(BESIDE);
        beside.send(&vec![7; length]).unwrap();
        beside.recv(&mut [0; 2000]).is_ok()
    };
    until("the link takes long packets", || passes(LONG));
    for way in ["egress", "ingress"] {
        hosts.filter("wifi", way, &narrow);
        until("the link takes what every link takes", || passes(1200));
        assert!(!passes(LONG), "{way}");
        flows_go(way);
        // Over the connection of before, and not over one that was opened when that was dead.
        assert_eq!(sockets(), before, "{way}");
        if way == "egress" {
            until("status says what fits", || path("largest") < 1280);
        }
        hosts.on_device(&format!("tc filter del dev wifi {way}"));
    }
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}
