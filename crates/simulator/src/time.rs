//! Virtual time: nanoseconds from the start of the run, as integers.

use std::time::Duration;

pub const MICROSECOND: u64 = 1_000;
pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / SECOND as f64
}
