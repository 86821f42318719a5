//! The policer before the queue.

use super::*;

impl Link {
    /// Whether the policer lets a packet through. Segments of a train come to it one by one, evenly over the time that
    /// pacing spread them; those that it drops are taken out of the train.
    pub(super) fn conforms(&mut self, now: u64, packet: &mut Packet) -> bool {
        let Some(bucket) = &mut self.policer else {
            return true;
        };
        let each = u64::from(packet.size / packet.segments().max(1));
        if packet.kind != Kind::Data || packet.count == 1 {
            return bucket.admit(now, each);
        }
        let span = u64::from(packet.spread) * SPREAD;
        let first = now.saturating_sub(span);
        let gaps = u64::from(packet.count) - 1;
        let mut keep = 0;
        for i in (0..packet.count).filter(|i| packet.extra >> i & 1 == 1) {
            if bucket.admit(first + span * u64::from(i) / gaps, each) {
                keep |= 1 << i;
            }
        }
        packet.thin(keep);
        keep != 0
    }
}
