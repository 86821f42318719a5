//! Pings through the relay, by raw sockets, as ping and traceroute of root have them.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::common::PATIENCE;
use crate::datagrams::{both_paths, lane};
use crate::hosts::Hosts;

const HOSTS: [&str; 2] = ["198.51.100.2", "2001:db8:99::2"];
const IDENTIFIER: u16 = 0x4d50;
/// Of IPv4 and of IPv6.
const REPLY: [u8; 2] = [0, 129];
const UNREACHABLE: [u8; 2] = [3, 1];
const EXCEEDED: [u8; 2] = [11, 3];

/// As it came, and from whom.
struct Message {
    from: String,
    icmp: Vec<u8>,
}

impl Message {
    fn field(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.icmp[at], self.icmp[at + 1]])
    }
}

pub struct Pinger {
    /// A raw one.
    socket: UdpSocket,
    there: IpAddr,
}

impl Pinger {
    pub fn new(hosts: &Hosts, there: &str) -> Pinger {
        let there: IpAddr = there.parse().unwrap();
        let (domain, protocol) = match there {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = hosts.in_device(|| Socket::new(domain, Type::RAW, Some(protocol)).unwrap());
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Pinger { socket, there }
    }

    fn of(&self, kinds: [u8; 2]) -> u8 {
        kinds[usize::from(self.there.is_ipv6())]
    }

    fn hops(&self, limit: u32) {
        let socket = SockRef::from(&self.socket);
        match self.there {
            IpAddr::V4(_) => socket.set_ttl_v4(limit).unwrap(),
            IpAddr::V6(_) => socket.set_unicast_hops_v6(limit).unwrap(),
        }
    }

    fn ask(&self, sequence: u16, data: &[u8]) {
        self.try_ask(sequence, data).unwrap();
    }

    /// It fails where nothing may be sent.
    pub fn try_ask(&self, sequence: u16, data: &[u8]) -> io::Result<usize> {
        let mut packet = vec![self.of([8, 128]), 0, 0, 0];
        packet.extend(IDENTIFIER.to_be_bytes());
        packet.extend(sequence.to_be_bytes());
        packet.extend(data);
        // RFC 1071; that of IPv6 is the kernel's business.
        let pairs = packet.chunks(2);
        let words = pairs.map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
        packet[2..4].copy_from_slice(&(!sum).to_be_bytes());
        let to = SocketAddr::new(self.there, 0);
        self.socket.send_to(&packet, to)
    }

    /// The next message of this kind: neighbours are asked for by ICMP too.
    fn hear(&self, kinds: [u8; 2]) -> Message {
        let mut buffer = [0; 4096];
        loop {
            let (count, from) = self.socket.recv_from(&mut buffer).unwrap();
            let packet = &buffer[..count];
            let icmp = match self.there {
                IpAddr::V4(_) => {
                    // To the TUN's address: it has not come directly.
                    assert_eq!(packet[16..18], [198, 18], "{packet:?}");
                    &packet[usize::from(packet[0] & 15) * 4..]
                }
                IpAddr::V6(_) => packet,
            };
            if icmp[0] == self.of(kinds) {
                let (from, icmp) = (from.ip().to_string(), icmp.to_vec());
                return Message { from, icmp };
            }
        }
    }

    /// An error about the request of this number, of which it quotes the headers.
    fn error(&self, kinds: [u8; 2], sequence: u16) -> Message {
        let message = self.hear(kinds);
        let quoted = 8 + if self.there.is_ipv4() { 20 } else { 40 };
        let about = [message.field(quoted + 4), message.field(quoted + 6)];
        assert_eq!(about, [IDENTIFIER, sequence], "{:?}", message.icmp);
        message
    }
}

/// With what the relay may do: raw sockets (it is root's), or those for pings.
fn ready(groups: &str) -> Option<Hosts> {
    let mut hosts = Hosts::new("40mbit")?;
    hosts.check_sources();
    hosts.in_relay(|| std::fs::write("/proc/sys/net/ipv4/ping_group_range", groups).unwrap());
    hosts.up(&[]);
    both_paths(&hosts);
    Some(hosts)
}

#[test]
fn a_ping_is_answered_by_whom_it_is_for() {
    for groups in ["1 0", "0 2147483647"] {
        let Some(hosts) = ready(groups) else { return };
        for there in HOSTS {
            let pinger = Pinger::new(&hosts, there);
            for sequence in [1, 2, 0xffff] {
                let data = format!("{there} {sequence}");
                pinger.ask(sequence, data.as_bytes());
                let reply = pinger.hear(REPLY);
                assert_eq!(reply.from, there);
                assert_eq!(
                    [reply.field(4), reply.field(6)],
                    [IDENTIFIER, sequence],
                    "{groups}"
                );
                assert_eq!(reply.icmp[8..], *data.as_bytes());
            }
        }
        assert_eq!(lane(&hosts)["flows"], 2);
        assert_eq!(hosts.multipilot(&["down"]).code, 0);
    }
}

#[test]
fn a_trace_names_the_routers_behind_the_relay() {
    for groups in ["1 0", "0 2147483647"] {
        let Some(hosts) = ready(groups) else { return };
        let _router = hosts.router();
        for (there, router) in [
            ("198.51.100.200", "198.51.100.130"),
            ("2001:db8:99:2::9", "2001:db8:99:1::2"),
        ] {
            let pinger = Pinger::new(&hosts, there);
            pinger.hops(1);
            pinger.ask(7, b"who is the first?");
            assert_eq!(pinger.error(EXCEEDED, 7).from, router, "{groups}");
        }
        let pinger = Pinger::new(&hosts, "198.51.100.230");
        pinger.ask(8, b"anybody?");
        let error = pinger.error(UNREACHABLE, 8);
        assert_eq!((error.from.as_str(), error.icmp[1]), ("198.51.100.130", 1));
    }
}

#[test]
fn a_ping_that_may_not_go_or_is_too_long_is_told_so() {
    let Some(hosts) = ready("1 0") else { return };
    for (there, prohibited) in [("203.0.113.1", 13), ("2001:db8:1::1", 1)] {
        let pinger = Pinger::new(&hosts, there);
        pinger.ask(0, b"?");
        assert_eq!(pinger.error(UNREACHABLE, 0).icmp[1], prohibited, "{there}");
    }
    for there in HOSTS {
        let pinger = Pinger::new(&hosts, there);
        // Ethernet takes it, no path does.
        pinger.ask(1, &[7; 1450]);
        let fits = match there.contains(':') {
            false => pinger.error(UNREACHABLE, 1).field(6),
            true => pinger.error([0, 2], 1).field(6),
        };
        assert!((1300..1500).contains(&fits), "{there}: {fits}");
        // Headers of IP and of ICMP.
        let data = vec![7; usize::from(fits) - if there.contains(':') { 48 } else { 28 }];
        pinger.ask(2, &data);
        assert_eq!(pinger.hear(REPLY).icmp[8..], data);
        pinger.ask(3, &[7; 3000]);
        assert_eq!(pinger.hear(REPLY).icmp[8..], [7; 3000]);
    }
    let silence = Pinger::new(&hosts, HOSTS[0]);
    let short = Some(Duration::from_millis(300));
    silence.socket.set_read_timeout(short).unwrap();
    let more = silence.socket.recv(&mut [0; 100]).map_err(|e| e.kind());
    assert_eq!(more, Err(ErrorKind::WouldBlock), "copies are dropped");
}
