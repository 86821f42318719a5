//! When a link has sent a packet: capacity as a constant, as Mahimahi's delivery opportunities, or in steps.

use std::sync::Arc;

use mp_scenario::{Rate, Step, Trace, TraceKind};

use crate::agenda::NEVER;
use crate::time::{nanos, SECOND};

/// Bytes that one Mahimahi opportunity carries.
const OPPORTUNITY: u32 = 1500;
const FRACTION_BITS: u32 = 24;

/// Serves packets in order; a start time never lies before the one of the call before.
#[derive(Debug, Clone)]
pub enum Server {
    Unlimited,
    /// ns per byte, in 2^-24.
    Constant(u64),
    Stopped,
    Opportunities(Opportunities),
    Steps(Steps),
}

impl Server {
    pub fn new(rate: &Rate) -> Self {
        match rate {
            Rate::Unlimited => Server::Unlimited,
            Rate::Constant(bits) => Server::constant(*bits),
            Rate::Trace(trace) => match &trace.kind {
                TraceKind::Opportunities { times, period } => {
                    Server::Opportunities(Opportunities {
                        times: times.iter().copied().map(nanos).collect(),
                        period: nanos(*period),
                        cycle: 0,
                        index: 0,
                        left: OPPORTUNITY,
                    })
                }
                TraceKind::Steps(_) => Server::Steps(Steps {
                    trace: trace.clone(),
                    index: 0,
                }),
                // A world begins with a scenario whose radio was run.
                TraceKind::Radio(_) => Server::Stopped,
            },
        }
    }

    /// bit/s
    pub fn constant(bits: u64) -> Self {
        if bits == 0 {
            return Server::Stopped;
        }
        let scaled = (8 * u128::from(SECOND)) << FRACTION_BITS;
        Server::Constant((scaled / u128::from(bits)) as u64)
    }

    /// Time at which a packet of `size` bytes, whose turn comes at `start`, has left; [`NEVER`] where it never will.
    #[inline]
    pub fn serve(&mut self, start: u64, size: u32) -> u64 {
        match self {
            Server::Unlimited => start,
            Server::Constant(per_byte) => {
                start + ((u128::from(*per_byte) * u128::from(size)) >> FRACTION_BITS) as u64
            }
            Server::Stopped => NEVER,
            Server::Opportunities(o) => o.serve(start, size),
            Server::Steps(s) => s.serve(start, size),
        }
    }
}

impl Server {
    /// About how long a packet takes that finds the link idle at `now`, ns.
    pub fn service_time(&self, now: u64, size: u32) -> u64 {
        match self {
            Server::Unlimited => 0,
            Server::Constant(_) => self.clone().serve(0, size),
            Server::Stopped => NEVER,
            Server::Opportunities(o) => {
                let each = o.period / o.times.len().max(1) as u64;
                each * u64::from(size.div_ceil(OPPORTUNITY))
            }
            Server::Steps(s) => s.steps().get(s.index).map_or(NEVER, |_| {
                let rate = s.steps()[step_at(s.steps(), s.index, now)].rate;
                Server::constant(rate).serve(0, size)
            }),
        }
    }
}

/// Mahimahi: each opportunity passes up to 1500 bytes of what waits by then; an unused one is gone.
#[derive(Debug, Clone)]
pub struct Opportunities {
    times: Vec<u64>,
    period: u64,
    /// The next opportunity, and what is left of it.
    cycle: u64,
    index: usize,
    left: u32,
}

impl Opportunities {
    fn time(&self) -> u64 {
        self.cycle * self.period + self.times[self.index]
    }

    fn advance(&mut self) {
        self.left = OPPORTUNITY;
        self.index += 1;
        if self.index == self.times.len() {
            self.index = 0;
            self.cycle += 1;
        }
    }

    fn serve(&mut self, start: u64, mut size: u32) -> u64 {
        if self.times.is_empty() || self.period == 0 || start == NEVER {
            return NEVER;
        }
        if start > self.time() + self.period {
            self.cycle = start / self.period;
            self.index = 0;
            self.left = OPPORTUNITY;
        }
        while self.time() < start {
            self.advance();
        }
        while size > self.left {
            size -= self.left;
            self.advance();
        }
        self.left -= size;
        self.time()
    }
}

#[derive(Debug, Clone)]
pub struct Steps {
    trace: Arc<Trace>,
    /// Step in force at the last start.
    index: usize,
}

impl Steps {
    fn steps(&self) -> &[Step] {
        match &self.trace.kind {
            TraceKind::Steps(steps) => steps,
            TraceKind::Opportunities { .. } | TraceKind::Radio(_) => &[],
        }
    }

