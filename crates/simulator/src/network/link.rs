//! One direction of a path, or of a shared bottleneck: queue, then rate, then propagation delay, with loss at its end.
//!
//! A queue that drops at its tail need not be simulated packet by packet: with the rate known ahead, the time at which
//! a packet arrives at the far end is known when it enters. So such a link has one event a packet, its arrival. CoDel
//! decides when a packet leaves the queue; a link with CoDel has a second event then.

use std::collections::VecDeque;
use std::sync::Arc;

use mp_scenario::{Direction, Discipline, Loss, QueueLimit, Rate, Step, Trace, TraceKind};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::loss::{Process, Threshold};
use super::packet::{flag, Kind, Packet};
use super::queue::{CoDel, Red, Verdict};
use super::rate::{step_at, Server};
use crate::agenda::NEVER;
use crate::time::nanos;

/// Beyond the queue's limit, whose packet it is that is being sent.
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

/// What [`Link::advance`] found.
#[derive(Debug)]
pub enum Outcome {
    Arrived(Packet),
    /// Dropped by the queue, or lost on the way.
    Gone(Packet),
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
    loss: Process,
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
            loss: Process::new(&direction.loss),
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

    /// Takes a packet in; `Err` where it is dropped at once.
    #[inline]
    pub fn send(&mut self, now: u64, mut packet: Packet) -> Result<(), Packet> {
        if self.down {
            return Err(packet);
        }
        if let Some((trace, index)) = &mut self.steps {
            if let Some(step) = current(trace, index, now) {
                if let Some(loss) = step.loss {
                    self.loss = if loss > 0.0 {
                        Process::Bernoulli(Threshold::new(loss))
                    } else {
                        Process::None
                    };
                }
                if let Some(delay) = step.delay {
                    self.delay = nanos(delay);
                }
            }
        }
        if !matches!(self.server, Server::Unlimited) {
            self.leave(now);
            if packet.count > 1 {
                self.trim(&mut packet);
            }
            if !self.fits(&packet) {
                return Err(packet);
            }
            if let Manager::CoDel { waiting, .. } = &mut self.manager {
                waiting.push_back((now, packet));
                self.queued_packets += u64::from(packet.count);
                self.queued_bytes += u64::from(packet.size);
                return Ok(());
            }
            if let Manager::Red(red) = &mut self.manager {
                let idle = now.saturating_sub(self.busy_until);
                let service = self.server.clone().serve(0, packet.size).max(1);
                let idle_packets = if self.queued_packets == 0 { idle / service } else { 0 };
                if red.enqueue(self.queued_packets, idle_packets, &mut self.rng) == Verdict::Signal
                    && !mark(self.ecn, &mut packet)
                {
                    return Err(packet);
                }
            }
            self.busy_until = self.server.serve(now.max(self.busy_until), packet.size);
            self.queue.push_back(Queued {
                depart: self.busy_until,
                size: packet.size,
                count: u32::from(packet.count),
            });
            self.queued_packets += u64::from(packet.count);
            self.queued_bytes += u64::from(packet.size);
            self.launch(self.busy_until, packet);
        } else {
            self.launch(now, packet);
        }
        Ok(())
    }

    /// The next event, due at `now`.
    #[inline]
    pub fn advance(&mut self, now: u64) -> Outcome {
        match self.transit.front() {
            Some(first) if first.arrive <= now => {
                let packet = first.packet;
                self.transit.pop_front();
                if packet.has(flag::LOST) || self.down {
                    Outcome::Gone(packet)
                } else {
                    Outcome::Arrived(packet)
                }
            }
            _ => self.dequeue(now),
        }
    }

    /// CoDel: the link is free for the next packet.
    fn dequeue(&mut self, now: u64) -> Outcome {
        let Manager::CoDel { state, waiting } = &mut self.manager else {
            return Outcome::Nothing;
        };
        let Some((entered, mut packet)) = waiting.pop_front() else {
            return Outcome::Nothing;
        };
        self.queued_packets -= u64::from(packet.count);
        self.queued_bytes -= u64::from(packet.size);
        if state.dequeue(now, now - entered, self.queued_bytes) == Verdict::Signal
            && !mark(self.ecn, &mut packet)
        {
            return Outcome::Gone(packet);
        }
        self.busy_until = self.server.serve(now, packet.size);
        self.launch(self.busy_until, packet);
        Outcome::Nothing
    }

    /// Forgets what has left the queue by now.
    #[inline]
    fn leave(&mut self, now: u64) {
        while let Some(first) = self.queue.front() {
            if first.depart > now {
                break;
            }
            self.queued_packets -= u64::from(first.count);
            self.queued_bytes -= u64::from(first.size);
            self.queue.pop_front();
        }
    }

