//! `multipilot list`: everything that has a name.

use clap::{Args, ValueEnum};
use mp_scenario::Overrides;
use serde_json::{json, Map, Value};

use crate::outcome::{print, Outcome};
use crate::{bundled, names};

#[derive(Args, Debug)]
pub struct List {
    /// Only this kind
    #[arg(value_enum)]
    kind: Option<Kind>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    Controllers,
    Schedulers,
    PathManagers,
    Allocations,
    Agents,
    Scenarios,
    Loaded,
}

const KINDS: [Kind; 6] = [
    Kind::Controllers,
    Kind::Schedulers,
    Kind::PathManagers,
    Kind::Allocations,
    Kind::Agents,
    Kind::Scenarios,
];

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Kind::Controllers => "controllers",
            Kind::Schedulers => "schedulers",
            Kind::PathManagers => "path managers",
            Kind::Allocations => "allocations",
            Kind::Agents => "agents",
            Kind::Scenarios => "scenarios",
            Kind::Loaded => "loaded",
        }
    }

    fn entries(self) -> Outcome<Vec<Value>> {
        let plain = |name: &str, summary: &str, source: &str| json!({ "name": name, "summary": summary, "source": source });
        Ok(match self {
            Kind::Controllers => controllers(),
            Kind::Schedulers => mp_policy::scheduler::all()
                .iter()
                .map(|e| plain(e.name, e.summary, e.source))
                .collect(),
            Kind::PathManagers => mp_policy::path_manager::all()
                .iter()
                .map(|e| plain(e.name, e.summary, e.source))
                .collect(),
            // Of beams and RF chains in a scenario's [radio].
            Kind::Allocations => mp_wireless::allocation::SCHEMES
                .iter()
                .map(|(name, _, summary)| plain(name, summary, "paper drones, section 3.1"))
                .collect(),
            Kind::Agents => vec![plain(
                "ddpg",
                "the actor that ddpg-mpcc has unless another file is named",
                "crates/policy/actors/ddpg.json",
            )],
            Kind::Scenarios => scenarios()?,
            Kind::Loaded => loaded()?,
        })
    }
}

fn controllers() -> Vec<Value> {
    let builtin = names::BUILTINS.iter().map(|b| {
        json!({ "name": b.name, "summary": b.summary, "source": b.source, "kind": "kernel", "parameters": [] })
    });
    let ours = mp_controllers::all().iter().map(|c| {
        let parameters: Vec<Value> = (c.parameters.iter())
            .map(|p| json!({ "name": p.name, "unit": p.unit, "default": p.default, "about": p.about }))
            .collect();
        let kind = match c.kind {
            mp_controllers::Kind::Window => "window",
            mp_controllers::Kind::Rate => "rate",
        };
        json!({ "name": c.name, "summary": c.summary, "source": c.source, "kind": kind, "parameters": parameters })
    });
    builtin.chain(ours).collect()
}

fn scenarios() -> Outcome<Vec<Value>> {
    let entry = |name| {
        let experiment = bundled::builtin(name, &Overrides::default())?;
        let first = &experiment.cells[0].scenario;
        Ok(
            json!({ "name": name, "summary": experiment.title, "source": "", "description": first.description, "cells": experiment.cells.len() }),
        )
    };
    bundled::names().map(entry).collect()
}

fn loaded() -> Outcome<Vec<Value>> {
    let entry = |one: mp_kernel::controller::Registered| {
        let sockets = one.counters.sockets;
        json!({
            "name": one.kernel_name,
            "summary": format!("{}, {sockets} sockets, {} holders{}", one.about, one.holders, if one.kept { ", kept" } else { "" }),
            "source": "",
            "controller": one.about,
            "sockets": sockets,
            "holders": one.holders,
            "kept": one.kept,
        })
    };
    Ok(mp_kernel::controller::list()?
        .into_iter()
        .map(entry)
        .collect())
}

pub fn main(args: &List) -> Outcome {
    let kinds: Vec<Kind> = args.kind.map_or(KINDS.to_vec(), |k| vec![k]);
    if args.json {
        let mut document = Map::new();
        document.insert("schema".into(), json!(mp_record::SCHEMA));
        for kind in kinds {
            document.insert(
                kind.title().replace(' ', "_"),
                Value::Array(kind.entries()?),
            );
        }
        print(&format!("{:#}\n", Value::Object(document)));
        return Ok(());
    }
    let mut out = String::new();
    for (i, kind) in kinds.iter().enumerate() {
        if kinds.len() > 1 {
            out += &format!("{}{}\n", if i > 0 { "\n" } else { "" }, kind.title());
        }
        out += &lines(&kind.entries()?);
    }
    print(&out);
    Ok(())
}

fn lines(entries: &[Value]) -> String {
    if entries.is_empty() {
        return "  none\n".into();
    }
    let text = |e: &Value, key: &str| e[key].as_str().unwrap_or("").to_owned();
    let width = entries
        .iter()
        .map(|e| text(e, "name").chars().count())
        .max()
        .unwrap_or(0);
    let setting = |p: &Value| format!("{} = {} {}", text(p, "name"), p["default"], text(p, "unit"));
    let line = |e: &Value| {
        let settings: Vec<String> = e["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(setting)
            .collect();
        let settings = if settings.is_empty() {
            String::new()
        } else {
            format!(" [{}]", settings.join(", "))
        };
        format!(
            "  {:<width$}  {}{settings}\n",
            text(e, "name"),
            text(e, "summary")
        )
    };
    entries.iter().map(line).collect()
}
