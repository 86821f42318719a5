//! MS-UCB, and how devices on the same links share what they have seen. Arms are pairs of count and mean reward.

use mp_policy::super_arm::{federation, links, Arm, MsUcb as Learner, Past};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

type Known = Vec<(f64, f64)>;

fn arms(known: &Known) -> Vec<Arm> {
    let arm = |&(count, mean): &(f64, f64)| Arm { count, mean };
    known.iter().map(arm).collect()
}

fn known(arms: &[Arm]) -> Known {
    arms.iter().map(|a| (a.count, a.mean)).collect()
}

#[pyfunction]
pub fn merge_arms(users: Vec<Known>) -> Known {
    let users: Vec<Vec<Arm>> = users.iter().map(arms).collect();
    known(&federation::merge(users.iter().map(Vec::as_slice)))
}

#[pyfunction]
pub fn merge_arms_trimmed(users: Vec<Known>, trim: f64) -> Known {
    let users: Vec<Vec<Arm>> = users.iter().map(arms).collect();
    let slices: Vec<&[Arm]> = users.iter().map(Vec::as_slice).collect();
    known(&federation::merge_trimmed(&slices, trim))
}

#[pyclass(module = "multipilot._core")]
pub struct MsUcb {
    inner: Learner,
}

#[pymethods]
impl MsUcb {
    #[new]
    #[pyo3(signature = (links, size, seed, discount, window))]
    fn new(
        links: usize,
        size: usize,
        seed: u64,
        discount: Option<f64>,
        window: Option<u32>,
    ) -> PyResult<Self> {
        let past = match (discount, window) {
            (None, None) => Past::All,
            (Some(factor), None) if (0.0..1.0).contains(&factor) => Past::Discounted(factor),
            (None, Some(rounds)) if rounds > 0 => Past::Window(rounds),
            _ => {
                return Err(PyValueError::new_err(
                    "the past is all of it, discounted (0 to 1) or a window of rounds",
                ))
            }
        };
        Ok(MsUcb {
            inner: Learner::new(links, size, past, seed),
        })
    }

    /// Count and mean of each link.
    #[getter]
    fn arms(&self) -> Known {
        known(self.inner.arms())
    }

    fn index(&self, link: usize) -> f64 {
        self.inner.index(link)
    }

    /// Links of the next round.
    fn choose(&mut self) -> Vec<usize> {
        links(self.inner.choose(u64::MAX)).collect()
    }

    fn update(&mut self, rewards: Vec<(usize, f64)>) {
        self.inner.update(&rewards);
    }

    fn take_over(&mut self, others: Known) {
        self.inner.take_over(&arms(&others));
    }
}
