//! Goodput, and how far it is behind what it could be.

use crate::estimate::weight;

/// Goodput below this share of the aim makes the connection fall behind.
const SLOWER: f64 = 0.95;
/// A connection that did better than its best path may stall for so long, s.
pub(super) const AHEAD_S: f64 = 1.0;
/// Goodput deficit at which a lossy or a slow path is set to backup, s.
pub(super) const BEHIND_S: f64 = 0.8;
const GOODPUT_SMOOTHING_S: f64 = 1.0;

/// Goodput deficit without a path at which it is restored, s.
const MISSED_S: f64 = 0.8;
/// The others find their rate before the connection can miss a path, µs.
const MISSED_AFTER_US: u64 = 500_000;

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
    /// Behind `aim`, bytes/s; at most `most` seconds.
    pub fn add(&mut self, step: Step, aim: f64, ahead_s: f64, most: f64) {
        if aim > 0.0 {
            self.0 = (self.0 + step.seconds * (SLOWER - step.rate / aim)).clamp(-ahead_s, most);
        }
    }

    pub fn seconds(self) -> f64 {
        self.0
    }
}

/// A connection's goodput.
#[derive(Debug, Clone, Default)]
pub(super) struct Goodput {
    last: Option<Total>,
    /// Over about a second, bytes/s.
    pub smoothed: f64,
    /// `None` where it says nothing of the paths.
    pub step: Option<Step>,
    busy: bool,
}

/// Payload in order so far, at a poll.
#[derive(Debug, Clone, Copy)]
struct Total {
    at_us: u64,
    bytes: u64,
}

impl Goodput {
    /// Payload in order so far. A step counts only if something is in flight at this poll and at the one before: else the
    /// application has nothing to send, or the whole connection stands still, as after an overrun of the receive window
    /// (docs/explanation/receive-window.md), and no path is responsible.
    pub fn update(&mut self, now_us: u64, bytes: u64, in_flight: bool) -> Option<Polled> {
        let at_us = now_us;
        let last = self.last.replace(Total { at_us, bytes });
        let was_busy = std::mem::replace(&mut self.busy, in_flight);
        self.step = None;
        let last = last.filter(|last| last.at_us < now_us)?;
        let seconds = (now_us - last.at_us) as f64 / 1e6;
        let rate = bytes.saturating_sub(last.bytes) as f64 / seconds;
        self.smoothed += weight(seconds, GOODPUT_SMOOTHING_S) * (rate - self.smoothed);
        self.step = (was_busy && in_flight).then_some(Step { seconds, rate });
        Some(Polled {
            since_us: last.at_us,
            idle: !was_busy && !in_flight,
        })
    }

    pub fn polled_us(&self) -> Option<u64> {
        self.last.map(|last| last.at_us)
    }
}

pub(super) struct Polled {
    /// The poll before.
    pub since_us: u64,
    /// Nothing was in flight.
    pub idle: bool,
}

/// Goodput of the connection while the same paths carried data: the mean of so many seconds at most.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Together {
    mean: f64,
    seconds: f64,
}

const TOGETHER_S: f64 = 10.0;

impl Together {
    /// The first second counts in full: what waited may have arrived at once.
    pub fn add(&mut self, Step { seconds, rate }: Step) {
        self.seconds = (self.seconds + seconds).min(TOGETHER_S);
        self.mean += (rate - self.mean) * seconds / self.seconds.max(1.0);
    }

    /// bytes/s
    pub fn mean(&self) -> f64 {
        self.mean
    }
}

/// Whether the connection misses a path in backup.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Missed {
    since_us: u64,
    /// Goodput with the path, or what that alone would carry, bytes/s; 0: nobody knows.
    claim: f64,
    deficit: Deficit,
}

impl Missed {
    pub fn new(since_us: u64, claim: f64) -> Missed {
        Missed {
            since_us,
            claim,
            ..Missed::default()
        }
    }

    /// While data of the path still arrive, the connection waits for those.
    pub fn wait(&mut self, now_us: u64) {
        self.since_us = now_us;
    }

    /// The connection has fallen behind the claim, and the other paths do not carry as much by now.
    pub fn proven(&mut self, now_us: u64, step: Step, carried: f64) -> bool {
        if self.claim <= 0.0 || now_us < self.since_us + MISSED_AFTER_US {
            return false;
        }
        self.deficit.add(step, self.claim, 0.0, 2.0 * MISSED_S);
        self.deficit.seconds() >= MISSED_S && carried < self.claim
    }
}
