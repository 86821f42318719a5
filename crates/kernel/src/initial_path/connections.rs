//! From the events of subflows to what came of each connection.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Event, EventKind, Start};

/// A handshake fails after 127 s at most (`tcp_syn_retries`, `tcp_syn_linear_timeouts`), by default.
const HANDSHAKE_NS: u64 = 300_000_000_000;
const ROOM: usize = 1024;
/// Connections followed at most. An event may be lost, and without its end a connection would stay for good: then the oldest
/// are forgotten.
const MOST: usize = 1 << 15;

/// A connection that a program opened, from its SYN to the end of its last subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    pub start: Start,
    /// Of the choice that it was started by.
    pub tag: u64,
    /// Of its first subflow; `None` where the handshake failed.
    pub from: Option<IpAddr>,
    pub to: (IpAddr, u16),
    pub netns_cookie: u64,
    pub started_ns: u64,
    pub ended_ns: u64,
    /// Until the first subflow stood, µs; `None` where it never did.
    pub handshake_us: Option<u64>,
    /// Payload of all subflows, both ways; more than the application's where data was sent twice.
    pub bytes: u64,
    /// Of the first subflow at its end; 0: no sample.
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    /// Subflows that stood.
    pub subflows: u32,
    pub multipath: bool,
}

/// Connections under way. A subflow is known by its socket, a connection by its first subflow's.
#[derive(Debug, Default)]
pub struct Connections {
    live: HashMap<u64, Live>,
    /// Forgets those that never stood once there are so many.
    room: usize,
    /// Of each connection, by namespace and token, its first subflow's socket.
    tokens: HashMap<(u64, u32), u64>,
}

#[derive(Debug)]
struct Live {
    finished: Finished,
    token: Option<(u64, u32)>,
    open: Vec<u64>,
}

impl Connections {
    /// What a connection was like, once its last subflow has gone.
    pub fn observe(&mut self, event: &Event) -> Option<Finished> {
        match event.kind {
            EventKind::Started(start, tag) => {
                let finished = Finished {
                    start,
                    tag,
                    from: None,
                    to: event.remote,
                    netns_cookie: event.netns_cookie,
                    started_ns: event.time_ns,
                    ended_ns: event.time_ns,
                    handshake_us: None,
                    bytes: 0,
                    srtt_us: 0,
                    min_rtt_us: 0,
                    subflows: 0,
                    multipath: false,
                };
                let live = Live {
                    finished,
                    token: None,
                    open: vec![event.socket],
                };
                self.make_room(event.time_ns);
                self.live.insert(event.socket, live);
                None
            }
            EventKind::Up => {
                let first = self.first(event)?;
                let live = self.live.get_mut(&first)?;
                live.finished.subflows += 1;
                if first == event.socket {
                    live.finished.from = Some(event.local.0);
                    live.finished.handshake_us =
                        Some((event.time_ns - live.finished.started_ns) / 1000);
                    live.finished.multipath = event.token != 0;
                    if event.token != 0 {
                        let token = (event.netns_cookie, event.token);
                        live.token = Some(token);
                        self.tokens.insert(token, first);
                    }
                } else {
                    live.open.push(event.socket);
                }
                None
            }
            EventKind::Down => {
                let first = self.first(event)?;
                let live = self.live.get_mut(&first)?;
                let place = live
                    .open
                    .iter()
                    .position(|socket| *socket == event.socket)?;
                live.open.swap_remove(place);
                live.finished.bytes += event.bytes_acked + event.bytes_received;
                live.finished.ended_ns = event.time_ns;
                if first == event.socket {
                    live.finished.srtt_us = event.srtt_us;
                    live.finished.min_rtt_us = event.min_rtt_us;
                }
                if !live.open.is_empty() {
                    return None;
                }
                self.forget(first)
            }
        }
    }

    /// Where there is no route the kernel has no event after the first.
    fn make_room(&mut self, now_ns: u64) {
        if self.live.len() >= self.room {
            let waits = |f: &Finished| now_ns.saturating_sub(f.started_ns) < HANDSHAKE_NS;
            self.live
                .retain(|_, l| l.finished.handshake_us.is_some() || waits(&l.finished));
            if self.live.len() > MOST / 2 {
                let begun = |(socket, live): (&u64, &Live)| (live.finished.started_ns, *socket);
                let mut oldest: Vec<_> = self.live.iter().map(begun).collect();
                oldest.sort_unstable();
                oldest.truncate(oldest.len() - MOST / 2);
                oldest.iter().for_each(|(_, socket)| {
                    self.forget(*socket);
                });
            }
            self.room = (2 * self.live.len()).max(ROOM);
        }
    }

