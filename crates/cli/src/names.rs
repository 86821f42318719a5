//! Names on the command line, and which world honours the choices of a scenario.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use mp_controllers::kernel_own;
use mp_policy::registry::{self, Entry};
use mp_policy::{initial_path, path_manager, scheduler};
use mp_scenario::{did_you_mean, Experiment, Scenario};

use crate::outcome::{usage, Failure, Outcome};
use crate::world::{of_testbed, World};

pub fn controllers() -> Vec<&'static str> {
    mp_controllers::entries().map(|e| e.name).collect()
}

pub fn path_managers() -> Vec<&'static str> {
    path_manager::all().iter().map(|e| e.name).collect()
}

pub fn initial_paths() -> Vec<&'static str> {
    initial_path::all().iter().map(|e| e.name).collect()
}

pub fn schedulers() -> Vec<&'static str> {
    scheduler::all().iter().map(|e| e.name).collect()
}

pub fn carriers() -> Vec<&'static str> {
    mp_scenario::CARRIERS.to_vec()
}

/// Refuses the name of a controller that there is not.
pub fn known_controller(name: Option<&str>) -> Outcome {
    let all = controllers();
    match name.filter(|name| !all.contains(name)) {
        None => Ok(()),
        Some(name) => Err(usage(format!(
            "unknown controller {name}{}; expected one of {}",
            did_you_mean(name, all.iter().copied()),
            all.join(", ")
        ))),
    }
}

/// Names of a registry: shells complete them. A wrong one is left to the scenario's checks, whose message says more.
#[derive(Debug, Clone)]
pub struct Names(pub fn() -> Vec<&'static str>);

impl TypedValueParser for Names {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// [`check`] of every cell.
pub fn check_all(experiment: &Experiment, world: World) -> Outcome {
    let mut cells = experiment.cells.iter();
    cells.try_for_each(|cell| check(&cell.scenario, world))
}

/// Refuses choices that this world cannot honour. The scenario has checked that the names exist.
pub fn check(scenario: &Scenario, world: World) -> Outcome {
    for variant in &scenario.variants {
        let owner = format!("variant \"{}\"", variant.name);
        let v = variant;
        controller(&v.controller, &owner, world)?;
        others(
            [&v.path_manager, &v.initial_path, &v.scheduler].map(Some),
            &owner,
            world,
        )?;
        if let (Some(why), true) = (v.only_over_the_relay(), world != World::Relay) {
            return Err(Failure::Unable(format!("{owner}: {why}")));
        }
    }
    for connection in &scenario.connections {
        let owner = format!("connection \"{}\"", connection.name);
        if world == World::Sim && connection.command.is_some() {
            return Err(usage(format!(
                "{owner}: a command runs on the kernel only; use --world kernel, or bytes in its place"
            )));
        }
        let c = connection;
        (c.controller.iter()).try_for_each(|name| controller(name, &owner, world))?;
        others(
            [&c.path_manager, &c.initial_path, &c.scheduler].map(Option::as_ref),
            &owner,
            world,
        )?;
    }
    if world == World::Relay {
        let mut variants = scenario.variants.iter();
        variants.try_for_each(|v| mp_testbed::fits_relay(scenario, v).map_err(of_testbed))?;
    }
    let mut connections = scenario.connections.iter();
    if connections.all(|c| c.start >= scenario.duration) {
        return Err(usage(format!(
            "every connection starts after the end of the run at {} s; set duration to more, or start to less",
            scenario.duration.as_secs_f64()
        )));
    }
    Ok(())
}

fn controller(name: &str, owner: &str, world: World) -> Outcome {
    match kernel_own(name) {
        // Loads its module if that is what is missing.
        Some(own) if world.is_real() && mp_kernel::controller::check(name).is_err() => {
            Err(Failure::Unable(format!(
            "{owner}: this kernel has no {}; leave it out with --controllers, or use --world sim",
            own.kernel_name
        )))
        }
        _ => Ok(()),
    }
}

/// Path manager, initial path and scheduler.
fn others(chosen: [Option<&String>; 3], owner: &str, world: World) -> Outcome {
    let [manager, initial, scheduling] = chosen;
    honoured("path manager", manager, path_manager::all(), owner, world)?;
    honoured("initial path", initial, initial_path::all(), owner, world)?;
    honoured("scheduler", scheduling, scheduler::all(), owner, world)
}

fn honoured<T>(
    kind: &str,
    name: Option<&String>,
    all: &[Entry<T>],
    owner: &str,
    world: World,
) -> Outcome {
    let place = match world {
        World::Sim => registry::World::Sim,
        World::Kernel => registry::World::Kernel,
        World::Relay => registry::World::Relay,
    };
    let entry = name.and_then(|name| all.iter().find(|e| e.name == *name));
    match entry.filter(|e| !e.runs_in(place)) {
        Some(entry) => Err(Failure::Unable(format!(
            "{owner}: {kind} \"{}\": --world {} has only {}; leave it out, or use another world",
            entry.name,
            world.name(),
            registry::names_in(all, place),
        ))),
        None => Ok(()),
    }
}
