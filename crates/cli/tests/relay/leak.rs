//! `leak = "block"`: no packet leaves the device but to the relay, whatever happens to links, relay and daemon.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::datagrams::{ask, connect, echo, lane, ECHO};
use crate::hosts::{until, Hosts, LINKS, RELAY};
use crate::ping::Pinger;
use crate::program::get;

/// Programs' targets behind the relay, of either family.
const SERVERS: [&str; 2] = ["198.51.100.2", "2001:db8:99::2"];
/// The resolvers that /etc/resolv.conf names: a home router on the Wi-Fi.
const ROUTER: [&str; 2] = ["10.77.1.2", "fd77::2"];
/// Longer than the daemon takes to see other resolvers (2 s), or that the relay does not answer (4 s).
const NOTICED: Duration = Duration::from_secs(6);

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
/// Multicast listener discovery, router solicitation, neighbour solicitation and advertisement.
const OF_NEIGHBOURS: [u8; 6] = [131, 132, 133, 135, 136, 143];

/// Hears every frame that leaves by a link of the device.
struct Watch {
    over: Arc<AtomicBool>,
    left: Arc<Mutex<Left>>,
    hearing: JoinHandle<()>,
}

#[derive(Default)]
struct Left {
    /// Packets to the relay by each link.
    to_relay: [u64; 2],
    elsewhere: BTreeSet<String>,
}

impl Watch {
    fn start(hosts: &Hosts) -> Watch {
        let own = LINKS.map(|link| address(hosts, link));
        let everything = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
        let mut socket =
            hosts.in_device(|| Socket::new(Domain::PACKET, Type::RAW, Some(everything)).unwrap());
        enlarge(&socket);
        let moment = Some(Duration::from_millis(20));
        socket.set_read_timeout(moment).unwrap();
        let (over, left) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Left>>::default());
        let (ends, heard) = (over.clone(), left.clone());
        let hearing = thread::spawn(move || {
            let mut buffer = vec![0; 1 << 17];
            // What had left before the end was told is heard too.
            loop {
                let last = ends.load(Ordering::Relaxed);
                match socket.read(&mut buffer) {
                    Ok(count) => take(&mut heard.lock().unwrap(), &buffer[..count], &own),
                    Err(e) if e.kind() == ErrorKind::WouldBlock && last => break,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    // A link that goes down is told of too.
                    Err(e) if e.raw_os_error() == Some(libc::ENETDOWN) => {}
                    Err(e) => panic!("{e}"),
                }
            }
            assert_eq!(lost(&socket), 0, "frames that nobody has looked at");
        });
        Watch {
            over,
            left,
            hearing,
        }
    }

    fn elsewhere(&self) -> BTreeSet<String> {
        self.left.lock().unwrap().elsewhere.clone()
    }

    fn end(self) -> Left {
        self.over.store(true, Ordering::Relaxed);
        self.hearing.join().unwrap();
        let left = std::mem::take(&mut *self.left.lock().unwrap());
        left
    }
}

/// A link's own.
fn address(hosts: &Hosts, link: &str) -> [u8; 6] {
    let said = hosts.in_device(|| crate::namespace::sh(&format!("ip -j link show dev {link}")));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let text = said[0]["address"].as_str().unwrap();
    let bytes = text.split(':').map(|b| u8::from_str_radix(b, 16).unwrap());
    bytes.collect::<Vec<_>>().try_into().unwrap()
}

/// More than root's limit for others: a busy machine may keep the reader waiting.
fn enlarge(socket: &Socket) {
    let size: libc::c_int = 64 << 20;
    // SAFETY: the option takes an int, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const size).cast(),
            size_of_val(&size) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
}

/// Frames for which there was no room.
fn lost(socket: &Socket) -> u32 {
    let mut counts = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into a struct of that length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    counts.tp_drops
}

