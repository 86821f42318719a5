//! What all connections do on each path, from one look at their subflows to the next.
//!
//! A subflow that sends counts its own losses: retransmissions, less those that the peer calls needless. Where this host
//! receives, the sender's counters are out of sight; out-of-order arrivals tell of holes.

use std::collections::HashMap;
use std::net::IpAddr;

use mp_kernel::diag::Subflow;
use mp_kernel::mptcp_info::TcpInfo;
use mp_policy::estimate::{weight, Arrival, Beginnings, Silence};
use mp_policy::path_manager::Counters;

/// Counters of one path, over all subflows that were ever seen there.
#[derive(Debug, Clone, Default)]
pub struct PathTraffic {
    pub counters: Counters,
    /// Live now.
    pub subflows: usize,
    /// One of them was not there at the last look.
    pub fresh: bool,
    /// Payload each way, bytes.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Over the last seconds, for display: bytes/s, and share of the packets.
    pub rate: f64,
    pub loss: f64,
    recent: (f64, f64),
}

#[derive(Debug, Default)]
pub struct Traffic {
    pub paths: Vec<PathTraffic>,
    /// Payload of all paths, bytes.
    pub bytes: u64,
    /// Of that, what the streams got in order.
    pub in_order: u64,
    /// Tokens of live connections, with the time at which each was first seen, µs.
    pub connections: HashMap<u32, u64>,
    pub subflows: Vec<Seen>,
    pub beginnings: Beginnings,
    /// Bytes sent less bytes received, fading.
    balance: f64,
    last: HashMap<u64, TcpInfo>,
    /// By token: see `Subflow::stream`.
    streams: HashMap<u32, u64>,
    silence: Silence,
}

/// A live subflow.
#[derive(Debug, Clone)]
pub struct Seen {
    pub subflow: Subflow,
    /// `None`: on no path of ours.
    pub path: Option<usize>,
    /// For display, as those of its path: bytes/s over the last seconds, and µs.
    pub rate: f64,
    pub rtt_us: u32,
}

/// No stream gets so many bytes between two looks.
const LEAP: u64 = 1 << 40;
/// For display, µs.
const SMOOTHING_US: f64 = 2e6;

