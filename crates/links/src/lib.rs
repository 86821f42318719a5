//! What a link does to packets, as state machines without a clock and without I/O: the simulator and the testbed run the
//! same ones.

mod aqm;
mod bucket;
mod loss;

pub use aqm::{CoDel, Red, Verdict};
pub use bucket::TokenBucket;
pub use loss::Loss;
