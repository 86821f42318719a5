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

use std::collections::VecDeque;
use std::sync::Arc;

use mp_links::{CoDel, Red, Verdict};
use mp_scenario::{Direction, Discipline, QueueLimit, Rate, Step, Trace, TraceKind};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::packet::{flag, Kind, Packet, SPREAD};
use super::rate::{step_at, Server};
use crate::agenda::NEVER;
use crate::time::nanos;

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

#[derive(Debug)]
enum Manager {
    DropTail,
    Red(Red),
    CoDel {
        state: CoDel,
        /// Packets with their times of entry.
        waiting: VecDeque<(u64, Packet)>,
    },
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
    delay: u64,
    jitter: Option<(u64, u64)>,
    reorder: bool,
    limit: QueueLimit,
    ecn: bool,
    manager: Manager,
    loss: mp_links::Loss,
    policer: police::Bucket,
    /// Delay and loss that change with the steps of a trace.
    steps: Option<(Arc<Trace>, usize)>,
    rng: Xoshiro256PlusPlus,
    down: bool,
    busy_until: u64,
    last_arrival: u64,
    queue: VecDeque<Queued>,
    queued_packets: u64,
    queued_bytes: u64,
    /// In order of arrival.
    transit: VecDeque<Transit>,
}

impl Link {
    pub fn new(direction: &Direction, next: Option<u32>, seed: u64) -> Self {
        let manager = match direction.queue.discipline {
            Discipline::DropTail => Manager::DropTail,
            Discipline::CoDel { target, interval } => Manager::CoDel {
                state: CoDel::new(nanos(target), nanos(interval)),
                waiting: VecDeque::new(),
            },
            Discipline::Red {
                min,
                max,
                probability,
            } => Manager::Red(Red::new(min, max, probability)),
        };
        let steps = match &direction.rate {
            Rate::Trace(trace) => match &trace.kind {
                TraceKind::Steps(s) if s.iter().any(|s| s.delay.is_some() || s.loss.is_some()) => {
                    Some((trace.clone(), 0))
                }
                _ => None,
            },
            _ => None,
        };
        Link {
            next,
            server: Server::new(&direction.rate),
            delay: nanos(direction.delay),
            jitter: direction.jitter.map(|(a, b)| (nanos(a), nanos(b))),
            reorder: direction.reorder,
            limit: direction.queue.limit,
            ecn: direction.queue.ecn,
            manager,
            loss: direction.loss.process(),
            policer: police::bucket(direction.policer),
            steps,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            down: false,
            busy_until: 0,
            last_arrival: 0,
            queue: VecDeque::new(),
            queued_packets: 0,
            queued_bytes: 0,
            transit: VecDeque::new(),
        }
    }

    /// Marks packets, so that its users should be ECN-capable.
    pub fn marks(&self) -> bool {
        self.ecn && !matches!(self.manager, Manager::DropTail)
    }

    /// Time of the next [`Link::advance`].
    #[inline]
    pub fn next_event(&self) -> u64 {
        let arrival = self.transit.front().map_or(NEVER, |t| t.arrive);
        match &self.manager {
            Manager::CoDel { waiting, .. } if !waiting.is_empty() => arrival.min(self.busy_until),
            _ => arrival,
        }
    }

