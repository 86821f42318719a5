//! One direction of a path, or of a shared bottleneck. A packet meets, in this order: outage and random loss, the
//! policer, the queue, the bottleneck, the propagation delay with its jitter.
//!
//! A queue that drops at its tail need not be simulated packet by packet: with the rate known ahead, the time at which
//! a packet arrives at the far end is known when it enters. So such a link has one event a packet, its arrival. CoDel
//! decides when a packet leaves the queue; a link with CoDel has a second event then.

mod change;
mod police;
mod room;
#[cfg(test)]
mod tests;

pub use change::Replan;

use std::collections::VecDeque;

use mp_links::{Aqm, Losses, Propagation, Server, TokenBucket, Verdict};
use mp_scenario::{Direction, QueueLimit};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::packet::{flag, Kind, Packet, SPREAD};
use crate::agenda::NEVER;

/// Hosts answer after interrupts and context switches: an ACK is late by up to so many ns, at random, and one in 64 by up
/// to a hiccup more. Without that, packets of one size keep step with each other and with the queue for ever (phase
/// effects, Floyd & Jacobson 1992), and a run without losses would not depend on its seed. The sizes are those of the
/// kernel world: the gaps between its ACKs through a 20 Mbit/s link scatter by 15 µs, 3 % of them by more than 50 µs.
const HOST_NOISE: u64 = (1 << 15) - 1;
const HICCUP: u64 = (1 << 18) - 1;
/// What pacing lets go at once, in time (`tcp_tso_autosize`), ns.
const BURST: u64 = 1_000_000_000 >> 10;

#[inline]
fn host_noise(r: u64) -> u64 {
    let common = r & HOST_NOISE;
    if r >> 58 == 0 {
        common + (r >> 32 & HICCUP)
    } else {
        common
    }
}

/// In the queue, the first one being sent.
#[derive(Debug, Clone, Copy)]
struct Queued {
    depart: u64,
    size: u32,
    count: u32,
}

#[derive(Debug, Clone, Copy)]
struct Transit {
    arrive: u64,
    depart: u64,
    packet: Packet,
}

/// What [`Link::advance`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Arrived,
    /// Dropped by the queue, or cut by an outage.
    Gone,
    /// A step inside the link.
    Nothing,
}

#[derive(Debug)]
pub struct Link {
    /// The shared bottleneck behind this path; `None`: the far end's host.
    pub next: Option<u32>,
    server: Server,
    propagation: Propagation,
    limit: QueueLimit,
    ecn: bool,
    aqm: Aqm,
    losses: Losses,
    /// Few links have one, so it lives outside of what every packet touches.
    policer: Option<Box<TokenBucket>>,
    rng: Xoshiro256PlusPlus,
    down: bool,
    busy_until: u64,
    queue: VecDeque<Queued>,
    /// CoDel's queue: packets with their times of entry.
    waiting: VecDeque<(u64, Packet)>,
    queued_packets: u64,
    queued_bytes: u64,
    /// In order of arrival.
    transit: VecDeque<Transit>,
}

impl Link {
    pub fn new(direction: &Direction, next: Option<u32>, seed: u64) -> Self {
        Link {
            next,
            server: Server::new(direction.capacity()),
            propagation: Propagation::new(
                direction.delays(),
                direction.jitter(),
                direction.reorder,
            ),
            limit: direction.queue.limit,
            ecn: direction.queue.ecn,
            aqm: direction.queue.discipline.process(),
            losses: Losses::new(direction.losses()),
            policer: direction.policer.map(|p| Box::new(p.bucket())),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            down: false,
            busy_until: 0,
            queue: VecDeque::new(),
            waiting: VecDeque::new(),
            queued_packets: 0,
            queued_bytes: 0,
            transit: VecDeque::new(),
        }
    }

    /// Marks packets, so that its users should be ECN-capable.
    pub fn marks(&self) -> bool {
        self.ecn && !matches!(self.aqm, Aqm::DropTail)
    }

    /// Time of the next [`Link::advance`].
    #[inline]
    pub fn next_event(&self) -> u64 {
        let arrival = self.transit.front().map_or(NEVER, |t| t.arrive);
        match self.waiting.is_empty() {
            true => arrival,
            false => arrival.min(self.busy_until),
        }
    }

    /// Takes a packet in; false where it is lost or dropped at once.
    #[inline]
    pub fn send(&mut self, now: u64, packet: &Packet) -> bool {
        let plain = self.losses.is_none() && packet.count == 1;
        if plain && !self.down && self.policer.is_none() {
            if let (Server::Constant(_), Aqm::DropTail) = (&self.server, &self.aqm) {
                return self.enqueue(now, packet);
            }
        }
        self.send_unusual(now, packet)
    }

    /// Droptail: whether it fits is all that there is to ask.
    #[inline]
    fn enqueue(&mut self, now: u64, packet: &Packet) -> bool {
        if !self.fits(packet) {
            self.leave(now);
            if !self.fits(packet) {
                return false;
            }
        }
        self.busy_until = self.server.serve(now.max(self.busy_until), packet.size);
        let segments = packet.segments();
        self.queue.push_back(Queued {
            depart: self.busy_until,
            size: packet.size,
            count: segments,
        });
        self.queued_packets += u64::from(segments);
        self.queued_bytes += u64::from(packet.size);
        self.launch(self.busy_until, packet);
        true
    }

