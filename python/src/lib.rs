#![forbid(unsafe_code)]
//! `multipilot._core`: what Python needs of the Rust crates, and nothing that they do not have already.
//!
//! Documents cross as JSON, tables as Arrow streams (the PyCapsule interface), so that no type of either side is known to
//! the other. `multipilot/_core.pyi` has the signatures.

mod arrow;
mod bandit;
mod batch;
mod controller;
mod env;
mod federation;
mod names;
mod scenario;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    multipilot,
    ScenarioError,
    PyValueError,
    "A scenario that cannot be read: file, line and column, key, what is wrong and what was expected."
);
create_exception!(
    multipilot,
    SimulationError,
    PyRuntimeError,
    "A run that could not be done: variant, seed and why."
);

#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::{
        arrow::Tables,
        bandit::{context_names, policies, Bandit, Judge},
        batch::simulate,
        controller::Controller,
        env::{act, replay, Lanes, Together},
        federation::{merge_arms, merge_arms_trimmed, MsUcb},
        names::{controllers, initial_paths, path_managers, scenarios, schedulers},
        scenario::{builtin, expand},
        ScenarioError, SimulationError,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("__source__", mp_simulator::SOURCE)
    }
}
