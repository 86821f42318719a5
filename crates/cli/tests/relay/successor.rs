//! SIGUSR2, which `systemctl reload` sends: the relay goes on in another process.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mp_testing::Ends;

use crate::datagrams::{ask, connect, ready, ECHO};
use crate::hosts::{until, Hosts, SERVER};
use crate::namespace::sh;
use crate::program::get;
use crate::traffic::in_the_middle_of;

const MB: u64 = 1_000_000;

/// The processes that have the relay's port.
fn listeners(hosts: &Hosts) -> BTreeSet<String> {
    let listed = hosts.in_relay(|| sh("ss --no-header --tcp --listening --processes sport = :443"));
    let pids = listed.split("pid=").skip(1);
    pids.map(|rest| rest.split(',').next().unwrap().to_owned())
        .collect()
}

/// Until the successor alone has the port.
fn reload(hosts: &Hosts) {
    let before = listeners(hosts);
    let [process] = &before.iter().collect::<Vec<_>>()[..] else {
        panic!("{before:?}");
    };
    hosts.in_relay(|| sh(&format!("kill -USR2 {process}")));
    until("another process alone listens", || {
        let now = listeners(hosts);
        now.len() == 1 && now != before
    });
}

fn fetch(hosts: &Hosts) -> String {
    match hosts.through_socks(SERVER) {
        Ok(stream) => get(stream, 1000, &mut |_| {}),
        Err(code) => format!("refused: {code}"),
    }
}

#[test]
fn open_flows_stay_with_their_process_and_new_ones_are_the_successors() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    in_the_middle_of(&mut hosts, 12 * MB, |hosts| {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let fetching = scope.spawn(|| {
                let mut fetched = Vec::new();
                while !is_done.load(Ordering::Relaxed) {
                    fetched.push(fetch(hosts));
                }
                fetched
            });
            let end = Ends(&is_done);
            reload(hosts);
            assert_eq!(fetch(hosts), "whole");
            // A path that comes back is of no use to flows of before, and does not end them.
            hosts.set_link(1, "down");
            hosts.set_link(1, "up");
            hosts.route(1);
            drop(end);
            let fetched = fetching.join().unwrap();
            assert!(fetched.iter().all(|said| said == "whole"), "{fetched:?}");
        });
    });
    assert!(hosts.relay_has_ended().success());
    assert_eq!(fetch(&hosts), "whole");
}

#[test]
fn a_successor_has_successors() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.socks(&[]);
    reload(&hosts);
    assert!(hosts.relay_has_ended().success());
    reload(&hosts);
    assert_eq!(fetch(&hosts), "whole");
}

#[test]
fn udp_is_answered_again() {
    let Some(mut hosts) = ready() else { return };
    let socket = connect(&hosts, ECHO[0]);
    ask(&socket, b"who is there?");
    reload(&hosts);
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    until("it is answered", || {
        socket.send(b"who is there?").is_ok() && socket.recv(&mut [0; 100]).is_ok()
    });
    assert!(hosts.relay_has_ended().success());
    hosts.in_device(|| TcpStream::connect("198.51.100.2:80").unwrap());
}
