//! A NAT on each link that forgets its bindings, as a home router's does with a restart.

use std::cell::Cell;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::datagrams::{both_paths, call, connect, lane, ready, ECHO};
use crate::hosts::{until, Hosts, LINKS, PUBLIC};
use crate::program::get;
use crate::rules::both_paths_open;
use crate::traffic::in_the_middle_of;

struct Nat([(&'static str, PathBuf); 2]);

impl Nat {
    /// The ports that it gives are the devices' by this key. Of a strict one nobody gets a reset.
    fn new(hosts: &Hosts, key: u16, strict: bool) -> Nat {
        Nat([("egress", 0), ("ingress", 2)].map(|(way, port)| {
            let defines = [
                format!("-DKEY={key}"),
                format!("-DPORT={port}"),
                format!("-DSTRICT={}", u8::from(strict)),
            ];
            let object = hosts.path(&format!("nat-{way}-{key}.o"));
            hosts.compile("nat", &defines, &object);
            (way, object)
        }))
    }

    fn take_over(&self, hosts: &Hosts) {
        for (way, object) in &self.0 {
            for link in LINKS {
                hosts.filter(link, way, object);
            }
        }
    }
}

fn rebind_in_the_middle(strict: bool) {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let nat = Nat::new(&hosts, 0x100, strict);
    let began = Cell::new(None);
    in_the_middle_of(&mut hosts, 12_000_000, |hosts| {
        nat.take_over(hosts);
        began.set(Some(Instant::now()));
    });
    // Left to TCP, connections that nobody resets would take 30 s to end.
    let took = began.get().unwrap().elapsed();
    assert!(took < Duration::from_secs(28), "{took:?}");
}

#[test]
fn connections_that_a_nat_has_forgotten_are_replaced() {
    rebind_in_the_middle(false);
}

#[test]
fn connections_that_are_dropped_without_a_word_are_replaced() {
    rebind_in_the_middle(true);
}

/// Its opener goes over connections that were ready, and of whose end nobody has heard.
#[test]
fn a_new_flow_does_not_wait_for_connections_that_are_dropped_without_a_word() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let nat = Nat::new(&hosts, 0x100, true);
    hosts.up(&[]);
    both_paths_open(&hosts);
    nat.take_over(&hosts);
    let began = Instant::now();
    let stream = hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap());
    assert_eq!(get(stream, 1000, &mut |_| ()), "whole");
    // Left to TCP, they would take 30 s to end.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

#[test]
fn a_call_goes_on_from_other_ports() {
    let Some(hosts) = ready() else { return };
    let nats = [0x100, 0x300].map(|key| Nat::new(&hosts, key, true));
    let arrived = call(&hosts, 150, |number| match number {
        50 => nats[0].take_over(&hosts),
        100 => nats[1].take_over(&hosts),
        _ => {}
    });
    assert_eq!(arrived, 150);
    let socket = connect(&hosts, ECHO[0]);
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    until("answers come to the new ports", || {
        socket.send(b"who is there?").unwrap();
        socket.recv(&mut [0; 100]).is_ok()
    });
    both_paths(&hosts);
    until("neither path is silent", || {
        let lane = lane(&hosts);
        let paths = lane["paths"].as_array().unwrap();
        paths.iter().all(|path| path["stale"] == false)
    });
}
