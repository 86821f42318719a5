//! The bottleneck's queue: drop-tail, CoDel or RED.

use std::collections::VecDeque;

use mp_links::{CoDel, Red, Verdict};
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
    Red(Red, SmallRng),
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
            } => Policy::Red(Red::new(min, max, probability), rng),
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

    /// `idle_packets` of its size could have been sent since the bottleneck fell idle.
    pub fn enqueue(&mut self, now: Nanos, mut packet: P, idle_packets: u64) {
        let size = packet.size();
        let full = match self.limit {
            QueueLimit::Packets(n) => self.packets.len() as u64 >= n,
            QueueLimit::Bytes(n) => self.bytes + size > n,
        };
        let early = match &mut self.policy {
            Policy::Red(red, rng) if !full => {
                let waiting = self.packets.len() as u64;
                red.enqueue(waiting, idle_packets, || rng.random()) == Verdict::Signal
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
                Policy::CoDel(codel) => {
                    let sojourn = now.saturating_sub(at);
                    codel.dequeue(now, sojourn, self.bytes) == Verdict::Signal
                }
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
