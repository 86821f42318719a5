//! MPTCP (RFC 8684) above its subflows: reassembly, receive window, and what a connection keeps.
//!
//! # Assumptions
//!
//! - Rates and queues count IP packets, as the emulated paths of the kernel world do. A full segment is 1500 bytes there
//!   with the default `mss`: IP and TCP headers 40, timestamps 12, data sequence signal 28, payload 1420. A plain TCP
//!   segment is as large and has 28 bytes more payload. An ACK has 64 bytes (TCP: 52), and room for one SACK block (TCP:
//!   three): Linux acknowledges data in 64 bits, and a data-level acknowledgement goes before SACK.
//! - Data are mapped segment by segment; a mapping never spans two.
//! - Data level and subflow level move in step: in-order data of a subflow are in the connection at once.
//!
//! # Where it is simpler than Linux
//!
//! - Keys, HMACs and checksums cost bytes but are not computed, so that no connection falls back for a wrong one. A
//!   fallback comes from SYNs that get no answer.
//! - The receiver's estimate of the round trip is the sender's; the window follows `mptcp_rcv_space_adjust`.
//! - A data-level timeout sends a fixed 32 KiB again, where Linux sends one fragment of its send buffer, of varying size.
//! - The server announces its further addresses by ADD_ADDR as soon as it is established; the client, which knows them
//!   from then on, joins when its path manager says so. REMOVE_ADDR and MP_FASTCLOSE are absent.
//! - DATA_FIN costs nothing.

mod connection;
mod reassembly;
mod subflow;
mod window;

pub use connection::{Connection, Plan};
pub use subflow::{Phase, Subflow};
