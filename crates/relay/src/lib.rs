#![forbid(unsafe_code)]
//! The relay: a program's TCP stream is dealt to one TLS connection a link by the schedulers of `crates/policy`, joined at
//! a server of the user's own, and goes on from there to any target in plain TCP.
//!
//! [`wire`] and [`stream`] have neither I/O nor a clock. [`flow`] drives them with sockets, alike at both ends; [`relay`]
//! is the server, [`device`] the other end, [`front`] how programs reach it, [`capture`] how all of
//! a host do. [`control`] couples a flow's path connections; [`probe`] measures the links. `docs/reference/relay.md` is the
//! user's side.

pub mod capture;
pub mod control;
pub mod datagram;
pub mod device;
pub mod devices;
pub mod egress;
pub mod flow;
pub mod front;
pub mod hold;
pub mod keys;
pub mod links;
pub mod probe;
pub mod relay;
pub mod stream;
pub mod wire;

mod carrier;
mod handshake;
mod path;
mod rates;
mod resolver;
mod socket;
mod tally;

pub use socket::Transport;

use std::sync::{Mutex, MutexGuard, PoisonError};

use mp_policy::scheduler::{self, Entry};

/// Scheduler of both directions where none is named. Linux' own would wait for the path that empties first: it counts on deep
/// send buffers, and data wait before these paths' sockets.
pub const SCHEDULER: &str = "min-rtt";

/// The scheduler of this name. A newer peer's may be unknown here: then [`SCHEDULER`].
pub fn scheduler(name: &str) -> &'static Entry {
    let known = scheduler::find(name).or_else(|| scheduler::find(SCHEDULER));
    known.unwrap_or(&scheduler::all()[0])
}

/// A thread that panicked leaves nothing half done under a lock of ours.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Whether a process captures this host's packets: its interface ends with it.
pub fn is_captured() -> bool {
    nix::net::if_::if_nametoindex(links::TUN).is_ok()
}

/// Each one line: what, where, how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call or a file is wrong.
    #[error("{0}")]
    Usage(String),
    /// This machine cannot do it.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub(crate) fn failed(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Error {
        Error::Failed(format!("{what}: {error}"))
    }
}

impl From<mp_kernel::Error> for Error {
    fn from(error: mp_kernel::Error) -> Error {
        let line = error.to_string();
        match error.exit_code() {
            2 => Error::Usage(line),
            3 => Error::Missing(line),
            _ => Error::Failed(line),
        }
    }
}
