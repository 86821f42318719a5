//! What there is to choose from, by name, as JSON.

use mp_builtin::list;
use pyo3::prelude::*;
use serde_json::Value;

use crate::ScenarioError;

#[pyfunction]
pub fn controllers() -> String {
    Value::Array(list::controllers()).to_string()
}

#[pyfunction]
pub fn schedulers() -> String {
    Value::Array(list::schedulers()).to_string()
}

#[pyfunction]
pub fn path_managers() -> String {
    Value::Array(list::path_managers()).to_string()
}

#[pyfunction]
pub fn initial_paths() -> String {
    Value::Array(list::initial_paths()).to_string()
}

/// The built-in ones.
#[pyfunction]
pub fn scenarios() -> PyResult<String> {
    let all = list::scenarios().map_err(|error| ScenarioError::new_err(error.to_string()))?;
    Ok(Value::Array(all).to_string())
}
