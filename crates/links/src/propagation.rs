//! The way from the bottleneck to the far end.

use crate::Schedule;

/// A further delay for each packet, uniform between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    /// ns
    pub low: u64,
    pub high: u64,
}

impl Jitter {
    fn draw(self, draw: impl FnOnce() -> u64) -> u64 {
        let span = u128::from(self.high - self.low) + 1;
        self.low + ((u128::from(draw()) * span) >> 64) as u64
    }
}

/// When packets arrive that have left the bottleneck.
#[derive(Debug, Clone)]
pub struct Propagation {
    /// ns; in force when a packet leaves the bottleneck
    delay: Schedule<u64>,
    jitter: Option<Jitter>,
    /// Whether jitter may change the order of packets; if not, a later packet waits for the earlier one.
    reorder: bool,
    /// The latest arrival, where the order is kept.
    last: u64,
}

impl Propagation {
    pub fn new(delay: Schedule<u64>, jitter: Option<Jitter>, reorder: bool) -> Self {
        Propagation {
            delay,
            jitter,
            reorder,
            last: 0,
        }
    }

    /// Whether packets arrive in the order in which they leave, and no number is drawn for them.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.jitter.is_none() && !self.reorder
    }

    /// When a packet arrives that leaves the bottleneck at `depart`, the far end taking `late` ns more to see it. `draw`
    /// gives uniform 64-bit numbers.
    #[inline]
    pub fn arrival(&mut self, depart: u64, late: u64, draw: impl FnOnce() -> u64) -> u64 {
        let mut arrive = depart.saturating_add(*self.delay.at(depart));
        if let Some(jitter) = self.jitter {
            arrive = arrive.saturating_add(jitter.draw(draw));
        }
        arrive = arrive.saturating_add(late);
        // A packet that never leaves holds up none that left before the link stopped.
        if !self.reorder && depart != crate::NEVER {
            arrive = arrive.max(self.last);
            self.last = arrive;
        }
        arrive
    }

    /// For packets that leave from now on, in place of what was to come.
    pub fn set_delays(&mut self, delay: Schedule<u64>) {
        self.delay = delay;
    }

    /// Packets that were to arrive after `last` are to leave anew.
    pub fn recall(&mut self, last: u64) {
        self.last = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NEVER;

    #[test]
    fn a_delay_is_that_of_the_time_of_departure() {
        let mut delay = Schedule::new(30);
        delay.set(100, 50);
        delay.set(200, 10);
        let mut way = Propagation::new(delay.clone(), None, true);
        let found = [99, 100, 199, 200].map(|depart| way.arrival(depart, 0, || 0));
        assert_eq!(found, [129, 150, 249, 210]);
        // In order: the packet of 200 waits for that of 199.
        let mut way = Propagation::new(delay, None, false);
        let found = [99, 100, 199, 200].map(|depart| way.arrival(depart, 0, || 0));
        assert_eq!(found, [129, 150, 249, 249]);
    }

    #[test]
    fn jitter_is_uniform_between_its_bounds_and_both_are_met() {
        let jitter = Some(Jitter { low: 5, high: 8 });
        let mut way = Propagation::new(Schedule::new(100), jitter, true);
        let quarter = 1 << 62;
        for (draw, extra) in [
            (0, 5),
            (quarter - 1, 5),
            (quarter, 6),
            (2 * quarter, 7),
            (3 * quarter, 8),
            (u64::MAX, 8),
        ] {
            assert_eq!(way.arrival(0, 0, || draw), 100 + extra);
        }
        let whole = Jitter {
            low: 0,
            high: u64::MAX,
        };
        assert_eq!(whole.draw(|| u64::MAX), u64::MAX);
    }

    #[test]
    fn a_packet_that_never_leaves_never_arrives_and_holds_up_none() {
        let mut way = Propagation::new(Schedule::new(7), None, false);
        assert_eq!(way.arrival(NEVER, 0, || 0), NEVER);
        assert_eq!(way.arrival(3, 4, || 0), 14);
    }
}
