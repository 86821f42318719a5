//! Estimates of what a host cannot see, from what it can.

mod beginnings;
mod count;
mod frames;
mod role;
mod silence;

pub use beginnings::Beginnings;
pub use count::Count;
pub use frames::FrameLoss;
pub use role::Direction;
pub use silence::Silence;

/// How much a poll after `elapsed` counts in a mean over about `time`, in the same unit.
pub fn weight(elapsed: f64, time: f64) -> f64 {
    elapsed / (elapsed + time)
}
