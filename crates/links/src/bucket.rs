//! A token bucket that polices: a packet passes at once or is dropped, and none waits.

/// RFC 2697's committed bucket without an excess burst, as Linux' `tc police` with `conform-exceed drop`
/// (net/sched/act_police.c). A packet takes tokens for all its bytes or, where they do not suffice, none.
///
/// Tokens count 10⁻⁹ bit, so that a rate in bit/s adds a whole number of them each ns and nothing is ever rounded.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    /// bit/s
    rate: u64,
    burst: u128,
    tokens: u128,
    /// Time up to which tokens have been added, ns.
    filled_to: u64,
}

/// Tokens of a byte.
const BYTE: u128 = 8 * 1_000_000_000;

impl TokenBucket {
    /// `rate` in bit/s, `burst` in bytes. The bucket is full at time 0.
    pub fn new(rate: u64, burst: u64) -> Self {
        let burst = u128::from(burst) * BYTE;
        TokenBucket {
            rate,
            burst,
            tokens: burst,
            filled_to: 0,
        }
    }

    /// Whether a packet of `bytes` that arrives at `now` (ns) passes. A time before that of an earlier call adds no tokens.
    pub fn admit(&mut self, now: u64, bytes: u64) -> bool {
        self.fill(now);
        match self.tokens.checked_sub(u128::from(bytes) * BYTE) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Bytes that would pass at `now` (ns).
    pub fn level(&mut self, now: u64) -> u64 {
        self.fill(now);
        u64::try_from(self.tokens / BYTE).unwrap_or(u64::MAX)
    }

    /// Takes back bytes that were admitted and not used.
    pub fn give_back(&mut self, bytes: u64) {
        let given = self.tokens.saturating_add(u128::from(bytes) * BYTE);
        self.tokens = given.min(self.burst);
    }

    fn fill(&mut self, now: u64) {
        let added = u128::from(now.saturating_sub(self.filled_to)) * u128::from(self.rate);
        self.tokens = self.tokens.saturating_add(added).min(self.burst);
        self.filled_to = self.filled_to.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many of `count` packets pass that come `interval` ns apart, the first at 0.
    fn admitted(bucket: &mut TokenBucket, count: u64, interval: u64, bytes: u64) -> u64 {
        let passes = |i: &u64| bucket.admit(i * interval, bytes);
        (0..count).filter(passes).count() as u64
    }

    #[test]
    fn a_stream_above_the_rate_gets_the_burst_and_then_the_rate() {
        // 1000 bytes each 100 us are 80 Mbit/s, four times the rate.
        let (rate, burst, interval, count) = (20_000_000, 50_000, 100_000, 100_000);
        let mut bucket = TokenBucket::new(rate, burst);
        let got = admitted(&mut bucket, count, interval, 1000);
        let earned = rate / 8 * (count - 1) * interval / 1_000_000_000;
        assert_eq!(got, (burst + earned) / 1000);
        // With the burst used up, three packets of four are lost: 1 - rate/r.
        let later = |i: &u64| bucket.admit((count + i) * interval, 1000);
        assert_eq!((0..count).filter(later).count() as u64, count / 4);
    }

    #[test]
    fn a_stream_of_at_most_the_rate_loses_nothing() {
        // 1500 bytes each 600 us are 20 Mbit/s to the bit; one packet of burst is enough.
        for (interval, lossless) in [(600_001, true), (600_000, true), (599_999, false)] {
            let mut bucket = TokenBucket::new(20_000_000, 1500);
            let got = admitted(&mut bucket, 100_000, interval, 1500);
            assert_eq!(got == 100_000, lossless, "{interval} ns: {got}");
        }
    }

    #[test]
    fn no_value_overflows() {
        let mut bucket = TokenBucket::new(u64::MAX, u64::MAX);
        assert!(bucket.admit(0, u64::MAX));
        assert!(bucket.admit(u64::MAX, u64::MAX));
        assert!(!bucket.admit(u64::MAX, 1));
        assert!(!TokenBucket::new(1, 1).admit(u64::MAX, 2));
    }

    #[test]
    fn what_is_given_back_passes_again_and_no_more_than_the_burst() {
        let mut bucket = TokenBucket::new(8_000, 100);
        assert!(bucket.admit(0, 60));
        assert_eq!(bucket.level(0), 40);
        bucket.give_back(10);
        // A byte a ms.
        assert_eq!(bucket.level(7_999_999), 57);
        bucket.give_back(1_000);
        assert_eq!(bucket.level(8_000_000), 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

        /// Over every interval at most the burst and what the rate adds pass, and what was refused would have been more.
        #[test]
        fn no_interval_gets_more_and_none_that_would_not_is_refused(
            rate in 1_000u64..1_000_000_000, burst in 1u64..100_000,
            arrivals in prop::collection::vec((0u64..10_000_000, 1u64..10_000), 1..120),
        ) {
            let mut bucket = TokenBucket::new(rate, burst);
            let mut now = 0;
            let mut passed: Vec<(u64, u64)> = Vec::new();
            for (gap, bytes) in arrivals {
                now += gap;
                // Room for this packet in the interval from each earlier one, which that one is part of.
                let (mut sum, mut fits) = (u128::from(bytes), u128::from(bytes) <= u128::from(burst));
                for (at, bytes) in passed.iter().rev() {
                    sum += u128::from(*bytes);
                    fits &= sum * BYTE <= u128::from(burst) * BYTE + u128::from(now - at) * u128::from(rate);
                }
                prop_assert_eq!(bucket.admit(now, bytes), fits);
                if fits {
                    passed.push((now, bytes));
                }
            }
        }

        /// Late or early, a clock that runs backwards earns nothing twice.
        #[test]
        fn times_out_of_order_earn_nothing(
            rate in 1_000u64..1_000_000_000, burst in 1u64..100_000,
            arrivals in prop::collection::vec((0u64..1_000_000_000, 1u64..10_000), 1..200),
        ) {
            let mut bucket = TokenBucket::new(rate, burst);
            let latest = arrivals.iter().map(|(at, _)| *at).max().unwrap_or(0);
            let passed = arrivals.iter().filter(|(at, bytes)| bucket.admit(*at, *bytes));
            let sum: u128 = passed.map(|(_, bytes)| u128::from(*bytes)).sum();
            prop_assert!(sum * BYTE <= u128::from(burst) * BYTE + u128::from(latest) * u128::from(rate));
        }
    }
}
