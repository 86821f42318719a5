#![forbid(unsafe_code)]
//! The packet simulator: a scenario in virtual time, packet by packet, with the controllers and policies of the kernel
//! world.
//!
//! A run depends on its scenario, variant and seed alone: the same bits come out on any machine, whatever else runs.

pub mod agenda;
pub mod congestion;
mod mptcp;
pub mod network;
pub mod observe;
pub mod pcapng;
pub mod rivals;
pub mod tcp;
pub mod time;
mod world;

use std::io::Write;

use mp_record::Run;
use mp_scenario::{Scenario, Variant};

/// Why a run could not be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown {0} {1:?}: `multipilot list` shows what there is")]
    Unknown(&'static str, String),
    #[error("controller {controller:?} has no parameter {parameter:?}: `multipilot list controllers` shows those it has")]
    Parameter { controller: String, parameter: String },
    #[error("the capture cannot be written: {0}")]
    Capture(String),
    #[error("connection {connection:?}, transfer {transfer}: idle before its end, nobody sends segment {segment}: a fault of the simulator, please report the scenario and the seed")]
    Idle { connection: String, transfer: u32, segment: u64 },
}

/// What a simulation cost, beside its result.
#[derive(Debug, Clone, Copy, Default)]
pub struct Effort {
    /// Data segments sent, retransmissions included.
    pub packets: u64,
}

/// Simulates one run.
pub fn simulate(scenario: &Scenario, variant: &Variant, seed: u64) -> Result<Run, Error> {
    measure(scenario, variant, seed).map(|(run, _)| run)
}

/// Simulates one run and tells its size.
pub fn measure(scenario: &Scenario, variant: &Variant, seed: u64) -> Result<(Run, Effort), Error> {
    let world = world::World::build(scenario, variant, seed)?;
    let (run, packets) = world.run(None)?;
    Ok((run, Effort { packets }))
}

/// Simulates one run and writes what the client's interfaces saw to `out`, as pcapng ([`pcapng`]).
pub fn capture(scenario: &Scenario, variant: &Variant, seed: u64, out: impl Write) -> Result<Run, Error> {
    let failed = |e: std::io::Error| Error::Capture(e.to_string());
    let mut capture = pcapng::Capture::new(out, scenario.paths.keys().map(String::as_str)).map_err(failed)?;
    let (run, _) = world::World::build(scenario, variant, seed)?.run(Some(&mut capture))?;
    capture.finish().map_err(failed)?;
    Ok(run)
}
