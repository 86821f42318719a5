//! Every link is gone for a while, or the device sleeps: connections go on, and end at both sides when the time for that is over.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::PATIENCE;
use crate::datagrams::{connect, echo, ECHO};
use crate::hosts::{until, Hosts, PUBLIC};
use crate::namespace::sh;
use crate::program::get;
use crate::traffic::in_the_middle;

/// Longer than the shortest time that any of these tests asks for, and much shorter than the longest.
const AWAY: Duration = Duration::from_secs(4);
const SHORT: &str = "1s";

/// No link is up, and the relay knows that its connections are over.
fn part(hosts: &Hosts) {
    [1, 2].iter().for_each(|link| hosts.set_link(*link, "down"));
    until("the relay has no connection of the device", || {
        let killed = "ss --no-header -tKn state established src 10.99.0.1";
        hosts.in_relay(|| sh(killed));
        hosts.in_relay(|| sh(&killed.replace('K', ""))).is_empty()
    });
}

fn meet(hosts: &Hosts) {
    for link in [1, 2] {
        hosts.set_link(link, "up");
        hosts.route(link);
    }
}

/// A connection through the proxy, at both of its ends.
fn pair(hosts: &Hosts) -> (TcpStream, TcpStream) {
    let listener = hosts.in_relay(|| TcpListener::bind("10.99.0.2:0").unwrap());
    let there = listener.local_addr().unwrap().to_string();
    let mut program = hosts.through_socks(&there).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for end in [&program, &server] {
        end.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    says(&mut program, &mut server);
    says(&mut server, &mut program);
    (program, server)
}

fn says(one: &mut TcpStream, other: &mut TcpStream) {
    one.write_all(b"hello").unwrap();
    let mut heard = [0; 5];
    other.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

fn end(stream: &mut TcpStream) -> ErrorKind {
    stream.read(&mut [0; 9]).unwrap_err().kind()
}

/// It has neither ended nor anything to say.
#[track_caller]
fn is_quiet(stream: &mut TcpStream) {
    stream.set_nonblocking(true).unwrap();
    assert_eq!(end(stream), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
}

#[test]
fn flows_outlast_an_outage_of_every_link() {
    in_the_middle(|hosts| {
        part(hosts);
        thread::sleep(AWAY);
        meet(hosts);
    });
}

#[test]
fn a_captured_host_goes_on_after_an_outage_of_every_link() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    echo(&hosts, ECHO[0]);
    hosts.up(&["--hold", "1min"]);
    let size = 8_000_000;
    let stream = hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap());
    let udp = connect(&hosts, ECHO[0]);
    let received = AtomicU64::new(0);
    thread::scope(|scope| {
        let download = scope.spawn(|| {
            let mut seen = |at| received.store(at, Ordering::Relaxed);
            get(stream, size, &mut seen)
        });
        until("some of it is there", || {
            received.load(Ordering::Relaxed) > size / 8
        });
        part(&hosts);
        thread::sleep(AWAY);
        meet(&hosts);
        assert_eq!(download.join().unwrap(), "whole");
    });
    udp.set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    until("UDP is answered again", || {
        udp.send(b"who is there?").is_ok() && udp.recv(&mut [0; 100]).is_ok()
    });
}

#[test]
fn a_device_that_gives_up_tells_its_program_at_once_and_the_relay_when_it_can() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    hosts.socks(&["--hold", SHORT]);
    let (mut program, mut server) = pair(&hosts);
    part(&hosts);
    assert_eq!(end(&mut program), ErrorKind::ConnectionReset);
    is_quiet(&mut server);
    meet(&hosts);
    assert_eq!(end(&mut server), ErrorKind::ConnectionReset);
}

#[test]
fn a_program_that_ends_meanwhile_is_not_forgotten() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    hosts.socks(&[]);
    let (program, mut server) = pair(&hosts);
    let (mut other, mut kept) = pair(&hosts);
    // What it has not read makes its end a reset.
    server.write_all(b"unread").unwrap();
    until("it is there", || program.peek(&mut [0; 9]).is_ok());
    part(&hosts);
    drop(program);
    other.write_all(b"hello").unwrap();
    thread::sleep(AWAY);
    meet(&hosts);
    assert_eq!(end(&mut server), ErrorKind::ConnectionReset);
    let mut heard = [0; 5];
    kept.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    says(&mut kept, &mut other);
}

#[test]
fn a_relay_that_gives_up_tells_the_server_at_once_and_the_device_when_it_comes_back() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let elsewhere = "10.99.0.1:8443";
    hosts.line = hosts.start_relay(elsewhere, &["--allow=10.0.0.0/8", "--hold", SHORT]);
    hosts.socks(&[]);
    let (mut program, mut server) = pair(&hosts);
    part(&hosts);
    assert_eq!(end(&mut server), ErrorKind::ConnectionReset);
    is_quiet(&mut program);
    meet(&hosts);
    assert_eq!(end(&mut program), ErrorKind::ConnectionReset);
}

#[test]
fn a_relay_that_was_restarted_resets_the_flows_of_before() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    hosts.socks(&[]);
    let (mut program, _server) = pair(&hosts);
    part(&hosts);
    hosts.kill_relay();
    hosts.restart_relay();
    is_quiet(&mut program);
    meet(&hosts);
    assert_eq!(end(&mut program), ErrorKind::ConnectionReset);
}

/// What the relay has closed while the device slept the device does not know. The relay alone has something to say.
#[test]
fn a_device_that_has_slept_comes_back_by_itself() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    hosts.socks(&[]);
    let (mut program, mut server) = pair(&hosts);
    hosts.signal(false, Signal::STOP);
    part(&hosts);
    meet(&hosts);
    // Longer than a busy host lets a process wait.
    thread::sleep(2 * AWAY);
    hosts.signal(false, Signal::CONT);
    let woken = Instant::now();
    says(&mut server, &mut program);
    // The keepalive of TCP would find out after 30 s from the last byte on.
    let took = woken.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    says(&mut program, &mut server);
}
