//! What changes over time, known before the run begins: steps of a trace and timed events laid over each other.

use std::sync::Arc;
use std::time::Duration;

use mp_scenario::{Change, Direction, Loss, Rate, TraceKind};

/// Nanoseconds from the start of the run. Packets come before it too (the handshake of a set-up phase): they are at 0.
pub type Nanos = u64;

pub fn nanos(d: Duration) -> Nanos {
    d.as_nanos() as Nanos
}

/// A value that holds from each time on.
#[derive(Debug, Clone)]
pub struct Schedule<T> {
    /// Sorted by time; the first is at 0.
    steps: Vec<(Nanos, T)>,
}

impl<T> Schedule<T> {
    pub fn new(value: T) -> Schedule<T> {
        Schedule {
            steps: vec![(0, value)],
        }
    }

    /// From `at` on; what was set for later times before is forgotten.
    pub fn set(&mut self, at: Nanos, value: T) {
        self.steps.retain(|(t, _)| *t < at);
        self.steps.push((at, value));
    }

    pub fn at(&self, now: Nanos) -> &T {
        &self.steps[self.index(now)].1
    }

    pub fn index(&self, now: Nanos) -> usize {
        self.steps
            .partition_point(|(t, _)| *t <= now)
            .saturating_sub(1)
    }

    /// Value number `index` and when the next one takes over.
    pub fn step(&self, index: usize) -> (&T, Option<Nanos>) {
        (
            &self.steps[index].1,
            self.steps.get(index + 1).map(|(t, _)| *t),
        )
    }
}

#[derive(Debug, Clone)]
pub enum Capacity {
    Unlimited,
    /// bit/s; 0 lets nothing pass
    Constant(u64),
    /// Mahimahi: at each of these times, and again every `period`, 1500 bytes may leave.
    Opportunities {
        times: Arc<[Nanos]>,
        period: Nanos,
    },
}

/// One direction of a path or link, resolved over time.
#[derive(Debug, Clone)]
pub struct Conditions {
    pub capacity: Schedule<Capacity>,
    pub delay: Schedule<Nanos>,
    pub loss: Schedule<Loss>,
    pub down: Schedule<bool>,
}

impl Conditions {
    /// `events` are those of this path, in order of time; `takes_data` tells whether loss events concern this direction.
    pub fn new<'a>(
        direction: &Direction,
        events: impl Iterator<Item = (Duration, &'a Change)>,
        takes_data: bool,
    ) -> Conditions {
        let mut c = Conditions {
            capacity: Schedule::new(Capacity::Unlimited),
            delay: Schedule::new(nanos(direction.delay)),
            loss: Schedule::new(direction.loss.clone()),
            down: Schedule::new(false),
        };
        match &direction.rate {
            Rate::Unlimited => {}
            Rate::Constant(rate) => c.capacity.set(0, Capacity::Constant(*rate)),
            Rate::Trace(trace) => match &trace.kind {
                // A world begins with a scenario whose radio was run.
                TraceKind::Radio(_) => c.capacity.set(0, Capacity::Constant(0)),
                TraceKind::Opportunities { times, period } => {
                    let times = times.iter().copied().map(nanos).collect();
                    c.capacity.set(
                        0,
                        Capacity::Opportunities {
                            times,
                            period: nanos(*period),
                        },
                    );
                }
                TraceKind::Steps(steps) => {
                    for (i, step) in steps.iter().enumerate() {
                        // Before its first line a trace is what that line says.
                        let at = if i == 0 { 0 } else { nanos(step.at) };
                        c.capacity.set(at, Capacity::Constant(step.rate));
                        if let Some(delay) = step.delay {
                            c.delay.set(at, nanos(delay));
                        }
                        if let Some(p) = step.loss {
                            c.loss.set(at, Loss::Bernoulli(p));
                        }
                    }
                }
            },
        }
        for (at, change) in events {
            let at = nanos(at);
            match change {
                Change::Down => c.down.set(at, true),
                Change::Up => c.down.set(at, false),
                Change::Rate(rate) => c.capacity.set(at, Capacity::Constant(*rate)),
                Change::Delay(delay) => c.delay.set(at, nanos(*delay)),
                Change::Loss(loss) if takes_data => c.loss.set(at, loss.clone()),
                Change::Loss(_) | Change::Backup(_) | Change::Signal(_) | Change::Readings(_) => {}
            }
        }
        c
    }
}
