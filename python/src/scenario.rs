//! Scenarios in the three forms that Python has them: a file, a text, a dictionary.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use mp_scenario::{Experiment, Overrides};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::ScenarioError;

/// Where a scenario comes from: `file` with a path, `toml` with a text, `json` with a dictionary.
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

pub fn load(source: &Given, wishes: Wishes) -> PyResult<Experiment> {
    let overrides = Overrides {
        set: wishes.set,
        duration: wishes.duration,
        controllers: wishes.controllers,
        path_managers: wishes.path_managers,
        initial_paths: wishes.initial_paths,
        schedulers: wishes.schedulers,
    };
    let parse = |shown: &str, text: &str| {
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        mp_scenario::parse(shown, text, &here, &|file| std::fs::read(file), &overrides)
    };
    let loaded = match source.kind.as_str() {
        "file" => mp_scenario::load(Path::new(&source.value), &overrides),
        "json" => parse("scenario", &toml_of(&source.value)?),
        _ => parse("scenario", &source.value),
    };
    loaded.map_err(|error| ScenarioError::new_err(error.to_string()))
}

/// A dictionary in its own order, which is that of the paths: the first is the primary.
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
