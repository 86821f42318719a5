//! What the program reports.

use std::net::{IpAddr, Ipv6Addr};

use zerocopy::FromBytes;

use super::abi;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A program connects, with the tag of the choice; no other addresses are known yet than the destination's.
    Started(Start, u64),
    /// A subflow is established.
    Up,
    /// A subflow ended, also one whose handshake failed.
    Down,
}

/// By what a connection starts where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// By the routing table: there was no choice, or the program has bound the socket itself.
    Stock,
    Chosen,
    /// By the routing table, for the choice has expired.
    Stale,
    /// By the routing table, for the kernel refused to bind: the address or the interface is gone.
    Refused,
}

/// One moment of one subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC, ns
    pub time_ns: u64,
    pub kind: EventKind,
    pub netns_cookie: u64,
    /// Of the subflow's socket, unlike any other since boot.
    pub socket: u64,
    /// Of the MPTCP connection, unique within its namespace; 0 for plain TCP.
    pub token: u32,
    /// It joined a connection, and did not start it.
    pub join: bool,
    pub local: (IpAddr, u16),
    pub remote: (IpAddr, u16),
    /// Payload of this subflow.
    pub bytes_acked: u64,
    pub bytes_received: u64,
    /// 0 before the first sample.
    pub srtt_us: u32,
    pub min_rtt_us: u32,
}

impl Event {
    pub(super) fn parse(record: &[u8]) -> Option<Event> {
        let raw = abi::Event::read_from_bytes(record).ok()?;
        let address = |octets| IpAddr::from(Ipv6Addr::from(octets)).to_canonical();
        let kind = match (raw.what, raw.start) {
            (0, start) => EventKind::Started(
                match start {
                    0 => Start::Stock,
                    1 => Start::Chosen,
                    2 => Start::Stale,
                    _ => Start::Refused,
                },
                raw.tag,
            ),
            (1, _) => EventKind::Up,
            _ => EventKind::Down,
        };
        Some(Event {
            time_ns: raw.time_ns,
            kind,
            netns_cookie: raw.netns_cookie,
            socket: raw.socket,
            token: raw.token,
            join: raw.join != 0,
            local: (address(raw.local), raw.local_port),
            remote: (address(raw.remote), raw.remote_port),
            // Linux counts the SYN as a byte acknowledged (RFC 4898).
            bytes_acked: raw.bytes_acked.saturating_sub(1),
            bytes_received: raw.bytes_received,
            srtt_us: raw.srtt_us,
            // A socket without a sample has the greatest value as its minimum.
            min_rtt_us: Some(raw.min_rtt_us)
                .filter(|us| *us != u32::MAX)
                .unwrap_or(0),
        })
    }
}
