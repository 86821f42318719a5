//! Who sends what and when, settled before the run begins; and what the kernel world has to refuse.

use std::time::Duration;

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
    /// Endpoints for all paths, and a bandit that chooses the one to start on.
    Bandit(&'static str),
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
            own: None,
        });
    }
    let manager = connection
        .path_manager
        .as_ref()
        .unwrap_or(&variant.path_manager);
    let (management, count) = match manager.as_str() {
        "fullmesh" => (PathManagement::Fullmesh, paths.len()),
        "backup" => (PathManagement::Backup, paths.len()),
        "loss-aware" => (PathManagement::Aware(Policy::Loss), paths.len()),
        "signal-aware" => (PathManagement::Aware(Policy::Signal), paths.len()),
        "ms-ucb" => (PathManagement::Aware(Policy::SuperArm), paths.len()),
        "ndiffports" => (PathManagement::Userspace, 1),
        "single" => (PathManagement::None, 1),
        other => match mp_policy::path_manager::find(other) {
            // A program's own connections go unseen by the host's thread.
            Some(entry) if entry.starts_by().is_some() && connection.command.is_some() => {
                return Err(Error::Unsupported(format!(
                    "path manager {other} with a command: in the kernel world, have the command call multipilot run --path-manager bandit"
                )))
            }
            Some(entry) if entry.starts_by().is_some() => {
                (PathManagement::Bandit(entry.name), paths.len())
            }
            _ => {
                return Err(Error::Unsupported(format!(
                    "path manager {other}: the kernel world has fullmesh, bandit, loss-aware, signal-aware, ms-ucb, ndiffports, backup and single"
                )))
            }
        },
    };
    Ok(Group {
        client,
        paths: paths[..count].to_vec(),
        management,
        own: None,
    })
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
