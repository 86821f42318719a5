//! How much the devices may send and receive, where the relay limits it.
//!
//! A device has a token bucket for each direction, for streams and datagrams together. Streams wait for tokens, and leave half
//! of the bucket to datagrams, so that a call gets through beside a download. A datagram without tokens is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mp_links::{nanos, TokenBucket};

use crate::lock;
use crate::wire::ID_LENGTH;

/// Half of a bucket: what the rate brings in this time …
const RESERVE: Duration = Duration::from_millis(100);
/// … and at least this, bytes.
const LEAST_RESERVE: u64 = 1 << 16;
/// A stream that has more to carry waits until it may carry so much: each turn costs the same.
const QUANTUM: u64 = 1 << 14;

#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// From the device.
    Up,
    Down,
}

/// The devices' allowances, as they come.
#[derive(Debug)]
pub struct Rates {
    /// Of each device in each direction, bit/s.
    limit: Option<u64>,
    devices: Mutex<HashMap<[u8; ID_LENGTH], Arc<Allowance>>>,
}

impl Rates {
    pub fn new(limit: Option<u64>) -> Rates {
        Rates {
            limit,
            devices: Mutex::default(),
        }
    }

    /// [`None`]: no limit.
    pub fn of(&self, device: [u8; ID_LENGTH]) -> Option<Arc<Allowance>> {
        let limit = self.limit?;
        let mut all = lock(&self.devices);
        let new = || Arc::new(Allowance::new(limit, Instant::now()));
        Some(all.entry(device).or_insert_with(new).clone())
    }
}

/// Of one device.
#[derive(Debug)]
pub struct Allowance {
    started: Instant,
    buckets: [Mutex<Bucket>; 2],
}

impl Allowance {
    fn new(rate: u64, started: Instant) -> Allowance {
        Allowance {
            started,
            buckets: [(); 2].map(|()| Mutex::new(Bucket::new(rate))),
        }
    }

    fn with<T>(&self, way: Way, now: Instant, act: impl FnOnce(&mut Bucket, u64) -> T) -> T {
        let now = nanos(now.saturating_duration_since(self.started));
        act(&mut lock(&self.buckets[way as usize]), now)
    }

    /// Whether a datagram may go.
    pub fn admits(&self, way: Way, bytes: usize, now: Instant) -> bool {
        self.with(way, now, |bucket, now| {
            bucket.tokens.admit(now, bytes as u64)
        })
    }
}

#[derive(Debug)]
struct Bucket {
    tokens: TokenBucket,
    /// bit/s
    rate: u64,
    reserve: u64,
}

impl Bucket {
    fn new(rate: u64) -> Bucket {
        let reserve = u128::from(rate) * RESERVE.as_nanos() / 8_000_000_000;
        let reserve = u64::try_from(reserve)
            .unwrap_or(u64::MAX / 4)
            .max(LEAST_RESERVE);
        Bucket {
            tokens: TokenBucket::new(rate, 2 * reserve),
            rate,
            reserve,
        }
    }

    /// Bytes that a stream may carry, of those that it would; or ns until it is to ask again.
    fn take(&mut self, wanted: u64, now: u64) -> Result<u64, u64> {
        let level = self.tokens.level(now);
        let least = self.reserve + wanted.min(QUANTUM);
        if level < least {
            let wait = u128::from(least - level) * 8_000_000_000;
            return Err(wait.div_ceil(u128::from(self.rate)) as u64);
        }
        let taken = wanted.min(level - self.reserve);
        self.tokens.admit(now, taken);
        Ok(taken)
    }
}

/// A stream's use of its device's allowance. The default has no limit.
#[derive(Debug, Default)]
pub struct Throttle {
    allowance: Option<Arc<Allowance>>,
    /// It waits until then, in each direction.
    until: [Option<Instant>; 2],
}

impl Throttle {
    pub fn new(allowance: Option<Arc<Allowance>>) -> Throttle {
        Throttle {
            allowance,
            until: [None; 2],
        }
    }

    /// Whether there is a limit. Then it counts how much there is to carry: little gets through beside much.
    pub fn limits(&self) -> bool {
        self.allowance.is_some()
    }

