//! Many runs over all cores: every cell of the scenario's grid, every variant, every seed.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arrow_array::RecordBatch;
use mp_record::{arrow as tables, decisions, Document, Row};
use mp_scenario::Experiment;
use pyo3::prelude::*;

use crate::arrow::{schema_with_row, with_row, Tables};
use crate::scenario::{load, Given, Wishes};
use crate::{ScenarioError, SimulationError};

/// How often Python is asked whether Ctrl-C was pressed.
const HEED: Duration = Duration::from_millis(50);

/// One run to do: indices into the experiment.
#[derive(Clone, Copy)]
struct Job {
    cell: usize,
    variant: usize,
    seed: u64,
}

struct Done {
    row: Row,
    transfers: RecordBatch,
    samples: Option<RecordBatch>,
    decisions: RecordBatch,
}

type Outcome = (usize, PyResult<Done>);

/// Runs the scenario and gives the document (JSON), its scenario (TOML), transfers, samples and decisions.
#[pyfunction]
#[pyo3(signature = (source, wishes, seeds, threads, telemetry))]
pub fn simulate(
    py: Python<'_>,
    source: Given,
    wishes: Wishes,
    seeds: u64,
    threads: usize,
    telemetry: bool,
) -> PyResult<(String, String, Tables, Tables, Tables)> {
    let experiment = Arc::new(load(&source, wishes)?);
    let jobs: Arc<[Job]> = jobs(&experiment, seeds).into();
    let finished = run_all(py, &experiment, &jobs, threads, telemetry)?;
    let mut document = Document::new(&experiment.name, &experiment.title, "sim");
    let (mut transfers, mut samples, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
    let arrow = |e: arrow_schema::ArrowError| SimulationError::new_err(e.to_string());
    for (index, done) in finished.into_iter().enumerate() {
        document.rows.push(done.row);
        transfers.push(with_row(&done.transfers, index).map_err(arrow)?);
        chosen.push(with_row(&done.decisions, index).map_err(arrow)?);
        if let Some(batch) = done.samples {
            samples.push(with_row(&batch, index).map_err(arrow)?);
        }
    }
    Ok((
        document.to_json(),
        experiment.to_toml(),
        Tables::new(schema_with_row(&tables::transfers_schema()), transfers),
        Tables::new(schema_with_row(&tables::samples_schema()), samples),
        Tables::new(schema_with_row(&decisions::schema()), chosen),
    ))
}

fn jobs(experiment: &Experiment, seeds: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (cell, entry) in experiment.cells.iter().enumerate() {
        for variant in 0..entry.scenario.variants.len() {
            let first = entry.scenario.seed;
            jobs.extend((first..first + seeds).map(|seed| Job {
                cell,
                variant,
                seed,
            }));
        }
    }
    jobs
}

/// In the order of `jobs`, whatever the threads do.
fn run_all(
    py: Python<'_>,
    experiment: &Arc<Experiment>,
    jobs: &Arc<[Job]>,
    threads: usize,
    telemetry: bool,
) -> PyResult<Vec<Done>> {
    let (sender, receiver) = mpsc::channel::<Outcome>();
    let (next, stop) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    // Not scoped: after Ctrl-C nobody waits for the runs under way.
    for _ in 0..threads.clamp(1, jobs.len().max(1)) {
        let (experiment, jobs, sender) = (experiment.clone(), jobs.clone(), sender.clone());
        let (next, stop) = (next.clone(), stop.clone());
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(index) else { break };
                if sender
                    .send((index, run_one(&experiment, *job, telemetry)))
                    .is_err()
                {
                    break;
                }
            }
        });
    }
    drop(sender);
    let receiver = Mutex::new(receiver);
    let wait = || match receiver.lock() {
        Ok(receiver) => receiver.recv_timeout(HEED),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    };
    let mut finished: Vec<Option<Done>> = jobs.iter().map(|_| None).collect();
    let mut collect = || -> PyResult<()> {
        loop {
            match py.detach(wait) {
                Ok((index, Ok(done))) => finished[index] = Some(done),
                Ok((_, Err(error))) => return Err(error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            py.check_signals()?;
        }
    };
    let outcome = collect();
    stop.store(true, Ordering::Relaxed);
    outcome?;
    Ok(finished.into_iter().flatten().collect())
}

fn run_one(experiment: &Experiment, job: Job, telemetry: bool) -> PyResult<Done> {
    let cell = &experiment.cells[job.cell];
    let variant = &cell.scenario.variants[job.variant];
    let named = |error: String| {
        SimulationError::new_err(format!("{} with seed {}: {error}", variant.name, job.seed))
    };
    let run = catch_unwind(AssertUnwindSafe(|| {
        mp_simulator::simulate(&cell.scenario, variant, job.seed)
    }))
    .map_err(|_| named("the simulator broke an assumption of its own; please report this".into()))?
    .map_err(|e| match e {
        // The scenario's, whatever the seed.
        mp_simulator::Error::Unknown(..) | mp_simulator::Error::Parameter { .. } => {
            ScenarioError::new_err(format!("{}: {e}", variant.name))
        }
        other => named(other.to_string()),
    })?;
    let mut row = Row::of(&cell.scenario, variant, job.seed, &run);
    row.cell = cell.values.iter().cloned().collect();
    let arrow = |e: tables::Error| named(e.to_string());
    Ok(Done {
        row,
        transfers: tables::transfers_batch(&run.transfers).map_err(arrow)?,
        samples: telemetry
            .then(|| tables::samples_batch(&run.samples).map_err(arrow))
            .transpose()?,
        decisions: decisions::batch(&run.decisions).map_err(arrow)?,
    })
}
