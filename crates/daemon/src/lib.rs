#![forbid(unsafe_code)]
//! The daemon: path awareness for every connection of this host, or of one network namespace.
//!
//! Configuration, control socket, status, metrics, log and the loop; what observes the host and acts on it is in [`mp_host`].
//! `initial_path` learns where connections should begin. `docs/reference/daemon.md` is the user's side.

pub mod config;
pub mod control;
pub mod status;

mod check;
mod daemon;
mod federation;
mod initial_path;
pub mod log;
mod metrics;
mod mptcpify;
pub mod relay;
mod sessions;
mod tunnel;

pub use check::{check, privilege};
pub use config::Config;
pub use daemon::{run, undo};

/// Each one line: what, where, how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// Somebody else is at work.
    #[error("{0}")]
    Busy(String),
    /// This user may not.
    #[error("{0}")]
    Denied(String),
    /// There is no daemon to talk to.
    #[error("{0}")]
    Down(String),
    /// This machine cannot do it.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// As the command's contract has it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Missing(_) | Error::Denied(_) => 3,
            Error::Busy(_) | Error::Down(_) | Error::Failed(_) => 1,
        }
    }
}

impl From<mp_host::Error> for Error {
    fn from(error: mp_host::Error) -> Error {
        match error {
            mp_host::Error::Usage(line) => Error::Usage(line),
            mp_host::Error::Busy(line) => Error::Busy(line),
            mp_host::Error::Missing(line) => Error::Missing(line),
            mp_host::Error::Failed(line) => Error::Failed(line),
        }
    }
}

impl From<mp_kernel::Error> for Error {
    fn from(error: mp_kernel::Error) -> Error {
        mp_host::Error::from(error).into()
    }
}

impl From<mp_kernel::pm::Error> for Error {
    fn from(error: mp_kernel::pm::Error) -> Error {
        mp_host::Error::from(error).into()
    }
}

impl From<mp_relay::Error> for Error {
    fn from(error: mp_relay::Error) -> Error {
        match error {
            mp_relay::Error::Usage(line) => Error::Usage(line),
            mp_relay::Error::Missing(line) => Error::Missing(line),
            mp_relay::Error::Failed(line) => Error::Failed(line),
        }
    }
}

impl From<mp_scenario::Error> for Error {
    fn from(error: mp_scenario::Error) -> Error {
        Error::Usage(error.to_string())
    }
}
