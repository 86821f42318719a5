//! Endpoints' own congestion control besides the project's controllers, for comparison: what Linux has built in.

pub mod bbr;
pub mod cubic;
