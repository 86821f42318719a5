//! `carrier = "mptcp"`: the kernel's subflows carry the streams, over both links.

use std::net::TcpStream;

use crate::hosts::{Hosts, PUBLIC, SERVER};
use crate::namespace::sh;
use crate::program::{get, put};

const MB: u64 = 1_000_000;

#[track_caller]
fn over_both_links(hosts: &Hosts, transfer: impl Fn() -> String) {
    let before = [1, 2].map(|link| hosts.carried(link));
    assert_eq!(transfer(), "whole");
    for (link, before) in [1, 2].into_iter().zip(before) {
        let carried = hosts.carried(link) - before;
        assert!(carried > MB / 2, "link {link} carried {carried}");
    }
}

/// MPTCP connections of the device that have more than one subflow.
fn joined(hosts: &Hosts) -> u64 {
    let counts = hosts.in_device(|| sh("nstat -asz MPTcpExtMPJoinSynAckRx"));
    let mut count = counts
        .split_whitespace()
        .skip_while(|w| !w.starts_with("MPTcpExt"));
    count.nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_kernels_subflows_carry_a_program() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    // The user's own, as `run` changes nothing on the host.
    hosts.on_device("ip mptcp endpoint add 10.77.2.1 dev lte subflow");
    for work in ["get", "put"] {
        let before = joined(&hosts);
        let work = format!("{work} {SERVER} {}", 8 * MB);
        over_both_links(&hosts, || hosts.run(&["--carrier", "mptcp"], &work));
        assert!(joined(&hosts) > before);
    }
    // Nothing of it without.
    let before = joined(&hosts);
    assert_eq!(hosts.run(&[], &format!("get {SERVER} {MB}")), "whole");
    assert_eq!(joined(&hosts), before);
}

#[test]
fn the_daemons_endpoints_carry_the_host() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.configure("carrier = \"mptcp\"", "");
    hosts.up(&[]);
    for address in PUBLIC {
        let connect = || hosts.in_device(|| TcpStream::connect(address).unwrap());
        over_both_links(&hosts, || get(connect(), 8 * MB, &mut |_| ()));
        over_both_links(&hosts, || put(connect(), 8 * MB));
    }
    let bytes = hosts.link("mptcp")["received_bytes"].as_u64();
    assert!(bytes.unwrap() > 16 * MB, "{:?}", hosts.relay_status());
    assert_eq!(hosts.link("wifi")["received_bytes"], 0);
}

#[test]
fn without_mptcp_it_says_so() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.on_device("sysctl -q -w net.mptcp.enabled=0");
    let mut command = hosts.run_as("home", &hosts.line, &["--carrier", "mptcp"], "");
    let reply = crate::common::Reply::from(command.output().unwrap());
    reply.refused(3, "carrier mptcp: this kernel has no MPTCP, or it is off");
}
