//! A device whose firewall drops what it did not ask for, as ufw and firewalld do.

use std::net::TcpStream;

use crate::hosts::{Hosts, PUBLIC};
use crate::program::get;

pub const RULES: &str = "nft -f - <<'END'
table inet f {
  chain input {
    type filter hook input priority 0; policy drop;
    ct state established,related accept
    iif lo accept
    meta l4proto { icmp, ipv6-icmp } accept
  }
}
END";

#[test]
fn a_firewall_that_drops_what_the_tun_brings_in_is_named() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.configure("", "");
    hosts.on_device(RULES);
    let before = hosts.network();
    let (log, config) = (hosts.path("daemon.log"), hosts.path("daemon.toml"));
    let line = hosts.line.clone();
    let (log, config) = (log.to_str().unwrap(), config.to_str().unwrap());
    let reply = hosts.multipilot(&["up", "--log", log, "--config", config, "--relay", &line]);
    assert_eq!(reply.code, 3, "{}", reply.err);
    let last = reply.err.lines().last().unwrap_or_default();
    assert!(last.contains("ufw allow in on tun-multipilot"), "{last}");
    assert_eq!(hosts.network(), before);

    // What it says helps.
    hosts.on_device("nft add rule inet f input iifname tun-multipilot accept");
    hosts.up(&[]);
    let stream = hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap());
    assert_eq!(get(stream, 1_000_000, &mut |_| ()), "whole");
}
