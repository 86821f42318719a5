#![forbid(unsafe_code)]
//! The edge server: many devices ask on which path a connection is to start, report what came of it, and learn from each
//! other.
//!
//! A report goes to the log ([`store`]) and is acknowledged once it is on disk; one thread follows the log and teaches the
//! models ([`learner`], [`models`]); requests ask the models ([`api`]). [`client`] is the device's side, and
//! `docs/reference/server.md` the user's.

pub mod api;
pub mod client;
pub mod config;
pub mod http;
pub mod openmetrics;
pub mod tokens;
pub mod wire;

mod access;
mod app_state;
mod drift;
mod follow;
mod guard;
mod learner;
mod limit;
mod location_model;
pub mod log;
mod metrics;
mod models;
mod private;
mod refusal;
mod server;
mod state;
mod store;
mod tally;
mod tls;

pub use config::Config;
pub use server::{backup, check, restore, run, EdgeServer};

/// Each one line: what, where, how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call or a file is wrong.
    #[error("{0}")]
    Usage(String),
    /// Somebody else is at work.
    #[error("{0}")]
    Busy(String),
    #[error("{0}")]
    Failed(String),
}

impl From<mp_scenario::Error> for Error {
    fn from(error: mp_scenario::Error) -> Error {
        Error::Usage(error.to_string())
    }
}
