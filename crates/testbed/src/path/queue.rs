//! The bottleneck's queue: drop-tail, CoDel or RED.

use std::collections::VecDeque;

use mp_links::{Aqm, Verdict};
use mp_scenario::QueueLimit;
use rand::rngs::SmallRng;
use rand::Rng;

use super::Nanos;

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
    aqm: Aqm,
    rng: SmallRng,
    /// Packets dropped by the limit or the discipline.
    pub dropped: u64,
    /// Packets marked in place of a drop.
    pub marked: u64,
}

impl<P: Packet> Queue<P> {
    pub fn new(queue: &mp_scenario::Queue, rng: SmallRng) -> Queue<P> {
        Queue {
            packets: VecDeque::new(),
            bytes: 0,
            limit: queue.limit,
            ecn: queue.ecn,
            aqm: queue.discipline.process(),
            rng,
            dropped: 0,
            marked: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// `idle_packets` of its size could have been sent since the bottleneck fell idle; `None`: it is busy.
    pub fn enqueue(&mut self, now: Nanos, mut packet: P, idle_packets: Option<u64>) {
        let (size, waiting) = (packet.size(), self.packets.len() as u64);
        let full = match self.limit {
            // What comes to an idle bottleneck need not wait.
            _ if idle_packets.is_some() && waiting == 0 => false,
            QueueLimit::Packets(n) => waiting >= n,
            QueueLimit::Bytes(n) => self.bytes + size > n,
        };
        let idle = idle_packets.unwrap_or(0);
        let signal =
            !full && self.aqm.enqueue(waiting, idle, || self.rng.random()) == Verdict::Signal;
        if full || signal && !mark(self.ecn, &mut packet, &mut self.marked) {
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
            let sojourn = now.saturating_sub(at);
            let signal = self.aqm.dequeue(now, sojourn, self.bytes) == Verdict::Signal;
            if !signal || mark(self.ecn, &mut packet, &mut self.marked) {
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