/// Frames of other interfaces, and those that come in, have another source.
fn take(left: &mut Left, frame: &[u8], own: &[[u8; 6]; 2]) {
    let source = frame.get(6..12).unwrap_or_default();
    let Some(link) = own.iter().position(|own| own == source) else {
        return;
    };
    let relay: SocketAddr = RELAY.parse().unwrap();
    match destination(&frame[12..14], &frame[14..]) {
        Some((_, to, _)) if to == relay.ip() => left.to_relay[link] += 1,
        Some((protocol, to, port)) => {
            let name = match protocol {
                TCP => "TCP",
                UDP => "UDP",
                ICMP | ICMPV6 => "ICMP",
                _ => "another protocol",
            };
            left.elsewhere.insert(format!("{name} {to} {port}"));
        }
        None => {}
    }
}

/// Protocol, address and port (0 where there is none); [`None`] of what neighbours tell each other.
fn destination(kind: &[u8], packet: &[u8]) -> Option<(u8, IpAddr, u16)> {
    let (protocol, to, rest) = match kind {
        [8, 0] => {
            let to: [u8; 4] = packet[16..20].try_into().unwrap();
            let header = usize::from(packet[0] & 15) * 4;
            (packet[9], Ipv4Addr::from(to).into(), &packet[header..])
        }
        [0x86, 0xdd] => {
            let to: [u8; 16] = packet[24..40].try_into().unwrap();
            let to = Ipv6Addr::from(to).into();
            match packet[6] {
                HOP_BY_HOP => (packet[40], to, &packet[48..]),
                protocol => (protocol, to, &packet[40..]),
            }
        }
        // ARP.
        [8, 6] => return None,
        _ => return Some((0, Ipv4Addr::UNSPECIFIED.into(), 0)),
    };
    if protocol == ICMPV6 && OF_NEIGHBOURS.contains(&rest[0]) {
        return None;
    }
    let has_port = [TCP, UDP].contains(&protocol);
    let port = has_port.then(|| u16::from_be_bytes([rest[2], rest[3]]));
    Some((protocol, to, port.unwrap_or(0)))
}

/// Between two packets of a kind.
const PAUSE: Duration = Duration::from_millis(400);

/// Each kind of packet that programs send. Nobody waits for an answer.
struct Talk {
    streams: Vec<Socket>,
    pingers: Vec<Pinger>,
}

impl Talk {
    fn new(hosts: &Hosts) -> Talk {
        Talk {
            streams: Vec::new(),
            pingers: SERVERS.map(|there| Pinger::new(hosts, there)).into(),
        }
    }

    fn all(&mut self, hosts: &Hosts) {
        let tcp = |to: &'static str, port| (Protocol::TCP, to, port);
        let mut streams = Vec::from(ROUTER.map(|to| tcp(to, 53)));
        for to in SERVERS {
            streams.extend([tcp(to, 53), tcp(to, 80), (Protocol::MPTCP, to, 80)]);
        }
        self.streams = hosts.in_device(|| {
            let begin = |(protocol, to, port): (Protocol, &str, u16)| {
                let to = SocketAddr::new(to.parse().unwrap(), port);
                let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let _ = UdpSocket::bind(any).unwrap().send_to(b"?", to);
                // Not every kernel has MPTCP.
                let socket =
                    Socket::new(Domain::for_address(to), Type::STREAM, Some(protocol)).ok()?;
                socket.set_nonblocking(true).unwrap();
                let _ = socket.connect(&to.into());
                Some(socket)
            };
            streams.into_iter().filter_map(begin).collect()
        });
        for pinger in &self.pingers {
            let _ = pinger.try_ask(1, b"?");
        }
        thread::sleep(PAUSE);
    }

    fn all_for(&mut self, hosts: &Hosts, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.all(hosts);
        }
    }
}

/// IPv6 on a link, whose addresses go when it goes down.
fn lead_ipv6(hosts: &Hosts, number: u8) {
    let link = LINKS[usize::from(number) - 1];
    let addresses = |end| {
        let add = |prefix: &str| format!("ip address replace {prefix}::{end}/64 dev {link} nodad");
        let public = add(&format!("2001:db8:77:{number}"));
        match number {
            1 => public + "\n" + &add("fd77"),
            _ => public,
        }
    };
    hosts.in_relay(|| crate::namespace::sh(&addresses(2)));
    hosts.on_device(&format!(
        "{}
         ip -6 route replace default via 2001:db8:77:{number}::2 dev {link} metric {number}",
        addresses(1)
    ));
}

