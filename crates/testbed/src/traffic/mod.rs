//! HTTP over MPTCP or TCP sockets: one server, and clients that download from it or upload to it.

mod body;
mod client;
mod command;
mod intervals;
mod recorder;
mod server;
pub mod socket;

pub use body::Body;
pub use client::Client;
pub use recorder::Recorder;
pub use server::Server;

/// The port of flow number 0; each flow has its own, so that the server knows a connection's controller from the start.
pub const FIRST_PORT: u16 = 8080;

/// What both ends know of each flow.
#[derive(Debug, Clone)]
pub struct Service {
    pub flow: crate::plan::Flow,
    /// The sender's congestion control, as the kernel calls it.
    pub congestion: String,
}
