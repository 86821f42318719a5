//! Several relays with one key and one list of devices; and `relay --check`, which says whether a relay could start.

use std::fs;
use std::net::{TcpStream, UdpSocket};

use crate::common::Reply;
use crate::hosts::{until, Hosts, ALLOWED, PUBLIC, RELAY, SERVER};
use crate::program::get;

const SECOND: &str = "10.99.0.2:443";
const FREE: &str = "10.99.0.1:8443";
/// What makes two relays answer alike.
const COPIED: [&str; 2] = ["relay.key", "devices.toml"];

fn copy(hosts: &Hosts) {
    fs::create_dir_all(hosts.path("copy")).unwrap();
    for name in COPIED {
        let place = |folder: &str| hosts.path(folder).join(name);
        fs::copy(place("relay"), place("copy")).unwrap();
    }
}

/// The same device, or another, at one of the relays.
fn comes(hosts: &Hosts, home: &str, line: &str, relay: &str) -> Reply {
    let (_, keys) = line.trim().split_once('#').unwrap();
    let line = format!("mp1:{relay}#{keys}");
    let work = format!("get {SERVER} 1000");
    Reply::from(hosts.run_as(home, &line, &[], &work).output().unwrap())
}

#[track_caller]
fn is_served(reply: &Reply) {
    assert!(reply.out.contains("worked: whole"), "{}", reply.err);
}

#[test]
fn relays_with_one_key_and_the_same_devices_answer_alike() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let phone = hosts.line.clone();
    is_served(&comes(&hosts, "home", &phone, RELAY));
    copy(&hosts);
    hosts.further_relay(SECOND, "copy");
    is_served(&comes(&hosts, "home", &phone, SECOND));
    let other = comes(&hosts, "other-home", &phone, SECOND);
    other.refused(
        1,
        "relay 10.99.0.2:443: this line belongs to another device",
    );

    // Neither hears of the other's devices; a relay that runs takes a new list.
    let tablet = hosts.relay_command(&["--new-device", "tablet"]).out;
    is_served(&comes(&hosts, "other-home", &tablet, RELAY));
    comes(&hosts, "other-home", &tablet, SECOND).refused(1, "relay 10.99.0.2:443: ");
    copy(&hosts);
    is_served(&comes(&hosts, "other-home", &tablet, SECOND));
}

#[test]
fn a_device_goes_on_with_a_relay_that_takes_over_the_address() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    let is_carried = |hosts: &Hosts| {
        let Ok(stream) = hosts.in_device(|| TcpStream::connect(PUBLIC[0])) else {
            return false;
        };
        let own = stream.local_addr().unwrap().ip().to_string();
        own == "198.18.77.1" && get(stream, 100_000, &mut |_| ()) == "whole"
    };
    assert!(is_carried(&hosts));
    copy(&hosts);
    hosts.kill_relay();
    hosts.further_relay(RELAY, "copy");
    until("the other relay carries connections", || is_carried(&hosts));
}

#[test]
fn a_check_says_whether_a_relay_could_start_and_changes_nothing() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let free = hosts.relay_command(&["--check", "--listen", FREE]);
    assert_eq!((free.code, free.err.as_str()), (0, ""));
    let (_, keys) = hosts.line.split_once('#').unwrap();
    let (key, _) = keys.split_once('.').unwrap();
    for line in [
        &format!("key      {key}\n"),
        "devices  0 enrolled, 1 line not used yet\n",
        "address  10.99.0.1, port 8443\n",
    ] {
        assert!(free.out.contains(line), "{}", free.out);
    }
    let none = hosts.relay_command_in("none", &["--check", "--listen", FREE]);
    assert!(none.out.contains("none yet"), "{}{}", none.out, none.err);
    assert!(!hosts.path("none").exists());

    let taken = hosts.relay_command(&["--check", "--listen", RELAY]);
    taken.refused(1, "cannot listen on 10.99.0.1:443: Address already in use");
    let _udp = hosts.in_relay(|| UdpSocket::bind(FREE).unwrap());
    let taken = hosts.relay_command(&["--check", "--listen", FREE]);
    taken.refused(1, "UDP port 8443: Address already in use");

    copy(&hosts);
    let devices = hosts.path("copy").join("devices.toml");
    fs::write(&devices, "[[device]]\nname = 1\n").unwrap();
    let broken = hosts.relay_command_in("copy", &["--check", "--listen", "10.99.0.1:8444"]);
    broken.refused(2, devices.to_str().unwrap());
    fs::write(hosts.path("copy").join("relay.key"), "no key").unwrap();
    let broken = hosts.relay_command_in("copy", &["--check", "--listen", "10.99.0.1:8444"]);
    assert_eq!(broken.code, 2);
    assert!(
        broken.err.contains("relay.key: not a key of multipilot"),
        "{}",
        broken.err
    );
}

#[test]
fn a_relay_that_cannot_keep_its_address_serves_all_the_same() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    // In the place of the file, and not empty: it cannot be replaced.
    fs::create_dir_all(hosts.path(FREE).join("address/x")).unwrap();
    let line = hosts.start_relay(FREE, &ALLOWED);
    is_served(&comes(&hosts, "other-home", &line, FREE));
}