fn set_up(hosts: &Hosts, number: u8) {
    hosts.set_link(number, "up");
    hosts.route(number);
    lead_ipv6(hosts, number);
}

fn is_led(hosts: &Hosts, there: &str) -> bool {
    let own = connect(hosts, there).local_addr().unwrap().ip();
    match own {
        IpAddr::V4(v4) => v4.octets()[..2] == [198, 18],
        // The router's network is another one.
        IpAddr::V6(v6) => v6.is_unique_local() && v6.segments()[0] != 0xfd77,
    }
}

#[test]
fn nothing_leaves_but_to_the_relay() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    ECHO.iter().for_each(|address| echo(&hosts, address));
    [1, 2].iter().for_each(|link| lead_ipv6(&hosts, *link));
    let router = ROUTER.map(|to| format!("nameserver {to}\n")).concat();
    hosts.resolvers(&router, "nameserver 198.51.100.2\n");
    hosts.kill_relay();
    hosts.restart_relay();
    hosts.up(&["--leak", "block"]);
    let router = ROUTER.map(|to| SocketAddr::new(to.parse().unwrap(), 53).to_string());
    until("DNS is led to the relay", || {
        router.iter().all(|to| is_led(&hosts, to))
    });
    until("UDP has both paths", || {
        lane(&hosts)["paths"].as_array().unwrap().len() == 2
    });

    let watch = Watch::start(&hosts);
    let mut talk = Talk::new(&hosts);
    for to in &router {
        ask(&connect(&hosts, to), b"where is example.org?");
    }
    // Data are in flight whatever happens.
    let streams = SERVERS.map(|to| {
        let to = SocketAddr::new(to.parse().unwrap(), 80);
        let stream = hosts.in_device(|| TcpStream::connect(to).unwrap());
        thread::spawn(|| get(stream, 1 << 40, &mut |_| ()))
    });
    talk.all(&hosts);
    for link in [1, 2] {
        hosts.set_link(link, "down");
        talk.all_for(&hosts, NOTICED / 3);
        set_up(&hosts, link);
        talk.all_for(&hosts, NOTICED / 3);
    }
    [1, 2].iter().for_each(|link| hosts.set_link(*link, "down"));
    talk.all_for(&hosts, NOTICED);
    [1, 2].iter().for_each(|link| set_up(&hosts, *link));
    talk.all_for(&hosts, NOTICED / 3);

    hosts.kill_relay();
    until("no path is left", || {
        talk.all(&hosts);
        lane(&hosts)["paths"].as_array().unwrap().is_empty()
    });
    talk.all_for(&hosts, NOTICED);
    hosts.restart_relay();
    let udp = connect(&hosts, ECHO[0]);
    udp.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    until("UDP is answered again", || {
        talk.all(&hosts);
        udp.send(b"?").is_ok() && udp.recv(&mut [0; 9]).is_ok()
    });
    hosts.kill_background();
    talk.all_for(&hosts, NOTICED / 3);
    let left = watch.end();
    assert_eq!(left.elsewhere, BTreeSet::new());
    assert!(left.to_relay.iter().all(|packets| *packets > 100));
    for stream in streams {
        assert_ne!(stream.join().unwrap(), "whole");
    }

    // It hears each kind where nothing is blocked.
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    let watch = Watch::start(&hosts);
    let ports = |to: &'static str| {
        let ports = ["TCP", "UDP"].map(|of| [format!("{of} {to} 53"), format!("{of} {to} 80")]);
        ports.concat().into_iter().chain([format!("ICMP {to} 0")])
    };
    let mut all: BTreeSet<String> = SERVERS.into_iter().flat_map(ports).collect();
    for to in ROUTER {
        all.extend(["TCP", "UDP"].map(|of| format!("{of} {to} 53")));
    }
    until("every kind goes out", || {
        talk.all(&hosts);
        watch.elsewhere().is_superset(&all)
    });
    watch.end();
}
