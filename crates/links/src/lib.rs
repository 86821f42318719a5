//! What a link does to packets, as state machines without a clock and without I/O: the simulator and the testbed run the
//! same ones.
//!
//! A packet meets, in this order: outage and random loss ([`Losses`]), the policer ([`TokenBucket`]), the queue ([`Aqm`]),
//! the bottleneck ([`Server`]), the propagation delay with its jitter ([`Propagation`]). Each world keeps the packets
//! itself. What changes at known times is a [`Schedule`].
//!
//! Times are ns from the start of the run.

mod aqm;
mod bucket;
mod loss;
mod propagation;
mod schedule;
mod server;

pub use aqm::{Aqm, CoDel, Red, Verdict};
pub use bucket::TokenBucket;
pub use loss::{Loss, Losses};
pub use propagation::{Jitter, Propagation};
pub use schedule::Schedule;
pub use server::{Capacity, Opportunities, Server};

/// A time that does not come.
pub const NEVER: u64 = u64::MAX;

/// In ns; what is longer than 584 years comes out as [`NEVER`].
pub fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}
