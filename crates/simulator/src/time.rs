//! Virtual time: nanoseconds from the start of the run, as integers.

pub use mp_links::nanos;

pub const MICROSECOND: u64 = 1_000;
pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / SECOND as f64
}
