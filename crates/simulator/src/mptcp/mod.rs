//! MPTCP (RFC 8684) above its subflows: reassembly, receive window, and what a connection keeps.

mod connection;
mod reassembly;
mod subflow;
mod window;

pub use connection::{Connection, Plan};
pub use subflow::{Phase, Subflow};