    fn serve(&mut self, start: u64, size: u32) -> u64 {
        if self.steps().is_empty() || start == NEVER {
            return NEVER;
        }
        self.index = step_at(self.steps(), self.index, start);
        // Mostly it is over within the step, which 64 bits can tell.
        let step = &self.steps()[self.index];
        let end = (self.steps().get(self.index + 1)).map_or(NEVER, |next| nanos(next.at));
        if step.rate > 0 {
            let needed = (u64::from(size) * 8 * SECOND).div_ceil(step.rate);
            if needed <= end - start.min(end) {
                return start + needed;
            }
        }
        // Bits left to send, in units of bit·ns/s.
        let mut left = u128::from(size) * 8 * u128::from(SECOND);
        let mut at = start;
        for (i, step) in self.steps().iter().enumerate().skip(self.index) {
            let rate = u128::from(step.rate);
            let end = self.steps().get(i + 1).map_or(NEVER, |next| nanos(next.at));
            let room = u128::from(end - at.min(end)) * rate;
            if room >= left && rate > 0 {
                return at + left.div_ceil(rate) as u64;
            }
            left -= room.min(left);
            at = at.max(end);
        }
        NEVER
    }
}

/// Index of the step in force at `time`, at or after `from`.
pub fn step_at(steps: &[Step], from: usize, time: u64) -> usize {
    // Steps are long beside packets.
    if steps.get(from + 1).is_none_or(|step| nanos(step.at) > time) {
        return from;
    }
    let later = steps[from + 1..].partition_point(|step| nanos(step.at) <= time);
    from + later
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MILLISECOND;
    use std::time::Duration;

    #[test]
    fn constant_rate_is_exact_for_round_numbers() {
        let mut server = Server::constant(100_000_000);
        assert_eq!(server.serve(0, 1500), 120_000);
        let mut server = Server::constant(8);
        assert_eq!(server.serve(0, 1), SECOND);
        assert_eq!(Server::constant(0).serve(0, 1), NEVER);
    }

    fn opportunities(ms: &[u64]) -> Server {
        let times: Vec<_> = ms.iter().map(|&m| Duration::from_millis(m)).collect();
        let period = *times.last().unwrap();
        trace(TraceKind::Opportunities { times, period })
    }

    fn trace(kind: TraceKind) -> Server {
        Server::new(&Rate::Trace(Arc::new(Trace {
            file: "t".into(),
            kind,
        })))
    }

    #[test]
    fn opportunities_are_shared_split_and_wasted() {
        let ms = |t: u64| t / MILLISECOND;
        let mut s = opportunities(&[1, 2, 10]);
        assert_eq!(ms(s.serve(0, 700)), 1);
        assert_eq!(ms(s.serve(0, 700)), 1); // shares the first
        assert_eq!(ms(s.serve(0, 1500)), 2); // 100 left of the first, the rest of the second
        assert_eq!(ms(s.serve(0, 1500)), 10);
        assert_eq!(ms(s.serve(11_500_000, 1500)), 12); // 11 went by unused
        assert_eq!(ms(s.serve(95 * MILLISECOND, 1500)), 100); // after a long idle time
    }

    #[test]
    fn the_short_way_within_a_step_is_the_long_way() {
        let step = |at: u64, rate| Step {
            at: Duration::from_micros(at),
            rate,
            delay: None,
            loss: None,
        };
        let list = vec![
            step(0, 7),
            step(10, 3_999_999_999),
            step(40, 0),
            step(55, 33),
        ];
        for (start, size) in [
            (0, 1),
            (9_999, 1500),
            (10_000, 15_000),
            (12_345, 9_999),
            (39_999, 1),
        ] {
            let found = trace(TraceKind::Steps(list.clone())).serve(start, size);
            let carried = |until: u64| -> u128 {
                let ends = list[1..].iter().map(|s| nanos(s.at)).chain([u64::MAX]);
                let each = list.iter().zip(ends).map(|(s, end)| {
                    let from = nanos(s.at).max(start);
                    u128::from(end.min(until).saturating_sub(from)) * u128::from(s.rate)
                });
                each.sum()
            };
            let wanted = u128::from(size) * 8 * u128::from(SECOND);
            assert!(
                carried(found) >= wanted && carried(found - 1) < wanted,
                "{start} {size}"
            );
        }
    }

    #[test]
    fn steps_pause_at_zero_and_hold_the_last_rate() {
        let step = |at: u64, rate| Step {
            at: Duration::from_millis(at),
            rate,
            delay: None,
            loss: None,
        };
        let mut s = trace(TraceKind::Steps(vec![
            step(0, 8_000_000),
            step(1, 0),
            step(5, 16_000_000),
        ]));
        assert_eq!(s.serve(0, 500), 500_000);
        assert_eq!(s.serve(500_000, 1000), 5 * MILLISECOND + 250_000); // half before the outage, half after it
        assert_eq!(s.serve(20 * MILLISECOND, 2000), 21 * MILLISECOND);
        let mut s = trace(TraceKind::Steps(vec![step(0, 8_000_000), step(1, 0)]));
        assert_eq!(s.serve(0, 2000), NEVER);
    }
}
