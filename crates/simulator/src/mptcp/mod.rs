//! MPTCP (RFC 8684) above its subflows: reassembly, receive window, and what a connection keeps.
//!
//! What it stands for, and where it is simpler than Linux, is in `docs/reference/simulator.md`.

/// Payload of a fragment of the send buffer (`struct mptcp_data_frag`): a page fragment of 32 KiB less its header, bytes.
pub const FRAGMENT: u32 = 32_768 - 40;
/// Fragments in a burst of the default scheduler.
pub const FRAGMENTS_A_BURST: u32 = 2;

mod buffer;
mod connection;
mod reassembly;
mod subflow;
mod window;

pub use buffer::Buffer;
pub use connection::{Connection, Plan};
pub use subflow::{Phase, Subflow};
pub use window::Window;
