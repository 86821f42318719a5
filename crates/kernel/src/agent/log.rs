//! What an agent is asked and answers, kept for training.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{accept, Mind, Record};
use crate::initial_path::now_ns;

/// One monitor interval and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub record: Record,
    /// When the controller left the record.
    pub at: Instant,
    /// The rate, bytes/s; `None`: what the mind said is no answer.
    pub answer: Option<u32>,
    /// From the record to the answer.
    pub delay: Duration,
}

/// In the order in which the agent got them.
pub type Log = Arc<Mutex<Vec<Interval>>>;

/// A mind whose intervals are kept. They take some 150 bytes each, and a subflow has one about every 2.5 round trips.
pub struct Logged<M> {
    mind: M,
    log: Log,
}

impl<M: Mind> Logged<M> {
    pub fn new(mind: M, log: Log) -> Logged<M> {
        Logged { mind, log }
    }
}

impl<M: Mind> Mind for Logged<M> {
    fn answer(&mut self, record: &Record) -> f64 {
        let rate = self.mind.answer(record);
        let delay = Duration::from_nanos(now_ns().saturating_sub(record.time_ns));
        let interval = Interval {
            record: *record,
            at: Instant::now()
                .checked_sub(delay)
                .unwrap_or_else(Instant::now),
            answer: accept(rate, record.seen.rate),
            delay,
        };
        self.log.lock().unwrap().push(interval);
        rate
    }

    fn forget(&mut self, owner: u64) {
        self.mind.forget(owner);
    }
}

/// `None` never answers: the controller goes on as plain MPCC, and its records come all the same.
impl<M: Mind> Mind for Option<M> {
    fn answer(&mut self, record: &Record) -> f64 {
        let mind = self.as_mut();
        mind.map_or(f64::NAN, |mind| mind.answer(record))
    }

    fn forget(&mut self, owner: u64) {
        if let Some(mind) = self {
            mind.forget(owner);
        }
    }
}
