//! Decisions about paths: which subflows exist, which of them carry data, which are in backup.
//!
//! Observation in, action out: nothing here does I/O, reads a clock or knows which world (simulator, testbed, host) it
//! serves. Time is passed in, as microseconds from any fixed origin.

#![forbid(unsafe_code)]

pub mod actor;
pub mod balance;
pub mod bandit;
pub mod cloning;
pub mod estimate;
pub mod initial_path;
pub mod link;
pub mod pace;
pub mod path_manager;
pub mod registry;
pub mod scheduler;
pub mod super_arm;
pub mod view;

pub use path_manager::awareness;

/// Subflows of one connection at most (`MPTCP_PM_ADDR_MAX` of Linux, `MP_MAX_SUBFLOWS` of the controllers).
pub const MAX_SUBFLOWS: usize = 8;
