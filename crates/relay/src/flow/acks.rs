//! When the peer is told what has arrived, and on which path.

use std::time::{Duration, Instant};

use crate::wire::Frame;

use super::Flow;

/// Arrived in order since the last acknowledgement, bytes: then there is one at once.
const AT_ONCE: u64 = 16 << 10;
/// Else after so long.
const DELAY: Duration = Duration::from_millis(5);

pub struct Acks {
    /// Last told.
    next: u64,
    limit: u64,
    due: Option<Instant>,
    forced: bool,
    /// Where a forced one goes, rather than on the best path.
    on: Option<usize>,
}

impl Acks {
    pub fn new(limit: u64) -> Acks {
        Acks {
            next: 0,
            limit,
            due: None,
            forced: false,
            on: None,
        }
    }

    /// An acknowledgement goes out soon, whether there is news or not: the last one may be lost.
    pub fn force(&mut self) {
        self.forced = true;
    }

    pub fn force_on(&mut self, slot: usize) {
        (self.forced, self.on) = (true, Some(slot));
    }

    pub fn due_in(&self, now: Instant) -> Duration {
        self.due
            .map_or(Duration::MAX, |due| due.saturating_duration_since(now))
    }

    /// Whether it is time to tell these.
    fn wanted(&mut self, now: Instant, next: u64, limit: u64, capacity: u64) -> bool {
        if self.forced || next - self.next >= AT_ONCE || limit - self.limit >= capacity / 4 {
            return true;
        }
        if next == self.next && limit == self.limit {
            self.due = None;
            return false;
        }
        let due = *self.due.get_or_insert(now + DELAY);
        due <= now
    }

    fn told(&mut self, next: u64, limit: u64) {
        *self = Acks {
            next,
            limit,
            due: None,
            forced: false,
            on: None,
        };
    }
}

impl Flow {
    pub(super) fn acknowledge(&mut self, now: Instant) {
        let (next, limit) = self.receiver.acknowledgement();
        if !self.acks.wanted(now, next, limit, self.receiver.capacity()) {
            return;
        }
        let usable = |slot: &usize| {
            self.paths[*slot]
                .as_ref()
                .is_some_and(|path| path.view().alive())
        };
        let best = || {
            let live = self
                .paths
                .iter()
                .enumerate()
                .filter_map(|(i, path)| Some((i, path.as_ref()?.view())));
            let quickest = live
                .filter(|(_, view)| view.alive())
                .min_by_key(|(_, view)| (view.backup, view.srtt_us));
            quickest.map(|(slot, _)| slot)
        };
        // Without a live path it stays due: the refresh of a path that lives again forces it.
        let Some(slot) = self.acks.on.filter(usable).or_else(best) else {
            self.acks.due = None;
            return;
        };
        if let Some(path) = &mut self.paths[slot] {
            path.carrier.put(&Frame::Ack { next, limit });
            self.acks.told(next, limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_is_told_at_once_when_there_is_much_and_soon_when_there_is_little() {
        let start = Instant::now();
        let mut acks = Acks::new(1000);
        assert!(!acks.wanted(start, 0, 1000, 1000));
        assert_eq!(acks.due_in(start), Duration::MAX);
        assert!(!acks.wanted(start, 1, 1000, 1000));
        assert_eq!(acks.due_in(start), DELAY);
        assert!(acks.wanted(start + DELAY, 1, 1000, 1000));
        acks.told(1, 1000);
        assert!(acks.wanted(start, 1 + AT_ONCE, 1000, 1000), "many bytes");
        assert!(acks.wanted(start, 1, 1250, 1000), "much of the window");
        acks.force();
        assert!(acks.wanted(start, 1, 1000, 1000));
        acks.told(1, 1000);
        assert!(!acks.wanted(start, 1, 1000, 1000));
    }
}
