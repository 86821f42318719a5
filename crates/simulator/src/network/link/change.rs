//! Changes to a link in mid-run: outages, loss, delay and rate.

use mp_links::Schedule;

use super::*;

impl Link {
    pub fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    pub fn set_loss(&mut self, loss: &mp_scenario::Loss) {
        self.losses = Losses::new(Schedule::new(loss.process()));
    }

    /// For packets that leave the queue from now on.
    pub fn set_delay(&mut self, now: u64, delay: u64) {
        self.propagation.set_delay(delay);
        self.reschedule(now, None);
    }

    /// bit/s; from now on, the packet that is being sent included.
    pub fn set_rate(&mut self, now: u64, bits: u64) {
        self.reschedule(now, Some(Server::constant(bits)));
    }

    /// Everything still in the queue is served anew.
    fn reschedule(&mut self, now: u64, server: Option<Server>) {
        self.leave(now);
        let (stays, waiting) = self.transit.drain(..).partition(|t| t.depart <= now);
        self.transit = stays;
        let mut waiting = Vec::from(waiting);
        waiting.sort_by_key(|t| t.depart);
        let mut first_size = waiting.first().map(|t| self.unsent(now, t));
        if let Some(server) = server {
            self.server = server;
        }
        self.propagation
            .recall(self.transit.back().map_or(now, |t| t.arrive));
        self.busy_until = now;
        let mut departures = Vec::with_capacity(waiting.len());
        for mut t in waiting {
            let size = first_size.take().unwrap_or(t.packet.size);
            self.busy_until = self.server.serve(self.busy_until, size);
            t.depart = self.busy_until;
            departures.push(t.depart);
            t.arrive = self
                .propagation
                .arrival(t.depart, 0, || self.rng.next_u64());
            self.insert(t);
        }
        for (queued, depart) in self.queue.iter_mut().zip(departures) {
            queued.depart = depart;
        }
    }

    /// Bytes left of the packet being sent, as far as the server tells.
    fn unsent(&self, now: u64, being_sent: &Transit) -> u32 {
        let size = being_sent.packet.size;
        if !matches!(self.server, Server::Constant(_)) {
            return size;
        }
        let full = self.server.service_time(now, size).max(1);
        let left = (being_sent.depart - now).min(full);
        (u128::from(size) * u128::from(left) / u128::from(full)) as u32
    }
}
