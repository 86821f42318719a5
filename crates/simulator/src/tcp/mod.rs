//! A TCP endpoint close to that of Linux 6.x.
//!
//! A subflow is a [`Sender`] at one host and a [`Receiver`] at the other; data goes one way. Function names of the
//! kernel stand beside what follows them.
//!
//! What it stands for, and where it is simpler than Linux, is in `docs/reference/simulator.md`.

mod ack;
mod board;
mod control;
mod rack;
mod receiver;
mod recovery;
mod rtt;
mod sample;
mod sender;
#[cfg(test)]
mod tests;
mod timeouts;
mod timer;
mod transmit;

pub(crate) use control::record_of;
pub use control::{Congestion, Kindred, LEARNED};
pub use receiver::{Receiver, Reply};
pub use rtt::RTO_MIN_US;
pub use sender::{Cx, Profile, Sender};

/// `TCP_INIT_CWND`, segments (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;
