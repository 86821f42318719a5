//! What there is to choose from, by name, as JSON.

use mp_controllers::Kind;
use mp_policy::{path_manager, scheduler};
use pyo3::prelude::*;
use serde_json::{json, Value};

#[pyfunction]
pub fn controllers() -> String {
    let parameters = |c: &mp_controllers::Controller| -> Value {
        c.parameters
            .iter()
            .map(
                |p| json!({"name": p.name, "unit": p.unit, "default": p.default, "about": p.about}),
            )
            .collect()
    };
    let entries: Value = mp_controllers::all()
        .iter()
        .map(|c| {
            let steers = match c.kind {
                Kind::Window => "window",
                Kind::Rate => "rate",
            };
            json!({"name": c.name, "summary": c.summary, "source": c.source, "steers": steers, "parameters": parameters(c)})
        })
        .collect();
    entries.to_string()
}

#[pyfunction]
pub fn schedulers() -> String {
    let entries = scheduler::all().iter();
    let entries: Value = entries
        .map(|e| json!({"name": e.name, "summary": e.summary, "source": e.source}))
        .collect();
    entries.to_string()
}

#[pyfunction]
pub fn path_managers() -> String {
    let entries = path_manager::all().iter();
    let entries: Value = entries
        .map(|e| json!({"name": e.name, "summary": e.summary, "source": e.source}))
        .collect();
    entries.to_string()
}
