//! What all connections do on each path, from one look at their subflows to the next.
//!
//! A subflow that sends counts its own losses: retransmissions, less those that the peer calls needless. Where this host
//! receives, the sender's counters are out of sight: out-of-order arrivals tell of holes. All that follow a hole arrive
//! so until it is filled, hence an interval with any counts as one loss.

use std::collections::HashMap;
use std::net::IpAddr;

use mp_kernel::diag::Subflow;
use mp_kernel::mptcp_info::TcpInfo;
use mp_policy::path_manager::Stats;

use crate::beginnings::Beginnings;
use crate::silence::Silence;

/// Counters of one path, over all subflows that were ever seen there.
#[derive(Debug, Clone, Default)]
pub struct PathTraffic {
    pub stats: Stats,
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
    /// A round trip after something last arrived: what was on the way then has come.
    follows_us: u64,
}

#[derive(Debug, Default)]
pub struct Traffic {
    pub paths: Vec<PathTraffic>,
    /// Payload of all paths, bytes.
    pub bytes: u64,
    /// Of that, what the streams got in order.
    pub in_order: u64,
    /// See `View::held_us`, which also says how little of it the kernel tells: the mean over the connections that moved data.
    pub held_us: u64,
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
    /// Since the last look, bytes/s.
    pub rate: f64,
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
        let arrived: Vec<(&Subflow, u64)> = subflows
            .iter()
            .zip(&changes)
            .map(|(s, new)| (s, new.arrived_bytes))
            .collect();
        let dead = self.silence.look(now_us, elapsed_us, &arrived);
        self.subflows.clear();
        for ((subflow, new), dead) in subflows.into_iter().zip(changes).zip(dead) {
            let path = path_of(subflow.local.ip());
            let known = self.last.contains_key(&subflow.cookie);
            last.insert(subflow.cookie, subflow.tcp);
            let connection = of.entry(subflow.token).or_default();
            connection.held_us = connection.held_us.max(new.held_us);
            connection.bytes += new.bytes();
            connection.stream = subflow.stream;
            self.bytes += new.bytes();
            if let Some(path) = path {
                sums[path].add(&new, &subflow.tcp);
                sums[path].fresh |= !known;
                sums[path].dead |= dead;
            }
            self.subflows.push(Seen {
                path,
                rate: new.bytes() as f64 * 1e6 / elapsed,
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
        let moving: Vec<(u32, u64)> = of
            .iter()
            .filter(|(_, c)| c.bytes > 0)
            .map(|(&token, c)| (token, c.held_us))
            .collect();
        self.beginnings
            .look(now_us, moving.iter().map(|(token, _)| *token));
        if !moving.is_empty() {
            self.held_us += moving.iter().map(|(_, held)| held).sum::<u64>() / moving.len() as u64;
        }
        self.connections.retain(|token, _| of.contains_key(token));
        for token in of.into_keys() {
            self.connections.entry(token).or_insert(now_us);
        }
        self.balance *= SMOOTHING_US / (SMOOTHING_US + elapsed);
        for (path, sum) in self.paths.iter_mut().zip(&sums) {
            self.balance += sum.sent_bytes as f64 - sum.received_bytes as f64;
            path.take_in(sum, now_us, elapsed);
        }
        // What is on the way to a receiver is out of sight, but a stream that moves fills all its paths: one of which nothing
        // comes meanwhile may have died.
        let follows = self.paths.iter().any(|p| now_us < p.follows_us);
        for (path, sum) in self.paths.iter_mut().zip(&sums) {
            path.stats.unacked = sum.unacked + u64::from(follows || sum.dead);
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
    fn take_in(&mut self, sum: &Sum, now_us: u64, elapsed: f64) {
        (self.subflows, self.fresh) = (sum.subflows, sum.fresh);
        let stats = &mut self.stats;
        stats.sent += sum.packets + sum.lost;
        stats.lost += sum.lost;
        stats.delivered += sum.sent_bytes + sum.arrived_bytes;
        // What the sender has on the way is out of sight, but there is something: a packet stands for it.
        stats.sent += u64::from(sum.dead && sum.arrived_bytes == 0);
        self.sent_bytes += sum.sent_bytes;
        self.received_bytes += sum.received_bytes;
        if sum.weight > 0.0 {
            stats.srtt_us = (sum.srtt / sum.weight) as u32;
        }
        if let Some(min_rtt) = sum.min_rtt_us {
            stats.min_rtt_us = min_rtt;
        }
        if sum.arrived_bytes > 0 {
            self.follows_us = now_us + u64::from(stats.srtt_us);
        }
        let weight = elapsed / (elapsed + SMOOTHING_US);
        let rate = (sum.sent_bytes + sum.received_bytes) as f64 * 1e6 / elapsed;
        self.rate += weight * (rate - self.rate);
        let keep = 1.0 - weight / 4.0;
        self.recent.0 = self.recent.0 * keep + (sum.packets + sum.lost) as f64;
        self.recent.1 = self.recent.1 * keep + sum.lost as f64;
        self.loss = self.recent.1 / self.recent.0.max(1.0);
    }
}

/// One connection between two looks.
#[derive(Debug, Clone, Copy, Default)]
struct Connection {
    held_us: u64,
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
    dead: bool,
    packets: u64,
    unacked: u64,
    lost: u64,
    sent_bytes: u64,
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
        self.packets += new.packets;
        self.unacked += u64::from(tcp.unacked);
        self.lost += new.lost;
        self.sent_bytes += new.sent_bytes;
        self.received_bytes += new.received_bytes;
        self.arrived_bytes += new.arrived_bytes;
        // The own estimate of an end that only acknowledges is as old as its last request.
        let srtt = match new.received_bytes > new.sent_bytes && tcp.rcv_rtt > 0 {
            true => tcp.rcv_rtt,
            false => tcp.rtt,
        };
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
    packets: u64,
    lost: u64,
    sent_bytes: u64,
    received_bytes: u64,
    /// In order or not: while a hole is being filled `received_bytes` stands still, but the path does not. What had come
    /// before does not count: it comes again and again where nothing that this end says gets through.
    arrived_bytes: u64,
    held_us: u64,
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
            packets: count(now.data_segs_out, before.data_segs_out) + arrived,
            lost: retransmitted.saturating_sub(needless) + u64::from(out_of_order > 0),
            sent_bytes: now.bytes_acked.saturating_sub(before.bytes_acked),
            received_bytes,
            arrived_bytes: (arrived * segment).min(received_bytes + out_of_order * segment),
            held_us: now.rwnd_limited.saturating_sub(before.rwnd_limited),
        }
    }

    fn bytes(&self) -> u64 {
        self.sent_bytes + self.received_bytes
    }
}

#[cfg(test)]
mod tests {
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
    fn what_was_before_the_first_look_does_not_count() {
        let mut traffic = Traffic::default();
        look(
            &mut traffic,
            0,
            vec![subflow(1, 0, received(5_000_000, 5_000, 70))],
        );
        assert_eq!((traffic.bytes, traffic.paths[0].stats.sent), (0, 0));
        assert_eq!(traffic.paths[0].subflows, 1);
    }

    #[test]
    fn a_receiver_takes_an_interval_with_holes_for_one_loss_and_its_own_rtt_for_stale() {
        let mut traffic = Traffic::default();
        for (i, holes) in [0, 0, 30, 30, 55].into_iter().enumerate() {
            let n = i as u32 * 100;
            look(
                &mut traffic,
                u64::from(n),
                vec![subflow(1, 0, received(u64::from(n) * 1000, n, holes))],
            );
        }
        let stats = traffic.paths[0].stats;
        assert_eq!((stats.sent, stats.lost, stats.delivered), (402, 2, 400_000));
        assert_eq!((stats.srtt_us, stats.min_rtt_us), (20_000, 10_000));
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
        let stats = traffic.paths[1].stats;
        assert_eq!(
            (stats.lost, stats.delivered, stats.srtt_us),
            (5, 100_000, 30_000)
        );
        assert_eq!(stats.unacked, 10);
    }

    #[test]
    fn a_receiver_has_more_on_the_way_for_a_round_trip_after_what_came() {
        let mut traffic = Traffic::default();
        let mut on_the_way = |now_us: u64, segments: u32| {
            let tcp = received(u64::from(segments) * 1000, segments, 0);
            look(&mut traffic, now_us, vec![subflow(1, 0, tcp)]);
            traffic.paths[0].stats.unacked
        };
        assert_eq!(on_the_way(50_000, 0), 0);
        assert_eq!(on_the_way(100_000, 9), 1);
        assert_eq!(on_the_way(115_000, 9), 1);
        assert_eq!(on_the_way(150_000, 9), 0);
    }

    #[test]
    fn a_receiver_does_not_take_a_path_that_fell_silent_for_an_idle_one() {
        let mut traffic = Traffic::default();
        let mut on_the_way = |now_us: u64, segments: [u32; 2]| {
            let of = |path: u8| {
                let n = segments[usize::from(path)];
                subflow(1, path, received(u64::from(n) * 1000, n, 0))
            };
            look(&mut traffic, now_us, vec![of(0), of(1)]);
            [0, 1].map(|path: usize| traffic.paths[path].stats.unacked)
        };
        on_the_way(50_000, [0, 0]);
        assert_eq!(on_the_way(100_000, [9, 9]), [1, 1]);
        assert_eq!(on_the_way(200_000, [9, 18]), [1, 1]);
        assert_eq!(on_the_way(300_000, [9, 18]), [0, 0]);
    }

    #[test]
    fn what_had_come_before_is_no_sign_of_life() {
        let mut traffic = Traffic::default();
        let mut delivered = |now_us: u64, tcp: TcpInfo| {
            look(&mut traffic, now_us, vec![subflow(1, 0, tcp)]);
            let path = &traffic.paths[0].stats;
            (path.delivered, path.unacked)
        };
        delivered(0, received(0, 0, 0));
        assert_eq!(delivered(50_000, received(9_000, 9, 0)), (9_000, 1));
        assert_eq!(delivered(300_000, received(9_000, 10, 0)), (9_000, 0));
        let with_a_hole = received(10_000, 19, 8);
        assert_eq!(delivered(550_000, with_a_hole), (18_000, 1));
        assert_eq!(
            delivered(560_000, received(19_000, 20, 8)),
            (19_000, 1),
            "full"
        );
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
        assert_eq!(traffic.paths[0].stats.delivered, 9_000);
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
