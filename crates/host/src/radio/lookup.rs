//! What a lookup over an interface takes, and how much the delay of UDP varies there: three queries a minute to a resolver
//! of the host, for the name servers of the root, which every resolver knows.
//!
//! The first answer counts as the time of a lookup, with the waking of the radio. The other two make the delta, the
//! difference of their round trips: without a clock at the other end that is as near as one gets to RFC 3550's D(i, j).

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mp_files::resolv_conf;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::time::timeout;

const PAUSE: Duration = Duration::from_secs(60);
/// resolv.conf(5) waits 5 s; who answers later than this is of no use to a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// systemd-resolved answers on the loopback; those that it asks are here.
const BEHIND: &str = "/run/systemd/resolve/resolv.conf";
/// As many as the C library takes.
const RESOLVERS: usize = 3;
const PORT: u16 = 53;
const HEADER: usize = 12;

/// Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lookup {
    pub dns_ms: f64,
    /// `None` where a later query was not answered.
    pub delta_ms: Option<f64>,
}

#[derive(Debug, Default)]
struct Known {
    begun: Option<Instant>,
    lookup: Option<Lookup>,
}

/// Asks over the interfaces that somebody wants to know of, no others.
#[derive(Debug)]
pub struct Lookups {
    known: Arc<Mutex<HashMap<String, Known>>>,
    runtime: Handle,
}

impl Lookups {
    /// The runtime needs I/O and time.
    pub fn on(runtime: Handle) -> Lookups {
        Lookups {
            known: Arc::default(),
            runtime,
        }
    }

    /// As of a minute ago at most; `None` until a resolver has answered over this interface, and once none does any more.
    pub fn of(&mut self, interface: &str) -> Option<Lookup> {
        let now = Instant::now();
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(interface.to_owned()).or_default();
        if known.begun.is_none_or(|at| now >= at + PAUSE) {
            known.begun = Some(now);
            let (shared, interface) = (self.known.clone(), interface.to_owned());
            self.runtime.spawn(async move {
                let lookup = ask_any(&interface).await;
                let mut all = shared.lock().unwrap_or_else(PoisonError::into_inner);
                all.entry(interface).or_default().lookup = lookup;
            });
        }
        known.lookup
    }
}

/// The first resolver that answers: those of other links may not be within reach.
async fn ask_any(interface: &str) -> Option<Lookup> {
    for resolver in resolvers() {
        if let Ok(lookup) = ask(interface, (resolver, PORT).into()).await {
            return Some(lookup);
        }
    }
    None
}

fn resolvers() -> Vec<IpAddr> {
    let file = [BEHIND, resolv_conf::FILE].map(fs::read_to_string);
    let text = file.into_iter().find_map(Result::ok).unwrap_or_default();
    let mut found = resolv_conf::nameservers(&text);
    found.retain(|ip| !ip.is_loopback());
    found.truncate(RESOLVERS);
    found
}

async fn ask(interface: &str, resolver: SocketAddr) -> io::Result<Lookup> {
    let socket = connect(interface, resolver)?;
    let mut round_trips_ms = Vec::new();
    // Number of the query, which its answer repeats. A guess of whoever may send from the resolver's address spoils one figure.
    for id in 1..=3 {
        let answer = timeout(PATIENCE, round_trip_ms(&socket, id)).await;
        match answer.map_err(io::Error::from).and_then(|in_time| in_time) {
            Ok(ms) => round_trips_ms.push(ms),
            Err(e) if round_trips_ms.is_empty() => return Err(e),
            Err(_) => break,
        }
    }
    let delta_ms = match round_trips_ms[..] {
        [_, one, other] => Some(f64::abs(other - one)),
        _ => None,
    };
    Ok(Lookup {
        dns_ms: round_trips_ms[0],
        delta_ms,
    })
}

fn connect(interface: &str, resolver: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(resolver),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.bind_device(Some(interface.as_bytes()))?;
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind(&SocketAddr::new(any, 0).into())?;
    socket.connect(&resolver.into())?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}

async fn round_trip_ms(socket: &UdpSocket, id: u16) -> io::Result<f64> {
    let sent = Instant::now();
    socket.send(&query(id)).await?;
    let mut answer = [0; 512];
    loop {
        let length = socket.recv(&mut answer).await?;
        if answers(&answer[..length], id) {
            return Ok(sent.elapsed().as_secs_f64() * 1e3);
        }
    }
}

/// RFC 1035, section 4.1: a header with the flag "recursion desired", and the question `. IN NS`.
fn query(id: u16) -> [u8; HEADER + 5] {
    let [high, low] = id.to_be_bytes();
    [high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]
}

/// Whatever it says: an error comes back as fast.
fn answers(packet: &[u8], id: u16) -> bool {
    packet.len() >= HEADER && packet[..2] == id.to_be_bytes() && packet[2] & 0x80 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A resolver that answers these queries of each client after so many milliseconds.
    async fn resolver(delays_ms: &'static [u64]) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut packet = [0; 512];
            for delay in delays_ms {
                let (length, from) = socket.recv_from(&mut packet).await.unwrap();
                assert_eq!(length, HEADER + 5);
                // The query itself is no answer.
                socket.send_to(&packet[..length], from).await.unwrap();
                tokio::time::sleep(Duration::from_millis(*delay)).await;
                packet[2] |= 0x80;
                socket.send_to(&packet[..HEADER], from).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn the_first_answer_is_the_lookup_and_the_others_make_the_delta() {
        let lookup = ask("lo", resolver(&[40, 1, 200]).await).await.unwrap();
        assert!(lookup.dns_ms >= 40.0, "{lookup:?}");
        assert!(lookup.delta_ms.is_some(), "{lookup:?}");
    }

    #[tokio::test]
    async fn a_resolver_that_falls_silent_leaves_the_time_of_its_lookup() {
        let lookup = ask("lo", resolver(&[0]).await).await.unwrap();
        assert_eq!(lookup.delta_ms, None);
    }

    #[tokio::test]
    async fn no_interface_no_lookup() {
        assert!(ask("no-such-interface", resolver(&[0]).await)
            .await
            .is_err());
    }

    #[test]
    fn another_querys_answer_is_none() {
        let mut packet = query(7);
        assert!(!answers(&packet, 7));
        packet[2] |= 0x80;
        assert!(answers(&packet, 7) && !answers(&packet, 8) && !answers(&packet[..HEADER - 1], 7));
    }
}
