//! When a packet has left the bottleneck: the capacity integrated over time.

use super::schedule::{Capacity, Nanos, Schedule};

/// Bytes of one delivery opportunity of a Mahimahi trace (an IP packet).
const OPPORTUNITY: u64 = 1500;
const BITS_NS: u128 = 8 * 1_000_000_000;

pub struct Server {
    capacity: Schedule<Capacity>,
    opportunities: Opportunities,
}

impl Server {
    pub fn new(capacity: Schedule<Capacity>) -> Server {
        Server {
            capacity,
            opportunities: Opportunities::default(),
        }
    }

    pub fn unlimited(&self, now: Nanos) -> bool {
        matches!(self.capacity.at(now), Capacity::Unlimited)
    }

    /// About how long a packet takes that finds the bottleneck idle.
    pub fn service_time(&self, now: Nanos, bytes: u64) -> Nanos {
        match self.capacity.at(now) {
            Capacity::Unlimited => 0,
            Capacity::Constant(0) => Nanos::MAX,
            Capacity::Constant(rate) => (u128::from(bytes) * BITS_NS / u128::from(*rate)) as Nanos,
            Capacity::Opportunities { times, period } => {
                period / times.len().max(1) as u64 * bytes.div_ceil(OPPORTUNITY)
            }
        }
    }

    /// End of the service of `bytes` that starts at `start`; `None` if the capacity stays 0 to the end of the schedule.
    pub fn serve(&mut self, start: Nanos, bytes: u64) -> Option<Nanos> {
        let (mut now, mut left) = (start, bytes);
        let mut index = self.capacity.index(start);
        loop {
            let (capacity, end) = self.capacity.step(index);
            let end = end.unwrap_or(Nanos::MAX);
            match capacity {
                Capacity::Unlimited => return Some(now),
                Capacity::Constant(0) => {}
                Capacity::Constant(rate) => {
                    let needed = (u128::from(left) * BITS_NS).div_ceil(u128::from(*rate)) as Nanos;
                    if now.saturating_add(needed) <= end {
                        return Some(now + needed);
                    }
                    let done = (u128::from(end - now) * u128::from(*rate) / BITS_NS) as u64;
                    left = left.saturating_sub(done).max(1);
                }
                Capacity::Opportunities { times, period } => {
                    let at = self
                        .opportunities
                        .serve(times, *period, now, end, &mut left);
                    if at.is_some() {
                        return at;
                    }
                }
            }
            if end == Nanos::MAX {
                return None;
            }
            now = end;
            index += 1;
        }
    }
}

/// Where a trace of delivery opportunities stands.
#[derive(Default)]
struct Opportunities {
    /// Number of the first one not yet used, counted over all rounds of the trace.
    next: u64,
    /// When the last one used was, and the bytes it has left: for a packet already waiting then, for no later one.
    rest: (Nanos, u64),
}

impl Opportunities {
    /// `None`: not done before `end`, with `left` bytes to go.
    fn serve(
        &mut self,
        times: &[Nanos],
        period: Nanos,
        now: Nanos,
        end: Nanos,
        left: &mut u64,
    ) -> Option<Nanos> {
        if self.rest.0 >= now {
            let used = self.rest.1.min(*left);
            self.rest.1 -= used;
            *left -= used;
            if *left == 0 {
                return Some(self.rest.0);
            }
        }
        let n = times.len() as u64;
        self.next = self.next.max(first_from(times, period, now));
        loop {
            let at = (self.next / n) * period + times[(self.next % n) as usize];
            if at >= end {
                return None;
            }
            self.next += 1;
            let used = OPPORTUNITY.min(*left);
            *left -= used;
            if *left == 0 {
                self.rest = (at, OPPORTUNITY - used);
                return Some(at);
            }
        }
    }
}

/// Number of the first opportunity at or after `now`.
fn first_from(times: &[Nanos], period: Nanos, now: Nanos) -> u64 {
    // A round's end is a time of its own last entry, not only of the next round's first.
    let (round, offset) = match (now / period, now % period) {
        (round, 0) if round > 0 => (round - 1, period),
        other => other,
    };
    round * times.len() as u64 + times.partition_point(|t| *t < offset) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn constant(rate: u64) -> Server {
        Server::new(Schedule::new(Capacity::Constant(rate)))
    }

    #[test]
    fn a_constant_rate_takes_size_over_rate() {
        assert_eq!(constant(12_000_000).serve(5 * MS, 1500), Some(6 * MS));
    }

    #[test]
    fn service_goes_on_over_a_step_and_waits_out_an_outage() {
        let mut steps = Schedule::new(Capacity::Constant(12_000_000));
        steps.set(10 * MS, Capacity::Constant(0));
        steps.set(30 * MS, Capacity::Constant(6_000_000));
        // Half of the packet before the outage, the other half at half the rate after it.
        assert_eq!(
            Server::new(steps).serve(9 * MS + MS / 2, 1500),
            Some(31 * MS)
        );
    }

    #[test]
    fn a_rate_of_zero_for_good_never_ends() {
        assert_eq!(constant(0).serve(0, 1), None);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_need_two() {
        let times: Vec<Nanos> = vec![MS, 2 * MS, 2 * MS, 10 * MS];
        let mut server = Server::new(Schedule::new(Capacity::Opportunities {
            times: times.into(),
            period: 10 * MS,
        }));
        assert_eq!(server.serve(0, 700), Some(MS));
        assert_eq!(server.serve(MS, 700), Some(MS));
        // 100 bytes are left at 1 ms; the rest comes at 2 ms, where two opportunities are.
        assert_eq!(server.serve(MS, 1500), Some(2 * MS));
        assert_eq!(server.serve(2 * MS, 1600), Some(2 * MS));
        assert_eq!(server.serve(2 * MS, 1500), Some(10 * MS));
        // The trace repeats, and an opportunity that finds the queue empty is gone.
        assert_eq!(server.serve(11 * MS + 1, 100), Some(12 * MS));
        assert_eq!(server.serve(13 * MS, 100), Some(20 * MS));
        assert_eq!(server.serve(20 * MS + 1, 100), Some(21 * MS));
    }

    #[test]
    fn a_sparse_trace_keeps_its_rate_for_ever() {
        // 600 kbit/s: one opportunity in 20 ms.
        let capacity = Capacity::Opportunities {
            times: vec![20 * MS].into(),
            period: 20 * MS,
        };
        let mut server = Server::new(Schedule::new(capacity));
        let mut now = 0;
        for _ in 0..10_000 {
            now = server.serve(now, 1500).unwrap();
        }
        assert_eq!(now, 200_000 * MS);
    }
}
