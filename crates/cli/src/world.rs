//! The worlds that a scenario can run in, behind one call.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::AtomicBool;

use mp_record::Run;
use mp_scenario::{Scenario, Variant};

use crate::outcome::{Failure, Outcome};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum World {
    /// The simulator: virtual time, as many runs at once as there are cores.
    Sim,
    /// The running kernel on emulated paths: real time, one run after another.
    Kernel,
    /// The relay on the same emulated paths: MPTCP connections go over it, with any scheduler.
    Relay,
}

impl World {
    pub fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Kernel => "kernel",
            World::Relay => "relay",
        }
    }

    /// In real time.
    pub fn is_real(self) -> bool {
        self != World::Sim
    }

    /// The world that was asked for, else the kernel.
    pub fn choose(asked: Option<World>) -> Outcome<World> {
        let world = asked.unwrap_or(World::Kernel);
        match world.lacks() {
            None => Ok(world),
            Some(what) => Err(Failure::Unable(format!("{what}; --world sim works here"))),
        }
    }

    /// What it lacks on this machine, and how to fix that.
    pub fn lacks(self) -> Option<String> {
        match self {
            World::Sim => None,
            World::Kernel => mp_kernel::check::check().err().map(|m| m.to_string()),
            World::Relay => mp_testbed::lacks_for_relay().err().map(|e| e.to_string()),
        }
    }

    pub fn run(
        self,
        scenario: &Scenario,
        variant: &Variant,
        seed: u64,
        elapsed: &mut dyn FnMut(f64),
        stop: &AtomicBool,
    ) -> Result<Run, Failure> {
        let run = || match self {
            World::Sim => mp_simulator::simulate(scenario, variant, seed).map_err(of_simulator),
            World::Kernel => {
                mp_testbed::run(scenario, variant, seed, elapsed, stop).map_err(of_testbed)
            }
            World::Relay => mp_testbed::run_over_relay(scenario, variant, seed, elapsed, stop)
                .map_err(of_testbed),
        };
        // A fault in one run must not cost the rows of the others.
        let run = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|cause| {
            let text = cause.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
            Err(Failure::Run(format!(
                "internal error: {}",
                text.unwrap_or("no message")
            )))
        })?;
        match run.transfers.iter().find(|t| t.intact == Some(false)) {
            Some(bad) => Err(Failure::Run(format!(
                "transfer {} of {} arrived damaged",
                bad.id, bad.connection
            ))),
            None => Ok(run),
        }
    }
}

fn of_simulator(error: mp_simulator::Error) -> Failure {
    match error {
        mp_simulator::Error::Idle { .. } => Failure::Run(error.to_string()),
        _ => Failure::Usage(error.to_string()),
    }
}

pub fn of_testbed(error: mp_testbed::Error) -> Failure {
    match error {
        mp_testbed::Error::Stopped => Failure::Interrupted("interrupted".into()),
        error => Failure::with_code(error.exit_code(), error.to_string()),
    }
}
