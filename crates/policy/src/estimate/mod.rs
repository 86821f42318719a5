//! Estimates of what a host cannot see, from what it can.

mod beginnings;
mod silence;

pub use beginnings::Beginnings;
pub use silence::{Arrival, Silence};
