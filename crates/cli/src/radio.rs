//! `multipilot radio`: what the places of a scenario's `[radio]` become, as a table, as traces and as a moving picture.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use mp_scenario::{Cell, Overrides};
use mp_wireless::{Radio as Air, Timeline};
use serde_json::{json, Value};

use crate::outcome::{print, usage, Failure, Outcome};
use crate::scenario;
use crate::sheet::{self, Column};

const PAGE: &str = include_str!("radio.html");

#[derive(Args, Debug)]
pub struct RadioArgs {
    /// Scenario file with a [radio], or the name of a built-in one
    scenario: String,
    /// Change a key of the scenario, e.g. radio.channels=1; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write each link's trace to DIR/LINK.csv, in the format of a path's `trace`
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write an animated page with the devices, their beams and rates
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

pub fn main(args: &RadioArgs) -> Outcome {
    let overrides = Overrides {
        set: args.set.clone(),
        ..Overrides::default()
    };
    let experiment = scenario::load(&args.scenario, &overrides)?;
    let mut cells = Vec::new();
    let mut text = String::new();
    for (index, cell) in experiment.cells.iter().enumerate() {
        let Some(tuned) = &cell.scenario.radio else {
            return Err(usage(format!(
                "{}: has no [radio]; docs/reference/scenario.md shows one",
                args.scenario
            )));
        };
        let (air, timeline) = (tuned.radio(), tuned.timeline());
        if let Some(folder) = &args.csv {
            let folder = match cell.label.as_str() {
                "" => folder.clone(),
                _ => folder.join(format!("{index:04}")),
            };
            traces(&folder, air, timeline)?;
        }
        if let (Some(file), 0) = (&args.html, index) {
            write(file, &page(&experiment.title, air, timeline))?;
        }
        text += &table(cell, air, timeline);
        cells.push(document(cell, air, timeline));
    }
    if args.json {
        print(&format!(
            "{:#}\n",
            json!({ "schema": mp_record::SCHEMA, "cells": cells })
        ));
    } else {
        print(&text);
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Outcome {
    fs::write(file, text).map_err(|e| Failure::Usage(format!("{}: {e}", file.display())))
}

/// Every link: its device, its number, its name.
fn links<'a>(air: &'a Air) -> impl Iterator<Item = (usize, usize, String)> + 'a {
    (air.devices.iter().enumerate()).flat_map(|(d, device)| {
        (0..air.links_per_device()).map(move |l| (d, l, format!("{}-{l}", device.name)))
    })
}

fn traces(folder: &Path, air: &Air, timeline: &Timeline) -> Outcome {
    fs::create_dir_all(folder).map_err(|e| Failure::Usage(format!("{}: {e}", folder.display())))?;
    for (device, link, name) in links(air) {
        let mut text = String::from("time_s,rate_mbps,delay_ms,loss\n");
        for step in timeline.trace(device, link) {
            let (rate, delay) = (step.rate_mbps, step.delay * 1e3);
            text += &format!("{:.3},{rate:.1},{delay:.2},{}\n", step.at, step.loss);
        }
        write(&folder.join(format!("{name}.csv")), &text)?;
    }
    Ok(())
}

/// Share of time without any rate.
fn dead(timeline: &Timeline, device: usize, link: usize) -> f64 {
    let samples = timeline.link(device, link);
    let none = samples.iter().filter(|s| s.rate_mbps == 0.0).count();
    none as f64 / samples.len().max(1) as f64
}

fn table(cell: &Cell, air: &Air, timeline: &Timeline) -> String {
    let mut out = match cell.label.as_str() {
        "" => String::new(),
        label => format!("{label}\n"),
    };
    let columns = [
        Column("link", 0, false),
        Column("mean Gbit/s", 0, true),
        Column("without rate", 0, true),
    ];
    let rows = links(air).map(|(device, link, name)| {
        let mean = timeline.mean_rate(device, link) / 1e3;
        let dead = dead(timeline, device, link) * 100.0;
        vec![name, format!("{mean:.2}"), format!("{dead:.1} %")]
    });
    out += &sheet::table(&columns, rows.collect());
    let columns = [
        Column("access point", 0, false),
        Column("mean Gbit/s", 0, true),
        Column("Mbit/J", 0, true),
        Column("training, ms of each 102.4", 0, true),
    ];
    let rows = air.aps.iter().zip(&timeline.aps).map(|(ap, totals)| {
        let per_joule = totals.bits / 1e6 / totals.joules.max(f64::MIN_POSITIVE);
        let mean = totals.bits / 1e9 / cell.scenario.duration.as_secs_f64();
        vec![
            ap.name.clone(),
            format!("{mean:.2}"),
            format!("{per_joule:.0}"),
            format!("{:.2}", totals.training_ms),
        ]
    });
    out += &sheet::table(&columns, rows.collect());
    let handoffs: usize = timeline.handoffs.iter().sum();
    out + &format!("handoffs: {handoffs}\n")
}

fn document(cell: &Cell, air: &Air, timeline: &Timeline) -> Value {
    let links: Vec<Value> = links(air)
        .map(|(d, l, name)| {
            json!({ "link": name, "mean_mbps": timeline.mean_rate(d, l), "dead": dead(timeline, d, l) })
        })
        .collect();
    let aps: Vec<Value> = (air.aps.iter().zip(&timeline.aps))
        .map(|(ap, t)| json!({ "ap": ap.name, "bits": t.bits, "joules": t.joules, "training_ms": t.training_ms }))
        .collect();
    let values: Vec<Value> = (cell.values.iter()).map(|(k, v)| json!([k, v])).collect();
    json!({
        "cell": values, "duration_s": cell.scenario.duration.as_secs_f64(),
        "links": links, "aps": aps, "handoffs": timeline.handoffs,
    })
}

/// The page: its data stand in it, so that it needs nothing else.
fn page(title: &str, air: &Air, timeline: &Timeline) -> String {
    let tenth = |v: f64| (v * 10.0).round() / 10.0;
    // Ten samples a second are plenty for an eye.
    let every = ((0.1 / timeline.interval).round() as usize).max(1);
    let devices: Vec<Value> = (air.devices.iter().enumerate())
        .map(|(d, device)| {
            let places: Vec<Value> = (timeline.places[d].iter().step_by(every))
                .map(|p| json!([tenth(p[0]), tenth(p[1])]))
                .collect();
            let links: Vec<Value> = (0..air.links_per_device())
                .map(|l| {
                    let samples = || timeline.link(d, l).iter().step_by(every);
                    let aps: Vec<i64> = samples().map(|s| s.ap.map_or(-1, |a| a as i64)).collect();
                    let rates: Vec<f64> = samples().map(|s| s.rate_mbps.round() / 1e3).collect();
                    let beams: Vec<f64> = samples()
                        .map(|s| air.codebook.direction(s.beam).0)
                        .collect();
                    json!({ "ap": aps, "rate": rates, "beam": beams })
                })
                .collect();
            json!({ "name": device.name, "place": places, "links": links })
        })
        .collect();
    let aps: Vec<Value> = (air.aps.iter())
        .map(|ap| json!({ "name": ap.name, "at": [ap.at[0], ap.at[1]] }))
        .collect();
    let buildings: Vec<Value> = (air.buildings.iter())
        .map(|b| json!({ "at": b.at, "radius": b.radius }))
        .collect();
    let data = json!({
        "title": title, "phy": air.phy.name(), "channels": air.channels, "width": air.codebook.azimuth_width,
        "step": timeline.interval * every as f64, "aps": aps, "buildings": buildings, "devices": devices,
    });
    // "</script>" in a name must not end the script.
    PAGE.replace("PALETTE", palette())
        .replace("\"DATA\"", &data.to_string().replace("</", "<\\/"))
}

/// The colours of all pages, light and dark: what the report's style sheet begins with.
fn palette() -> &'static str {
    const STYLE: &str = include_str!("../../../python/multipilot/report/style.css");
    STYLE.split("* {").next().unwrap_or(STYLE)
}
