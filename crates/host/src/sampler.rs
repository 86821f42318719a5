//! What all connections do on each path, from one poll of their subflows to the next.
//!
//! A subflow that sends counts its own losses: retransmissions, less those that the peer calls needless. Where this host
//! receives, the sender's counters are out of sight; out-of-order arrivals tell of holes.

mod delta;

use std::collections::HashMap;
use std::net::IpAddr;

use mp_kernel::diag::Subflow;
use mp_kernel::mptcp_info::TcpInfo;
use mp_policy::estimate::{weight, Direction};
use mp_policy::path_manager::presence::Present;
use mp_policy::path_manager::{Counters, Role};
use mp_policy::view::Activity;

use delta::SubflowDelta;

/// Counters of one path, over all subflows that were ever seen there.
#[derive(Debug, Clone, Default)]
pub struct PathTraffic {
    pub counters: Counters,
    /// Live now.
    pub subflows: usize,
    /// One of them was not there at the last poll.
    pub fresh: bool,
    /// Payload each way, bytes.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Over the last seconds, for display: bytes/s, and share of the packets.
    pub rate: f64,
    pub loss: f64,
    recent: (f64, f64),
}

/// What the connections do, by path and together.
#[derive(Debug, Default)]
pub struct Sampler {
    pub paths: Vec<PathTraffic>,
    /// Payload that the streams got in order, bytes.
    pub in_order: u64,
    /// Tokens of live connections, with the time at which each was first seen, µs.
    pub connections: HashMap<u32, u64>,
    /// As of the last poll.
    pub subflows: Vec<SubflowSample>,
    direction: Direction,
    last: HashMap<u64, TcpInfo>,
    /// By token: see `Subflow::stream`.
    streams: HashMap<u32, u64>,
}

/// A live subflow.
#[derive(Debug, Clone)]
pub struct SubflowSample {
    pub subflow: Subflow,
    /// `None`: on no path of ours.
    pub path: Option<usize>,
    /// For display, as those of its path: bytes/s over the last seconds, and µs.
    pub rate: f64,
    pub rtt_us: u32,
}

/// No stream gets so many bytes between two polls.
const LEAP: u64 = 1 << 40;
/// For display, µs.
const SMOOTHING_US: f64 = 2e6;

impl Sampler {
    /// Takes in a new poll, `elapsed_us` after the last. `path_of` says which path an address is on; `silent`, which subflows
    /// dead-path detection takes for dead.
    pub fn poll(
        &mut self,
        now_us: u64,
        elapsed_us: u64,
        subflows: Vec<Subflow>,
        paths: usize,
        path_of: impl Fn(IpAddr) -> Option<usize>,
        silent: impl FnOnce(&[Activity]) -> Vec<bool>,
    ) {
        self.paths.resize_with(paths, PathTraffic::default);
        let elapsed = elapsed_us.max(1) as f64;
        let mut sums = vec![Sum::default(); paths];
        let mut of: HashMap<u32, ConnectionPoll> = HashMap::new();
        let mut last = HashMap::with_capacity(subflows.len());
        let changes: Vec<SubflowDelta> = subflows
            .iter()
            .map(|s| {
                // Nothing is known of what a subflow did before it was first seen: it may be hours old.
                let known = self.last.get(&s.cookie).copied();
                SubflowDelta::between(known.unwrap_or(s.tcp), s.tcp)
            })
            .collect();
        let activities = subflows.iter().zip(&changes).map(|(s, new)| Activity {
            connection: s.token,
            id: s.cookie,
            path: path_of(s.local.ip()),
            backup: s.backup,
            arrived: new.arrived_bytes,
            moved: new.bytes(),
            packets: s.tcp.data_segs_in,
            rtt_us: [s.tcp.rcv_rtt, s.tcp.rtt].into_iter().find(|&us| us > 0),
        });
        let activities: Vec<Activity> = activities.collect();
        let silent = silent(&activities);
        let rates: HashMap<u64, f64> = self
            .subflows
            .drain(..)
            .map(|s| (s.subflow.cookie, s.rate))
            .collect();
        let paths_of = activities.iter().map(|a| a.path);
        let found = subflows.into_iter().zip(changes).zip(paths_of).zip(silent);
        for (((subflow, new), path), silent) in found {
            let known = self.last.contains_key(&subflow.cookie);
            last.insert(subflow.cookie, subflow.tcp);
            let connection = of.entry(subflow.token).or_default();
            connection.bytes += new.bytes();
            connection.stream = subflow.stream;
            if let Some(path) = path {
                sums[path].add(&new, &subflow.tcp);
                sums[path].fresh |= !known;
                sums[path].silent |= silent;
            }
            self.subflows.push(SubflowSample {
                path,
                rate: smoothed(
                    rates.get(&subflow.cookie).copied().unwrap_or(0.0),
                    new.bytes(),
                    elapsed,
                ),
                rtt_us: new.rtt_us(&subflow.tcp),
                subflow,
            });
        }
        self.last = last;
        let streams = of
            .iter()
            .filter_map(|(&token, c)| Some((token, c.stream?)))
            .collect();
        let before = std::mem::replace(&mut self.streams, streams);
        for (token, connection) in &of {
            self.in_order += connection.in_order(before.get(token).copied());
        }
        self.connections.retain(|token, _| of.contains_key(token));
        for token in of.into_keys() {
            self.connections.entry(token).or_insert(now_us);
        }
        let (mut sent, mut received) = (0, 0);
        for (path, sum) in self.paths.iter_mut().zip(&sums) {
            (sent, received) = (sent + sum.sent_bytes, received + sum.received_bytes);
            path.take_in(sum, elapsed);
        }
        self.direction.poll(elapsed_us, sent, received);
    }

