//! How often a host is to be polled: often while data move, seldom at rest, and never so often that polls take more than their
//! share of a core.

/// The longest pause at rest, µs.
const REST_US: u64 = 1_000_000;
/// How long after the last data polls go on at the policy's interval, µs.
const LINGER_US: u64 = 3_000_000;
/// Payload in one poll from which data move, bytes.
const MOVES: u64 = 10_000;
/// A poll may take no more than this share of a core, as one of so many, while data move and at rest.
const WORK_SHARE: u64 = 20;
const REST_SHARE: u64 = 300;
/// Polls over which the time that one takes is smoothed.
const SMOOTHING: u64 = 8;

/// Time is passed in, as µs from any fixed origin.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    busy_until_us: u64,
    /// What a poll takes of late, µs.
    cost_us: u64,
}

impl Pace {
    /// What is there may be moving data already.
    pub fn new(now_us: u64) -> Pace {
        Pace {
            busy_until_us: now_us + LINGER_US,
            cost_us: 0,
        }
    }

    /// So much payload has moved since the last poll, bytes.
    pub fn moved(&mut self, now_us: u64, bytes: u64) {
        if bytes > MOVES {
            self.changed(now_us);
        }
    }

    /// Something was changed: what comes of it is looked at soon.
    pub fn changed(&mut self, now_us: u64) {
        self.busy_until_us = now_us + LINGER_US;
    }

    /// A connection has begun, and will soon move data. Returns whether the next poll is to be sooner than it was.
    pub fn begins(&mut self, now_us: u64) -> bool {
        let rested = self.busy_until_us <= now_us;
        if rested {
            self.changed(now_us);
        }
        rested
    }

    /// A poll has taken so long.
    pub fn took(&mut self, cost_us: u64) {
        self.cost_us = (self.cost_us * (SMOOTHING - 1) + cost_us) / SMOOTHING;
    }

    /// What a poll takes of late, µs.
    pub fn cost_us(&self) -> u64 {
        self.cost_us
    }

    /// From one poll to the next, at the policy's interval while data move; µs.
    pub fn pause_us(&self, now_us: u64, interval_us: u64) -> u64 {
        match self.busy_until_us > now_us {
            true => interval_us.max(self.cost_us * WORK_SHARE),
            false => REST_US.max(self.cost_us * REST_SHARE),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_fast_for_three_seconds_after_the_last_data() {
        let mut pace = Pace::new(0);
        let ms = |pace: &Pace, at: u64| pace.pause_us(at * 1_000, 50_000) / 1_000;
        assert_eq!((ms(&pace, 2_999), ms(&pace, 3_000)), (50, 1_000));
        pace.moved(5_000_000, 10_000);
        assert_eq!(ms(&pace, 5_000), 1_000, "keepalives are no data");
        assert!(pace.begins(6_000_000) && !pace.begins(6_010_000));
        pace.moved(8_000_000, 10_001);
        assert_eq!((ms(&pace, 10_999), ms(&pace, 11_000)), (50, 1_000));
    }

    proptest! {
        /// Once what polls take has settled, they have at most their share of a core.
        #[test]
        fn polls_have_their_share_at_most(cost_us in 0..500_000u64, interval_us in 10_000..1_000_000u64) {
            let mut pace = Pace::new(0);
            (0..200).for_each(|_| pace.took(cost_us));
            // Integers round down.
            let settled = cost_us.saturating_sub(SMOOTHING);
            prop_assert!((settled..=cost_us).contains(&pace.cost_us()));
            prop_assert!(pace.pause_us(0, interval_us) >= interval_us.max(settled * WORK_SHARE));
            prop_assert!(pace.pause_us(LINGER_US, interval_us) >= REST_US.max(settled * REST_SHARE));
        }
    }
}
