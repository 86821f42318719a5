//! Which runs a user asks for: a scenario, and what the command line changes in it.

use clap::Args;
use mp_scenario::{Experiment, Overrides};

use crate::names::{self, Names};
use crate::outcome::{say, usage, Outcome};
use crate::plan::Baselines;
use crate::world::World;
use crate::{plan, scenario};

/// More runs than this are a mistake: at a tenth of a second each they take a day on one core.
const MOST_RUNS: u64 = 1_000_000;
const MOST_SEEDS: u64 = 100_000;

#[derive(Args, Debug)]
pub struct Selection {
    /// A scenario file, - for stdin, or the name of a built-in one (see multipilot list scenarios)
    pub scenario: String,
    /// Where to run it [default: kernel; exit code 3 if this machine cannot]
    #[arg(long, value_enum)]
    pub world: Option<World>,
    /// Controllers to compare in place of the scenario's, see multipilot list; their settings in the scenario stay
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "A,B",
        value_parser = Names(names::controllers),
        hide_possible_values = true
    )]
    pub controllers: Vec<String>,
    /// Path managers to compare in place of the scenario's
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "A,B",
        value_parser = Names(names::path_managers),
        hide_possible_values = true
    )]
    pub path_managers: Vec<String>,
    /// Ways to choose the initial path, in place of the scenario's, see multipilot list initial-paths
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "A,B",
        value_parser = Names(names::initial_paths),
        hide_possible_values = true
    )]
    pub initial_paths: Vec<String>,
    /// Schedulers to compare in place of the scenario's
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "A,B",
        value_parser = Names(names::schedulers),
        hide_possible_values = true
    )]
    pub schedulers: Vec<String>,
    /// With --world relay: what carries the streams, in place of the scenario's: tcp (a connection over each path), mptcp (the kernel's, as a baseline)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "A,B",
        value_parser = Names(names::carriers),
        hide_possible_values = true
    )]
    pub carriers: Vec<String>,
    /// Number of runs of each variant; the seeds count up from the scenario's
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = seeds)]
    pub seeds: u64,
    /// Upper bound of one run, in place of the scenario's: seconds, or with a unit such as 500ms
    #[arg(long, value_name = "S")]
    pub duration: Option<String>,
    /// Change a key of the scenario, e.g. paths.wifi.loss=0.02; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Also measure each single path with plain TCP, and compute the aggregation benefit
    #[arg(long)]
    pub ben: bool,
    /// Baselines of the demo; those of --ben are all.
    #[arg(skip)]
    pub baselines: Baselines,
}

fn seeds(text: &str) -> Result<u64, String> {
    let parsed = text.parse().ok();
    parsed
        .filter(|n| (1..=MOST_SEEDS).contains(n))
        .ok_or_else(|| format!("expected a number of runs from 1 to {MOST_SEEDS}"))
}

impl Selection {
    pub fn overrides(&self) -> Overrides {
        // The contract's --duration is in seconds.
        let bare = |text: &String| text.chars().all(|c| c.is_ascii_digit() || c == '.');
        let duration = self.duration.as_ref().map(|text| {
            if bare(text) {
                format!("{text}s")
            } else {
                text.clone()
            }
        });
        Overrides {
            set: self.set.clone(),
            duration,
            controllers: self.controllers.clone(),
            path_managers: self.path_managers.clone(),
            initial_paths: self.initial_paths.clone(),
            schedulers: self.schedulers.clone(),
            carriers: self.carriers.clone(),
        }
    }

    pub fn baselines(&self) -> Baselines {
        match self.ben {
            true => Baselines::All,
            false => self.baselines,
        }
    }

    /// The scenario, validated for the world that was asked for; what may be a slip goes to stderr.
    pub fn load(&self) -> Outcome<Experiment> {
        let experiment = self.open()?;
        // A wrong name is the caller's to fix on any machine, so it comes before what the machine lacks.
        names::check_all(&experiment, self.world.unwrap_or(World::Kernel))?;
        say_notes(&experiment);
        Ok(experiment)
    }

    /// The scenario, validated as far as no world is concerned.
    pub fn open(&self) -> Outcome<Experiment> {
        let experiment = scenario::load(&self.scenario, &self.overrides())?;
        let runs = plan::count(&experiment, self.seeds);
        if runs > MOST_RUNS {
            return Err(usage(format!(
                "{}: makes {runs} runs ({} cells, {} seeds); expected at most {MOST_RUNS}",
                self.scenario,
                experiment.cells.len(),
                self.seeds
            )));
        }
        Ok(experiment)
    }
}

pub fn say_notes(experiment: &Experiment) {
    for note in &experiment.notes {
        say(&format!("multipilot: note: {note}"));
    }
}