    /// Which end of the data this host is.
    pub fn role(&self) -> Role {
        self.direction.role()
    }

    /// The live connections that use paths, and whether each has a subflow on this one. Those of loopback, or of interfaces that
    /// are left alone, use none, and miss none.
    pub fn present_on(&self, path: usize) -> impl Iterator<Item = Present> + '_ {
        let mut here: HashMap<u32, bool> = HashMap::new();
        for seen in &self.subflows {
            if let Some(on) = seen.path {
                *here.entry(seen.subflow.token).or_default() |= on == path;
            }
        }
        let since = |token| self.connections.get(&token).copied();
        here.into_iter().filter_map(move |(token, here)| {
            let since_us = since(token)?;
            Some(Present { since_us, here })
        })
    }
}

impl PathTraffic {
    fn take_in(&mut self, sum: &Sum, elapsed: f64) {
        (self.subflows, self.fresh) = (sum.subflows, sum.fresh);
        let sent = self.counters.sent.get_or_insert_default();
        sent.packets += sum.sent_packets;
        sent.lost += sum.lost;
        sent.bytes += sum.sent_bytes;
        sent.in_flight = sum.unacked;
        let received = self.counters.received.get_or_insert_default();
        received.packets += sum.arrived_packets;
        received.out_of_order += sum.out_of_order;
        received.bytes += sum.arrived_bytes;
        received.silent = sum.silent;
        self.sent_bytes += sum.sent_bytes;
        self.received_bytes += sum.received_bytes;
        let known = |us: f64| Some(us.round() as u32).filter(|&us| us > 0);
        if sum.weight > 0.0 {
            self.counters.srtt_us = known(sum.srtt / sum.weight);
        }
        self.counters.min_rtt_us = sum.min_rtt_us.or(self.counters.min_rtt_us);
        self.rate = smoothed(self.rate, sum.sent_bytes + sum.received_bytes, elapsed);
        let keep = 1.0 - weight(elapsed, SMOOTHING_US) / 4.0;
        // One loss for a poll with holes, as path awareness counts it.
        let lost = sum.lost + u64::from(sum.out_of_order > 0);
        let packets = sum.sent_packets + sum.arrived_packets;
        self.recent.0 = self.recent.0 * keep + packets as f64;
        self.recent.1 = self.recent.1 * keep + lost as f64;
        self.loss = self.recent.1 / self.recent.0.max(1.0);
    }
}

/// Linear in the bytes: the rates of subflows add up to that of their path.
fn smoothed(before: f64, bytes: u64, elapsed_us: f64) -> f64 {
    before + weight(elapsed_us, SMOOTHING_US) * (bytes as f64 * 1e6 / elapsed_us - before)
}

/// One connection between two polls.
#[derive(Debug, Clone, Copy, Default)]
struct ConnectionPoll {
    /// Of all subflows.
    bytes: u64,
    stream: Option<u64>,
}

impl ConnectionPoll {
    /// What the stream got; where that is not known, what its subflows brought.
    fn in_order(&self, before: Option<u64>) -> u64 {
        match (self.stream, before) {
            // A sequence number that was set only now leaps anywhere.
            (Some(now), Some(before)) => Some(now.wrapping_sub(before))
                .filter(|&new| new < LEAP)
                .unwrap_or(self.bytes),
            _ => self.bytes,
        }
    }
}

/// One path between two polls.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    subflows: usize,
    fresh: bool,
    silent: bool,
    sent_packets: u64,
    unacked: u64,
    lost: u64,
    sent_bytes: u64,
    arrived_packets: u64,
    out_of_order: u64,
    received_bytes: u64,
    arrived_bytes: u64,
    /// Weighted by what moved.
    srtt: f64,
    weight: f64,
    min_rtt_us: Option<u32>,
}

impl Sum {
    fn add(&mut self, new: &SubflowDelta, tcp: &TcpInfo) {
        self.subflows += 1;
        self.sent_packets += new.sent_packets;
        self.arrived_packets += new.arrived_packets;
        self.out_of_order += new.out_of_order;
        self.unacked += u64::from(tcp.unacked);
        self.lost += new.lost;
        self.sent_bytes += new.sent_bytes;
        self.received_bytes += new.received_bytes;
        self.arrived_bytes += new.arrived_bytes;
        let srtt = new.rtt_us(tcp);
        // Idle ones count for a little, so that an idle path has an RTT too.
        let weight = new.bytes() as f64 + 1e-3;
        self.srtt += weight * f64::from(srtt);
        self.weight += weight;
        if tcp.min_rtt > 0 && tcp.min_rtt < u32::MAX {
            self.min_rtt_us = Some(self.min_rtt_us.map_or(tcp.min_rtt, |m| m.min(tcp.min_rtt)));
        }
    }
}

#[cfg(test)]
mod tests;
