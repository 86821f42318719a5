//! What the program reports.

use std::net::IpAddr;

use crate::bytes;

/// Size of struct mp_event, controllers/bpf/primary.bpf.c
const SIZE: usize = 104;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
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
    pub what: What,
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
        if record.len() != SIZE {
            return None;
        }
        let u64_at = |at| bytes::u64_at(record, at);
        let u32_at = |at| bytes::u32_at(record, at);
        let u16_at = |at| bytes::u16_at(record, at);
        let address = |at| bytes::address_at(record, at, libc::AF_INET6);
        let what = match (record[64], record[65]) {
            (0, start) => What::Started(
                match start {
                    0 => Start::Stock,
                    1 => Start::Chosen,
                    2 => Start::Stale,
                    _ => Start::Refused,
                },
                u64_at(24),
            ),
            (1, _) => What::Up,
            _ => What::Down,
        };
        // Linux counts the SYN as a byte acknowledged (RFC 4898).
        let bytes_acked = u64_at(32).saturating_sub(1);
        Some(Event {
            time_ns: u64_at(0),
            what,
            netns_cookie: u64_at(8),
            socket: u64_at(16),
            token: u32_at(48),
            join: record[66] != 0,
            local: (address(72), u16_at(60)),
            remote: (address(88), u16_at(62)),
            bytes_acked,
            bytes_received: u64_at(40),
            // A socket without a sample has the greatest value as its minimum.
            srtt_us: u32_at(52),
            min_rtt_us: Some(u32_at(56)).filter(|us| *us != u32::MAX).unwrap_or(0),
        })
    }
}
