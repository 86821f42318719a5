//! Echo requests (RFC 792, RFC 4443) over paths that the policy wants probed, from their own interface and address to the
//! other end of a subflow there. A host that does not answer, or a machine that lets this process send none, tells nothing: then the
//! policy goes by time.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use etherparse::{
    IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, Ipv4HeaderSlice,
};
use mp_policy::path_manager::{Probes, Probing};
use socket2::{Domain, Protocol, Socket, Type};

use crate::adapter::{Adapter, ProbeRequest};

/// As much as `ping -s 32` sends.
const PAYLOAD: [u8; 32] = [0; 32];

/// Sends what an adapter asks for.
#[derive(Default)]
pub struct Prober {
    /// By path.
    lines: HashMap<usize, Line>,
}

/// `None` for the socket: this machine gives none.
struct Line {
    interface: String,
    from: IpAddr,
    to: IpAddr,
    socket: Option<Echo>,
    probing: Probing,
}

impl Prober {
    /// Hands the adapter what was answered, and sends what it asked for.
    pub fn serve(&mut self, adapter: &mut Adapter) {
        for ProbeRequest { path, count } in adapter.probe_requests() {
            let Some((from, to)) = adapter.ends(path) else {
                continue;
            };
            let interface = &adapter.paths[path].interface.name;
            let line = self
                .lines
                .entry(path)
                .or_insert_with(|| Line::new(interface, from, to, Probes::default()));
            if (&line.interface, line.from, line.to) != (interface, from, to) {
                *line = Line::new(interface, from, to, line.probing.told);
            }
            line.send(count);
        }
        for (&path, line) in &mut self.lines {
            line.hear();
            adapter.paths[path].probes = line.probing.told;
        }
    }
}

impl Line {
    fn new(interface: &str, from: IpAddr, to: IpAddr, told: Probes) -> Line {
        Line {
            interface: interface.to_owned(),
            from,
            to,
            socket: Echo::open(interface, from).ok(),
            probing: Probing::after(told),
        }
    }

    fn send(&mut self, count: u32) {
        let Some(socket) = &self.socket else { return };
        for number in self.probing.send(count) {
            // One that could not be sent shows in the sequence, as one that was lost.
            let _ = socket.send(self.to, number as u16);
        }
    }

    fn hear(&mut self) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        while let Some(number) = socket.answer() {
            // Of 65,536 the one sent last.
            let last = self.probing.sent().wrapping_sub(1);
            let back = u64::from((last as u16).wrapping_sub(number));
            if let Some(at) = last.checked_sub(back) {
                self.probing.answer(at);
            }
        }
    }
}

/// A socket for echo requests: the kernel's own for them (`net.ipv4.ping_group_range`), else a raw one (CAP_NET_RAW).
struct Echo {
    socket: Socket,
    v4: bool,
    raw: bool,
    /// The kernel puts its own in place of it unless the socket is raw.
    identifier: u16,
}

impl Echo {
    fn open(interface: &str, from: IpAddr) -> io::Result<Echo> {
        let (domain, protocol) = match from {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let (socket, raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (Socket::new(domain, Type::RAW, Some(protocol))?, true),
        };
        // A raw socket hears the answers to all of them.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // The address alone leaves the choice to the routes: without a rule for it, that of the least metric.
        socket.bind_device(Some(interface.as_bytes()))?;
        socket.bind(&SocketAddr::new(from, 0).into())?;
        socket.set_nonblocking(true)?;
        Ok(Echo {
            socket,
            v4: from.is_ipv4(),
            raw,
            identifier: (std::process::id() as u16)
                .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)),
        })
    }

    fn send(&self, to: IpAddr, number: u16) -> io::Result<usize> {
        let echo = IcmpEchoHeader {
            id: self.identifier,
            seq: number,
        };
        let mut packet = match self.v4 {
            true => Icmpv4Header::with_checksum(Icmpv4Type::EchoRequest(echo), &PAYLOAD)
                .to_bytes()
                .to_vec(),
            // The kernel sets the checksum, which covers the addresses.
            false => Icmpv6Header::new(Icmpv6Type::EchoRequest(echo))
                .to_bytes()
                .to_vec(),
        };
        packet.extend(PAYLOAD);
        self.socket.send_to(&packet, &SocketAddr::new(to, 0).into())
    }

    /// The number of the next request that was answered.
    fn answer(&mut self) -> Option<u16> {
        let mut buffer = [0; 256];
        loop {
            let length = self.socket.read(&mut buffer).ok()?;
            let ours = |echo: &IcmpEchoHeader| !self.raw || echo.id == self.identifier;
            if let Some(echo) = self.reply(&buffer[..length]).filter(ours) {
                return Some(echo.seq);
            }
        }
    }

    fn reply(&self, packet: &[u8]) -> Option<IcmpEchoHeader> {
        if !self.v4 {
            return match Icmpv6Header::from_slice(packet).ok()?.0.icmp_type {
                Icmpv6Type::EchoReply(echo) => Some(echo),
                _ => None,
            };
        }
        // A raw IPv4 socket hands over the IP header too.
        let skip = match self.raw {
            true => Ipv4HeaderSlice::from_slice(packet).ok()?.slice().len(),
            false => 0,
        };
        match Icmpv4Header::from_slice(&packet[skip..]).ok()?.0.icmp_type {
            Icmpv4Type::EchoReply(echo) => Some(echo),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Until so many have been answered; a busy kernel takes its time.
    fn hear(line: &mut Line, answered: u64) {
        let began = std::time::Instant::now();
        while line.probing.told.answered < answered {
            assert!(began.elapsed().as_secs() < 90, "{:?}", line.probing.told);
            std::thread::sleep(std::time::Duration::from_millis(10));
            line.hear();
        }
        assert_eq!(line.probing.told.answered, answered);
    }

    /// The loopback answers all of them; they need a socket for echoes, which an unprivileged user may not get.
    #[test]
    fn the_loopback_answers_every_request() {
        for ip in ["127.0.0.1", "::1"] {
            let ip: IpAddr = ip.parse().expect("an address");
            let mut line = Line::new("lo", ip, ip, Probes::default());
            if line.socket.is_none() && ip.is_ipv6() {
                continue; // a host without IPv6
            }
            if line.socket.is_none() {
                mp_testing::skip("no ICMP socket (root, or net.ipv4.ping_group_range)");
                return;
            }
            for round in 1..=3 {
                line.send(5);
                hear(&mut line, 5 * round);
            }
            // Numbers that were never sent on the wire are those of lost ones.
            line.probing.send(3);
            line.send(1);
            hear(&mut line, 16);
            let told = line.probing.told;
            assert_eq!((told.answered, told.lost), (16, 3), "{ip}");
        }
    }

    #[test]
    fn nobody_answers_from_an_address_that_no_host_has() {
        // TEST-NET-1, RFC 5737.
        let (from, to) = ("127.0.0.1", "192.0.2.1");
        let [from, to] = [from, to].map(|ip| ip.parse().expect("an address"));
        let mut line = Line::new("lo", from, to, Probes::default());
        line.send(5);
        std::thread::sleep(std::time::Duration::from_millis(50));
        line.hear();
        assert_eq!(line.probing.told, Probes::default());
    }
}
