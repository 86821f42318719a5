//! When a bottleneck has sent a packet: its capacity integrated over time.

use crate::{Schedule, NEVER};

/// Bytes of an IP packet that one Mahimahi opportunity carries.
const OPPORTUNITY: u32 = 1500;
const FRACTION_BITS: u32 = 24;
const SECOND: u64 = 1_000_000_000;
/// Work of a byte at 1 bit/s, in bit·ns/s.
const BYTE: u64 = 8 * SECOND;

/// What a link can carry.
#[derive(Debug, Clone, PartialEq)]
pub enum Capacity {
    Unlimited,
    /// bit/s; 0 lets nothing pass
    Constant(u64),
    Opportunities(Opportunities),
}

/// Serves packets in order: a start never lies before that of the call before.
#[derive(Debug, Clone)]
pub enum Server {
    Unlimited,
    /// ns per byte, in 2^-24
    Constant(u64),
    Stopped,
    Varying(Box<Varying>),
}

impl Server {
    pub fn new(capacity: Schedule<Capacity>) -> Self {
        match capacity.value(0) {
            Capacity::Unlimited if capacity.is_constant() => Server::Unlimited,
            Capacity::Constant(bits) if capacity.is_constant() => Server::constant(*bits),
            _ => Server::Varying(Box::new(Varying { capacity, index: 0 })),
        }
    }

    /// bit/s
    pub fn constant(bits: u64) -> Self {
        if bits == 0 {
            return Server::Stopped;
        }
        let scaled = u128::from(BYTE) << FRACTION_BITS;
        Server::Constant((scaled / u128::from(bits)) as u64)
    }

    /// Time at which a packet of `size` bytes, whose turn comes at `start`, has left; [`NEVER`] where it never will.
    #[inline]
    pub fn serve(&mut self, start: u64, size: u32) -> u64 {
        match self {
            Server::Unlimited => start,
            Server::Constant(per_byte) => start + scaled(*per_byte, size),
            Server::Stopped => NEVER,
            Server::Varying(v) => v.serve(start, size),
        }
    }

    /// About how long a packet takes that finds the link idle at `now`, ns.
    pub fn service_time(&self, now: u64, size: u32) -> u64 {
        match self {
            Server::Unlimited => 0,
            Server::Constant(per_byte) => scaled(*per_byte, size),
            Server::Stopped => NEVER,
            Server::Varying(v) => match v.at(now) {
                Capacity::Opportunities(o) => o.service_time(size),
                Capacity::Unlimited => 0,
                Capacity::Constant(bits) => Server::constant(*bits).service_time(now, size),
            },
        }
    }

    /// Bytes that it passes from one time to another, rounded up; `None` unless it has a rate in bit/s all the time.
    pub fn passes(&self, from: u64, to: u64) -> Option<u64> {
        match self {
            Server::Unlimited | Server::Constant(_) => None,
            Server::Stopped => Some(0),
            Server::Varying(v) => v.passes(from, to),
        }
    }

    /// Whether packets pass at `now` without any wait.
    pub fn is_unlimited(&self, now: u64) -> bool {
        match self {
            Server::Unlimited => true,
            Server::Varying(v) => matches!(v.at(now), Capacity::Unlimited),
            Server::Constant(_) | Server::Stopped => false,
        }
    }
}

#[inline]
fn scaled(per_byte: u64, size: u32) -> u64 {
    ((u128::from(per_byte) * u128::from(size)) >> FRACTION_BITS) as u64
}

#[derive(Debug, Clone)]
pub struct Varying {
    capacity: Schedule<Capacity>,
    /// Number of the capacity in force at the last start.
    index: usize,
}

impl Varying {
    fn at(&self, now: u64) -> &Capacity {
        self.capacity
            .value(self.capacity.index_from(self.index, now))
    }

    fn passes(&self, from: u64, to: u64) -> Option<u64> {
        let (mut at, mut work) = (from, 0u128);
        for index in self.capacity.index(from).. {
            let end = self.capacity.end(index).min(to);
            let Capacity::Constant(bits) = self.capacity.value(index) else {
                return None;
            };
            work += u128::from(end.saturating_sub(at)) * u128::from(*bits);
            if end == to {
                break;
            }
            at = end;
        }
        u64::try_from(work.div_ceil(u128::from(BYTE))).ok()
    }

