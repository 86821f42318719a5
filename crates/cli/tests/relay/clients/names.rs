//! dig to a dnsmasq: over UDP, over TCP where an answer is too long for that, and by the relay's own resolver.

use std::process::Command;

use super::{find, installed, on_device, serve, SERVER};
use crate::datagrams::both_paths;
use crate::hosts::{Hosts, ALLOWED};

const RESOLVER: &str = "10.99.0.2";
/// On the Wi-Fi, as a home router is. Nobody there answers.
const ROUTER: &str = "10.77.1.2";

#[test]
fn names_are_resolved_over_udp_and_tcp() {
    if !installed(&["dig", "dnsmasq"]) {
        return;
    }
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.resolvers(
        &format!("nameserver {ROUTER}\n"),
        &format!("nameserver {RESOLVER}\n"),
    );
    hosts.line = hosts.start_relay("10.99.0.1:8443", &ALLOWED);
    let long: Vec<String> = (0..20).map(|i| format!("{i:0>200}")).collect();
    let mut server = Command::new(find("dnsmasq").unwrap());
    server
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file=",
        ])
        .args(["--no-resolv", "--no-hosts", "--bind-interfaces"])
        .args(["--user=root", "--group=root"])
        .args([RESOLVER, SERVER[0], SERVER[1]].map(|at| format!("--listen-address={at}")))
        .arg("--host-record=example.org,192.0.2.7,2001:db8::7")
        .arg(format!("--txt-record=long.example.org,{}", long.join(",")));
    let _served = serve(&hosts, &mut server, 53);
    hosts.up(&[]);
    both_paths(&hosts);
    let ask = |server: &str, question: &[&str]| {
        let mut dig = Command::new("dig");
        dig.args(["+short", "+time=30", &format!("@{server}")]);
        on_device(&hosts, dig.args(question))
    };
    for server in [SERVER[0], SERVER[1], ROUTER] {
        assert_eq!(ask(server, &["example.org"]), "192.0.2.7", "{server}");
        assert_eq!(ask(server, &["AAAA", "example.org"]), "2001:db8::7");
        assert_eq!(ask(server, &["+tcp", "example.org"]), "192.0.2.7");
        // It does not fit, and is asked for again over TCP.
        let texts = ask(server, &["TXT", "long.example.org"]);
        assert!(long.iter().all(|text| texts.contains(text)), "{texts}");
    }
}
