//! Maximum over a sliding window in constant space: the best three samples, each later than the one before
//! (Nichols' algorithm, lib/win_minmax.c of Linux).

#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at: u64,
    value: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MaxFilter {
    best: [Sample; 3],
}

impl MaxFilter {
    pub fn get(&self) -> u64 {
        self.best[0].value
    }

    /// Adds a sample taken at `at`; those older than `window` no longer count.
    pub fn update(&mut self, window: u64, at: u64, value: u64) {
        let sample = Sample { at, value };
        if value >= self.best[0].value || at - self.best[2].at > window {
            self.best = [sample; 3];
            return;
        }
        if value >= self.best[1].value {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].value {
            self.best[2] = sample;
        }
        let age = at - self.best[0].at;
        if age > window {
            // The best has expired: the others move up, and the new one is the only recent choice.
            self.best = [self.best[1], self.best[2], sample];
            if at - self.best[0].at > window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].at == self.best[0].at && age > window / 4 {
            // A quarter of the window without a second choice: take one from the next quarter.
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].at == self.best[1].at && age > window / 2 {
            self.best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_lasts_for_the_window() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 100);
        for at in 1..=10 {
            filter.update(10, at, 50);
            assert_eq!(filter.get(), 100);
        }
        filter.update(10, 11, 50);
        assert_eq!(filter.get(), 50);
    }

    #[test]
    fn a_second_best_follows_the_best() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 100);
        filter.update(10, 5, 80);
        filter.update(10, 11, 10);
        assert_eq!(filter.get(), 80);
    }

    /// Never below the true maximum of the last quarter window, never above that of the whole window.
    #[test]
    fn stays_between_the_true_maxima() {
        let mut filter = MaxFilter::default();
        let values: Vec<u64> = (0..2_000u64).map(|i| (i * 7_919) % 1_009).collect();
        for (at, &value) in values.iter().enumerate() {
            filter.update(10, at as u64, value);
            let most = values[at.saturating_sub(10)..=at].iter().max().unwrap();
            let least = values[at.saturating_sub(2)..=at].iter().max().unwrap();
            assert!(
                (least..=most).contains(&&filter.get()),
                "{at}: {least} {} {most}",
                filter.get()
            );
        }
    }
}
