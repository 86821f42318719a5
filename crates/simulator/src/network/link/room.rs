//! Who waits in a queue, and for whom there is room.

use super::*;

impl Link {
    /// Forgets what has left the queue by now.
    pub(super) fn leave(&mut self, now: u64) {
        while let Some(first) = self.queue.front() {
            if first.depart > now {
                break;
            }
            self.queued_packets -= u64::from(first.count);
            self.queued_bytes -= u64::from(first.size);
            self.queue.pop_front();
        }
    }

    /// The limit is one of what waits: the packet being sent does not count.
    #[inline]
    fn room(&self) -> u64 {
        let serving = self.queue.front();
        match self.limit {
            QueueLimit::Packets(n) => {
                (n + serving.map_or(0, |q| u64::from(q.count))).saturating_sub(self.queued_packets)
            }
            QueueLimit::Bytes(n) => {
                (n + serving.map_or(0, |q| u64::from(q.size))).saturating_sub(self.queued_bytes)
            }
        }
    }

    #[inline]
    pub(super) fn fits(&self, packet: &Packet) -> bool {
        let wanted = match self.limit {
            QueueLimit::Packets(_) => packet.segments(),
            QueueLimit::Bytes(_) => packet.size,
        };
        // What comes to an idle link need not wait.
        u64::from(wanted) <= self.room() || (self.queue.is_empty() && self.queued_packets == 0)
    }

    /// Segments of `each` bytes that there is room for.
    pub(super) fn room_for(&self, each: u32) -> u64 {
        match self.limit {
            QueueLimit::Packets(_) => self.room(),
            QueueLimit::Bytes(_) => self.room() / u64::from(each.max(1)),
        }
    }

    /// Cuts a train down to what fits, beside what is `gone`; the rest is dropped.
    pub(super) fn trim(&self, packet: &mut Packet, gone: u64) {
        let each = packet.size / packet.segments().max(1);
        let mut room = self.room_for(each) + gone;
        if room >= u64::from(packet.segments()) {
            return;
        }
        let mut keep = 0;
        for i in (0..packet.count).filter(|i| packet.extra >> i & 1 == 1) {
            if room > 0 {
                keep |= 1 << i;
                room -= 1;
            }
        }
        if keep != 0 {
            packet.thin(keep);
        }
    }
}
