#![forbid(unsafe_code)]
//! The packet simulator: a scenario in virtual time, packet by packet, with the controllers and policies of the kernel
//! world.
//!
//! A run depends on its scenario, variant and seed alone: the same bits come out on any machine, whatever else runs.

pub mod agenda;
pub mod congestion;
pub mod env;
pub mod linux;
mod mptcp;
pub mod network;
pub mod observe;
pub mod pcapng;
pub mod tcp;
pub mod time;
pub mod view;
mod world;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use mp_record::Run;
use mp_scenario::{Scenario, Variant};

/// Hash of the sources that decide a run's result: a record that names another one is older than the code, or newer.
pub const SOURCE: &str = env!("MP_SOURCE");

/// Why a run could not be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown {0} {1:?}: `multipilot list` shows what there is")]
    Unknown(&'static str, String),
    #[error("{0}")]
    Parameter(String),
    #[error("no subflow under ddpg-mpcc asks for a rate within 10 s: give it to a connection of the scenario that lasts")]
    Silent,
    #[error("the capture cannot be written: {0}")]
    Capture(String),
    #[error("connection {connection:?}, transfer {transfer}: idle before its end, nobody sends segment {segment}: a bug of the simulator, please report the scenario and the seed")]
    Idle {
        connection: String,
        transfer: u32,
        segment: u64,
    },
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
pub fn capture(
    scenario: &Scenario,
    variant: &Variant,
    seed: u64,
    out: impl Write,
) -> Result<Run, Error> {
    let failed = |e: std::io::Error| Error::Capture(e.to_string());
    let mut capture =
        pcapng::Capture::new(out, scenario.paths.keys().map(String::as_str)).map_err(failed)?;
    let (run, _) = world::World::build(scenario, variant, seed)?.run(Some(&mut capture))?;
    capture.finish().map_err(failed)?;
    Ok(run)
}

/// Simulates one run a seed on `threads` threads. Results are in the order of the seeds, and the same for any number of
/// threads.
pub fn simulate_many(
    scenario: &Scenario,
    variant: &Variant,
    seeds: &[u64],
    threads: usize,
) -> Vec<Result<Run, Error>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(&seed) = seeds.get(i) else {
                return done;
            };
            done.push((i, simulate(scenario, variant, seed)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(seeds.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, run)| run).collect()
}
