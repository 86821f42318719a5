//! Who sends what and when, settled before the run begins; and what the kernel world has to refuse.

use std::time::Duration;

use mp_policy::initial_path;
use mp_policy::path_manager::{mptcp_la, PathManager};
use mp_policy::registry::{names_in, World};
use mp_scenario::{Connection, Protocol, Scenario, TransferDirection, Variant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Error;

/// Subflows over one pair of addresses that the path manager ndiffports opens, the first included.
pub const NDIFFPORTS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathManagement {
    /// One subflow, or plain TCP.
    None,
    /// Endpoints of the in-kernel path manager for all paths.
    Fullmesh,
    /// The same, all but the first being backup.
    Backup,
    /// Endpoints for all paths, and a watch that sets some to backup.
    Aware(Policy),
    /// The client opens the subflows itself, over the first path.
    Userspace,
}

/// What a watch goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Loss,
    Signal,
    /// MPTCP-LA by its paper's rule.
    MptcpLa(mptcp_la::Config),
    /// MS-UCB: a bandit over which paths carry data.
    SuperArm,
}

/// Clients that share a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub client: String,
    /// Indices in the scenario; the first is the primary.
    pub paths: Vec<usize>,
    pub management: PathManagement,
    /// The bandit that chooses which of them connections are opened over; `None`: the first.
    pub initial_path: Option<&'static str>,
    /// The flow that has this host to itself, because what its program moves is counted by host.
    pub own: Option<usize>,
}

/// What one `[[connections]]` entry does.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    pub name: String,
    pub group: usize,
    pub mptcp: bool,
    pub upload: bool,
    /// As the scenario names it.
    pub controller: String,
    /// Whether the variant's controller parameters are meant for it.
    pub is_variants: bool,
    /// A program in place of the built-in transfer.
    pub command: Option<String>,
    pub bytes: Option<u64>,
    pub starts: Starts,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Starts {
    /// Each transfer with its end, if it has one.
    Fixed(Vec<(Duration, Option<Duration>)>),
    /// As they arrive, unless so many live already.
    Arriving {
        transfers: Vec<(Duration, Option<Duration>)>,
        at_once: u32,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub groups: Vec<Group>,
    pub flows: Vec<Flow>,
}

impl Plan {
    pub fn new(scenario: &Scenario, variant: &Variant, seed: u64) -> Result<Plan, Error> {
        let mut plan = Plan {
            groups: Vec::new(),
            flows: Vec::new(),
        };
        for (i, connection) in scenario.connections.iter().enumerate() {
            let mptcp = connection.protocol == Protocol::Mptcp;
            let scheduler = connection.scheduler.as_ref().unwrap_or(&variant.scheduler);
            if mptcp && scheduler != "default" {
                return Err(Error::Unsupported(format!(
                    "scheduler {scheduler}: the stock kernel has only its own one; choose `default`, or --world sim"
                )));
            }
            let group = Group {
                own: connection.command.is_some().then_some(i),
                ..group(scenario, variant, connection)?
            };
            let group = plan
                .groups
                .iter()
                .position(|g| *g == group)
                .unwrap_or_else(|| {
                    plan.groups.push(group);
                    plan.groups.len() - 1
                });
            let mut rng =
                SmallRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(i as u64));
            plan.flows.push(Flow {
                name: connection.name.clone(),
                group,
                mptcp,
                upload: connection.direction == TransferDirection::Upload,
                controller: connection
                    .controller
                    .as_ref()
                    .unwrap_or(&variant.controller)
                    .clone(),
                is_variants: connection.controller.is_none(),
                command: connection.command.clone(),
                bytes: connection.bytes,
                starts: starts(scenario, connection, &mut rng),
            });
        }
        if plan.groups.len() > 250 || scenario.paths.len() > 250 {
            return Err(Error::Unsupported(
                "the kernel world has addresses for 250 paths and 250 client hosts".into(),
            ));
        }
        Ok(plan)
    }
}

fn group(scenario: &Scenario, variant: &Variant, connection: &Connection) -> Result<Group, Error> {
    let paths: Vec<usize> = connection
        .paths
        .iter()
        .filter_map(|p| scenario.paths.get_index_of(p))
        .collect();
    let client = connection.client.clone();
    if connection.protocol == Protocol::Tcp {
        return Ok(Group {
            client,
            paths: paths[..1].to_vec(),
            management: PathManagement::None,
            initial_path: None,
            own: None,
        });
    }
    let manager = connection
        .path_manager
        .as_ref()
        .unwrap_or(&variant.path_manager);
    let management = match manager.as_str() {
        "fullmesh" => PathManagement::Fullmesh,
        "backup" => PathManagement::Backup,
        "loss-aware" => PathManagement::Aware(Policy::Loss),
        "mptcp-la" => {
            PathManagement::Aware(Policy::MptcpLa(mptcp_la_settings(variant, connection)?))
        }
        "signal-aware" => PathManagement::Aware(Policy::Signal),
        "ms-ucb" => PathManagement::Aware(Policy::SuperArm),
        "ndiffports" => PathManagement::Userspace,
        "single" => PathManagement::None,
        other => {
            return Err(Error::Unsupported(format!(
                "path manager {other}: the kernel world has {}",
                names_in(mp_policy::path_manager::all(), World::Kernel)
            )))
        }
    };
    let initial_path = chosen_initial(variant, connection)?;
    if let (Some(policy), PathManagement::Backup) = (initial_path, management) {
        return Err(Error::Unsupported(format!(
            "initial path {policy} with path manager backup: the kernel has the same paths as backup for all connections; choose fullmesh, or --world sim"
        )));
    }
    // Only a bandit may open a connection over another path than the first.
    let one = matches!(management, PathManagement::None | PathManagement::Userspace);
    let count = if one && initial_path.is_none() {
        1
    } else {
        paths.len()
    };
    Ok(Group {
        client,
        paths: paths[..count].to_vec(),
        management,
        initial_path,
        own: None,
    })
}