    fn forget(&mut self, first: u64) -> Option<Finished> {
        let live = self.live.remove(&first)?;
        if let Some(token) = live.token {
            // A later connection may have it by now.
            if self.tokens.get(&token) == Some(&first) {
                self.tokens.remove(&token);
            }
        }
        Some(live.finished)
    }

    fn first(&self, event: &Event) -> Option<u64> {
        if self.live.contains_key(&event.socket) {
            return Some(event.socket);
        }
        self.tokens.get(&(event.netns_cookie, event.token)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn event(socket: u64, time_ns: u64, kind: EventKind) -> Event {
        let join = socket > 1;
        Event {
            time_ns,
            kind,
            netns_cookie: 9,
            socket,
            token: if kind == EventKind::Up || join { 77 } else { 0 },
            join,
            local: (Ipv4Addr::new(10, 0, 0, socket as u8).into(), 4000),
            remote: (Ipv4Addr::new(10, 9, 9, 9).into(), 80),
            bytes_acked: 100 * socket,
            bytes_received: 1000 * socket,
            srtt_us: 10_000 * socket as u32,
            min_rtt_us: 9_000,
        }
    }

    #[test]
    fn a_connection_ends_with_its_last_subflow_and_counts_the_bytes_of_all() {
        let mut connections = Connections::default();
        let mut see = |e| connections.observe(&e);
        assert_eq!(
            see(event(1, 1_000, EventKind::Started(Start::Chosen, 5))),
            None
        );
        assert_eq!(see(event(1, 31_000, EventKind::Up)), None);
        assert_eq!(see(event(2, 40_000, EventKind::Up)), None);
        assert_eq!(see(event(1, 50_000, EventKind::Down)), None);
        let end = see(event(2, 60_000, EventKind::Down)).unwrap();
        assert_eq!((end.tag, end.start, end.subflows), (5, Start::Chosen, 2));
        assert_eq!(end.from, Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!((end.bytes, end.srtt_us), (3300, 10_000), "{end:?}");
        assert_eq!((end.handshake_us, end.ended_ns), (Some(30), 60_000));
        assert!(end.multipath && connections.live.is_empty() && connections.tokens.is_empty());
    }

    #[test]
    fn those_that_never_stood_are_forgotten() {
        let mut connections = Connections::default();
        for i in 0..100_000 {
            let socket = 1_000 + i;
            connections.observe(&event(
                socket,
                i * 1_000_000_000,
                EventKind::Started(Start::Stock, 0),
            ));
            assert!(connections.live.len() <= ROOM, "{i}");
        }
    }

    #[test]
    fn those_whose_end_was_lost_are_forgotten() {
        let mut connections = Connections::default();
        for i in 0..4 * MOST as u64 {
            let started = event(1_000 + i, i, EventKind::Started(Start::Stock, 0));
            connections.observe(&started);
            let token = i as u32 + 1;
            let up = event(1_000 + i, i, EventKind::Up);
            connections.observe(&Event { token, ..up });
            assert!(connections.live.len() <= MOST, "{i}");
            assert!(connections.tokens.len() <= MOST, "{i}");
        }
        let latest = 1_000 + 4 * MOST as u64 - 1;
        let down = connections.observe(&event(latest, u64::MAX, EventKind::Down));
        assert!(down.is_some(), "the latest is followed");
    }

    #[test]
    fn a_handshake_that_fails_is_an_outcome_and_strangers_are_none() {
        let mut connections = Connections::default();
        connections.observe(&event(1, 0, EventKind::Started(Start::Stock, 0)));
        let end = connections.observe(&event(1, 5, EventKind::Down)).unwrap();
        assert_eq!((end.handshake_us, end.from, end.subflows), (None, None, 0));
        assert_eq!(connections.observe(&event(3, 6, EventKind::Up)), None);
        assert_eq!(connections.observe(&event(3, 7, EventKind::Down)), None);
    }
}
