//! Values that change at times known before.

/// A value over time. Each value holds from its time on, the first from the beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule<T> {
    /// Beside the others: most schedules have no more, and are read once a packet.
    first: T,
    /// In order of time, ns.
    later: Vec<(u64, T)>,
}

impl<T> Schedule<T> {
    pub fn new(value: T) -> Self {
        Schedule {
            first: value,
            later: Vec::new(),
        }
    }

    /// `value` holds from `at` (ns) on: values that were set for later times are dropped.
    pub fn set(&mut self, at: u64, value: T) {
        if at == 0 {
            *self = Schedule::new(value);
            return;
        }
        let earlier = self.later.partition_point(|(time, _)| *time < at);
        self.later.truncate(earlier);
        self.later.push((at, value));
    }

    /// `value` until `at`, and from then on what was set.
    pub fn resumed_at(&self, at: u64, value: T) -> Self
    where
        T: Clone,
    {
        let later = &self.later[self.index(at)..];
        Schedule {
            first: value,
            later: (std::iter::once((at, self.at(at).clone())))
                .chain(later.iter().cloned())
                .collect(),
        }
    }

    pub fn is_constant(&self) -> bool {
        self.later.is_empty()
    }

    #[inline]
    pub fn at(&self, now: u64) -> &T {
        self.value(self.index(now))
    }

    /// Number of the value in force at `now`.
    #[inline]
    pub fn index(&self, now: u64) -> usize {
        self.later.partition_point(|(time, _)| *time <= now)
    }

    /// As [`Schedule::index`], where the value in force at `now` is number `from` or a later one.
    #[inline]
    pub fn index_from(&self, from: usize, now: u64) -> usize {
        // Values hold for long beside the time between two calls.
        if self.end(from) > now {
            return from;
        }
        from + self.later[from..].partition_point(|(time, _)| *time <= now)
    }

    #[inline]
    pub fn value(&self, index: usize) -> &T {
        match index.checked_sub(1) {
            None => &self.first,
            Some(i) => &self.later[i].1,
        }
    }

    #[inline]
    pub fn value_mut(&mut self, index: usize) -> &mut T {
        match index.checked_sub(1) {
            None => &mut self.first,
            Some(i) => &mut self.later[i].1,
        }
    }

    /// When the value of number `index` ends; [`NEVER`](crate::NEVER) for the last.
    #[inline]
    pub fn end(&self, index: usize) -> u64 {
        self.later
            .get(index)
            .map_or(crate::NEVER, |(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_holds_from_its_time_to_the_next() {
        let mut s = Schedule::new('a');
        assert!(s.is_constant());
        s.set(10, 'b');
        s.set(20, 'c');
        let found: String = [0, 9, 10, 19, 20, u64::MAX]
            .map(|t| *s.at(t))
            .iter()
            .collect();
        assert_eq!(found, "aabbcc");
        assert_eq!([s.end(0), s.end(1), s.end(2)], [10, 20, crate::NEVER]);
    }

    #[test]
    fn a_value_set_replaces_those_of_later_times() {
        let mut s = Schedule::new(0);
        for (at, value) in [(10, 1), (20, 2), (30, 3), (20, 4)] {
            s.set(at, value);
        }
        assert_eq!([15, 25, 35].map(|t| *s.at(t)), [1, 4, 4]);
        s.set(0, 5);
        assert_eq!(s, Schedule::new(5));
    }

    #[test]
    fn what_was_set_resumes() {
        let mut s = Schedule::new('a');
        s.set(10, 'b');
        s.set(20, 'c');
        let of = |s: &Schedule<char>| -> String {
            [0, 9, 10, 15, 20].map(|t| *s.at(t)).iter().collect()
        };
        assert_eq!(of(&s.resumed_at(10, 'x')), "xxbbc");
        assert_eq!(of(&s.resumed_at(15, 'x')), "xxxbc");
        assert_eq!(of(&s.resumed_at(20, 'x')), "xxxxc");
    }

    proptest! {
        #[test]
        fn an_index_is_found_from_any_earlier_one(gaps in prop::collection::vec(1u64..9, 0..12), now in 0u64..100) {
            let mut s = Schedule::new(0);
            let mut at = 0;
            for (i, gap) in gaps.iter().enumerate() {
                at += gap;
                s.set(at, i + 1);
            }
            let index = s.index(now);
            prop_assert!(s.end(index) > now);
            for from in 0..=index {
                prop_assert_eq!(s.index_from(from, now), index);
            }
        }
    }
}