/// Settings of `mptcp-la`: those of the variant, if the connection has no path manager of its own.
fn mptcp_la_settings(
    variant: &Variant,
    connection: &Connection,
) -> Result<mptcp_la::Config, Error> {
    let entry = mp_policy::path_manager::find("mptcp-la").expect("in the registry");
    let settings = variant.path_manager_parameters.iter();
    let own = |_: &(_, _)| connection.path_manager.is_none();
    let settings = settings.filter(own).map(|(k, v)| (k.as_str(), *v));
    match entry.build_with(settings) {
        Ok(PathManager::MptcpLa(manager)) => Ok(manager.config()),
        Ok(_) => unreachable!("its own kind"),
        Err(problem) => Err(Error::Unsupported(problem)),
    }
}

/// The bandit's name; `None` where nothing is learnt.
fn chosen_initial(
    variant: &Variant,
    connection: &Connection,
) -> Result<Option<&'static str>, Error> {
    let name = connection
        .initial_path
        .as_ref()
        .unwrap_or(&variant.initial_path);
    let entry = initial_path::find(name)
        .filter(|entry| entry.runs_in(World::Kernel))
        .ok_or_else(|| {
            Error::Unsupported(format!("initial path {name}: there is none of this name"))
        })?;
    match entry.build() {
        // A program's own connections go unseen by the host's thread.
        Some(_) if connection.command.is_some() => Err(Error::Unsupported(format!(
            "initial path {name} with a command: in the kernel world, have the command call multipilot run --initial-path {name}"
        ))),
        learnt => Ok(learnt.map(|_| entry.name)),
    }
}

fn starts(scenario: &Scenario, connection: &Connection, rng: &mut SmallRng) -> Starts {
    let end = |start: Duration, rng: &mut SmallRng| {
        connection.lasting.map(|(low, high)| {
            start
                + Duration::from_secs_f64(rng.random_range(low.as_secs_f64()..=high.as_secs_f64()))
        })
    };
    let Some(rate) = connection.arrivals else {
        let fixed = (0..connection.count)
            .map(|_| (connection.start, end(connection.start, rng)))
            .collect();
        return Starts::Fixed(fixed);
    };
    let (mut transfers, mut at) = (Vec::new(), connection.start);
    loop {
        // Inverse of the exponential distribution; 1 − u is never 0.
        at += Duration::from_secs_f64(-(1.0 - rng.random::<f64>()).ln() / rate);
        if at >= scenario.duration {
            return Starts::Arriving {
                transfers,
                at_once: connection.count,
            };
        }
        let end = end(at, rng);
        transfers.push((at, end));
    }
}

#[cfg(test)]
mod tests {
    use mp_policy::path_manager;

    use super::*;

    fn plan(variant: &str) -> Result<Plan, Error> {
        let text = format!(
            "[paths.a]\nrate = '9Mbit'\n[paths.b]\nrate = '3Mbit'\n[[variants]]\n{variant}\n"
        );
        let none = |_: &std::path::Path| Err(std::io::Error::other("no files"));
        let overrides = mp_scenario::Overrides::default();
        let read = mp_scenario::parse("x.toml", &text, "".as_ref(), &none, &overrides);
        let scenario = read.expect("a good scenario").cells.remove(0).scenario;
        Plan::new(&scenario, &scenario.variants[0], 1)
    }

    #[test]
    fn the_kernel_world_has_the_path_managers_that_the_registry_says() {
        for entry in path_manager::all() {
            let made = plan(&format!("path_manager = '{}'", entry.name));
            let fits = entry.runs_in(World::Kernel);
            assert_eq!(made.is_ok(), fits, "{}: {made:?}", entry.name);
        }
    }

    #[test]
    fn a_learnt_initial_path_needs_all_paths() {
        for (manager, learnt, paths) in [
            ("single", false, 1),
            ("single", true, 2),
            ("loss-aware", true, 2),
            ("fullmesh", false, 2),
        ] {
            let initial = if learnt { "thompson" } else { "first" };
            let made = plan(&format!(
                "path_manager = '{manager}'\ninitial_path = '{initial}'"
            ));
            let group = &made.unwrap().groups[0];
            assert_eq!(
                (group.paths.len(), group.initial_path),
                (paths, learnt.then_some("thompson")),
                "{manager}"
            );
        }
        let refused = plan("path_manager = 'backup'\ninitial_path = 'thompson'").unwrap_err();
        assert!(refused
            .to_string()
            .contains("initial path thompson with path manager backup"));
    }
}
