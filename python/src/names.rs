//! What there is to choose from, by name, as JSON.

use mp_parameter::Parameter;
use mp_policy::registry::Entry;
use mp_policy::{initial_path, path_manager, scheduler};
use mp_scenario::Overrides;
use pyo3::prelude::*;
use serde_json::{json, Value};

use crate::ScenarioError;

fn parameters(all: &[Parameter]) -> Value {
    let parameter = |p: &Parameter| json!({"name": p.name, "unit": p.unit.name(), "default": p.default, "least": p.least, "most": p.most, "about": p.about});
    all.iter().map(parameter).collect()
}

/// Those of `controllers/`.
#[pyfunction]
pub fn controllers() -> String {
    let entry = |c: &mp_controllers::Controller| json!({"name": c.name, "summary": c.summary, "source": c.source, "kind": c.kind.name(), "coupled": c.coupled, "parameters": parameters(c.parameters)});
    let all = mp_controllers::all().iter().map(entry);
    all.collect::<Value>().to_string()
}

fn registered<T>(all: &[Entry<T>]) -> String {
    let entry = |e: &Entry<T>| json!({"name": e.name, "summary": e.summary, "source": e.source, "worlds": e.world_names(), "parameters": parameters(e.parameters)});
    all.iter().map(entry).collect::<Value>().to_string()
}

#[pyfunction]
pub fn schedulers() -> String {
    registered(scheduler::all())
}

#[pyfunction]
pub fn path_managers() -> String {
    registered(path_manager::all())
}

#[pyfunction]
pub fn initial_paths() -> String {
    registered(initial_path::all())
}

/// The built-in ones.
#[pyfunction]
pub fn scenarios() -> PyResult<String> {
    let entry = |name: &'static str| {
        let experiment = mp_builtin::builtin(name, &Overrides::default())
            .map_err(|error| ScenarioError::new_err(error.to_string()))?;
        let description = &experiment.cells[0].scenario.description;
        Ok(
            json!({"name": name, "summary": experiment.title, "description": description, "cells": experiment.cells.len()}),
        )
    };
    let entries: PyResult<Vec<Value>> = mp_builtin::names().map(entry).collect();
    Ok(Value::Array(entries?).to_string())
}
