//! How long a flow has been without a path. Time counts only while this host is seen to run: neither sleep, in which Linux'
//! monotonic clock stands still, nor a process that was stopped, nor a virtual machine that was saved uses up a flow's time.

use std::time::{Duration, Instant};

/// It is looked at as often as this …
const LOOK: Duration = Duration::from_secs(10);
/// … and more than this between two looks does not count: nobody looked.
const COUNTS: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Alone {
    waited: Duration,
    looked: Instant,
}

impl Alone {
    pub fn since(now: Instant) -> Alone {
        Alone {
            waited: Duration::ZERO,
            looked: now,
        }
    }

    /// So long it has waited by now.
    pub fn look(&mut self, now: Instant) -> Duration {
        self.waited += now.saturating_duration_since(self.looked).min(COUNTS);
        self.looked = now;
        self.waited
    }

    /// Until the next look, where it may wait for `most`.
    pub fn pause(&self, most: Duration) -> Duration {
        let left = most.saturating_sub(self.waited);
        left.clamp(Duration::from_millis(1), LOOK)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let start = Instant::now();
        let mut alone = Alone::since(start);
        let night = Duration::from_secs(8 * 3600);
        assert_eq!(alone.look(start + night), COUNTS);
        let second = Duration::from_secs(1);
        assert_eq!(alone.look(start + night + second), COUNTS + second);
        assert_eq!(alone.look(start), COUNTS + second, "an earlier time");
    }

    proptest! {
        /// Awake it ends within a look of its time, whenever the host slept and for how long.
        #[test]
        fn it_ends_when_it_was_awake_for_so_long(
            most in 1u64..4000, sleeps in prop::collection::vec((0u64..2000, 1u64..100_000), 0..8),
        ) {
            let most = Duration::from_secs(most);
            let start = Instant::now();
            let (mut now, mut awake) = (start, Duration::ZERO);
            let mut alone = Alone::since(start);
            let mut sleeps = sleeps.into_iter();
            let mut sleep = sleeps.next();
            while alone.look(now) < most {
                let pause = alone.pause(most);
                (now, awake) = (now + pause, awake + pause);
                while let Some((_, length)) = sleep.filter(|(at, _)| awake >= Duration::from_secs(*at)) {
                    now += Duration::from_secs(length);
                    sleep = sleeps.next();
                }
            }
            // Each sleep costs what counts of it at most.
            prop_assert!(awake <= most, "{:?}", awake);
            prop_assert!(awake + 8 * COUNTS + LOOK >= most, "{:?}", awake);
        }
    }
}