impl Traffic {
    /// Takes in a new look, `elapsed_us` after the last. `path_of` says which path an address is on.
    pub fn look(
        &mut self,
        now_us: u64,
        elapsed_us: u64,
        subflows: Vec<Subflow>,
        paths: usize,
        path_of: impl Fn(IpAddr) -> Option<usize>,
    ) {
        self.paths.resize_with(paths, PathTraffic::default);
        let elapsed = elapsed_us.max(1) as f64;
        let mut sums = vec![Sum::default(); paths];
        let mut of: HashMap<u32, Connection> = HashMap::new();
        let mut last = HashMap::with_capacity(subflows.len());
        let changes: Vec<Change> = subflows
            .iter()
            .map(|s| {
                // Nothing is known of what a subflow did before it was first seen: it may be hours old.
                let known = self.last.get(&s.cookie).copied();
                Change::between(known.unwrap_or(s.tcp), s.tcp)
            })
            .collect();
        let arrivals: Vec<Arrival> = subflows
            .iter()
            .zip(&changes)
            .map(|(s, new)| Arrival {
                connection: s.token,
                id: s.cookie,
                backup: s.backup,
                bytes: new.arrived_bytes,
                rtt_us: s.tcp.rcv_rtt,
            })
            .collect();
        let silent = self.silence.poll(now_us, elapsed_us, &arrivals);
        let rates: HashMap<u64, f64> = self
            .subflows
            .drain(..)
            .map(|s| (s.subflow.cookie, s.rate))
            .collect();
        for ((subflow, new), silent) in subflows.into_iter().zip(changes).zip(silent) {
            let path = path_of(subflow.local.ip());
            let known = self.last.contains_key(&subflow.cookie);
            last.insert(subflow.cookie, subflow.tcp);
            let connection = of.entry(subflow.token).or_default();
            connection.bytes += new.bytes();
            connection.stream = subflow.stream;
            self.bytes += new.bytes();
            if let Some(path) = path {
                sums[path].add(&new, &subflow.tcp);
                sums[path].fresh |= !known;
                sums[path].silent |= silent;
            }
            self.subflows.push(Seen {
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
        let moving = of.iter().filter(|(_, c)| c.bytes > 0);
        self.beginnings
            .poll(now_us, moving.map(|(&token, _)| token));
        self.connections.retain(|token, _| of.contains_key(token));
        for token in of.into_keys() {
            self.connections.entry(token).or_insert(now_us);
        }
        self.balance *= SMOOTHING_US / (SMOOTHING_US + elapsed);
        for (path, sum) in self.paths.iter_mut().zip(&sums) {
            self.balance += sum.sent_bytes as f64 - sum.received_bytes as f64;
            path.take_in(sum, elapsed);
        }
    }

    /// Whether this host sends more than it receives, of late.
    pub fn mostly_sends(&self) -> bool {
        self.balance > 0.0
    }

    /// Whether a connection of at least that age exists, and none of those has a subflow on the path.
    pub fn missing_on(&self, path: usize, now_us: u64, age_us: u64) -> bool {
        let mut old = self
            .connections
            .iter()
            .filter(|(_, &since)| now_us >= since + age_us)
            .peekable();
        let on = |token: u32| {
            self.subflows
                .iter()
                .any(|s| s.path == Some(path) && s.subflow.token == token)
        };
        old.peek().is_some() && !old.any(|(&token, _)| on(token))
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

/// One connection between two looks.
#[derive(Debug, Clone, Copy, Default)]
struct Connection {
    /// Of all subflows.
    bytes: u64,
    stream: Option<u64>,
}

impl Connection {
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

/// One path between two looks.
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
    fn add(&mut self, new: &Change, tcp: &TcpInfo) {
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

/// One subflow between two looks.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    sent_packets: u64,
    lost: u64,
    sent_bytes: u64,
    arrived_packets: u64,
    out_of_order: u64,
    received_bytes: u64,
    /// In order or not: while a hole is being filled `received_bytes` stands still, but the path does not. What had come
    /// before does not count: it comes again and again where nothing that this end says gets through.
    arrived_bytes: u64,
}

impl Change {
    fn between(before: TcpInfo, now: TcpInfo) -> Change {
        // The kernel's counters of 32 bits wrap.
        let count = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        let retransmitted = count(now.total_retrans, before.total_retrans);
        let needless = count(now.dsack_dups, before.dsack_dups);
        let arrived = count(now.data_segs_in, before.data_segs_in);
        let out_of_order = count(now.rcv_ooopack, before.rcv_ooopack);
        let received_bytes = now.bytes_received.saturating_sub(before.bytes_received);
        let segment = u64::from(now.rcv_mss);
        Change {
            sent_packets: count(now.data_segs_out, before.data_segs_out),
            lost: retransmitted.saturating_sub(needless),
            arrived_packets: arrived,
            out_of_order,
            sent_bytes: now.bytes_acked.saturating_sub(before.bytes_acked),
            received_bytes,
            arrived_bytes: (arrived * segment).min(received_bytes + out_of_order * segment),
        }
    }

    fn bytes(&self) -> u64 {
        self.sent_bytes + self.received_bytes
    }

    /// The own estimate of an end that only acknowledges is as old as its last request. While nothing moves, the end is
    /// what it was so far.
    fn rtt_us(&self, tcp: &TcpInfo) -> u32 {
        let receives = match self.bytes() {
            0 => tcp.bytes_received > tcp.bytes_acked,
            _ => self.received_bytes > self.sent_bytes,
        };
        match receives && tcp.rcv_rtt > 0 {
            true => tcp.rcv_rtt,
            false => tcp.rtt,
        }
    }
}

#[cfg(test)]
mod tests {
    use mp_policy::path_manager::{Received, Sent};

    use super::*;

    fn subflow(token: u32, host: u8, tcp: TcpInfo) -> Subflow {
        Subflow {
            token,
            cookie: u64::from(token) << 8 | u64::from(host),
            local: ([10, 0, 0, host], 1).into(),
            remote: ([10, 9, 9, 9], 80).into(),
            backup: false,
            tcp,
            stream: None,
        }
    }

    fn look(traffic: &mut Traffic, now_us: u64, subflows: Vec<Subflow>) {
        let path_of = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => Some(usize::from(v4.octets()[3])),
            IpAddr::V6(_) => None,
        };
        traffic.look(now_us, 50_000, subflows, 2, path_of);
    }

    fn received(bytes: u64, segments: u32, out_of_order: u32) -> TcpInfo {
        TcpInfo {
            bytes_received: bytes,
            data_segs_in: segments,
            rcv_mss: 1000,
            rcv_ooopack: out_of_order,
            rtt: 300_000,
            rcv_rtt: 20_000,
            min_rtt: 10_000,
            ..TcpInfo::default()
        }
    }

    #[test]
    fn the_figures_of_subflows_agree_with_those_of_their_path() {
        let mut traffic = Traffic::default();
        for step in 0..40u64 {
            let grown = received(step * step * 10_000, step as u32, 0);
            let other = received(step * 70_000, step as u32, 0);
            let subflows = vec![
                subflow(1, 0, grown),
                subflow(2, 0, other),
                subflow(3, 1, other),
            ];
            look(&mut traffic, step * 50_000, subflows);
            for (at, path) in traffic.paths.iter().enumerate() {
                let on = traffic.subflows.iter().filter(|s| s.path == Some(at));
                let sum: f64 = on.clone().map(|s| s.rate).sum();
                assert!((path.rate - sum).abs() < 1e-6 * (1.0 + sum), "{path:?}");
                for subflow in on {
                    assert_eq!(Some(subflow.rtt_us), path.counters.srtt_us);
                }
            }
        }
        assert!(traffic.paths[0].rate > 1e6);
    }

    #[test]
    fn what_was_before_the_first_look_does_not_count() {
        let mut traffic = Traffic::default();
        look(
            &mut traffic,
            0,
            vec![subflow(1, 0, received(5_000_000, 5_000, 70))],
        );
        let packets = traffic.paths[0].counters.packets();
        assert_eq!((traffic.bytes, packets), (0, 0));
        assert_eq!(traffic.paths[0].subflows, 1);
    }

    #[test]
    fn a_receiver_counts_what_arrives_and_takes_its_own_rtt_for_stale() {
        let mut traffic = Traffic::default();
        for (i, holes) in [0, 0, 30, 30, 55].into_iter().enumerate() {
            let n = i as u32 * 100;
            look(
                &mut traffic,
                u64::from(n),
                vec![subflow(1, 0, received(u64::from(n) * 1000, n, holes))],
            );
        }
        let counters = traffic.paths[0].counters;
        let received = Received {
            packets: 400,
            out_of_order: 55,
            bytes: 400_000,
            silent: false,
        };
        assert_eq!(counters.received, Some(received));
        assert_eq!(counters.sent, Some(Sent::default()));
        let rtts = (counters.srtt_us, counters.min_rtt_us);
        assert_eq!(rtts, (Some(20_000), Some(10_000)));
    }

    #[test]
    fn a_sender_counts_retransmissions_less_the_needless() {
        let mut traffic = Traffic::default();
        let sent = |n: u32, retransmitted, needless| TcpInfo {
            bytes_acked: u64::from(n) * 1000,
            data_segs_out: n,
            unacked: n / 10,
            total_retrans: retransmitted,
            dsack_dups: needless,
            rtt: 30_000,
            ..TcpInfo::default()
        };
        look(&mut traffic, 0, vec![subflow(1, 1, sent(0, 0, 0))]);
        look(&mut traffic, 1, vec![subflow(1, 1, sent(100, 7, 2))]);
        let counters = traffic.paths[1].counters;
        let sent = Sent {
            packets: 100,
            lost: 5,
            bytes: 100_000,
            in_flight: 10,
        };
        assert_eq!(counters.sent, Some(sent));
        assert_eq!(counters.srtt_us, Some(30_000));
        assert_eq!(traffic.paths[0].counters.srtt_us, None, "no subflow");
    }

    #[test]
    fn what_had_come_before_is_no_new_payload() {
        let mut traffic = Traffic::default();
        let mut arrived = |now_us: u64, tcp: TcpInfo| {
            look(&mut traffic, now_us, vec![subflow(1, 0, tcp)]);
            traffic.paths[0].counters.bytes()
        };
        arrived(0, received(0, 0, 0));
        assert_eq!(arrived(50_000, received(9_000, 9, 0)), 9_000);
        assert_eq!(arrived(300_000, received(9_000, 10, 0)), 9_000);
        assert_eq!(arrived(550_000, received(10_000, 19, 8)), 18_000);
        assert_eq!(arrived(560_000, received(19_000, 20, 8)), 19_000);
    }

    #[test]
    fn data_that_wait_for_others_have_not_got_to_the_stream() {
        let mut traffic = Traffic::default();
        let mut look = |n: u32, stream: Option<u64>| {
            let both = [0, 1].map(|host| Subflow {
                stream,
                ..subflow(1, host, received(u64::from(n) * 1000, n, 0))
            });
            look(&mut traffic, u64::from(n), both.into());
            (traffic.bytes, traffic.in_order)
        };
        // The sequence number wraps, as it may.
        look(0, Some(u64::MAX - 99));
        assert_eq!(look(10, Some(u64::MAX - 99)), (20_000, 0));
        assert_eq!(look(20, Some(39_900)), (40_000, 40_000), "the hole is full");
        assert_eq!(look(30, None), (60_000, 60_000), "nobody tells");
        assert_eq!(look(40, Some(7)), (80_000, 80_000), "not since when");
        assert_eq!(look(50, Some(1 << 60)), (100_000, 100_000), "set anew");
    }

    #[test]
    fn counters_stay_when_their_subflow_goes() {
        let mut traffic = Traffic::default();
        look(&mut traffic, 0, vec![subflow(1, 0, received(0, 0, 0))]);
        look(&mut traffic, 1, vec![subflow(1, 0, received(9_000, 9, 0))]);
        look(&mut traffic, 2, vec![]);
        assert_eq!(traffic.paths[0].counters.bytes(), 9_000);
        assert_eq!(
            (traffic.paths[0].subflows, traffic.connections.len()),
            (0, 0)
        );
    }

    #[test]
    fn a_path_is_missed_once_no_grown_connection_has_a_subflow_there() {
        let mut traffic = Traffic::default();
        let tcp = received(0, 0, 0);
        look(&mut traffic, 0, vec![subflow(1, 0, tcp)]);
        assert!(!traffic.missing_on(1, 2_000_000, 3_000_000), "too young");
        assert!(traffic.missing_on(1, 3_000_000, 3_000_000));
        look(
            &mut traffic,
            1,
            vec![subflow(1, 0, tcp), subflow(2, 0, tcp), subflow(2, 1, tcp)],
        );
        assert!(!traffic.missing_on(1, 9_000_000, 3_000_000), "one has it");
        look(&mut traffic, 2, vec![]);
        assert!(
            !traffic.missing_on(1, 9_000_000, 3_000_000),
            "nobody misses it"
        );
    }
}
