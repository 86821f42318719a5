//! A scenario on the real kernel over emulated paths: over the kernel's MPTCP, or over our relay.
//!
//! [`run`] lays out network namespaces for the server and the clients, an emulator between them that delays, loses and
//! paces packets as the scenario says, and MPTCP connections over it whose congestion control is the variant's. When it
//! returns, nothing of that is left.
//!
//! Namespaces and interfaces are made by rattan-env, of the rattan emulator. Its cells are not used: their loss has one
//! fixed seed for all paths, a rate of zero stops them for good, and their parameters cannot follow a scenario's events.

#![deny(unsafe_op_in_unsafe_fn)]

mod aware;
mod emulator;
mod error;
mod initial_path;
mod network;
mod overruns;
mod owner;
mod packet;
mod path;
mod plan;
mod relay;
mod run;
mod traffic;
pub mod trial;
mod worker;

pub use emulator::{Impairments, PathCounts};
pub use error::Error;
pub use path::Counts;
pub use run::{fits_relay, lacks_for_relay, run, run_over_relay, run_with};

/// Hash of the sources that decide a run's result, kernel objects among them.
pub const SOURCE: &str = env!("MP_SOURCE");

/// The scenario of a text that names no files.
#[cfg(test)]
fn scenario(text: &str) -> mp_scenario::Scenario {
    let none = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    let overrides = mp_scenario::Overrides::default();
    let read = mp_scenario::parse("x.toml", text, "".as_ref(), &none, &overrides);
    read.expect("a good scenario").cells.remove(0).scenario
}