    /// Takes a packet in; false where it is lost or dropped at once.
    #[inline]
    pub fn send(&mut self, now: u64, packet: &Packet) -> bool {
        let plain = matches!(self.loss, mp_links::Loss::None) && packet.count == 1;
        if plain && !self.down && self.steps.is_none() && self.policer.is_none() {
            if let (Server::Constant(_), Manager::DropTail) = (&self.server, &self.manager) {
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
        self.follow_steps(now);
        let mut packet = *packet;
        if !self.survives(&mut packet) || !self.conforms(now, &mut packet) {
            return false;
        }
        if matches!(self.server, Server::Unlimited) {
            self.launch(now, &packet);
            return true;
        }
        self.leave(now);
        if packet.spread > 0 && matches!(self.manager, Manager::DropTail) {
            return self.enqueue_spread(now, packet);
        }
        if packet.count > 1 {
            self.trim(&mut packet, 0);
        }
        if !self.fits(&packet) {
            return false;
        }
        match &mut self.manager {
            Manager::DropTail => {}
            Manager::CoDel { waiting, .. } => {
                waiting.push_back((now, packet));
                self.queued_packets += u64::from(packet.segments());
                self.queued_bytes += u64::from(packet.size);
                return true;
            }
            Manager::Red(red) => {
                let idle = now.saturating_sub(self.busy_until);
                let idle_packets = idle / self.server.service_time(now, packet.size).max(1);
                let verdict =
                    red.enqueue(self.queued_packets, idle_packets, || self.rng.next_u64());
                if verdict == Verdict::Signal && !mark(self.ecn, &mut packet) {
                    return false;
                }
            }
        }
        self.enqueue(now, &packet)
    }

    /// Delay and loss of a trace.
    fn follow_steps(&mut self, now: u64) {
        let Some((trace, index)) = &mut self.steps else {
            return;
        };
        let Some(step) = current(trace, index, now) else {
            return;
        };
        if let Some(loss) = step.loss {
            self.loss = mp_links::Loss::bernoulli(loss);
        }
        if let Some(delay) = step.delay {
            self.delay = nanos(delay);
        }
    }

    /// Random loss, segment by segment.
    fn survives(&mut self, packet: &mut Packet) -> bool {
        if packet.kind != Kind::Data || packet.count == 1 {
            return !self.loss.loses(|| self.rng.next_u64());
        }
        if matches!(self.loss, mp_links::Loss::None) {
            return true;
        }
        let mut keep = u64::MAX;
        for i in 0..packet.count {
            if self.loss.loses(|| self.rng.next_u64()) {
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
        let Manager::CoDel { state, waiting } = &mut self.manager else {
            return Outcome::Nothing;
        };
        let Some((entered, head)) = waiting.pop_front() else {
            return Outcome::Nothing;
        };
        *packet = head;
        self.queued_packets -= u64::from(packet.segments());
        self.queued_bytes -= u64::from(packet.size);
        if state.dequeue(now, now - entered, self.queued_bytes) == Verdict::Signal
            && !mark(self.ecn, packet)
        {
            return Outcome::Gone;
        }
        self.busy_until = self.server.serve(now, packet.size);
        self.launch(self.busy_until, packet);
        Outcome::Nothing
    }

    /// The packet leaves the queue at `depart`.
    #[inline]
    fn launch(&mut self, depart: u64, packet: &Packet) {
        let mut arrive = depart.saturating_add(self.delay);
        if self.jitter.is_some() || self.reorder || depart == NEVER {
            return self.launch_unusual(depart, packet);
        }
        if packet.kind == Kind::Ack {
            arrive += host_noise(self.rng.next_u64());
        }
        arrive = arrive.max(self.last_arrival);
        self.last_arrival = arrive;
        self.transit.push_back(Transit {
            arrive,
            depart,
            packet: *packet,
        });
    }

    fn launch_unusual(&mut self, depart: u64, packet: &Packet) {
        let mut arrive = depart.saturating_add(self.delay);
        if let Some((low, high)) = self.jitter {
            let span = u128::from(high - low) + 1;
            let extra = low + ((u128::from(self.rng.next_u64()) * span) >> 64) as u64;
            arrive = arrive.saturating_add(extra);
        }
        if !self.reorder && depart != NEVER {
            arrive = arrive.max(self.last_arrival);
            self.last_arrival = arrive;
        }
        let at = self.transit.partition_point(|t| t.arrive <= arrive);
        self.transit.insert(
            at,
            Transit {
                arrive,
                depart,
                packet: *packet,
            },
        );
    }
}

fn current<'a>(trace: &'a Trace, index: &mut usize, now: u64) -> Option<&'a Step> {
    let TraceKind::Steps(steps) = &trace.kind else {
        return None;
    };
    if steps.is_empty() {
        return None;
    }
    *index = step_at(steps, *index, now);
    Some(&steps[*index])
}

fn mark(marks: bool, packet: &mut Packet) -> bool {
    let capable = marks && packet.has(flag::ECT);
    if capable {
        packet.flags |= flag::CE;
    }
    capable
}