    #[inline]
    fn fits(&self, packet: &Packet) -> bool {
        match self.limit {
            QueueLimit::Packets(n) => self.queued_packets + u64::from(packet.count) <= n,
            QueueLimit::Bytes(n) => self.queued_bytes + u64::from(packet.size) <= n,
        }
    }

    /// Cuts a train down to what fits; the rest is dropped.
    fn trim(&self, packet: &mut Packet) {
        let each = packet.size / u32::from(packet.count);
        let room = match self.limit {
            QueueLimit::Packets(n) => n.saturating_sub(self.queued_packets),
            QueueLimit::Bytes(n) => n.saturating_sub(self.queued_bytes) / u64::from(each),
        };
        let keep = room.min(u64::from(packet.count)) as u8;
        if keep > 0 && keep < packet.count {
            packet.count = keep;
            packet.size = each * u32::from(keep);
            packet.extra &= (1 << keep) - 1;
        }
    }

    /// The packet leaves the queue at `depart`.
    #[inline]
    fn launch(&mut self, depart: u64, mut packet: Packet) {
        if !matches!(self.loss, Process::None) {
            self.lose(&mut packet);
        }
        if depart == NEVER {
            let arrive = NEVER;
            self.transit.push_back(Transit { arrive, depart, packet });
            return;
        }
        let mut arrive = depart + self.delay;
        if let Some((low, high)) = self.jitter {
            let span = u128::from(high - low) + 1;
            arrive += low + ((u128::from(self.rng.next_u64()) * span) >> 64) as u64;
        }
        if self.reorder {
            let at = self.transit.partition_point(|t| t.arrive <= arrive);
            self.transit.insert(at, Transit { arrive, depart, packet });
            return;
        }
        arrive = arrive.max(self.last_arrival);
        self.last_arrival = arrive;
        self.transit.push_back(Transit { arrive, depart, packet });
    }

    fn lose(&mut self, packet: &mut Packet) {
        if packet.kind != Kind::Data {
            if self.loss.loses(&mut self.rng) {
                packet.flags |= flag::LOST;
            }
            return;
        }
        for i in 0..packet.count {
            if self.loss.loses(&mut self.rng) {
                packet.extra &= !(1 << i);
            }
        }
        if packet.extra == 0 {
            packet.flags |= flag::LOST;
        }
    }

    pub fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    pub fn set_loss(&mut self, loss: &Loss) {
        self.loss = Process::new(loss);
        if let Some((trace, _)) = self.steps.take() {
            drop(trace);
        }
    }

    /// For packets that leave the queue from now on.
    pub fn set_delay(&mut self, now: u64, delay: u64) {
        self.delay = delay;
        self.steps = None;
        self.reschedule(now, None);
    }

    /// bit/s; from now on, the packet that is being sent included.
    pub fn set_rate(&mut self, now: u64, bits: u64) {
        self.reschedule(now, Some(Server::constant(bits)));
    }

    /// Everything still in the queue is served anew.
    fn reschedule(&mut self, now: u64, server: Option<Server>) {
        self.leave(now);
        let mut waiting: Vec<Transit> = Vec::new();
        self.transit.retain(|t| {
            let stays = t.depart <= now;
            if !stays {
                waiting.push(*t);
            }
            stays
        });
        waiting.sort_by_key(|t| t.depart);
        let old = match server {
            Some(server) => std::mem::replace(&mut self.server, server),
            None => self.server.clone(),
        };
        self.last_arrival = self.transit.back().map_or(now, |t| t.arrive);
        // What is left of the packet being sent, as far as the old server tells.
        let mut first_size = waiting.first().map(|t| match &old {
            Server::Constant(_) => {
                let full = old.clone().serve(0, t.packet.size).max(1);
                let left = (t.depart - now).min(full);
                (u128::from(t.packet.size) * u128::from(left) / u128::from(full)) as u32
            }
            _ => t.packet.size,
        });
        self.busy_until = now;
        let mut departures = Vec::with_capacity(waiting.len());
        for mut t in waiting {
            let size = first_size.take().unwrap_or(t.packet.size);
            self.busy_until = self.server.serve(self.busy_until, size);
            t.depart = self.busy_until;
            departures.push(t.depart);
            t.arrive = if t.depart == NEVER {
                NEVER
            } else {
                (t.depart + self.delay).max(self.last_arrival)
            };
            if t.arrive != NEVER {
                self.last_arrival = t.arrive;
            }
            let at = self.transit.partition_point(|other| other.arrive <= t.arrive);
            self.transit.insert(at, t);
        }
        for (queued, depart) in self.queue.iter_mut().zip(departures) {
            queued.depart = depart;
        }
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
