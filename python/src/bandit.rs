//! A contextual bandit, trained and asked from Python: the one that chooses paths.

use std::path::{Path, PathBuf};

use mp_policy::bandit::reward::{Judge as Rule, Thresholds};
use mp_policy::bandit::{context, file, Bandit as Learner, Policy, Settings};
use pyo3::exceptions::{PyIndexError, PyOSError, PyValueError};
use pyo3::prelude::*;

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn unusable(path: &Path, error: std::io::Error) -> PyErr {
    PyOSError::new_err(format!("{}: {error}", path.display()))
}

/// Settings from JSON, laid over the named policy's defaults.
fn settings(policy: &str, given: &str) -> PyResult<Settings> {
    let named = Policy::named(policy).ok_or_else(|| {
        let known: Vec<&str> = Policy::NAMED.iter().map(|(name, _)| *name).collect();
        invalid(format!(
            "no policy {policy:?}; there are {}",
            known.join(", ")
        ))
    })?;
    let mut value = serde_json::to_value(Settings::new(named)).map_err(invalid)?;
    let given = serde_json::from_str(given).map_err(invalid)?;
    lay(&mut value, given, "")?;
    serde_json::from_value(value).map_err(invalid)
}

fn lay(base: &mut serde_json::Value, over: serde_json::Value, place: &str) -> PyResult<()> {
    match (base.as_object_mut(), over) {
        (Some(base), serde_json::Value::Object(over)) => {
            for (key, value) in over {
                let known: Vec<&str> = base.keys().map(String::as_str).collect();
                let message = format!("no setting {place}{key}; there are {}", known.join(", "));
                let slot = base.get_mut(&key).ok_or_else(|| invalid(message))?;
                // Another threshold or policy is another set of keys: it replaces the whole.
                let whole = value.get("kind").is_some() || value.get("name").is_some();
                if slot.is_object() && !whole {
                    lay(slot, value, &format!("{place}{key}."))?;
                } else {
                    *slot = value;
                }
            }
            Ok(())
        }
        (_, over) => {
            *base = over;
            Ok(())
        }
    }
}

#[pyclass(module = "multipilot._core")]
pub struct Bandit {
    inner: Learner,
}

impl Bandit {
    fn width(&self, context: &[f64]) -> PyResult<()> {
        match self.inner.features().len() {
            n if n == context.len() => Ok(()),
            n => Err(invalid(format!(
                "a context of {} values; this bandit has {n} features",
                context.len()
            ))),
        }
    }

    fn learn(&mut self, context: &[f64], arm: usize, reward: bool) -> PyResult<()> {
        self.width(context)?;
        let arms = self.inner.arms().len();
        if arm >= arms {
            return Err(PyIndexError::new_err(format!("arm {arm} of {arms}")));
        }
        self.inner.update(context, arm, reward);
        Ok(())
    }
}

#[pymethods]
impl Bandit {
    #[new]
    fn new(
        policy: &str,
        settings_json: &str,
        arms: Vec<String>,
        features: Vec<String>,
        seed: u64,
    ) -> PyResult<Bandit> {
        let settings = settings(policy, settings_json)?;
        let inner = Learner::new(settings, arms, features, seed).map_err(invalid)?;
        Ok(Bandit { inner })
    }

    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Bandit> {
        let name = path.display().to_string();
        let bytes = std::fs::read(&path).map_err(|e| unusable(&path, e))?;
        let inner = file::decode(&name, &bytes).map_err(invalid)?;
        Ok(Bandit { inner })
    }

    fn save(&self, path: PathBuf) -> PyResult<()> {
        mp_files::replace_durably(&path, &file::encode(&self.inner)).map_err(|e| unusable(&path, e))
    }

    fn child(&self, seed: u64) -> Bandit {
        Bandit {
            inner: self.inner.child(seed),
        }
    }

    #[getter]
    fn arms(&self) -> Vec<String> {
        self.inner.arms().to_vec()
    }

    #[getter]
    fn features(&self) -> Vec<String> {
        self.inner.features().to_vec()
    }

    #[getter]
    fn rounds(&self) -> u64 {
        self.inner.rounds()
    }

