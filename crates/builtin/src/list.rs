//! Everything that has a name, as JSON: an object for each entry.

use mp_parameter::Parameter;
use mp_policy::registry::{Entry, World, EVERYWHERE};
use mp_scenario::{Error, Overrides};
use serde_json::{json, Value};

/// Those of `controllers/` and Linux' own.
pub fn controllers() -> Vec<Value> {
    let entry = |c: &mp_controllers::Entry| {
        json!({
            "name": c.name, "summary": c.summary, "source": c.source, "kind": c.kind.name(), "coupled": c.coupled,
            // Each is built for the kernel and for the simulator, and the kernel's own have models in the simulator.
            "worlds": EVERYWHERE.map(World::name), "parameters": parameters(c.parameters)
        })
    };
    mp_controllers::entries().map(entry).collect()
}

pub fn schedulers() -> Vec<Value> {
    registered(mp_policy::scheduler::all())
}

pub fn path_managers() -> Vec<Value> {
    registered(mp_policy::path_manager::all())
}

pub fn initial_paths() -> Vec<Value> {
    registered(mp_policy::initial_path::all())
}

/// The built-in ones.
pub fn scenarios() -> Result<Vec<Value>, Error> {
    let entry = |name: &'static str| {
        let experiment = crate::builtin(name, &Overrides::default())?;
        let description = &experiment.cells[0].scenario.description;
        Ok(json!({
            "name": name, "summary": experiment.title, "description": description, "cells": experiment.cells.len()
        }))
    };
    crate::names().map(entry).collect()
}

fn registered<T>(all: &[Entry<T>]) -> Vec<Value> {
    let entry = |e: &Entry<T>| {
        json!({
            "name": e.name, "summary": e.summary, "source": e.source, "worlds": e.world_names(),
            "parameters": parameters(e.parameters)
        })
    };
    all.iter().map(entry).collect()
}

fn parameters(all: &[Parameter]) -> Value {
    let entry = |p: &Parameter| {
        json!({
            "name": p.name, "unit": p.unit.name(), "default": p.default, "least": p.least, "most": p.most,
            "about": p.about
        })
    };
    all.iter().map(entry).collect()
}