    fn serve(&mut self, start: u64, size: u32) -> u64 {
        if start == NEVER {
            return NEVER;
        }
        self.index = self.capacity.index_from(self.index, start);
        // Mostly it is over before the capacity changes, which 64 bits can tell.
        if let Capacity::Constant(bits @ 1..) = self.capacity.value(self.index) {
            let needed = (u64::from(size) * BYTE).div_ceil(*bits);
            let end = self.capacity.end(self.index);
            if needed <= end.saturating_sub(start) {
                return start + needed;
            }
        }
        self.serve_over_changes(start, size)
    }

    fn serve_over_changes(&mut self, start: u64, size: u32) -> u64 {
        let (mut at, mut left) = (start, u128::from(size) * u128::from(BYTE));
        for index in self.index.. {
            let end = self.capacity.end(index);
            match self.capacity.value_mut(index) {
                Capacity::Unlimited => return at,
                Capacity::Constant(bits) => {
                    let room = u128::from(end.saturating_sub(at)) * u128::from(*bits);
                    if room >= left && *bits > 0 {
                        return at + left.div_ceil(u128::from(*bits)) as u64;
                    }
                    left -= room.min(left);
                }
                Capacity::Opportunities(o) => {
                    let bytes = left.div_ceil(u128::from(BYTE)) as u32;
                    match o.serve(at, end, bytes) {
                        Ok(time) => return time,
                        Err(rest) => left = u128::from(rest) * u128::from(BYTE),
                    }
                }
            }
            if end == NEVER {
                break;
            }
            at = at.max(end);
        }
        NEVER
    }
}

/// Mahimahi: each opportunity passes up to 1500 bytes of what waits by then; an unused one is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct Opportunities {
    /// In order, ns; the last one is the period after which they come again.
    times: Box<[u64]>,
    /// The next opportunity, and the bytes that are left of it.
    cycle: u64,
    index: usize,
    left: u32,
}

impl Opportunities {
    /// `times` (ns) in order, the last one the period. `None` without one above 0.
    pub fn new(times: Box<[u64]>) -> Option<Self> {
        times.last().filter(|period| **period > 0)?;
        Some(Opportunities {
            times,
            cycle: 0,
            index: 0,
            left: OPPORTUNITY,
        })
    }

    fn period(&self) -> u64 {
        self.times[self.times.len() - 1]
    }

    fn time(&self) -> u64 {
        self.cycle * self.period() + self.times[self.index]
    }

    fn advance(&mut self) {
        self.left = OPPORTUNITY;
        self.index += 1;
        if self.index == self.times.len() {
            self.index = 0;
            self.cycle += 1;
        }
    }

    /// To the first opportunity at or after `start`.
    fn skip_to(&mut self, start: u64) {
        let period = self.period();
        // The end of a cycle is a time of its own last entry, and not only of the next cycle's first.
        (self.cycle, self.index) = match (start / period, start % period) {
            (cycle @ 1.., 0) => (cycle - 1, self.times.partition_point(|t| *t < period)),
            (cycle, offset) => (cycle, self.times.partition_point(|t| *t < offset)),
        };
        self.left = OPPORTUNITY;
    }

    /// When `size` bytes are through; where that is not before `end`, the bytes to go by then.
    fn serve(&mut self, start: u64, end: u64, mut size: u32) -> Result<u64, u32> {
        if self.time() < start {
            self.skip_to(start);
        }
        loop {
            let time = self.time();
            if time >= end {
                return Err(size);
            }
            let used = size.min(self.left);
            self.left -= used;
            size -= used;
            if size == 0 {
                return Ok(time);
            }
            self.advance();
        }
    }

    fn service_time(&self, size: u32) -> u64 {
        self.period() / self.times.len() as u64 * u64::from(size.div_ceil(OPPORTUNITY))
    }
}

#[cfg(test)]
mod tests;
