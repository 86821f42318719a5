//! DNS of the device: who answers what programs ask resolvers in private ranges.

use crate::datagrams::{ask, connect, echo};
use crate::hosts::{until, Hosts};
use crate::program;

/// On the Wi-Fi, as a home router is. Nobody there answers.
const ROUTER: &str = "10.77.1.2:53";
const ELSEWHERE: &str = "10.99.0.1:8443";

/// A relay whose host has a resolver of its own, which says everything backwards.
fn ready() -> Option<Hosts> {
    let mut hosts = Hosts::new("40mbit")?;
    hosts.check_sources();
    hosts.resolvers("nameserver 10.77.1.2\n", "nameserver 10.99.0.2\n");
    hosts.line = hosts.start_relay(ELSEWHERE, &[]);
    echo(&hosts, "10.99.0.2:53");
    let streams = hosts.in_relay(|| std::net::TcpListener::bind("10.99.0.2:53").unwrap());
    program::serve(streams);
    Some(hosts)
}

fn source(hosts: &Hosts, there: &str) -> String {
    let socket = connect(hosts, there);
    socket.local_addr().unwrap().ip().to_string()
}

#[test]
fn the_relays_resolver_answers_for_the_home_router_also_when_its_link_is_gone() {
    let Some(mut hosts) = ready() else { return };
    hosts.up(&[]);
    until("UDP is led to the relay", || {
        source(&hosts, ROUTER) == "198.18.77.1"
    });
    ask(&connect(&hosts, ROUTER), b"where is example.org?");
    let stream = hosts.in_device(|| std::net::TcpStream::connect(ROUTER).unwrap());
    assert_eq!(program::get(stream, 5000, &mut |_| ()), "whole");
    // Whoever can be told a resolver may have the TUN's.
    ask(&connect(&hosts, "198.18.77.2:53"), b"and example.com?");
    // Not what else is there.
    assert_eq!(source(&hosts, "10.77.1.2:54"), "10.77.1.1");
    assert_eq!(source(&hosts, "10.77.2.2:53"), "10.77.2.1");
    let table = hosts.multipilot(&["status"]).out;
    let says = "DNS: the relay's resolver answers for 10.77.1.2\n";
    assert!(table.contains(says), "{table}");

    hosts.set_link(1, "down");
    ask(&connect(&hosts, ROUTER), b"and now?");
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

#[test]
fn resolvers_stay_direct_where_that_is_asked_for() {
    let Some(mut hosts) = ready() else { return };
    for words in [["--dns", "direct"], ["--direct", "10.77.1.0/24"]] {
        hosts.up(&words);
        assert_eq!(source(&hosts, ROUTER), "10.77.1.1", "{words:?}");
        assert_eq!(hosts.multipilot(&["down"]).code, 0);
    }
}
