//! Runs on the real kernel. Without root a test says so and does nothing, except under CI=true, where that is a failure.
#![allow(dead_code)] // each test file uses its part

use std::path::Path;
use std::sync::atomic::AtomicBool;

use mp_record::{Run, Transfer};
use mp_scenario::{Overrides, Scenario};
use mp_testbed::{run_with, Error, Impairments, PathCounts};
use mp_testing::{Turn, Turns};

/// One emulation at a time: two would take each other's CPU. `None` where this machine cannot run any.
#[track_caller]
pub fn turn() -> Option<Turn<'static>> {
    static TURNS: Turns = Turns::new(1);
    let root = nix::unistd::geteuid().is_root();
    TURNS.take((!root).then_some("emulated paths need root"))
}

pub fn scenario(text: &str) -> Scenario {
    let read = |file: &Path| std::fs::read(file);
    let experiment = mp_scenario::parse(
        "test.toml",
        text,
        Path::new("/"),
        &read,
        &Overrides::default(),
    );
    let mut experiment = experiment.expect("the test's scenario is right");
    experiment.cells.remove(0).scenario
}

/// The first variant, with the scenario's seed.
pub fn run(text: &str) -> Run {
    run_over(text, &Impairments::default())
        .expect("the run succeeds")
        .0
}

pub fn run_over(text: &str, impairments: &Impairments) -> Result<(Run, Vec<PathCounts>), Error> {
    let scenario = scenario(text);
    let (variant, seed) = (&scenario.variants[0], scenario.seed);
    let result = run_with(
        &scenario,
        variant,
        seed,
        impairments,
        &mut |_| (),
        &AtomicBool::new(false),
    );
    if let Ok((run, counts)) = &result {
        for t in &run.transfers {
            let rate = goodput(t, run);
            eprintln!(
                "{}#{}: {rate:.2} Mbit/s, end {:?}, {:?}",
                t.connection, t.id, t.end_s, t.path_bytes
            );
        }
        eprintln!(
            "{} samples, {:.2} s, {:?} window overruns, notes {:?}",
            run.samples.len(),
            run.elapsed_s,
            run.window_overruns,
            run.notes
        );
        eprintln!("{counts:?}");
    }
    result
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

/// More than so many bytes came over each of the two paths.
#[track_caller]
pub fn both_carried(t: &Transfer, least: u64) {
    let on = ["a", "b"].map(|path| bytes_on(t, path));
    assert!(on.iter().all(|bytes| *bytes > least), "{on:?}");
}

pub fn only(run: &Run) -> &Transfer {
    let [transfer] = &run.transfers[..] else {
        panic!("one transfer, not {:?}", run.transfers)
    };
    transfer
}

/// Namespaces of runs that belong to these processes, or to none any more. Others may be at work on this machine.
pub fn namespaces_of(processes: &[u32]) -> Vec<String> {
    let entries = std::fs::read_dir("/var/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    let theirs = |name: &String| {
        let id = name.strip_prefix("multipilot-")?.split('-').next()?;
        let owner = std::fs::read_to_string(Path::new("/run/multipilot/testbed").join(id));
        // No claim: nobody's. A claim that says no process yet: somebody else's, who is just beginning.
        Some(owner.map_or(true, |text| {
            text.parse()
                .is_ok_and(|process| processes.contains(&process))
        }))
    };
    names.filter(|name| theirs(name) == Some(true)).collect()
}
