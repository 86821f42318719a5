//! Environments for learning: many subflows as agents ([`Lanes`]), or a connection as one ([`Together`]). Arrays cross as
//! bytes in machine order, which NumPy reads without copying.

use mp_policy::actor::{Actor, FEATURES};
use mp_simulator::env::{self, Answers, Range, Shown, Task};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::scenario::{load, Given, Wishes};
use crate::SimulationError;

/// Low and high end.
type Ends = Option<(f64, f64)>;

/// What varies between episodes; `multipilot.env.Task` documents it.
#[derive(FromPyObject)]
pub struct Varied {
    #[pyo3(item)]
    rate_mbps: Ends,
    #[pyo3(item)]
    rtt_ms: Ends,
    #[pyo3(item)]
    queue_bdp: Ends,
    #[pyo3(item)]
    loss: Ends,
    #[pyo3(item)]
    change_s: Ends,
    #[pyo3(item)]
    start: Ends,
}

fn task(source: &Given, wishes: Wishes, varied: &Varied) -> PyResult<Task> {
    let mut experiment = load(source, wishes)?;
    if experiment.cells.len() != 1 {
        return Err(PyValueError::new_err(
            "the scenario has a grid or cases: an environment takes one of its cells (set the keys)",
        ));
    }
    let range = |name: &str, ends: Ends, least: f64| match ends {
        None => Ok(None),
        Some((low, high)) if low >= least && high >= low && high.is_finite() => {
            Ok(Some(Range { low, high }))
        }
        Some((low, high)) => Err(PyValueError::new_err(format!(
            "{name}: ({low}, {high}) is no range; expected (low, high) with low at least {least}"
        ))),
    };
    Ok(Task {
        rate_mbps: range("rate_mbps", varied.rate_mbps, 0.05)?,
        rtt_ms: range("rtt_ms", varied.rtt_ms, 0.1)?,
        queue_bdp: range("queue_bdp", varied.queue_bdp, 0.01)?,
        loss: range("loss", varied.loss, 0.0)?,
        change_s: range("change_s", varied.change_s, 0.01)?,
        start: range("start", varied.start, 0.01)?,
        ..Task::new(experiment.cells.remove(0).scenario)
    })
}

fn failed(error: mp_simulator::Error) -> PyErr {
    SimulationError::new_err(error.to_string())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

type Arrays<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

fn arrays<'py>(py: Python<'py>, answers: &Answers) -> Arrays<'py> {
    let single = |values: &[f32]| {
        values
            .iter()
            .flat_map(|v| v.to_ne_bytes())
            .collect::<Vec<_>>()
    };
    let agents: Vec<u8> = answers
        .agents
        .iter()
        .flat_map(|v| v.to_ne_bytes())
        .collect();
    let facts: Vec<u8> = answers
        .facts
        .iter()
        .flatten()
        .flat_map(|v| v.to_ne_bytes())
        .collect();
    (
        PyBytes::new(py, &single(&answers.observations)),
        PyBytes::new(py, &single(&answers.rewards)),
        PyBytes::new(py, &agents),
        PyBytes::new(py, &answers.fresh),
        PyBytes::new(py, &facts),
    )
}

/// Many simulations side by side; each asks one subflow at a time.
#[pyclass(module = "multipilot._core")]
pub struct Lanes {
    lanes: env::Lanes,
}

#[pymethods]
impl Lanes {
    #[new]
    #[pyo3(signature = (source, wishes, varied, lanes, seed, history, steps, most, watched))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        source: Given,
        wishes: Wishes,
        varied: Varied,
        lanes: usize,
        seed: u64,
        history: usize,
        steps: u32,
        most: usize,
        watched: Vec<usize>,
    ) -> PyResult<Lanes> {
        let task = task(&source, wishes, &varied)?;
        let mut lanes = env::Lanes::new(task, lanes, seed, history, steps, most);
        lanes.watch(&watched);
        Ok(Lanes { lanes })
    }

    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: &[u8],
        threads: usize,
    ) -> PyResult<Arrays<'py>> {
        let actions = floats(actions);
        let lanes = &mut self.lanes;
        let answers = py
            .detach(|| lanes.step(&actions, threads))
            .map_err(failed)?;
        Ok(arrays(py, &answers))
    }

    fn restart(&mut self, seed: u64, episode: u64) {
        self.lanes.restart(seed, episode);
    }

    #[getter]
    fn episodes(&self) -> u64 {
        self.lanes.episodes()
    }
}

type Step<'py> = (Bound<'py, PyBytes>, f64, f64, f64, Vec<f64>, bool);

/// One connection, all of its subflows answered together.
#[pyclass(module = "multipilot._core")]
pub struct Together {
    together: env::Together,
}

fn shown<'py>(py: Python<'py>, shown: Shown) -> Step<'py> {
    let bytes: Vec<u8> = shown
        .observation
        .iter()
        .flat_map(|v| v.to_ne_bytes())
        .collect();
    (
        PyBytes::new(py, &bytes),
        shown.utility,
        shown.best,
        shown.time_s,
        shown.rates,
        shown.over,
    )
}

#[pymethods]
impl Together {
    #[new]
    #[pyo3(signature = (source, wishes, varied, seed, history))]
    fn new(
        source: Given,
        wishes: Wishes,
        varied: Varied,
        seed: u64,
        history: usize,
    ) -> PyResult<Together> {
        let task = task(&source, wishes, &varied)?;
        let together = env::Together::new(task, seed, history).map_err(failed)?;
        Ok(Together { together })
    }

    #[getter]
    fn paths(&self) -> usize {
        self.together.paths()
    }

    fn reset<'py>(&mut self, py: Python<'py>, seed: u64) -> PyResult<Step<'py>> {
        let together = &mut self.together;
        let found = py.detach(|| together.reset(seed)).map_err(failed)?;
        Ok(shown(py, found))
    }

    fn step<'py>(&mut self, py: Python<'py>, actions: &[u8], park: Vec<bool>) -> Step<'py> {
        let actions = floats(actions);
        let together = &mut self.together;
        let found = py.detach(|| together.step(&actions, &park));
        shown(py, found)
    }
}

/// The action of an actor file's text for each observation; the error says what is wrong with the file.
#[pyfunction]
pub fn act<'py>(
    py: Python<'py>,
    actor: &str,
    observations: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let actor = Actor::parse(actor).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let actions: Vec<u8> = floats(observations)
        .chunks_exact(FEATURES * actor.history())
        .flat_map(|o| actor.act(o).to_ne_bytes())
        .collect();
    Ok(PyBytes::new(py, &actions))
}