    #[getter]
    fn settings(&self) -> PyResult<String> {
        serde_json::to_string(self.inner.settings()).map_err(invalid)
    }

    fn counts(&self, arm: usize) -> (u64, u64) {
        self.inner.counts(arm)
    }

    fn decide(
        &mut self,
        context: Vec<f64>,
        available: Vec<bool>,
    ) -> PyResult<(usize, bool, f64, Vec<f64>)> {
        self.width(&context)?;
        let d = self.inner.decide_among(&context, &available);
        Ok((d.arm, d.explored, d.probability, d.scores))
    }

    fn update(&mut self, context: Vec<f64>, arm: usize, reward: bool) -> PyResult<()> {
        self.learn(&context, arm, reward)
    }

    /// Many outcomes in order.
    fn learn_all(
        &mut self,
        py: Python<'_>,
        contexts: Vec<Vec<f64>>,
        arms: Vec<usize>,
        rewards: Vec<bool>,
    ) -> PyResult<()> {
        if contexts.len() != arms.len() || arms.len() != rewards.len() {
            let (c, a, r) = (contexts.len(), arms.len(), rewards.len());
            return Err(invalid(format!("{c} contexts, {a} arms, {r} rewards")));
        }
        py.detach(|| {
            let rows = contexts.iter().zip(arms).zip(rewards);
            for ((context, arm), reward) in rows {
                self.learn(context, arm, reward)?;
            }
            Ok(())
        })
    }

    /// A whole stream whose outcomes are known for every arm: what was chosen in each round.
    fn play(
        &mut self,
        py: Python<'_>,
        contexts: Vec<Vec<f64>>,
        rewards: Vec<Vec<bool>>,
    ) -> PyResult<Vec<usize>> {
        py.detach(|| {
            let mut chosen = Vec::with_capacity(contexts.len());
            for (context, rewards) in contexts.iter().zip(&rewards) {
                self.width(context)?;
                let arm = self.inner.decide(context).arm;
                let reward = rewards.get(arm).copied().unwrap_or(false);
                self.inner.update(context, arm, reward);
                chosen.push(arm);
            }
            Ok(chosen)
        })
    }

    fn refit(&mut self, py: Python<'_>) {
        py.detach(|| self.inner.refit());
    }

    fn predict(&self, context: Vec<f64>) -> PyResult<Vec<f64>> {
        self.width(&context)?;
        Ok(self.inner.predict(&context))
    }

    fn probabilities(&self, context: Vec<f64>, available: Vec<bool>) -> PyResult<Vec<f64>> {
        self.width(&context)?;
        Ok(self.inner.probabilities(&context, &available))
    }

    fn best(&self, context: Vec<f64>) -> PyResult<usize> {
        self.width(&context)?;
        Ok(self.inner.best(&context, &[]))
    }
}

/// Whether connections at one place go well, by the running medians of throughput and latency.
#[pyclass(module = "multipilot._core")]
pub struct Judge {
    inner: Rule,
}

#[pymethods]
impl Judge {
    #[new]
    #[pyo3(signature = (throughput_mbps=None, latency_ms=None, window=200))]
    fn new(throughput_mbps: Option<f64>, latency_ms: Option<f64>, window: u32) -> PyResult<Judge> {
        let thresholds = match (throughput_mbps, latency_ms) {
            (Some(throughput_mbps), Some(latency_ms)) => Thresholds::Fixed {
                throughput_mbps,
                latency_ms,
            },
            (None, None) => Thresholds::RunningMedian { window },
            _ => return Err(invalid("one threshold alone; give both, or none")),
        };
        Ok(Judge {
            inner: Rule::new(thresholds),
        })
    }

    #[getter]
    fn thresholds(&self) -> Option<(f64, f64)> {
        self.inner.thresholds()
    }

    fn judge(&mut self, throughput_mbps: f64, latency_ms: f64) -> bool {
        self.inner.judge(throughput_mbps, latency_ms)
    }
}

#[pyfunction]
pub fn policies() -> Vec<&'static str> {
    Policy::NAMED.iter().map(|(name, _)| *name).collect()
}

/// Names of the features over these paths.
#[pyfunction]
pub fn context_names(paths: Vec<String>) -> Vec<String> {
    context::names(paths.iter().map(String::as_str))
}
