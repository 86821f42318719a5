//! What there is to choose from, by name, as JSON.

use mp_policy::registry::Entry;
use mp_policy::{initial_path, path_manager, scheduler};
use pyo3::prelude::*;
use serde_json::{json, Value};

/// Those of `controllers/`.
#[pyfunction]
pub fn controllers() -> String {
    let parameters = |c: &mp_controllers::Controller| -> Value {
        c.parameters
            .iter()
            .map(|p| {
                json!({"name": p.name, "unit": p.unit.name(), "default": p.default, "least": p.least, "most": p.most, "about": p.about})
            })
            .collect()
    };
    let entries: Value = mp_controllers::all()
        .iter()
        .map(|c| {
            json!({"name": c.name, "summary": c.summary, "source": c.source, "steers": c.kind.name(), "coupled": c.coupled, "parameters": parameters(c)})
        })
        .collect();
    entries.to_string()
}

fn registered<T>(all: &[Entry<T>]) -> String {
    let entry = |e: &Entry<T>| {
        let worlds: Vec<&str> = e.worlds.iter().map(|w| w.name()).collect();
        json!({"name": e.name, "summary": e.summary, "source": e.source, "worlds": worlds})
    };
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