    /// A train that pacing spread over some time until now: a link that was free has sent the first of it by now. The last
    /// burst comes at once, and its segments wait for half of each other on average.
    fn enqueue_spread(&mut self, now: u64, mut packet: Packet) -> bool {
        let span = u64::from(packet.spread) * SPREAD;
        let start = self.busy_until.max(now.saturating_sub(span));
        let each = packet.size / packet.segments().max(1);
        let time = self.server.service_time(start, each).max(1);
        let gone = now.saturating_sub(start) / time;
        self.trim(&mut packet, gone);
        let count = packet.segments();
        let waits = count - gone.min(u64::from(count)) as u32;
        if u64::from(waits) > self.room_for(each) {
            return false;
        }
        self.busy_until = self.server.serve(start, packet.size);
        let burst = u64::from(count) * BURST / (span + BURST);
        let last = time.saturating_mul(burst.div_ceil(2));
        let depart = self.busy_until.max(now.saturating_add(last));
        self.queue.push_back(Queued {
            depart,
            size: waits * each,
            count: waits,
        });
        self.queued_packets += u64::from(waits);
        self.queued_bytes += u64::from(waits * each);
        self.launch(depart, &packet);
        true
    }

    fn send_unusual(&mut self, now: u64, packet: &Packet) -> bool {
        if self.down {
            return false;
        }
        let mut packet = *packet;
        if !self.survives(now, &mut packet) || !self.conforms(now, &mut packet) {
            return false;
        }
        if matches!(self.server, Server::Unlimited) {
            self.launch(now, &packet);
            return true;
        }
        self.leave(now);
        if packet.spread > 0 && matches!(self.aqm, Aqm::DropTail) {
            return self.enqueue_spread(now, packet);
        }
        if packet.count > 1 {
            self.trim(&mut packet, 0);
        }
        if !self.fits(&packet) {
            return false;
        }
        match &mut self.aqm {
            Aqm::DropTail => {}
            Aqm::CoDel(_) => {
                self.waiting.push_back((now, packet));
                self.queued_packets += u64::from(packet.segments());
                self.queued_bytes += u64::from(packet.size);
                return true;
            }
            Aqm::Red(red) => {
                let idle = now.saturating_sub(self.busy_until);
                let idle_packets = idle / self.server.service_time(now, packet.size).max(1);
                let being_sent = self.queue.front().map_or(0, |q| u64::from(q.count));
                let waiting = self.queued_packets - being_sent;
                let verdict = red.enqueue(waiting, idle_packets, || self.rng.next_u64());
                if verdict == Verdict::Signal && !mark(self.ecn, &mut packet) {
                    return false;
                }
            }
        }
        self.enqueue(now, &packet)
    }

    /// Random loss, segment by segment.
    fn survives(&mut self, now: u64, packet: &mut Packet) -> bool {
        let loss = self.losses.at(now);
        if packet.kind != Kind::Data || packet.count == 1 {
            return !loss.loses(|| self.rng.next_u64());
        }
        if matches!(loss, mp_links::Loss::None) {
            return true;
        }
        let mut keep = u64::MAX;
        for i in 0..packet.count {
            if loss.loses(|| self.rng.next_u64()) {
                keep &= !(1 << i);
            }
        }
        packet.thin(keep);
        packet.extra != 0
    }

    /// The next event, due at `now`; the packet it is about is put into `packet`.
    #[inline]
    pub fn advance(&mut self, now: u64, packet: &mut Packet) -> Outcome {
        match self.transit.front() {
            Some(first) if first.arrive <= now => {
                *packet = first.packet;
                self.transit.pop_front();
                if self.down {
                    Outcome::Gone
                } else {
                    Outcome::Arrived
                }
            }
            _ => self.dequeue(now, packet),
        }
    }

    /// CoDel: the link is free for the next packet.
    fn dequeue(&mut self, now: u64, packet: &mut Packet) -> Outcome {
        let Some((entered, head)) = self.waiting.pop_front() else {
            return Outcome::Nothing;
        };
        *packet = head;
        self.queued_packets -= u64::from(packet.segments());
        self.queued_bytes -= u64::from(packet.size);
        let verdict = self.aqm.dequeue(now, now - entered, self.queued_bytes);
        if verdict == Verdict::Signal && !mark(self.ecn, packet) {
            return Outcome::Gone;
        }
        self.busy_until = self.server.serve(now, packet.size);
        self.launch(self.busy_until, packet);
        Outcome::Nothing
    }

    /// The packet leaves the queue at `depart`.
    #[inline]
    fn launch(&mut self, depart: u64, packet: &Packet) {
        let plain = self.propagation.is_plain() && depart != NEVER;
        let late = match plain && packet.kind == Kind::Ack {
            true => host_noise(self.rng.next_u64()),
            false => 0,
        };
        let transit = Transit {
            arrive: self
                .propagation
                .arrival(depart, late, || self.rng.next_u64()),
            depart,
            packet: *packet,
        };
        match plain {
            true => self.transit.push_back(transit),
            false => self.insert(transit),
        }
    }

    fn insert(&mut self, transit: Transit) {
        let at = self.transit.partition_point(|t| t.arrive <= transit.arrive);
        self.transit.insert(at, transit);
    }
}

fn mark(marks: bool, packet: &mut Packet) -> bool {
    let capable = marks && packet.has(flag::ECT);
    if capable {
        packet.flags |= flag::CE;
    }
    capable
}
