//! Rate limits: a bucket of tokens for each holder.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests a second.
    pub per_second: f64,
    /// Requests at once after a pause.
    pub burst: f64,
}

struct Bucket {
    left: f64,
    at: Instant,
}

/// By name; the names are those of the token file, so there are not more than it has.
pub struct Limiter {
    rate: RateLimit,
    buckets: Mutex<HashMap<String, Bucket>>,
}

impl Limiter {
    pub fn new(rate: RateLimit) -> Limiter {
        Limiter {
            rate,
            buckets: Mutex::default(),
        }
    }

    /// Takes one; where there is none, how long until there is.
    pub fn take(&self, name: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(|e| e.into_inner());
        let RateLimit { per_second, burst } = self.rate;
        let fresh = Bucket {
            left: burst,
            at: now,
        };
        if !buckets.contains_key(name) {
            buckets.insert(name.to_owned(), fresh);
        }
        let bucket = buckets.get_mut(name).expect("it is there now");
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + passed * per_second).min(burst);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - bucket.left) / per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_through_and_then_the_rate_holds() {
        let limiter = Limiter::new(RateLimit {
            per_second: 10.0,
            burst: 5.0,
        });
        let start = Instant::now();
        let passed = |at: Duration, tries: usize| {
            (0..tries)
                .filter(|_| limiter.take("a", start + at).is_ok())
                .count()
        };
        assert_eq!(passed(Duration::ZERO, 20), 5);
        assert_eq!(
            passed(Duration::from_secs(1), 20),
            5,
            "no more than the burst"
        );
        assert_eq!(passed(Duration::from_millis(1200), 20), 2);
        assert!(limiter.take("b", start).is_ok(), "each for itself");
    }

    #[test]
    fn who_must_wait_is_told_how_long() {
        let limiter = Limiter::new(RateLimit {
            per_second: 2.0,
            burst: 1.0,
        });
        let now = Instant::now();
        limiter.take("a", now).unwrap();
        let wait = limiter.take("a", now).unwrap_err();
        assert_eq!(wait, Duration::from_millis(500));
        assert!(limiter.take("a", now + wait).is_ok());
    }
}
