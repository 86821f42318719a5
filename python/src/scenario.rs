//! Scenarios in the forms that Python has them: a name, a file, a text, a dictionary.

use std::path::Path;

use indexmap::IndexMap;
use mp_scenario::{Experiment, Overrides};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::ScenarioError;

/// Where a scenario comes from: `name` of a file or a built-in one, `file` with a path, `toml` with a text, `json` with a
/// dictionary.
#[derive(FromPyObject)]
pub struct Given {
    #[pyo3(item)]
    pub kind: String,
    #[pyo3(item)]
    pub value: String,
}

/// The command line's overrides.
#[derive(FromPyObject, Default)]
pub struct Wishes {
    #[pyo3(item)]
    pub set: Vec<String>,
    #[pyo3(item)]
    pub duration: Option<String>,
    #[pyo3(item)]
    pub controllers: Vec<String>,
    #[pyo3(item)]
    pub path_managers: Vec<String>,
    #[pyo3(item)]
    pub initial_paths: Vec<String>,
    #[pyo3(item)]
    pub schedulers: Vec<String>,
}

/// The scenario as TOML with every default filled in.
#[pyfunction]
pub fn expand(source: Given, wishes: Wishes) -> PyResult<String> {
    Ok(load(&source, wishes)?.to_toml())
}

/// The text of a built-in scenario, as it is written.
#[pyfunction]
pub fn builtin(name: &str) -> Option<&'static str> {
    mp_builtin::text(name)
}

pub fn load(source: &Given, wishes: Wishes) -> PyResult<Experiment> {
    let overrides = Overrides {
        set: wishes.set,
        duration: wishes.duration,
        controllers: wishes.controllers,
        path_managers: wishes.path_managers,
        initial_paths: wishes.initial_paths,
        schedulers: wishes.schedulers,
        carriers: Vec::new(),
    };
    let parse = |text: &str| mp_builtin::parse("scenario", text, &overrides);
    let loaded = match source.kind.as_str() {
        "name" => mp_builtin::load(&source.value, &overrides),
        "file" => mp_builtin::file(Path::new(&source.value), &overrides),
        "json" => parse(&toml_of(&source.value)?),
        _ => parse(&source.value),
    };
    loaded.map_err(|error| ScenarioError::new_err(error.to_string()))
}

/// A dictionary in its own order, which is that of the paths: the first is the initial one.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Ordered {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Ordered>),
    Table(IndexMap<String, Ordered>),
}

fn toml_of(json: &str) -> PyResult<String> {
    let table: IndexMap<String, Ordered> = serde_json::from_str(json).map_err(|_| {
        ScenarioError::new_err("scenario: TOML cannot hold this dictionary; expected texts, numbers, booleans, lists and dictionaries")
    })?;
    toml::to_string(&table).map_err(|error| ScenarioError::new_err(format!("scenario: {error}")))
}
