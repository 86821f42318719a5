//! `multipilot check`: whether a scenario is valid, and what `multipilot compare` would run.

use std::thread;
use std::time::{Duration, Instant};

use indicatif::HumanDuration;
use mp_scenario::{Experiment, Scenario};

use crate::outcome::{print, Outcome};
use crate::selection::{say_notes, Selection};
use crate::world::World;
use crate::{names, plan};

#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    selection: Selection,
}

/// So much of a run is simulated to see how fast this machine is.
const SAMPLE: Duration = Duration::from_secs(1);

pub fn main(args: &CheckArgs) -> Outcome {
    let selection = &args.selection;
    let experiment = selection.open()?;
    let runs = plan::jobs(&experiment, selection.seeds, selection.baselines()).len();
    let mut lines = vec![format!("{}: valid", selection.scenario)];
    if experiment.cells.len() > 1 {
        let axes = experiment.cells[0]
            .values
            .iter()
            .map(|(key, _)| key.as_str());
        let axes = axes.collect::<Vec<_>>().join(", ");
        lines.push(format!("cells     {} ({axes})", experiment.cells.len()));
    }
    let variants = &experiment.cells[0].scenario.variants;
    let label = format!(" {}", experiment.cells[0].label);
    let shown = variants
        .iter()
        .map(|v| v.name.strip_suffix(&label).unwrap_or(&v.name));
    lines.push(format!(
        "variants  {} ({})",
        variants.len(),
        shown.collect::<Vec<_>>().join("; ")
    ));
    lines.push(format!("seeds     {}", selection.seeds));
    lines.push(format!("runs      {runs}"));
    let worlds = match selection.world {
        Some(world) => vec![world],
        None => vec![World::Kernel, World::Sim],
    };
    let mut refused = Vec::new();
    for world in &worlds {
        let line = match names::check_all(&experiment, *world) {
            Err(why) => {
                let line = format!("no: {why}");
                refused.push(why);
                line
            }
            Ok(()) if *world == World::Sim => in_simulator(&experiment, runs),
            Ok(()) => in_real_time(&experiment, *world, runs),
        };
        lines.push(format!("{:<10}{line}", world.name()));
    }
    if refused.len() == worlds.len() {
        return Err(refused.swap_remove(0));
    }
    say_notes(&experiment);
    print(&(lines.join("\n") + "\n"));
    Ok(())
}

/// Transfers with a size may end before the duration does.
fn in_real_time(experiment: &Experiment, world: World, runs: usize) -> String {
    let cells = &experiment.cells;
    let total: Duration = cells.iter().map(|c| c.scenario.duration).sum();
    let mean = total / cells.len() as u32;
    let most = HumanDuration(mean.saturating_mul(runs as u32));
    match world.lacks() {
        None => format!("at most {most}, one run after another"),
        Some(what) => format!("not on this machine: {what}"),
    }
}

fn in_simulator(experiment: &Experiment, runs: usize) -> String {
    let scenario = &experiment.cells[0].scenario;
    let variant = &scenario.variants[0];
    let first = scenario.connections.iter().map(|c| c.start).min();
    let sample = first.unwrap_or_default().saturating_add(SAMPLE);
    let short = Scenario {
        duration: scenario.duration.min(sample),
        ..scenario.clone()
    };
    let started = Instant::now();
    if let Err(error) = mp_simulator::simulate(&short, variant, short.seed) {
        return format!("fails: {error}");
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = scenario.duration.as_secs_f64() / short.duration.as_secs_f64();
    let all = started
        .elapsed()
        .mul_f64(share * runs.div_ceil(cores) as f64);
    let cores = match cores {
        1 => "one core".to_owned(),
        n => format!("{n} cores"),
    };
    match all.as_secs() {
        0 => format!("less than a second on {cores}"),
        _ => format!("about {} on {cores}", HumanDuration(all)),
    }
}
