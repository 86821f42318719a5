//! Changes to a link in mid-run: outages, loss, delay and rate.

use mp_links::{Capacity, Loss, Schedule};

use super::*;

/// What a link has from now on over time; `None` leaves what it has.
#[derive(Debug, Default)]
pub struct Replan {
    pub capacity: Option<Schedule<Capacity>>,
    /// ns
    pub delays: Option<Schedule<u64>>,
    pub losses: Option<Schedule<Loss>>,
}

impl Link {
    /// Packets wait or are being sent.
    pub fn is_busy(&self, now: u64) -> bool {
        self.busy_until > now || !self.waiting.is_empty()
    }

    pub fn replan(&mut self, now: u64, replan: Replan) {
        if let Some(losses) = replan.losses {
            self.losses = Losses::new(losses);
        }
        if let Some(delays) = replan.delays {
            self.propagation.set_delays(delays);
        }
        let server = replan.capacity.map(Server::new);
        if self.busy_until > now {
            self.reschedule(now, server);
        } else if let Some(server) = server {
            // A link that is free stays free since then: a spread train may begin in the past.
            self.server = server;
        }
    }

    pub fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    pub fn set_loss(&mut self, loss: &mp_scenario::Loss) {
        self.losses = Losses::new(Schedule::new(loss.process()));
    }

    /// For packets that leave the queue from now on.
    pub fn set_delay(&mut self, now: u64, delay: u64) {
        self.propagation.set_delays(Schedule::new(delay));
        self.reschedule(now, None);
    }

    /// bit/s; from now on, the packet that is being sent included.
    pub fn set_rate(&mut self, now: u64, bits: u64) {
        self.reschedule(now, Some(Server::constant(bits)));
    }

    /// Everything still in the queue is served anew by another server, or leaves when it would have; it arrives as its
    /// delay is now.
    fn reschedule(&mut self, now: u64, server: Option<Server>) {
        self.leave(now);
        let (stays, waiting) = self.transit.drain(..).partition(|t| t.depart <= now);
        self.transit = stays;
        let mut waiting = Vec::from(waiting);
        waiting.sort_by_key(|t| t.depart);
        if let Some(server) = server {
            let mut first_size = waiting.first().map(|t| self.unsent(now, t));
            self.server = server;
            self.busy_until = now;
            for t in &mut waiting {
                let size = first_size.take().unwrap_or(t.packet.size);
                self.busy_until = self.server.serve(self.busy_until, size);
                t.depart = self.busy_until;
            }
            for (queued, t) in self.queue.iter_mut().zip(&waiting) {
                queued.depart = t.depart;
            }
        }
        self.propagation
            .recall(self.transit.back().map_or(now, |t| t.arrive));
        for mut t in waiting {
            t.arrive = self
                .propagation
                .arrival(t.depart, 0, || self.rng.next_u64());
            self.insert(t);
        }
    }

    /// Bytes left of the packet being sent, as far as the server tells.
    fn unsent(&self, now: u64, being_sent: &Transit) -> u32 {
        let size = being_sent.packet.size;
        if let Server::Varying(_) = self.server {
            let passes = || self.server.passes(now, being_sent.depart);
            let left = (being_sent.depart != NEVER).then(passes).flatten();
            return left.map_or(size, |left| left.min(u64::from(size)) as u32);
        }
        if !matches!(self.server, Server::Constant(_)) {
            return size;
        }
        let full = self.server.service_time(now, size).max(1);
        let left = (being_sent.depart - now).min(full);
        (u128::from(size) * u128::from(left) / u128::from(full)) as u32
    }
}
