//! The two worlds that a scenario can run in, behind one call.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
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
}

impl World {
    pub fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Kernel => "kernel",
        }
    }

    /// The world that was asked for, else the kernel.
    pub fn choose(asked: Option<World>) -> Outcome<World> {
        let lacks = match asked {
            Some(World::Sim) => return Ok(World::Sim),
            _ => kernel_lacks(),
        };
        match lacks {
            None => Ok(World::Kernel),
            Some(what) => Err(Failure::Unable(format!(
                "the kernel world needs {what}; --world sim works here"
            ))),
        }
    }

    pub fn run(
        self,
        scenario: &Scenario,
        variant: &Variant,
        seed: u64,
        elapsed: &mut dyn FnMut(f64),
        stop: &AtomicBool,
    ) -> Result<Run, String> {
        let run = || match self {
            World::Sim => pending("simulator", scenario, variant, seed, elapsed, stop),
            World::Kernel => pending("testbed", scenario, variant, seed, elapsed, stop),
        };
        // A fault in one run must not cost the rows of the others.
        let run = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|cause| {
            let text = cause.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| cause.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(format!("internal error: {text}"))
        })?;
        match run.transfers.iter().find(|t| t.intact == Some(false)) {
            Some(bad) => Err(format!(
                "transfer {} of {} arrived damaged",
                bad.id, bad.connection
            )),
            None => Ok(run),
        }
    }
}

/// What the kernel world lacks on this machine.
pub fn kernel_lacks() -> Option<String> {
    let exists = |path: &str| Path::new(path).exists();
    if !exists("/proc/sys/net/mptcp/enabled") {
        return Some("a kernel with MPTCP (CONFIG_MPTCP, Linux 5.6 or later)".into());
    }
    if !exists("/sys/kernel/btf/vmlinux") {
        return Some("a kernel with BTF (CONFIG_DEBUG_INFO_BTF)".into());
    }
    if !rustix::process::geteuid().is_root() {
        return Some("root (try sudo)".into());
    }
    None
}

fn pending(
    what: &str,
    _: &Scenario,
    _: &Variant,
    _: u64,
    _: &mut dyn FnMut(f64),
    _: &AtomicBool,
) -> Result<Run, String> {
    Err(format!("this build has no {what} yet"))
}
