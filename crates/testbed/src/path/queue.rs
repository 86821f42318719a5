//! The bottleneck's queue: drop-tail, CoDel or RED.

use std::collections::VecDeque;

use mp_scenario::{Discipline, QueueLimit};
use rand::rngs::SmallRng;
use rand::Rng;

use super::schedule::{nanos, Nanos};

/// What a queue must know of a packet.
pub trait Packet {
    /// Bytes of the IP packet.
    fn size(&self) -> u64;
    /// Sets Congestion Experienced; false if the packet is not ECN-capable.
    fn mark(&mut self) -> bool;
}

pub struct Queue<P> {
    packets: VecDeque<(Nanos, P)>,
    bytes: u64,
    limit: QueueLimit,
    ecn: bool,
    policy: Policy,
    /// Packets dropped by the limit or the discipline.
    pub dropped: u64,
    /// Packets marked in place of a drop.
    pub marked: u64,
}

enum Policy {
    DropTail,
    CoDel(CoDel),
    Red(Red),
}

impl<P: Packet> Queue<P> {
    pub fn new(queue: &mp_scenario::Queue, rng: SmallRng) -> Queue<P> {
        let policy = match queue.discipline {
            Discipline::DropTail => Policy::DropTail,
            Discipline::CoDel { target, interval } => {
                Policy::CoDel(CoDel::new(nanos(target), nanos(interval)))
            }
            Discipline::Red {
                min,
                max,
                probability,
            } => Policy::Red(Red::new(min, max, probability, rng)),
        };
        Queue {
            packets: VecDeque::new(),
            bytes: 0,
            limit: queue.limit,
            ecn: queue.ecn,
            policy,
            dropped: 0,
            marked: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub fn enqueue(&mut self, now: Nanos, mut packet: P) {
        let size = packet.size();
        let full = match self.limit {
            QueueLimit::Packets(n) => self.packets.len() as u64 >= n,
            QueueLimit::Bytes(n) => self.bytes + size > n,
        };
        let early = match &mut self.policy {
            Policy::Red(red) if !full => {
                red.congested(now, self.packets.len())
                    && !mark(self.ecn, &mut packet, &mut self.marked)
            }
            _ => false,
        };
        if full || early {
            self.dropped += 1;
            return;
        }
        self.bytes += size;
        self.packets.push_back((now, packet));
    }

    /// When the head came in.
    pub fn head(&self) -> Option<Nanos> {
        self.packets.front().map(|(at, _)| *at)
    }

    pub fn dequeue(&mut self, now: Nanos) -> Option<P> {
        loop {
            let (at, mut packet) = self.packets.pop_front()?;
            self.bytes -= packet.size();
            let drop = match &mut self.policy {
                Policy::CoDel(codel) => codel.drops(now, now.saturating_sub(at), self.bytes),
                _ => false,
            };
            if !drop || mark(self.ecn, &mut packet, &mut self.marked) {
                return Some(packet);
            }
            self.dropped += 1;
        }
    }
}

fn mark(ecn: bool, packet: &mut impl Packet, marked: &mut u64) -> bool {
    let done = ecn && packet.mark();
    *marked += u64::from(done);
    done
}

/// RFC 8289 section 5; field names are its own.
struct CoDel {
    target: Nanos,
    interval: Nanos,
    first_above_time: Nanos,
    drop_next: Nanos,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

/// RFC 8289 section 5.6: with less than this waiting, the delay is not the queue's fault.
const CODEL_MTU: u64 = 1514;

impl CoDel {
    fn new(target: Nanos, interval: Nanos) -> CoDel {
        CoDel {
            target,
            interval,
            first_above_time: 0,
            drop_next: 0,
            count: 0,
            lastcount: 0,
            dropping: false,
        }
    }

    fn control_law(&self, t: Nanos) -> Nanos {
        t + (self.interval as f64 / f64::from(self.count).sqrt()) as Nanos
    }

    /// Whether the packet taken out at `now` after `sojourn` is to be dropped; called again for the one after it.
    fn drops(&mut self, now: Nanos, sojourn: Nanos, bytes_left: u64) -> bool {
        let ok_to_drop = if sojourn < self.target || bytes_left <= CODEL_MTU {
            self.first_above_time = 0;
            false
        } else if self.first_above_time == 0 {
            self.first_above_time = now + self.interval;
            false
        } else {
            now >= self.first_above_time
        };
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
                return false;
            }
            if now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.drop_next = self.control_law(self.drop_next);
            return true;
        }
        if !ok_to_drop {
            return false;
        }
        self.dropping = true;
        let delta = self.count - self.lastcount;
        let recent = now.saturating_sub(self.drop_next) < 16 * self.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.lastcount = self.count;
        true
    }
}

/// Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993.
struct Red {
    min: f64,
    max: f64,
    probability: f64,
    /// Average queue, packets.
    average: f64,
    /// Packets since the last one marked.
    count: i64,
    empty_since: Option<Nanos>,
    rng: SmallRng,
}

/// Weight of a sample in the average (their w_q).
const RED_WEIGHT: f64 = 0.002;
/// Typical time of a packet's transmission, to age the average over an idle time (their s).
const RED_IDLE_PACKET: f64 = 1_000_000.0;

impl Red {
    fn new(min: f64, max: f64, probability: f64, rng: SmallRng) -> Red {
        Red {
            min,
            max,
            probability,
            average: 0.0,
            count: -1,
            empty_since: Some(0),
            rng,
        }
    }

    fn congested(&mut self, now: Nanos, length: usize) -> bool {
        match (length, self.empty_since) {
            (0, Some(since)) => {
                let m = now.saturating_sub(since) as f64 / RED_IDLE_PACKET;
                self.average *= (1.0 - RED_WEIGHT).powf(m);
            }
            (0, None) => self.average *= 1.0 - RED_WEIGHT,
            _ => self.average += RED_WEIGHT * (length as f64 - self.average),
        }
        self.empty_since = (length == 0).then_some(now);
        if self.average < self.min {
            self.count = -1;
            return false;
        }
        if self.average >= self.max {
            self.count = 0;
            return true;
        }
        self.count += 1;
        let base = self.probability * (self.average - self.min) / (self.max - self.min);
        let spaced = base / (1.0 - self.count as f64 * base).max(f64::MIN_POSITIVE);
        let marked = self.rng.random::<f64>() < spaced;
        if marked {
            self.count = 0;
        }
        marked
    }
}
