//! Runs on the real kernel. Without root a test says so and does nothing, except under CI=true, where that is a failure.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use mp_record::{Run, Transfer};
use mp_scenario::{Overrides, Scenario};
use mp_testbed::{run_with, Error, Hardships};

/// Whether a test that needs namespaces can go on.
pub fn can_run() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "CI must run these tests as root"
        );
        eprintln!("SKIPPED: emulated paths need root");
    }
    root
}

pub fn scenario(text: &str) -> Scenario {
    let experiment = mp_scenario::parse(
        "test.toml",
        text,
        Path::new("."),
        &|f| std::fs::read(f),
        &Overrides::default(),
    );
    experiment
        .expect("the test's scenario is right")
        .cells
        .remove(0)
        .scenario
}

/// The first variant, with the scenario's seed.
pub fn run(scenario: &Scenario) -> Result<Run, Error> {
    run_over(scenario, &Hardships::default())
}

pub fn run_over(scenario: &Scenario, hardships: &Hardships) -> Result<Run, Error> {
    let run = run_with(
        scenario,
        &scenario.variants[0],
        scenario.seed,
        hardships,
        &mut |_| (),
        &AtomicBool::new(false),
    );
    if let Ok(run) = &run {
        for t in &run.transfers {
            let rate = goodput(t, run);
            eprintln!(
                "{}#{}: {rate:.2} Mbit/s, end {:?}, {:?}",
                t.connection, t.id, t.end_s, t.path_bytes
            );
        }
        eprintln!(
            "{} samples, {:.2} s, notes {:?}",
            run.samples.len(),
            run.elapsed_s,
            run.notes
        );
    }
    run
}

/// Mbit/s over the transfer's own time.
pub fn goodput(t: &Transfer, run: &Run) -> f64 {
    t.bytes as f64 * 8e-6 / (t.end_s.unwrap_or(run.elapsed_s) - t.start_s)
}

pub fn bytes_on(t: &Transfer, path: &str) -> u64 {
    t.path_bytes
        .iter()
        .find(|(name, _)| name == path)
        .map_or(0, |(_, bytes)| *bytes)
}
