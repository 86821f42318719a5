//! Every name that a scenario may choose from, and which world honours it.

use mp_scenario::{did_you_mean, Connection, Scenario, Variant};

use crate::outcome::{usage, Failure, Outcome};
use crate::world::World;

/// Congestion control that the kernel has by itself; the simulator has endpoints of its own for them.
pub struct Builtin {
    pub name: &'static str,
    /// What the kernel calls it.
    pub kernel_name: &'static str,
    pub summary: &'static str,
    pub source: &'static str,
}

pub const BUILTINS: [Builtin; 3] = [
    Builtin {
        name: "linux-reno",
        kernel_name: "reno",
        summary: "the kernel's own Reno on each subflow (in the simulator: reno)",
        source: "Linux net/ipv4/tcp_cong.c",
    },
    Builtin {
        name: "cubic",
        kernel_name: "cubic",
        summary: "CUBIC on each subflow, uncoupled",
        source: "RFC 9438, Linux net/ipv4/tcp_cubic.c",
    },
    Builtin {
        name: "bbr",
        kernel_name: "bbr",
        summary: "BBR version 1 on each subflow, uncoupled",
        source: "Cardwell et al., ACM Queue 2016, Linux net/ipv4/tcp_bbr.c",
    },
];

pub fn controllers() -> Vec<&'static str> {
    BUILTINS
        .iter()
        .map(|b| b.name)
        .chain(mp_controllers::all().iter().map(|c| c.name))
        .collect()
}

pub fn path_managers() -> Vec<&'static str> {
    mp_policy::path_manager::all()
        .iter()
        .map(|e| e.name)
        .collect()
}

pub fn schedulers() -> Vec<&'static str> {
    mp_policy::scheduler::all().iter().map(|e| e.name).collect()
}

/// Refuses names that nobody has, and choices that this world cannot honour.
pub fn check(scenario: &Scenario, world: World) -> Outcome {
    for variant in &scenario.variants {
        let owner = format!("variant \"{}\"", variant.name);
        controller(&variant.controller, &owner, world)?;
        parameters(variant, &owner)?;
        path_manager(&variant.path_manager, &owner, world)?;
        scheduler(&variant.scheduler, &owner, world)?;
    }
    for connection in &scenario.connections {
        let Connection {
            name,
            controller: own,
            path_manager: manager,
            scheduler: own_scheduler,
            ..
        } = connection;
        let owner = format!("connection \"{name}\"");
        if world == World::Sim && connection.command.is_some() {
            return Err(usage(format!(
                "{owner}: a command runs on the kernel only; use --world kernel, or bytes in its place"
            )));
        }
        own.iter().try_for_each(|n| controller(n, &owner, world))?;
        manager
            .iter()
            .try_for_each(|n| path_manager(n, &owner, world))?;
        own_scheduler
            .iter()
            .try_for_each(|n| scheduler(n, &owner, world))?;
    }
    Ok(())
}

fn unknown(kind: &str, name: &str, owner: &str, known: &[&str]) -> Failure {
    let hint = did_you_mean(name, known.iter().copied());
    usage(format!(
        "{owner}: unknown {kind} \"{name}\"{hint}; expected one of {}",
        known.join(", ")
    ))
}

fn controller(name: &str, owner: &str, world: World) -> Outcome {
    let known = controllers();
    if !known.contains(&name) {
        return Err(unknown("controller", name, owner, &known));
    }
    match BUILTINS.iter().find(|b| b.name == name) {
        Some(builtin) if world == World::Kernel && !kernel_has(builtin.kernel_name) => Err(Failure::Unable(format!(
            "{owner}: this kernel has no {}; load its module, leave it out with --controllers, or use --world sim",
            builtin.kernel_name
        ))),
        _ => Ok(()),
    }
}

fn kernel_has(name: &str) -> bool {
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    list.is_ok_and(|l| l.split_whitespace().any(|word| word == name))
}

fn parameters(variant: &Variant, owner: &str) -> Outcome {
    let Some(controller) = mp_controllers::find(&variant.controller) else {
        return match variant.parameters.keys().next() {
            Some(key) => Err(usage(format!(
                "{owner}: {} has no setting \"{key}\"; remove it",
                variant.controller
            ))),
            None => Ok(()),
        };
    };
    let known: Vec<&str> = controller.parameters.iter().map(|p| p.name).collect();
    match variant
        .parameters
        .keys()
        .find(|key| !known.contains(&key.as_str()))
    {
        None => Ok(()),
        Some(key) if known.is_empty() => Err(usage(format!(
            "{owner}: {} has no setting \"{key}\"; remove it",
            controller.name
        ))),
        Some(key) => Err(unknown(
            &format!("setting of {}", controller.name),
            key,
            owner,
            &known,
        )),
    }
}

fn path_manager(name: &str, owner: &str, world: World) -> Outcome {
    let known = path_managers();
    if !known.contains(&name) {
        return Err(unknown("path manager", name, owner, &known));
    }
    match world {
        World::Kernel if name == "ms-ucb-federated" => Err(Failure::Unable(format!(
            "{owner}: path manager \"{name}\": in the kernel world ms-ucb is one bandit for all connections of a host already; use ms-ucb, or --world sim"
        ))),
        _ => Ok(()),
    }
}

fn scheduler(name: &str, owner: &str, world: World) -> Outcome {
    let known = schedulers();
    if !known.contains(&name) {
        return Err(unknown("scheduler", name, owner, &known));
    }
    match world {
        World::Kernel if name != "default" => Err(Failure::Unable(format!(
            "{owner}: scheduler \"{name}\": a stock kernel has only \"default\"; leave it out, or use --world sim"
        ))),
        _ => Ok(()),
    }
}
