//! Does the runs: in parallel where time is virtual, one after another where it is real, rows always in the plan's order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use mp_record::Run;

use crate::outcome::{Failure, Outcome};
use crate::plan::Job;
use crate::progress::Progress;
use crate::signals::{stopped, STOP};
use crate::world::World;

/// Runs every job and hands each result to `keep` in the order of `jobs`.
pub fn run(
    world: World,
    jobs: &[Job],
    progress: &mut Progress,
    keep: &mut dyn FnMut(&Job, Outcome<Run>, &mut Progress) -> Outcome,
) -> Outcome {
    match world {
        World::Sim => in_parallel(jobs, progress, keep),
        World::Kernel | World::Relay => in_turn(world, jobs, progress, keep),
    }
}

type Keep<'a> = &'a mut dyn FnMut(&Job, Outcome<Run>, &mut Progress) -> Outcome;

fn in_turn(world: World, jobs: &[Job], progress: &mut Progress, keep: Keep<'_>) -> Outcome {
    for job in jobs {
        if stopped() {
            return Err(interrupted());
        }
        progress.begin(&job.label());
        let result = world.run(
            &job.scenario,
            &job.variant,
            job.seed,
            &mut |s| progress.elapsed(s),
            &STOP,
        );
        if stopped() {
            return Err(interrupted());
        }
        keep(job, result, progress)?;
    }
    Ok(())
}

fn in_parallel(jobs: &[Job], progress: &mut Progress, keep: Keep<'_>) -> Outcome {
    let cores = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(jobs.len());
    // Threads that an interrupt leaves in the middle of a run end with the process, hence no scope and owned jobs.
    let shared: std::sync::Arc<[Job]> = jobs.to_vec().into();
    let next = std::sync::Arc::new(AtomicUsize::new(0));
    let (send, results) = channel();
    for _ in 0..cores {
        let (shared, next, send) = (shared.clone(), next.clone(), send.clone());
        thread::spawn(move || loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = shared.get(index).filter(|_| !stopped()) else {
                return;
            };
            let result = World::Sim.run(&job.scenario, &job.variant, job.seed, &mut |_| {}, &STOP);
            if send.send((index, result)).is_err() {
                return;
            }
        });
    }
    drop(send);
    let mut early = BTreeMap::new();
    let mut due = 0;
    while due < jobs.len() {
        if stopped() {
            return Err(interrupted());
        }
        progress.begin(&jobs[due].label());
        match results.recv_timeout(Duration::from_millis(50)) {
            Ok((index, result)) => early.insert(index, result),
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Err(interrupted()),
        };
        while let Some(result) = early.remove(&due) {
            keep(&jobs[due], result, progress)?;
            due += 1;
        }
    }
    Ok(())
}

fn interrupted() -> Failure {
    Failure::Interrupted("interrupted".into())
}
