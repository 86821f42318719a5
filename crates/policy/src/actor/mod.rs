//! A learned step: what one monitor interval showed goes in, the next rate comes out. Inference only; training is in
//! Python ([`multipilot train`](../../../../docs/guides/learning.md)).
//!
//! ```
//! use mp_policy::actor::{Pilot, Record};
//! let mut pilot = Pilot::shipped();
//! let record = Record { rate: 1_250_000, mss: 1420, delivered: 52, lost: 0, elapsed_us: 60_000, rtt_us: 40_000, min_rtt_us: 40_000 };
//! let rate = pilot.answer(&record);
//! assert!((1_125_000..=1_375_000).contains(&rate));
//! ```

mod file;
mod network;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

pub use file::Error;
pub use network::Actor;

/// Of one monitor interval: rate, round trip, loss.
pub const FEATURES: usize = 3;
/// A step is at most this part of the rate. `controllers/ddpg_mpcc.h` holds to it whatever is answered.
pub const LARGEST_STEP: f32 = 0.1;
/// A peak of the delivery rate is forgotten by so much an interval, for capacity may go down for good.
const PEAK_MEMORY: f32 = 0.995;

/// Round trips that differ by less differ by chance (interrupts, schedulers, tunnels): not by a queue, µs.
const NO_QUEUE_US: u64 = 2_000;

/// What a monitor interval showed of one subflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Sending rate x, bytes/s of payload.
    pub rate: u64,
    /// Bytes.
    pub mss: u64,
    /// Packets acknowledged and marked lost.
    pub delivered: u64,
    pub lost: u64,
    /// Over which they were.
    pub elapsed_us: u64,
    /// Mean of the interval.
    pub rtt_us: u64,
    /// Lifetime minimum; 0 or `u64::MAX`: unknown.
    pub min_rtt_us: u64,
}

/// Makes observations of records: the last `history` intervals, newest first, [`FEATURES`] numbers within 0..=1 each.
#[derive(Debug, Clone)]
pub struct Observer {
    history: usize,
    frames: Vec<f32>,
    /// Highest delivery rate, bytes/s.
    peak: f32,
}

impl Observer {
    /// `history`: intervals, at least 1.
    pub fn new(history: usize) -> Self {
        Observer {
            history: history.max(1),
            frames: Vec::new(),
            peak: 0.0,
        }
    }

    /// Takes a record in.
    pub fn observe(&mut self, record: &Record) -> &[f32] {
        let seconds = record.elapsed_us.max(1) as f32 * 1e-6;
        let delivered = record.delivered as f32 * record.mss as f32 / seconds;
        self.peak = delivered.max(self.peak * PEAK_MEMORY);
        let unit = |x: f32| {
            if x.is_finite() {
                x.clamp(0.0, 1.0)
            } else {
                1.0
            }
        };
        let shortest = match record.min_rtt_us {
            0 | u64::MAX => record.rtt_us,
            known => known,
        };
        let frame = [
            // One half: as much as ever was delivered.
            unit(record.rate as f32 / (2.0 * self.peak)),
            unit(shortest.saturating_add(NO_QUEUE_US) as f32 / record.rtt_us.max(1) as f32),
            unit(record.lost as f32 / (record.lost + record.delivered).max(1) as f32),
        ];
        if self.frames.is_empty() {
            self.frames = frame.repeat(self.history);
        } else {
            self.frames
                .copy_within(..FEATURES * (self.history - 1), FEATURES);
            self.frames[..FEATURES].copy_from_slice(&frame);
        }
        &self.frames
    }

    /// The latest observation; empty before the first record.
    pub fn latest(&self) -> &[f32] {
        &self.frames
    }
}

/// The rate that an action asks for.
pub fn stepped(rate: u64, action: f32) -> u64 {
    let action = if action.is_finite() { action } else { 0.0 };
    (rate as f64 * f64::from(1.0 + LARGEST_STEP * action.clamp(-1.0, 1.0))).round() as u64
}

/// An actor at work on one subflow.
#[derive(Debug, Clone)]
pub struct Pilot {
    actor: Arc<Actor>,
    observer: Observer,
}

impl Pilot {
    pub fn new(actor: Arc<Actor>) -> Self {
        let observer = Observer::new(actor.history());
        Pilot { actor, observer }
    }

    /// With the actor that multipilot ships.
    pub fn shipped() -> Self {
        static SHIPPED: OnceLock<Arc<Actor>> = OnceLock::new();
        let actor = SHIPPED.get_or_init(|| {
            let text = include_str!("../../actors/ddpg.json");
            Arc::new(Actor::parse(text).unwrap_or_else(|e| unreachable!("the shipped actor: {e}")))
        });
        Pilot::new(actor.clone())
    }

    /// The rate for the next interval, bytes/s.
    pub fn answer(&mut self, record: &Record) -> u64 {
        let action = self.actor.act(self.observer.observe(record));
        stepped(record.rate, action)
    }
}
