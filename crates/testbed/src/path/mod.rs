//! One direction of a path or of a shared link, as arithmetic: packets go in and come out at stated times. No I/O and no
//! clock, so that it is tested without a network.
//!
//! A packet meets, in this order: outage and random loss, the policer, the queue, the bottleneck, the propagation delay with its
//! jitter.

mod queue;
mod schedule;
mod server;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use mp_links::TokenBucket;
use mp_scenario::{Change, Direction};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

pub use queue::Packet;
use queue::Queue;
use schedule::Conditions;
pub use schedule::{nanos, Nanos};
use server::Server;

/// What became of the packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub entered: u64,
    /// By random loss.
    pub lost: u64,
    /// By an outage.
    pub cut: u64,
    /// By the policer.
    pub policed: u64,
    /// By the queue.
    pub dropped: u64,
    /// With Congestion Experienced, in place of a drop.
    pub marked: u64,
    pub left: u64,
    /// Bytes of the IP packets that left.
    pub bytes: u64,
}

pub struct Pipe<P> {
    conditions: Conditions,
    loss: mp_links::Loss,
    /// Which of the conditions' loss is at work.
    loss_index: usize,
    loss_rng: SmallRng,
    policer: Option<TokenBucket>,
    queue: Queue<P>,
    server: Server,
    /// In service, with the end of it (`None`: never).
    serving: Option<(Option<Nanos>, P)>,
    /// End of the last service.
    free_at: Nanos,
    jitter: Option<(Nanos, Nanos)>,
    reorder: bool,
    rng: SmallRng,
    flying: BinaryHeap<Reverse<Flying<P>>>,
    last_out: Nanos,
    sequence: u64,
    counts: Counts,
}

struct Flying<P> {
    out: Nanos,
    sequence: u64,
    packet: P,
}

impl<P> PartialEq for Flying<P> {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}
impl<P> Eq for Flying<P> {}
impl<P> PartialOrd for Flying<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<P> Ord for Flying<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.out, self.sequence).cmp(&(other.out, other.sequence))
    }
}

impl<P: Packet> Pipe<P> {
    /// `events` are those of this path or link; `takes_data` says whether loss events concern this direction.
    pub fn new<'a>(
        direction: &Direction,
        events: impl Iterator<Item = (Duration, &'a Change)>,
        takes_data: bool,
        seed: u64,
    ) -> Pipe<P> {
        let conditions = Conditions::new(direction, events, takes_data);
        let rng = |stream: u64| SmallRng::seed_from_u64(seed.wrapping_add(stream));
        Pipe {
            loss: conditions.loss.at(0).process(),
            loss_index: 0,
            loss_rng: rng(1),
            policer: direction.policer.map(|p| TokenBucket::new(p.rate, p.burst)),
            queue: Queue::new(&direction.queue, rng(2)),
            server: Server::new(conditions.capacity.clone()),
            conditions,
            serving: None,
            free_at: 0,
            jitter: direction.jitter.map(|(a, b)| (nanos(a), nanos(b))),
            reorder: direction.reorder,
            rng: rng(3),
            flying: BinaryHeap::new(),
            last_out: 0,
            sequence: 0,
            counts: Counts::default(),
        }
    }

    /// `now` must not run backwards by more than the caller's scheduling noise; what is due before it is taken care of.
    pub fn push(&mut self, now: Nanos, packet: P) {
        self.counts.entered += 1;
        if *self.conditions.down.at(now) {
            self.counts.cut += 1;
            return;
        }
        if self.loses(now) {
            self.counts.lost += 1;
            return;
        }
        if let Some(bucket) = &mut self.policer {
            if !bucket.admit(now, packet.size()) {
                self.counts.policed += 1;
                return;
            }
        }
        self.settle(now);
        if self.server.unlimited(now) && self.serving.is_none() && self.queue.is_empty() {
            self.launch(now, packet);
        } else {
            let idle = match self.serving {
                Some(_) => 0,
                None => now.saturating_sub(self.free_at),
            };
            let each = self.server.service_time(now, packet.size()).max(1);
            self.queue.enqueue(now, packet, idle / each);
            self.settle(now);
        }
    }

    fn loses(&mut self, now: Nanos) -> bool {
        let index = self.conditions.loss.index(now);
        if index != self.loss_index {
            self.loss_index = index;
            self.loss = self.conditions.loss.at(now).process();
        }
        self.loss.loses(|| self.loss_rng.random())
    }

    /// When [`Pipe::pop`] has something next.
    pub fn next(&self) -> Option<Nanos> {
        let service = self.serving.as_ref().and_then(|(end, _)| *end);
        let flight = self.flying.peek().map(|Reverse(f)| f.out);
        match (service, flight) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// A packet that is out by `now`, with the time at which it came out. In order of that time.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.settle(now);
        while self.flying.peek().is_some_and(|Reverse(f)| f.out <= now) {
            let Reverse(flying) = self.flying.pop()?;
            if *self.conditions.down.at(flying.out) {
                self.counts.cut += 1;
                continue;
            }
            self.counts.left += 1;
            self.counts.bytes += flying.packet.size();
            return Some((flying.out, flying.packet));
        }
        None
    }

    pub fn counts(&self) -> Counts {
        Counts {
            dropped: self.queue.dropped,
            marked: self.queue.marked,
            ..self.counts
        }
    }

    /// Ends and begins the services that are due by `now`.
    fn settle(&mut self, now: Nanos) {
        loop {
            match &self.serving {
                Some((Some(end), _)) if *end <= now => {}
                Some(_) => return,
                None => {
                    let Some(came) = self.queue.head() else {
                        return;
                    };
                    let start = came.max(self.free_at);
                    if start > now {
                        return;
                    }
                    let Some(packet) = self.queue.dequeue(start) else {
                        return;
                    };
                    self.serving = Some((self.server.serve(start, packet.size()), packet));
                    continue;
                }
            }
            if let Some((Some(end), packet)) = self.serving.take() {
                self.free_at = end;
                self.launch(end, packet);
            }
        }
    }

    fn launch(&mut self, now: Nanos, packet: P) {
        let jitter = match self.jitter {
            Some((low, high)) if high > low => self.rng.random_range(low..=high),
            Some((low, _)) => low,
            None => 0,
        };
        let mut out = now + *self.conditions.delay.at(now) + jitter;
        if !self.reorder {
            out = out.max(self.last_out);
        }
        self.last_out = out;
        self.sequence += 1;
        self.flying.push(Reverse(Flying {
            out,
            sequence: self.sequence,
            packet,
        }));
    }
}

#[cfg(test)]
mod tests;
