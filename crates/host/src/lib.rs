//! What observes this host's connections and acts on them, for the daemon, the testbed and `multipilot run`.
//!
//! [`initial_path`] learns over which interface connections should start. Nothing here has a configuration file, a control
//! socket or a life cycle: whoever runs it has those.

#![forbid(unsafe_code)]

mod error;
pub mod initial_path;

pub use error::Error;
