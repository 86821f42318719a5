//! `multipilot demo`: one file over emulated Wi-Fi and LTE, alone and together, in the kernel where that can be.

use std::path::PathBuf;

use clap::Args;

use crate::compare::{self, CompareArgs};
use crate::outcome::{say, Outcome};
use crate::plan::Baselines;
use crate::selection::Selection;
use crate::world::World;
use crate::{names, report, scenario};

const SCENARIO: &str = "wifi-lte";
/// The stock controller that also runs as plain TCP over each path alone: what a host without multipath has.
const STOCK: &str = "cubic";

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Where to run it [default: kernel, or the simulator if this machine cannot]
    #[arg(long, value_enum)]
    world: Option<World>,
    /// Folder of the record and its report [default: a new one under results/]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the record only; multipilot report draws it
    #[arg(long)]
    no_report: bool,
}

pub fn main(args: &DemoArgs) -> Outcome {
    let world = match (args.world, World::Kernel.lacks()) {
        (None, Some(what)) => {
            say(&format!("{what}: so this demo runs in the simulator."));
            World::Sim
        }
        (asked, _) => World::choose(asked)?,
    };
    let compare = CompareArgs {
        selection: Selection {
            scenario: SCENARIO.into(),
            world: Some(world),
            controllers: available(world),
            path_managers: vec![],
            initial_paths: vec![],
            schedulers: vec![],
            carriers: vec![],
            // Enough to tell them apart: pilot and BBR lie a few per cent from each other.
            seeds: if world == World::Sim { 20 } else { 5 },
            duration: None,
            set: vec![],
            ben: false,
            baselines: Baselines::Only(STOCK),
        },
        out: args.out.clone(),
        pcapng: None,
        json: false,
    };
    let experiment = scenario::builtin(SCENARIO, &compare.selection.overrides())?;
    say(&format!(
        "{}: {}",
        experiment.title,
        experiment.cells[0].scenario.description.trim()
    ));
    match compare::compare(&experiment, world, &compare)? {
        Some(folder) if !args.no_report => report::draw(&folder),
        _ => {}
    }
    Ok(())
}

/// The scenario's own choice, less what this kernel does not have; none: all of it.
fn available(world: World) -> Vec<String> {
    let Ok(experiment) = scenario::builtin(SCENARIO, &Default::default()) else {
        return vec![];
    };
    let scenario = &experiment.cells[0].scenario;
    let alone = |name: &String| {
        let mut one = scenario.clone();
        one.variants.retain(|v| v.controller == *name);
        names::check(&one, world)
            .map_err(|e| say(&format!("left out: {e}")))
            .is_ok()
    };
    let mut names: Vec<String> = Vec::new();
    for variant in &scenario.variants {
        if !names.contains(&variant.controller) {
            names.push(variant.controller.clone());
        }
    }
    let all = names.len();
    names.retain(alone);
    if names.len() == all {
        return vec![];
    }
    names
}
