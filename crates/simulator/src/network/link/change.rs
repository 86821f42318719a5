//! Changes to a link in mid-run: outages, loss, delay and rate.

use super::*;

impl Link {
    pub fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    pub fn set_loss(&mut self, loss: &mp_scenario::Loss) {
        self.loss = loss.process();
        self.steps = None;
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
            let at = self
                .transit
                .partition_point(|other| other.arrive <= t.arrive);
            self.transit.insert(at, t);
        }
        for (queued, depart) in self.queue.iter_mut().zip(departures) {
            queued.depart = depart;
        }
    }
}
