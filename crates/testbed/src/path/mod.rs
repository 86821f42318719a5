//! One direction of a path or of a shared link, as arithmetic: packets go in and come out at stated times. No I/O and no
//! clock, so that it is tested without a network. What becomes of a packet is for the state machines of [`mp_links`].

mod queue;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use mp_links::{nanos, Capacity, Losses, Propagation, Schedule, Server, TokenBucket, NEVER};
use mp_scenario::{Change, Direction};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

pub use queue::Packet;
use queue::Queue;

/// Nanoseconds from the start of the run. Packets come before it too (the handshake of a set-up phase): they are at 0.
pub type Nanos = u64;

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
    down: Schedule<bool>,
    losses: Losses,
    loss_rng: SmallRng,
    policer: Option<TokenBucket>,
    queue: Queue<P>,
    server: Server,
    /// In service, with the end of it.
    serving: Option<(Nanos, P)>,
    /// End of the last service.
    free_at: Nanos,
    propagation: Propagation,
    rng: SmallRng,
    flying: BinaryHeap<Reverse<Flying<P>>>,
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
    /// `events` are those of this path or link, in order of time; `takes_data` says whether loss events concern this
    /// direction.
    pub fn new<'a>(
        direction: &Direction,
        events: impl Iterator<Item = (Duration, &'a Change)>,
        takes_data: bool,
        seed: u64,
    ) -> Pipe<P> {
        let mut capacity = direction.capacity();
        let mut delays = direction.delays();
        let mut losses = direction.losses();
        let mut down = Schedule::new(false);
        for (at, change) in events {
            let at = nanos(at);
            match change {
                Change::Down => down.set(at, true),
                Change::Up => down.set(at, false),
                Change::Rate(rate) => capacity.set(at, Capacity::Constant(*rate)),
                Change::Delay(delay) => delays.set(at, nanos(*delay)),
                Change::Loss(loss) if takes_data => losses.set(at, loss.process()),
                Change::Loss(_) | Change::Backup(_) | Change::Signal(_) | Change::Readings(_) => {}
            }
        }
        let rng = |stream: u64| SmallRng::seed_from_u64(seed.wrapping_add(stream));
        Pipe {
            down,
            losses: Losses::new(losses),
            loss_rng: rng(1),
            policer: direction.policer.map(|p| p.bucket()),
            queue: Queue::new(&direction.queue, rng(2)),
            server: Server::new(capacity),
            serving: None,
            free_at: 0,
            propagation: Propagation::new(delays, direction.jitter(), direction.reorder),
            rng: rng(3),
            flying: BinaryHeap::new(),
            sequence: 0,
            counts: Counts::default(),
        }
    }

    /// `now` must not run backwards by more than the caller's scheduling noise; what is due before it is taken care of.
    pub fn push(&mut self, now: Nanos, packet: P) {
        self.counts.entered += 1;
        if *self.down.at(now) {
            self.counts.cut += 1;
            return;
        }
        if self.losses.at(now).loses(|| self.loss_rng.random()) {
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
        let idle = self.serving.is_none() && self.queue.is_empty();
        if idle && self.server.is_unlimited(now) {
            self.launch(now, packet);
        } else {
            let each = self.server.service_time(now, packet.size() as u32).max(1);
            let idle_packets = idle.then(|| now.saturating_sub(self.free_at) / each);
            self.queue.enqueue(now, packet, idle_packets);
            self.settle(now);
        }
    }

    /// When [`Pipe::pop`] has something next.
    pub fn next(&self) -> Option<Nanos> {
        let service = match &self.serving {
            Some((end, _)) => *end,
            // It came before the end of the last service, and was pushed after it.
            None => self
                .queue
                .head()
                .map_or(NEVER, |came| came.max(self.free_at)),
        };
        let flight = self.flying.peek().map_or(NEVER, |Reverse(f)| f.out);
        Some(service.min(flight)).filter(|time| *time != NEVER)
    }

    /// A packet that is out by `now`, with the time at which it came out. In order of that time.
    pub fn pop(&mut self, now: Nanos) -> Option<(Nanos, P)> {
        self.settle(now);
        while self.flying.peek().is_some_and(|Reverse(f)| f.out <= now) {
            let Reverse(flying) = self.flying.pop()?;
            if *self.down.at(flying.out) {
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
                Some((end, _)) if *end <= now => {}
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
                    let end = self.server.serve(start, packet.size() as u32);
                    self.serving = Some((end, packet));
                    continue;
                }
            }
            if let Some((end, packet)) = self.serving.take() {
                self.free_at = end;
                self.launch(end, packet);
            }
        }
    }

    fn launch(&mut self, now: Nanos, packet: P) {
        let out = self.propagation.arrival(now, 0, || self.rng.random());
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
