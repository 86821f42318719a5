//! Environments for learning: many subflows as agents ([`Lanes`]), or a connection as one ([`Together`]). Arrays cross as
//! bytes in machine order, which NumPy reads without copying.

use mp_policy::actor::{Actor, FEATURES};
use mp_record::Interval;
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
    lossy: f64,
    #[pyo3(item)]
    jitter_ms: Ends,
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
    if varied.change_s.is_some() && varied.rate_mbps.is_none() {
        return Err(PyValueError::new_err(
            "change_s: a path's rate changes to another one of rate_mbps, which is None; set it too",
        ));
    }
    if !(0.0..=1.0).contains(&varied.lossy) {
        let lossy = varied.lossy;
        return Err(PyValueError::new_err(format!(
            "lossy: {lossy} is no share of the paths; expected 0 to 1"
        )));
    }
    let range = |name: &str, ends: Ends, least: f64, most: f64| match ends {
        None => Ok(None),
        Some((low, high)) if low >= least && high >= low && high <= most => {
            Ok(Some(Range { low, high }))
        }
        Some((low, high)) => Err(PyValueError::new_err(format!(
            "{name}: ({low}, {high}) is no range; expected (low, high) from {least} to {most}"
        ))),
    };
    Ok(Task {
        rate_mbps: range("rate_mbps", varied.rate_mbps, 0.05, 1e6)?,
        rtt_ms: range("rtt_ms", varied.rtt_ms, 0.1, 1e5)?,
        queue_bdp: range("queue_bdp", varied.queue_bdp, 0.01, 1e3)?,
        // Above half of all packets lost, retransmissions alone keep a subflow busy.
        loss: range("loss", varied.loss, 0.0, 0.5)?,
        lossy: varied.lossy,
        jitter_ms: range("jitter_ms", varied.jitter_ms, 0.0, 1e3)?,
        change_s: range("change_s", varied.change_s, 0.01, 86_400.0)?,
        start: range("start", varied.start, 0.01, 1.0)?,
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

/// Each value in machine order.
fn bytes<'py, const N: usize>(
    py: Python<'py>,
    values: impl ExactSizeIterator<Item = [u8; N]>,
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, N * values.len(), |memory| {
        for (place, value) in memory.chunks_exact_mut(N).zip(values) {
            place.copy_from_slice(&value);
        }
        Ok(())
    })
}

fn singles<'py>(py: Python<'py>, values: &[f32]) -> PyResult<Bound<'py, PyBytes>> {
    bytes(py, values.iter().map(|v| v.to_ne_bytes()))
}

fn arrays<'py>(py: Python<'py>, answers: &Answers) -> PyResult<Arrays<'py>> {
    Ok((
        singles(py, &answers.observations)?,
        singles(py, &answers.rewards)?,
        bytes(py, answers.agents.iter().map(|v| v.to_ne_bytes()))?,
        PyBytes::new(py, &answers.fresh),
        bytes(
            py,
            answers.facts.as_flattened().iter().map(|v| v.to_ne_bytes()),
        )?,
    ))
}

/// The one lane's observation, whether an episode has begun, and the facts.
type Alone<'py> = (Bound<'py, PyBytes>, bool, [f64; 12]);

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
        arrays(py, &answers)
    }

    /// As `step`, where there is one lane: NumPy's arrays would cost more than the simulation.
    fn step_alone<'py>(&mut self, py: Python<'py>, action: f32) -> PyResult<Alone<'py>> {
        let lanes = &mut self.lanes;
        let answers = py.detach(|| lanes.step(&[action], 1)).map_err(failed)?;
        let seen = singles(py, &answers.observations)?;
        Ok((seen, answers.fresh[0] != 0, answers.facts[0]))
    }

    fn restart(&mut self, seed: u64, episode: u64) {
        self.lanes.restart(seed, episode);
    }

    /// Each lane from its own seed.
    fn restart_each(&mut self, seeds: Vec<u64>) {
        self.lanes.restart_each(&seeds);
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

fn shown<'py>(py: Python<'py>, shown: Shown) -> PyResult<Step<'py>> {
    Ok((
        singles(py, &shown.observation)?,
        shown.utility,
        shown.best,
        shown.time_s,
        shown.rates,
        shown.over,
    ))
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
        shown(py, found)
    }

    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: &[u8],
        backup: Vec<bool>,
    ) -> PyResult<Step<'py>> {
        let actions = floats(actions);
        let together = &mut self.together;
        let found = py.detach(|| together.step(&actions, &backup));
        shown(py, found)
    }
}

/// Observations, rewards and facts of the monitor intervals of one subflow, as `Lanes` has them. `cell`: keys and values of
/// the grid; `words`: nine whole numbers an interval, `RECORDED` of `multipilot.learn.logs`.
#[pyfunction]
#[pyo3(signature = (source, cell, variant, connection, path, history, words))]
#[allow(clippy::too_many_arguments)]
pub fn replay<'py>(
    py: Python<'py>,
    source: Given,
    cell: Vec<(String, String)>,
    variant: &str,
    connection: &str,
    path: &str,
    history: usize,
    words: &[u8],
) -> PyResult<(
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
)> {
    let experiment = load(&source, Wishes::default())?;
    let found = experiment.cells.into_iter().find_map(|c| {
        let same = cell.iter().all(|pair| c.values.contains(pair)) && cell.len() == c.values.len();
        let variants = same.then(|| c.scenario.variants.clone())?;
        let variant = variants.into_iter().find(|v| v.name == variant)?;
        Some((c.scenario, variant))
    });
    let (scenario, variant) = found.ok_or_else(|| {
        PyValueError::new_err(format!("the record's scenario has no variant {variant}"))
    })?;
    let mut subflow =
        env::Replay::new(scenario, &variant, connection, path, history).map_err(failed)?;
    let mut answers = Answers::default();
    for interval in words.as_chunks::<72>().0 {
        let interval = interval_of(interval);
        let (observation, question) = subflow.next(&interval);
        answers.observations.extend(observation);
        answers.rewards.push(question.reward());
        answers.facts.push(subflow.facts(&question));
    }
    let (observations, rewards, _, _, facts) = arrays(py, &answers)?;
    Ok((observations, rewards, facts))
}

/// The other fields decide nothing here.
fn interval_of(bytes: &[u8; 72]) -> Interval {
    let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|k| bytes[8 * i + k]));
    Interval {
        time_s: word(0) as f64 * 1e-6,
        rate: word(1),
        mss: word(2),
        delivered: word(3),
        lost: word(4),
        elapsed_us: word(5),
        rtt_us: word(6),
        min_rtt_us: word(7),
        others: word(8),
        ..Interval::default()
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
    let observations = floats(observations);
    let each = observations.chunks_exact(FEATURES * actor.history());
    bytes(py, each.map(|o| actor.act(o).to_ne_bytes()))
}
