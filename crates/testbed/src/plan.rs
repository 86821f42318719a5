//! Who sends what and when, settled before the run begins; and what the kernel world and the relay world have to refuse.

use std::time::Duration;

use mp_policy::awareness;
use mp_policy::initial_path;
use mp_policy::path_manager::{self, PathManager, PathPolicy};
use mp_policy::registry::{names_in, World};
use mp_policy::{scheduler, MAX_SUBFLOWS};
use mp_scenario::{Change, Connection, Protocol, Scenario, TransferDirection, Variant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Error;

/// Subflows over one pair of addresses that the path manager ndiffports opens, the first included.
pub const NDIFFPORTS: usize = 2;

/// What carries the connections that are multipath by the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multipath {
    /// The kernel's own.
    Mptcp,
    /// Our relay beside the server, and its device side on the client hosts.
    Relay,
}

/// What carries one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Mptcp,
    Relay,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PathManagement {
    /// One subflow, or plain TCP.
    None,
    /// Endpoints of the in-kernel path manager for all paths.
    Fullmesh,
    /// The same, all but the first being backup.
    Backup,
    /// Endpoints for all paths, and a watch that sets some to backup.
    Aware(PathPolicy, awareness::Config),
    /// The client opens the subflows itself, over the first path.
    Userspace,
}

/// Clients that share a network namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub client: String,
    /// Indices in the scenario; the first is the initial path.
    pub paths: Vec<usize>,
    pub management: PathManagement,
    /// The bandit that chooses which of them connections are opened over; `None`: the first.
    pub initial_path: Option<&'static str>,
    /// The flow that has this host to itself, because what its program moves is counted by host.
    pub own: Option<usize>,
    /// A device of the relay runs here and carries the flows.
    pub device: Option<Device>,
}

impl Group {
    /// Of the watch over its paths.
    pub fn policy(&self) -> Option<(PathPolicy, awareness::Config)> {
        match self.management {
            PathManagement::Aware(policy, awareness) => Some((policy, awareness)),
            _ => self.device.as_ref()?.policy,
        }
    }
}

/// The settings of a device and of its relay.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    pub scheduler: &'static str,
    /// What carries the streams.
    pub carrier: mp_relay::Transport,
    /// As the scenario names it, and whether the variant's controller parameters are meant for it.
    pub controller: (String, bool),
    /// Of a watch that sets some of its links to backup.
    pub policy: Option<(PathPolicy, awareness::Config)>,
}

/// What one `[[connections]]` entry does.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    pub name: String,
    pub group: usize,
    pub transport: Transport,
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

impl Flow {
    pub fn is_mptcp(&self) -> bool {
        self.transport == Transport::Mptcp
    }

    pub fn is_multipath(&self) -> bool {
        self.transport != Transport::Tcp
    }
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
    /// Whether the kernel's MPTCP carries anything.
    pub fn needs_mptcp(&self) -> bool {
        let carries = |group: &Group| {
            let device = group.device.as_ref();
            device.is_some_and(|device| device.carrier == mp_relay::Transport::Mptcp)
        };
        self.flows.iter().any(Flow::is_mptcp) || self.groups.iter().any(carries)
    }

