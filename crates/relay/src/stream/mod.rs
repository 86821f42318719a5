//! One direction of one flow at each of its ends, without I/O and without a clock: [`Sender`] deals the bytes to paths as
//! a scheduler says, [`Receiver`] joins them.
//!
//! Offsets count bytes from the stream's beginning. The stream's end counts as one more byte, so that it is acknowledged
//! as bytes are.

mod chunks;
mod receiver;
mod sender;

pub use receiver::{Arrival, Receiver, MOST_FRAGMENTS};
pub use sender::{Piece, Sender};

/// The peer broke the protocol: the flow is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub &'static str);
