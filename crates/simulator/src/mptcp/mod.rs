//! MPTCP (RFC 8684) above its subflows: reassembly, receive window, and what a connection keeps.
//!
//! # Assumptions
//!
//! - Rates and queues count IP packets, as the emulated paths of the kernel world do. A full segment is 1500 bytes there
//!   with the default `mss`: IP and TCP headers 40, timestamps 12, data sequence signal 28, payload 1420. A plain TCP
//!   segment is as large and has 28 bytes more payload. An ACK has 64 bytes (TCP: 52), and room for one SACK block (TCP:
//!   three): Linux acknowledges data in 64 bits, and a data-level acknowledgement goes before SACK.
//! - Data are mapped segment by segment; a mapping never spans two. A burst of the default scheduler is two fragments of
//!   the send buffer, 46 full segments and a packet of what is left (136 bytes with the default `mss`), unless the next burst
//!   goes to the same subflow. That packet takes its place in windows and queues; its bytes are not counted as payload.
//! - Once data that had been held back can be read, every subflow acknowledges what it had delayed and what ends a burst
//!   (`mptcp_cleanup_rbuf`): the subflows then send together.
//! - Data level and subflow level move in step: in-order data of a subflow are in the connection at once.
//! - The send buffers of its subflows make up the connection's, so what waits for a slow subflow's share holds the writer
//!   back, and the fast one runs dry. The application writes as soon as a third is empty.
//! - A sender that fills the window may overrun it: MPTCP adds to each data-level ACK the window that TCP holds, which a
//!   duplicate ACK cannot lower. What arrives out of order beyond the announced window is dropped at the data level.
//!
//! # Where it is simpler than Linux
//!
//! - Keys, HMACs and checksums cost bytes but are not computed, so that no connection falls back for a wrong one. A
//!   fallback comes from SYNs that get no answer.
//! - The receiver's estimate of the round trip is the sender's; the window follows `mptcp_rcv_space_adjust`, and each
//!   subflow's share of it `tcp_grow_window`, as of Linux 6.18: MPTCP makes no room for what waits for a gap. It counts
//!   whole segments, so that a window that is used up leaves no short packet.
//! - A data-level timeout sends a fixed 32 KiB again, where Linux sends one fragment of its send buffer, of varying size.
//! - The server announces its further addresses by ADD_ADDR as soon as it is established; the client, which knows them
//!   from then on, joins when its path manager says so. REMOVE_ADDR and MP_FASTCLOSE are absent.
//! - DATA_FIN costs nothing.

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
