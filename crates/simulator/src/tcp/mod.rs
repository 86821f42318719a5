//! A TCP endpoint close to that of Linux 6.x.
//!
//! A subflow is a [`Sender`] at one host and a [`Receiver`] at the other; data goes one way. Function names of the
//! kernel stand beside what follows them.
//!
//! # Where it is simpler than Linux
//!
//! - Sequence numbers count segments. Every segment is full but the last one of a transfer, so there is no Nagle, no
//!   silly-window avoidance and no resegmentation; MTU probing is absent.
//! - Virtual time has no jiffies: timers expire exactly, but for backed-off timeouts, which are rounded up as by a timer
//!   wheel of 4 ms ticks (HZ = 250).
//! - Segmentation offload sets what leaves in one burst (`tcp_tso_autosize`, `tcp_tso_should_defer`) and where PSH is set,
//!   but each segment is a packet of its own; the small-queue limit (TSQ) does not hold packets back.
//! - The minimum RTT is the lifetime minimum, where Linux keeps that of the last 300 s.
//! - SACK reneging, Fast Open, urgent data, keep-alives, window scaling limits and PAWS are absent. The receiving
//!   application reads at once, so that the window is held back by out-of-order data alone and no zero-window
//!   probe is needed.
//! - The metrics that Linux caches a destination (`tcp_metrics`) are not kept from one connection to the next.
//! - Retransmissions are judged for loss in the order they were sent, apart from first transmissions; the timeout of
//!   RACK's reordering timer is that of the last packet sent before the newest one delivered.
//! - Rate samples are never application-limited: the writer of a plain transfer is always ahead of its sender, and MPTCP
//!   does not call `tcp_rate_check_app_limited`.
//! - FIN costs nothing: a transfer is over when its last byte has been delivered.

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
mod timer;
mod transmit;

pub(crate) use control::record_of;
pub use control::{Congestion, Kindred, LEARNED};
pub use receiver::{Receiver, Reply};
pub use rtt::RTO_MIN_US;
pub use sender::{Cx, Profile, Sender};

/// `TCP_INIT_CWND`, segments (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;