    /// Bytes that may be carried, of those that would; [`None`]: not now.
    pub fn take(&mut self, way: Way, wanted: usize, now: Instant) -> Option<usize> {
        let Some(allowance) = &self.allowance else {
            return Some(wanted);
        };
        let taken = allowance.with(way, now, |bucket, now| bucket.take(wanted as u64, now));
        self.until[way as usize] = taken.err().map(|wait| now + Duration::from_nanos(wait));
        taken.ok().map(|bytes| bytes as usize)
    }

    /// Of what was taken.
    pub fn give_back(&self, way: Way, bytes: usize) {
        if let Some(allowance) = self.allowance.as_ref().filter(|_| bytes > 0) {
            let mut bucket = lock(&allowance.buckets[way as usize]);
            bucket.tokens.give_back(bytes as u64);
        }
    }

    /// Ends waits whose time has come.
    pub fn resume(&mut self, now: Instant) {
        for until in &mut self.until {
            *until = until.filter(|at| *at > now);
        }
    }

    pub fn waits(&self, way: Way) -> bool {
        self.until[way as usize].is_some()
    }

    /// Until it is to be asked again.
    pub fn due_in(&self, now: Instant) -> Duration {
        let first = self.until.iter().flatten().min();
        first.map_or(Duration::MAX, |at| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 8_000_000;
    /// Bytes a second, and half of the bucket.
    const SECOND: u64 = RATE / 8;
    const HALF: u64 = SECOND / 10;

    fn throttles(count: usize) -> (Vec<Throttle>, Instant) {
        let rates = Rates::new(Some(RATE));
        let device = [1; ID_LENGTH];
        let all = (0..count).map(|_| Throttle::new(rates.of(device)));
        let all = all.collect();
        let started = rates.of(device).unwrap().started;
        (all, started)
    }

    /// Bytes that streams with much to carry carry in 10 s, each of which asks when it was told to.
    fn carried(count: usize, wanted: usize) -> u64 {
        let (mut streams, started) = throttles(count);
        let end = started + Duration::from_secs(10);
        let (mut now, mut sum) = (started, 0);
        while now <= end {
            for stream in &mut streams {
                stream.resume(now);
                while let Some(bytes) = (!stream.waits(Way::Down))
                    .then(|| stream.take(Way::Down, wanted, now))
                    .flatten()
                {
                    sum += bytes as u64;
                }
            }
            let next = streams.iter().map(|s| s.due_in(now)).min().unwrap();
            now += next.max(Duration::from_nanos(1));
        }
        sum
    }

    #[test]
    fn streams_carry_the_rate_and_half_a_bucket_more() {
        for (count, wanted) in [(1, 1 << 16), (5, 1 << 16), (3, 1000)] {
            let sum = carried(count, wanted);
            let most = 10 * SECOND + HALF;
            assert!((most - QUANTUM..=most).contains(&sum), "{count}: {sum}");
        }
    }

    #[test]
    fn datagrams_have_half_of_the_bucket_to_themselves() {
        let (mut streams, now) = throttles(1);
        while streams[0].take(Way::Up, 1 << 16, now).is_some() {}
        let allowance = streams[0].allowance.clone().unwrap();
        let calls = (0..).take_while(|_| allowance.admits(Way::Up, 1000, now));
        assert_eq!(calls.count() as u64, HALF / 1000);
        // The other direction has a bucket of its own.
        assert!(allowance.admits(Way::Down, 1000, now));
        assert!(streams[0].take(Way::Down, 1000, now).is_some());
    }

    #[test]
    fn what_was_not_used_is_there_for_others_and_without_a_limit_all_goes() {
        let (mut streams, now) = throttles(2);
        let first = streams[0].take(Way::Up, usize::MAX, now).unwrap();
        assert_eq!(first as u64, HALF);
        assert!(streams[1].take(Way::Up, 1, now).is_none() && streams[1].waits(Way::Up));
        streams[0].give_back(Way::Up, first - 10);
        assert_eq!(streams[1].take(Way::Up, 50, now), Some(50));
        assert!(!streams[1].waits(Way::Up));
        let mut free = Throttle::new(Rates::new(None).of([1; ID_LENGTH]));
        assert_eq!(free.take(Way::Up, usize::MAX, now), Some(usize::MAX));
    }
}
