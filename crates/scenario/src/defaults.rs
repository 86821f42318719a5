//! Every default of a scenario, in one place. `docs/reference/scenario.md` repeats them beside each key.

use std::time::Duration;

/// Long enough for a slow start and some saw-teeth on paths of up to 100 ms.
pub const DURATION: Duration = Duration::from_secs(20);
pub const SEED: u64 = 1;
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
pub const SEGMENT_TRAIN: u32 = 1;

/// 1500-byte packets less IP and TCP headers (40), timestamps (12) and the MPTCP data sequence signal as
/// Linux sends it, all of it in 64 bits (28).
pub const MSS: u32 = 1420;
/// Bytes on the wire that a queue's packet stands for.
pub const PACKET: u64 = 1500;
/// Bytes of a full segment's packet that are not payload.
pub const HEADERS: u32 = PACKET as u32 - MSS;

/// Linux: third value of `net.ipv4.tcp_wmem`.
pub const SEND_BUFFER: u64 = 4 << 20;
/// Linux: third value of `net.ipv4.tcp_rmem`.
pub const RECEIVE_BUFFER: u64 = 6 << 20;
pub const AUTOTUNE: bool = true;

/// A queue holds one bandwidth-delay product of its path, but at least so many packets.
pub const QUEUE_FLOOR: u64 = 100;
/// Where nothing limits the rate.
pub const QUEUE_UNLIMITED: u64 = 1000;

/// RFC 8289 section 4.
pub const CODEL_TARGET: Duration = Duration::from_millis(5);
pub const CODEL_INTERVAL: Duration = Duration::from_millis(100);
/// Floyd & Jacobson 1993 section 4: the largest probability of an early drop.
pub const RED_PROBABILITY: f64 = 0.02;

pub const CONTROLLER: &str = "linux-reno";
pub const PATH_MANAGER: &str = "fullmesh";
pub const INITIAL_PATH: &str = "first";
pub const SCHEDULER: &str = "default";
pub const CARRIER: &str = "tcp";
pub const CLIENT: &str = "client";
