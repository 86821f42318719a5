//! A NAT on each link that forgets its bindings, as a home router's does with a restart.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::datagrams::{both_paths, call, connect, lane, ready, ECHO};
use crate::hosts::{until, Hosts, LINKS};
use crate::traffic::in_the_middle;

const MB: u64 = 1_000_000;

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

#[test]
fn nats_that_forget_their_bindings_do_not_break_flows() {
    in_the_middle(|hosts| {
        for (key, strict) in [(0x100, false), (0x300, true)] {
            Nat::new(hosts, key, strict).take_over(hosts);
            let began = Instant::now();
            let before = [1, 2].map(|link| hosts.carried(link));
            until("both links are used again", || {
                let links = [1, 2].into_iter().zip(before);
                links.fold(true, |all, (link, before)| {
                    all && hosts.carried(link) > before + MB / 2
                })
            });
            // Left to TCP, a strict one would take 30 s.
            assert!(
                began.elapsed() < Duration::from_secs(28),
                "{:?}",
                began.elapsed()
            );
        }
    });
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
