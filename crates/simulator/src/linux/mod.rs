//! Congestion control that Linux has built in, for comparison with the project's controllers.

pub mod bbr;
pub mod cubic;
