//! Goodput and goodput deficit: how far the connection is behind what it could carry.

use crate::estimate::weight;

/// Goodput below this share of the aim makes the deficit grow.
const SLOWER: f64 = 0.95;

/// Goodput deficit that is enough against any path, s.
pub(super) const DEFICIT_S: f64 = 0.8;

const SMOOTHING_S: f64 = 1.0;
/// Goodput with the same paths is the mean of so many seconds at most.
const TOGETHER_S: f64 = 10.0;

/// Goodput since the poll before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub seconds: f64,
    /// bytes/s
    pub rate: f64,
}

/// Seconds' worth of a rate that the connection lacks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deficit(f64);

impl Deficit {
    /// Behind `aim`, bytes/s. A connection that did better may stall for `ahead_s`.
    pub fn add(&mut self, step: Step, aim: f64, ahead_s: f64) {
        if aim > 0.0 {
            let more = step.seconds * (SLOWER - step.rate / aim);
            self.0 = (self.0 + more).clamp(-ahead_s, 2.0 * DEFICIT_S);
        }
    }

    pub fn seconds(self) -> f64 {
        self.0
    }
}

/// A connection's goodput.
#[derive(Debug, Clone, Default)]
pub(super) struct Goodput {
    /// Time of the last poll, µs, and payload in order then.
    last: Option<(u64, u64)>,
    /// Over about a second, bytes/s.
    pub smoothed: f64,
    /// `None` where it says nothing of the paths.
    pub step: Option<Step>,
    busy: bool,
    /// Nothing is in flight, nor was at the poll before.
    pub idle: bool,
    /// Mean since other paths carried data, or one began to lose, bytes/s, and its length, s.
    pub together: f64,
    together_s: f64,
}

impl Goodput {
    /// Payload in order so far; returns the time since the poll before, µs. A step counts only if something is in flight at
    /// this poll and at the one before: else the application has nothing to send, or the whole connection stands still, as
    /// after an overrun of the receive window (docs/explanation/receive-window.md), and no path is responsible.
    pub fn update(&mut self, now_us: u64, bytes: u64, in_flight: bool) -> Option<u64> {
        let last = self.last.replace((now_us, bytes));
        let was_busy = std::mem::replace(&mut self.busy, in_flight);
        self.step = None;
        let (at_us, before) = last.filter(|last| last.0 < now_us)?;
        let seconds = (now_us - at_us) as f64 / 1e6;
        let rate = bytes.saturating_sub(before) as f64 / seconds;
        self.smoothed += weight(seconds, SMOOTHING_S) * (rate - self.smoothed);
        self.step = (was_busy && in_flight).then_some(Step { seconds, rate });
        self.idle = !was_busy && !in_flight;
        if self.step.is_some() {
            // The first second counts in full: what waited may have arrived at once.
            self.together_s = (self.together_s + seconds).min(TOGETHER_S);
            self.together += (rate - self.together) * seconds / self.together_s.max(1.0);
        }
        Some(now_us - at_us)
    }

    /// What was before says nothing of the paths that carry data now.
    pub fn begin_anew(&mut self) {
        (self.together, self.together_s) = (0.0, 0.0);
    }

    pub fn polled_us(&self) -> Option<u64> {
        self.last.map(|last| last.0)
    }
}
