//! Estimates of what a host cannot see, from what it can.

mod beginnings;
mod silence;

pub use beginnings::Beginnings;
pub use silence::{Arrival, Silence};

/// How much a look after `elapsed` counts in a mean over about `time`, in the same unit.
pub fn weight(elapsed: f64, time: f64) -> f64 {
    elapsed / (elapsed + time)
}