    pub fn new(
        scenario: &Scenario,
        variant: &Variant,
        seed: u64,
        multipath: Multipath,
    ) -> Result<Plan, Error> {
        let mut plan = Plan {
            groups: Vec::new(),
            flows: Vec::new(),
        };
        for (i, connection) in scenario.connections.iter().enumerate() {
            let transport = match (connection.protocol, multipath) {
                (Protocol::Tcp, _) => Transport::Tcp,
                (Protocol::Mptcp, Multipath::Mptcp) => Transport::Mptcp,
                (Protocol::Mptcp, Multipath::Relay) => Transport::Relay,
            };
            let group = Group {
                own: connection.command.is_some().then_some(i),
                ..match transport {
                    Transport::Relay => relayed(scenario, variant, connection)?,
                    _ => group(scenario, variant, connection)?,
                }
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
                transport,
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

/// Indices in the scenario.
fn paths_of(scenario: &Scenario, connection: &Connection) -> Vec<usize> {
    let names = connection.paths.iter();
    names
        .filter_map(|p| scenario.paths.get_index_of(p))
        .collect()
}

/// The clients of a device that runs beside them.
fn relayed(
    scenario: &Scenario,
    variant: &Variant,
    connection: &Connection,
) -> Result<Group, Error> {
    let refused = |what: String| Err(Error::Unsupported(what));
    if connection.command.is_some() {
        return refused(format!(
            "connection {}: the relay world has no commands; choose --world kernel, or have a command of its own call multipilot run --relay",
            connection.name
        ));
    }
    let backup = |e: &mp_scenario::Event| {
        matches!(e.change, Change::Backup(_)) && connection.paths.contains(&e.path)
    };
    if scenario.events.iter().any(backup) {
        return refused(
            "backup events: the relay world has none; choose --world kernel, or --world sim".into(),
        );
    }
    let own = connection.controller.as_ref();
    let controller = own.unwrap_or(&variant.controller);
    let name = connection.scheduler.as_ref().unwrap_or(&variant.scheduler);
    let Some(entry) = scheduler::find(name).filter(|e| e.runs_in(World::Relay)) else {
        return refused(format!(
            "scheduler {name}: the relay world has {}",
            names_in(scheduler::all(), World::Relay)
        ));
    };
    let mut paths = paths_of(scenario, connection);
    let manager = manager(variant, connection, World::Relay)?;
    if matches!(manager, PathManager::Single(_)) {
        paths.truncate(1);
    }
    let policy = PathPolicy::of(&manager);
    let carrier: mp_relay::Transport = variant.carrier.parse().map_err(Error::Unsupported)?;
    let mptcp = carrier == mp_relay::Transport::Mptcp;
    if mptcp && entry.name != "default" {
        return refused(format!(
            "scheduler {name} with carrier mptcp: the kernel has only its own one; choose `default` for the variants with this carrier"
        ));
    }
    if mptcp && policy.is_some() {
        return refused(format!(
            "path manager {} with carrier mptcp: choose fullmesh or single, or --world kernel",
            connection
                .path_manager
                .as_ref()
                .unwrap_or(&variant.path_manager)
        ));
    }
    if paths.len() > MAX_SUBFLOWS {
        return refused(format!(
            "connection {}: has {} paths; the relay uses at most {MAX_SUBFLOWS}",
            connection.name,
            paths.len()
        ));
    }
    let initial = connection.initial_path.as_ref();
    let initial = initial.unwrap_or(&variant.initial_path);
    if !initial_path::find(initial).is_some_and(|entry| entry.runs_in(World::Relay)) {
        return refused(format!(
            "initial path {initial}: the relay world has {}",
            names_in(initial_path::all(), World::Relay)
        ));
    }
    Ok(Group {
        client: connection.client.clone(),
        management: match mptcp && paths.len() > 1 {
            true => PathManagement::Fullmesh,
            false => PathManagement::None,
        },
        paths,
        initial_path: None,
        own: None,
        device: Some(Device {
            scheduler: entry.name,
            carrier,
            controller: (controller.clone(), own.is_none()),
            policy,
        }),
    })
}

/// The clients of connections in plain TCP or MPTCP.
fn group(scenario: &Scenario, variant: &Variant, connection: &Connection) -> Result<Group, Error> {
    let paths = paths_of(scenario, connection);
    let client = connection.client.clone();
    if connection.protocol == Protocol::Tcp {
        return Ok(Group {
            client,
            paths: paths[..1].to_vec(),
            management: PathManagement::None,
            initial_path: None,
            own: None,
            device: None,
        });
    }
    if let Some(why) = variant.only_over_the_relay() {
        return Err(Error::Unsupported(why));
    }
    let scheduler = connection.scheduler.as_ref().unwrap_or(&variant.scheduler);
    if scheduler != "default" {
        return Err(Error::Unsupported(format!(
            "scheduler {scheduler}: the stock kernel has only its own one; choose `default`, --world relay, or --world sim"
        )));
    }
    let manager = manager(variant, connection, World::Kernel)?;
    let management = match (PathPolicy::of(&manager), &manager) {
        (Some((policy, awareness)), _) => PathManagement::Aware(policy, awareness),
        (None, PathManager::Fullmesh(_)) => PathManagement::Fullmesh,
        (None, PathManager::Backup(_)) => PathManagement::Backup,
        (None, PathManager::Ndiffports(_)) => PathManagement::Userspace,
        (None, PathManager::Single(_)) => PathManagement::None,
        (None, other) => unreachable!("{other:?} judges paths"),
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
        device: None,
    })
}

/// The connection's path manager, or the variant's with its settings, if the world has it.
fn manager(variant: &Variant, connection: &Connection, world: World) -> Result<PathManager, Error> {
    let own = connection.path_manager.as_ref();
    let name = own.unwrap_or(&variant.path_manager);
    let entry = path_manager::find(name).filter(|entry| entry.runs_in(world));
    let entry = entry.ok_or_else(|| {
        Error::Unsupported(format!(
            "path manager {name}: the {} world has {}",
            world.name(),
            names_in(path_manager::all(), world)
        ))
    })?;
    let settings = variant.path_manager_parameters.iter();
    let settings = settings.filter(|_| own.is_none());
    let built = entry.build_with(settings.map(|(k, v)| (k.as_str(), *v)));
    built.map_err(|refused| Error::Unsupported(refused.to_string()))
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
    while at < scenario.duration {
        let end = end(at, rng);
        transfers.push((at, end));
        // Inverse of the exponential distribution; 1 − u is never 0.
        at += Duration::from_secs_f64(-(1.0 - rng.random::<f64>()).ln() / rate);
    }
    Starts::Arriving {
        transfers,
        at_once: connection.count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(variant: &str) -> Result<Plan, Error> {
        plan_over(Multipath::Mptcp, &format!("[[variants]]\n{variant}\n"))
    }

    fn plan_over(multipath: Multipath, rest: &str) -> Result<Plan, Error> {
        let text = format!("[paths.a]\nrate = '9Mbit'\n[paths.b]\nrate = '3Mbit'\n{rest}");
        let scenario = crate::scenario(&text);
        Plan::new(&scenario, &scenario.variants[0], 1, multipath)
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

    #[test]
    fn the_first_arrival_is_at_the_start_as_in_the_simulator() {
        let arriving = "[[connections]]\narrivals = '2/s'\nstart = '3s'\nbytes = '1kB'\n";
        let made = plan_over(Multipath::Mptcp, arriving).unwrap();
        let Starts::Arriving { transfers, .. } = &made.flows[0].starts else {
            panic!("{:?}", made.flows[0].starts);
        };
        assert_eq!(transfers[0].0, Duration::from_secs(3));
    }

    fn relayed(rest: &str) -> Result<Plan, Error> {
        plan_over(Multipath::Relay, rest)
    }

    #[test]
    fn the_relay_world_has_what_the_registries_say() {
        let fits = |key: &str, name: &str| relayed(&format!("[[variants]]\n{key} = '{name}'\n"));
        for entry in path_manager::all() {
            let made = fits("path_manager", entry.name);
            assert_eq!(made.is_ok(), entry.runs_in(World::Relay), "{made:?}");
        }
        for entry in scheduler::all() {
            let made = fits("scheduler", entry.name);
            assert_eq!(made.is_ok(), entry.runs_in(World::Relay), "{made:?}");
        }
        for entry in initial_path::all() {
            let made = fits("initial_path", entry.name);
            assert_eq!(made.is_ok(), entry.runs_in(World::Relay), "{made:?}");
        }
        for entry in mp_controllers::entries() {
            let made = fits("controller", entry.name);
            assert!(made.is_ok(), "{}: {made:?}", entry.name);
        }
    }

    #[test]
    fn a_device_serves_the_connections_of_one_choice_and_plain_tcp_needs_none() {
        let plan = relayed(
            "[[connections]]\n[[connections]]\nname = 'up'\ndirection = 'upload'\n\
             [[connections]]\nname = 'other'\nscheduler = 'min-rtt'\n\
             [[connections]]\nname = 'tcp'\nprotocol = 'tcp'\npaths = ['b']\n\
             [[variants]]\nscheduler = 'ecf'\npath_manager = 'single'\n",
        )
        .unwrap();
        let of = |flow: &Flow| {
            let group = &plan.groups[flow.group];
            let scheduler = group.device.as_ref().map(|d| d.scheduler);
            (flow.group, flow.transport, group.paths.clone(), scheduler)
        };
        let relay = Transport::Relay;
        let flows: Vec<_> = plan.flows.iter().map(of).collect();
        assert_eq!(
            flows,
            [
                (0, relay, vec![0], Some("ecf")),
                (0, relay, vec![0], Some("ecf")),
                (1, relay, vec![0], Some("min-rtt")),
                (2, Transport::Tcp, vec![1], None),
            ]
        );
    }

    #[test]
    fn with_mptcp_the_kernel_has_an_endpoint_for_each_path_of_the_device() {
        use PathManagement::{Fullmesh, None};
        for (rest, management, needs_mptcp) in [
            ("", None, false),
            ("carrier = 'mptcp'\n", Fullmesh, true),
            ("carrier = 'mptcp'\npath_manager = 'single'\n", None, true),
        ] {
            let plan = relayed(&format!("[[variants]]\n{rest}")).unwrap();
            let said = (plan.groups[0].management, plan.needs_mptcp());
            assert_eq!(said, (management, needs_mptcp), "{rest}");
            assert_eq!(plan.flows[0].transport, Transport::Relay);
        }
        let line = plan("carrier = 'mptcp'").unwrap_err().to_string();
        assert!(line.contains("only --world relay has it"), "{line}");
    }

    #[test]
    fn what_the_relay_world_cannot_do_is_refused_in_one_line_that_says_what_can() {
        for (rest, said) in [
            (
                "[[connections]]\nname = 'x'\ncommand = 'true'\n",
                "connection x: the relay world has no commands; choose --world kernel",
            ),
            (
                "[[variants]]\ncarrier = 'mptcp'\nscheduler = 'ecf'\n",
                "scheduler ecf with carrier mptcp: the kernel has only its own one; choose `default`",
            ),
            (
                "[[variants]]\ncarrier = 'mptcp'\npath_manager = 'ms-ucb'\n",
                "path manager ms-ucb with carrier mptcp: choose fullmesh or single",
            ),
            (
                "[[events]]\nat = '1s'\npath = 'a'\nbackup = true\n",
                "backup events: the relay world has none; choose --world kernel",
            ),
        ] {
            let line = relayed(rest).unwrap_err().to_string();
            assert!(line.contains(said) && line.lines().count() == 1, "{line}");
        }
    }
}
