//! Active queue management: CoDel (RFC 8289) at the head of a queue, RED (Floyd & Jacobson 1993) at its tail.

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// Drop it, or mark it where it is ECN-capable and the queue marks.
    Signal,
}

/// Which packets a queue drops or marks beside those that it has no room for.
#[derive(Debug, Clone)]
pub enum Aqm {
    DropTail,
    CoDel(CoDel),
    Red(Red),
}

impl Aqm {
    /// A packet arrives to `backlog` packets that wait; for `idle_packets` see [`Red::enqueue`].
    #[inline]
    pub fn enqueue(
        &mut self,
        backlog: u64,
        idle_packets: u64,
        draw: impl FnOnce() -> u64,
    ) -> Verdict {
        match self {
            Aqm::Red(red) => red.enqueue(backlog, idle_packets, draw),
            Aqm::DropTail | Aqm::CoDel(_) => Verdict::Pass,
        }
    }

    /// The packet at the head is to be sent: see [`CoDel::dequeue`].
    #[inline]
    pub fn dequeue(&mut self, now: u64, sojourn: u64, backlog: u64) -> Verdict {
        match self {
            Aqm::CoDel(codel) => codel.dequeue(now, sojourn, backlog),
            Aqm::DropTail | Aqm::Red(_) => Verdict::Pass,
        }
    }
}

/// CoDel's state machine (RFC 8289 section 5, as in Linux include/net/codel_impl.h).
#[derive(Debug, Clone)]
pub struct CoDel {
    /// ns
    target: u64,
    interval: u64,
    /// Time from which on the sojourn has been above target for an interval; 0: it is not.
    first_above: u64,
    drop_next: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl CoDel {
    pub fn new(target: u64, interval: u64) -> Self {
        CoDel {
            target,
            interval,
            first_above: 0,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// interval / sqrt(count) later
    fn control_law(&self, from: u64) -> u64 {
        from + (self.interval as f64 / (self.count as f64).sqrt()) as u64
    }

    fn should_drop(&mut self, now: u64, sojourn: u64, backlog: u64) -> bool {
        // A queue of at most one packet is never bad.
        if sojourn < self.target || backlog <= 1500 {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now + self.interval;
            return false;
        }
        now >= self.first_above
    }

    /// The packet at the head is to be sent: it waited `sojourn`, and `backlog` bytes wait behind it. After a
    /// [`Verdict::Signal`] that drops, the caller asks again for the next packet.
    pub fn dequeue(&mut self, now: u64, sojourn: u64, backlog: u64) -> Verdict {
        let bad = self.should_drop(now, sojourn, backlog);
        if self.dropping {
            if !bad {
                self.dropping = false;
                return Verdict::Pass;
            }
            if now >= self.drop_next {
                self.count += 1;
                self.drop_next = self.control_law(self.drop_next);
                return Verdict::Signal;
            }
            return Verdict::Pass;
        }
        if !bad {
            return Verdict::Pass;
        }
        self.dropping = true;
        let delta = self.count - self.last_count;
        // Back within 16 intervals: go on from the rate that controlled the queue before.
        let recent = now.saturating_sub(self.drop_next) < 16 * self.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        Verdict::Signal
    }
}

/// Weight of a packet in the average queue (Floyd & Jacobson 1993 section 7).
const WEIGHT: f64 = 0.002;

#[derive(Debug, Clone)]
pub struct Red {
    min: f64,
    max: f64,
    probability: f64,
    average: f64,
    /// Packets since the last signal while the average was between the thresholds; -1 below.
    count: i64,
}

impl Red {
    pub fn new(min: f64, max: f64, probability: f64) -> Self {
        Red {
            min,
            max,
            probability,
            average: 0.0,
            count: -1,
        }
    }

    /// A packet arrives to `backlog` packets that wait, without the one being sent; `idle_packets` could have been sent since the queue ran empty. `draw` gives
    /// uniform 64-bit numbers.
    pub fn enqueue(
        &mut self,
        backlog: u64,
        idle_packets: u64,
        draw: impl FnOnce() -> u64,
    ) -> Verdict {
        if backlog == 0 {
            self.average *= power(1.0 - WEIGHT, idle_packets.max(1));
        } else {
            self.average += WEIGHT * (backlog as f64 - self.average);
        }
        if self.average < self.min {
            self.count = -1;
            return Verdict::Pass;
        }
        if self.average >= self.max {
            self.count = 0;
            return Verdict::Signal;
        }
        self.count += 1;
        let base = self.probability * (self.average - self.min) / (self.max - self.min);
        let spread = 1.0 - self.count as f64 * base;
        let p = if spread <= 0.0 { 1.0 } else { base / spread };
        let uniform = (draw() >> 11) as f64 / (1u64 << 53) as f64;
        if uniform < p {
            self.count = 0;
            return Verdict::Signal;
        }
        Verdict::Pass
    }
}

/// By squaring: `f64::powi` may round differently from one machine to the next.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// RFC 8289 section 5.3: the n-th drop comes interval/sqrt(n) after the one before.
    #[test]
    fn codel_drops_faster_and_faster_while_the_delay_stays() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        let mut drops = Vec::new();
        for now in (0..1000).map(|ms| ms * MS) {
            if codel.dequeue(now, 20 * MS, 30_000) == Verdict::Signal {
                drops.push(now / MS);
            }
        }
        assert_eq!(drops[..5], [100, 200, 271, 329, 379]);
        assert_eq!(codel.dequeue(1000 * MS, 4 * MS, 30_000), Verdict::Pass);
    }

    #[test]
    fn codel_leaves_a_queue_of_one_packet_alone() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        for now in (0..1000).map(|ms| ms * MS) {
            assert_eq!(codel.dequeue(now, 20 * MS, 1500), Verdict::Pass);
        }
    }

    /// Floyd & Jacobson 1993 section 7: with p_b constant, signals are 1 to 1/p_b - 1 packets apart, uniformly.
    #[test]
    fn red_signals_its_share_between_the_thresholds() {
        let mut red = Red::new(5.0, 15.0, 0.1);
        let mut state = 1u64;
        let mut draw = || {
            // SplitMix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let mut signals = 0;
        for packet in 0..110_000 {
            let verdict = red.enqueue(10, 0, &mut draw);
            signals += u32::from(packet >= 10_000 && verdict == Verdict::Signal);
        }
        // p_b = 0.1 * (10 - 5)/(15 - 5): on average (1 + 19)/2 packets apart.
        let expected = 100_000.0 / 10.0;
        assert!(
            (f64::from(signals) - expected).abs() < 0.03 * expected,
            "{signals}"
        );
    }

    #[test]
    fn red_forgets_over_an_idle_time() {
        let mut red = Red::new(5.0, 15.0, 0.1);
        for _ in 0..10_000 {
            red.enqueue(30, 0, || u64::MAX);
        }
        assert_eq!(red.enqueue(1, 0, || u64::MAX), Verdict::Signal);
        assert_eq!(red.enqueue(0, 100_000, || u64::MAX), Verdict::Pass);
    }
}
