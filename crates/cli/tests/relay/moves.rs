//! The relay's name leads elsewhere while the device is connected. The device asks a name server, as any program does.

use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::datagrams::{both_paths, connect, echo, ECHO};
use crate::hosts::{until, Hosts, ALLOWED, PUBLIC};
use crate::namespace::sh;
use crate::program::get;

const MB: u64 = 1_000_000;
const NAME: &str = "relay.example:8443";
/// Of the relay, of the same one later, and of another.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const LATER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 7);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 8);

/// A name server with one name.
struct Names {
    leads_to: Arc<Mutex<Ipv4Addr>>,
    /// For its address.
    asked: Arc<AtomicU64>,
}

impl Names {
    fn start(hosts: &Hosts) -> Names {
        let names = Names {
            leads_to: Arc::new(Mutex::new(FIRST)),
            asked: Arc::default(),
        };
        let (leads_to, asked) = (names.leads_to.clone(), names.asked.clone());
        let socket = hosts.in_relay(|| UdpSocket::bind("10.99.0.2:53").unwrap());
        thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((_, from)) = socket.recv_from(&mut query) {
                let name = query[12..].iter().position(|byte| *byte == 0).unwrap();
                let question = &query[12..12 + name + 5];
                // Type A. Of others there are none.
                let records = u8::from(question[name + 2] == 1);
                let mut answer =
                    [&query[..2], &[0x81, 0x80, 0, 1, 0, records, 0, 0, 0, 0]].concat();
                answer.extend(question);
                if records == 1 {
                    asked.fetch_add(1, Ordering::Relaxed);
                    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                    answer.extend(leads_to.lock().unwrap().octets());
                }
                let _ = socket.send_to(&answer, from);
            }
        });
        let server = "nameserver 10.99.0.2\n";
        hosts.resolvers(server, server);
        names
    }

    fn lead_to(&self, address: Ipv4Addr) {
        *self.leads_to.lock().unwrap() = address;
    }
}

fn ready() -> Option<(Hosts, Names)> {
    let mut hosts = Hosts::new("20mbit")?;
    hosts.check_sources();
    let names = Names::start(&hosts);
    let words = [&ALLOWED[..], &["--address", NAME]].concat();
    hosts.line = hosts.start_relay("0.0.0.0:8443", &words);
    echo(&hosts, ECHO[0]);
    hosts.up(&[]);
    both_paths(&hosts);
    is_at(&hosts, FIRST);
    Some((hosts, names))
}

#[track_caller]
fn is_at(hosts: &Hosts, address: Ipv4Addr) {
    until("the relay is found", || {
        hosts.relay_status()["addresses"] == json!([address])
    });
}

fn download(hosts: &Hosts) -> TcpStream {
    hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap())
}

/// Its address is another one from now on, as with a new lease.
fn renumber(hosts: &Hosts) {
    hosts.in_relay(|| {
        sh(&format!(
            "ip address add {LATER}/32 dev lo; ip address del {FIRST}/32 dev lo"
        ))
    });
}

#[test]
fn flows_go_on_when_the_relay_has_another_address() {
    let Some((hosts, names)) = ready() else {
        return;
    };
    let (stream, received) = (download(&hosts), AtomicU64::new(0));
    thread::scope(|scope| {
        let downloading = scope.spawn(|| {
            get(stream, 12 * MB, &mut |at| {
                received.store(at, Ordering::Relaxed)
            })
        });
        until("some of it is there", || {
            received.load(Ordering::Relaxed) > MB
        });
        renumber(&hosts);
        names.lead_to(LATER);
        is_at(&hosts, LATER);
        assert_eq!(downloading.join().unwrap(), "whole");
    });
    both_paths(&hosts);
    let socket = connect(&hosts, ECHO[0]);
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    until("UDP is answered", || {
        socket.send(b"who is there?").is_ok() && socket.recv(&mut [0; 100]).is_ok()
    });
    until("programs go to the relay's new address directly", || {
        let routes = hosts.in_device(|| sh("ip route show table 27101"));
        routes.contains("10.99.0.7") && !routes.contains("10.99.0.1")
    });
    let read = |name| std::fs::read_to_string(hosts.path(name)).unwrap();
    assert!(read("state/relay-addresses.toml").contains("10.99.0.7"));
    until("the log says so", || {
        read("daemon.log").contains("the relay was found elsewhere")
    });
    assert!(!read("daemon.log").contains("another program removed"));
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

/// A name that leads to several relays in turn, or to one that is to take over.
#[test]
fn a_relay_that_answers_is_kept_wherever_its_name_leads() {
    let Some((mut hosts, names)) = ready() else {
        return;
    };
    hosts.in_relay(|| sh(&format!("ip address add {OTHER}/32 dev lo")));
    names.lead_to(OTHER);
    let asked = || names.asked.load(Ordering::Relaxed);
    let before = asked();
    let stream = download(&hosts);
    // Connections over this link fail, and the name is asked for.
    hosts.silence(2);
    assert_eq!(get(stream, 8 * MB, &mut |_| ()), "whole");
    // With the third question the second answer has been judged.
    until("the name is asked for", || asked() >= before + 3);
    is_at(&hosts, FIRST);

    // That relay is gone, and the other one serves the same devices.
    names.lead_to(LATER);
    hosts.last().kill().unwrap();
    hosts.last().wait().unwrap();
    renumber(&hosts);
    hosts.further_relay("10.99.0.7:8443", "0.0.0.0:8443");
    is_at(&hosts, LATER);
    until("new connections go through it", || {
        let stream = download(&hosts);
        let own = stream.local_addr().unwrap().ip().to_string();
        own == "198.18.77.1" && get(stream, MB, &mut |_| ()) == "whole"
    });
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}
