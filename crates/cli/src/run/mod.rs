//! `multipilot run`: any program of this host over MPTCP.

mod bandit;
mod hook;
mod readings;
mod relay;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use mp_kernel::agent::Agent;
use mp_kernel::cgroup::Group;
use mp_kernel::fallback::Counts;
use mp_kernel::host::{self, Paths};
use mp_kernel::mptcpify::Mptcpify;
use mp_kernel::{check, child, controller, preload};
use mp_policy::initial_path;
use mp_policy::path_manager::{self as registered, PathManager};
use mp_policy::registry::{names_in, World};
use mp_scenario::did_you_mean;

use crate::agent::{network, LEARNED};
use crate::capture;
use crate::external;
use crate::fallback;
use crate::names::{self, Names};
use crate::outcome::{self, Failure, Outcome};

const AFTER: &str = "\
A statically linked program, or one with the set-user-ID bit, gets MPTCP only if root calls run on Linux 6.6 or later; else it \
stays with TCP. A connection to a peer without MPTCP falls back to TCP; a line at the end gives the number of fallbacks, by this \
host's kernel counters. The exit code is that of the program, or 128 plus its signal.

--initial-path lin-ucb learns from the outcome of each connection over which interface to open the next one. It keeps its model \
and the outcomes in $XDG_STATE_HOME/multipilot (~/.local/state/multipilot); multipilot experience writes the outcomes as \
Parquet. It uses the round-trip times of earlier connections, the signal of Wi-Fi and modems, the quality of a modem's cell, the \
rate of wired links, and the time of a DNS lookup, for which three queries a minute go over each link. \
MULTIPILOT_SIGNALS may name a file with the signals of other interfaces, lines INTERFACE DBM.

With --relay the program's TCP connections go over all links at once to your relay (multipilot relay), which connects to their \
targets in plain TCP. The program's UDP, name resolution included, goes out directly; --all sends TCP, UDP and pings of every program \
and needs root.";

#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub struct RunArgs {
    /// Congestion controller of the program's connections, see multipilot list controllers [default: the system's; with --relay pilot if it can be loaded, else bbr or the system's]
    #[arg(long, value_name = "NAME", value_parser = Names(names::controllers), hide_possible_values = true)]
    controller: Option<String>,
    /// With ddpg-mpcc: trained actor, as multipilot train writes it [default: the shipped one]
    #[arg(long, value_name = "FILE")]
    actor: Option<PathBuf>,
    #[arg(
        long,
        value_name = "NAME",
        value_parser = Names(path_managers),
        hide_possible_values = true,
        help = path_manager_help()
    )]
    path_manager: Option<String>,
    #[arg(long, value_name = "INTERFACE|NAME", help = initial_path_help())]
    initial_path: Option<String>,
    /// The former name of --initial-path
    #[arg(long, hide = true)]
    primary: Option<String>,
    /// Send TCP connections over all links to the relay that printed this line; - reads the line from stdin
    #[arg(long, value_name = "LINE", conflicts_with_all = ["path_manager", "initial_path", "primary", "actor"])]
    relay: Option<String>,
    /// With --relay: scheduler of both directions, see multipilot list schedulers [default: min-rtt]
    #[arg(long, value_name = "NAME", requires = "relay")]
    scheduler: Option<String>,
    /// With --relay: interface to use, may be repeated [default: every one with a default route]
    #[arg(long = "link", value_name = "INTERFACE", requires = "relay")]
    links: Vec<String>,
    /// With --relay, in place of a program: run a SOCKS5 proxy at this address until Ctrl-C
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "relay",
        conflicts_with = "command"
    )]
    socks: Option<SocketAddr>,
    /// Print the number of MPTCP connections at the end, also if none fell back to TCP
    #[arg(long, short, conflicts_with = "relay")]
    verbose: bool,
    /// With --relay, in place of a program: send TCP, UDP and pings of every program of this host until Ctrl-C; needs root
    #[arg(long, requires = "relay", conflicts_with_all = ["command", "socks"])]
    all: bool,
    #[command(flatten)]
    capture: capture::Options,
    /// The program and its arguments
    #[arg(
        required_unless_present_any = ["socks", "all"],
        trailing_var_arg = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

fn path_manager_help() -> String {
    let names = names_in(registered::all(), World::Run);
    format!(
        "Path manager on this host's interfaces: {names} [default: as the system is configured]"
    )
}

fn initial_path_help() -> String {
    let learnt = initial_path::all().iter();
    let learnt = learnt.filter(|e| e.runs_in(World::Run) && e.build().is_some());
    let names: Vec<&str> = learnt.map(|e| e.name).collect();
    format!(
        "Open connections over this interface, or learn the interface: {}. The path manager opens further subflows [default: the routing table's choice]",
        names.join(", ")
    )
}

pub fn main(args: &RunArgs) -> Outcome {
    if let Some(line) = &args.relay {
        return relay::main(args, line);
    }
    if let Some(interface) = &args.primary {
        return Err(Failure::Usage(format!(
            "--primary is called --initial-path now: --initial-path {interface}"
        )));
    }
    let initial = args
        .initial_path
        .as_deref()
        .map_or(Ok(Initial::Routes), initial)?;
    if args.actor.is_some() && args.controller.as_deref() != Some(LEARNED) {
        return Err(Failure::Usage(format!(
            "--actor steers {LEARNED} alone: add --controller {LEARNED}"
        )));
    }
    let pilots = network(args.actor.as_deref())?;
    let paths = args.path_manager.as_deref().map(path_manager).transpose()?;
    names::known_controller(args.controller.as_deref())?;
    let (path, rest) = program(args)?;
    check::mptcp().map_err(|lack| Failure::Unable(format!("this machine lacks {lack}")))?;
    let _paths = paths.map(host::choose).transpose()?;
    let controller = args
        .controller
        .as_deref()
        .map(|name| controller::acquire(name, &[]))
        .transpose()?;

    // Steers a learned controller for as long as the program runs.
    let _agent = controller
        .as_ref()
        .map(|controller| Agent::start(controller, pilots))
        .transpose()?;

    let mut command = Command::new(&path);
    command.args(rest);
    preload::apply(
        &mut command,
        controller
            .as_ref()
            .map(|controller| controller.kernel_name()),
    )?;
    let (mut _chosen, mut learning) = (None, None);
    let _mptcp = beyond_the_shim(&mut command, &path, controller.is_some());
    match initial {
        Initial::Routes => {}
        Initial::Interface(name) => _chosen = hook::user(&mut command, name)?,
        Initial::Learnt => learning = Some(bandit::start(&mut command)?),
    }
    let before = Counts::read().unwrap_or_default();
    let status = child::run(&mut command)
        .map_err(|error| Failure::Code(say(126, &format!("{}: {error}", path.display()))))?;
    drop(learning);
    let counts = Counts::read().unwrap_or_default().since(before);
    if args.verbose || counts.fell_back() > 0 {
        let summary = fallback::summary(counts);
        say(0, &format!("connections of this host meanwhile: {summary}"));
    }
    if let Some(sockets) = controller
        .and_then(|controller| controller.release().ok())
        .filter(|sockets| *sockets > 0)
    {
        say(0, &format!("{sockets} sockets go on with the controller until they close; it can no longer be chosen"));
    }
    ended(status)
}

/// MPTCP for what the shim does not reach: statically linked programs, also those that the program starts.
fn beyond_the_shim(
    command: &mut Command,
    path: &Path,
    has_controller: bool,
) -> Option<(Mptcpify, Group)> {
    let attached = Group::new().and_then(|group| {
        let hook = Mptcpify::attach(Some(group.path()))?;
        group.adopt(command)?;
        // Dropped in this order: the group can go once nothing is attached.
        Ok((hook, group))
    });
    if !preload::reaches(path) {
        let what = match &attached {
            Err(why) => format!("its connections stay with TCP: {why}"),
            Ok(_) if has_controller => "its connections have the system's controller".into(),
            Ok(_) => return attached.ok(),
        };
        say(
            0,
            &format!("{} is statically linked: {what}", path.display()),
        );
    }
    attached.ok()
}

/// The program's file, and its arguments.
fn program(args: &RunArgs) -> Outcome<(PathBuf, &[OsString])> {
    let (program, rest) = args.command.split_first().expect("clap requires a command");
    let path = locate(program).ok_or_else(|| {
        Failure::Code(say(
            127,
            &format!("{}: no such program", program.to_string_lossy()),
        ))
    })?;
    Ok((path, rest))
}

/// Its exit code is ours.
fn ended(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Code(code as u8)),
        (None, signal) => Err(Failure::Code(128 + signal.unwrap_or(0) as u8)),
    }
}

/// Over which interface connections are opened.
enum Initial<'a> {
    Routes,
    Interface(&'a str),
    Learnt,
}

/// Names of the registry go before interfaces.
fn initial(name: &str) -> Outcome<Initial<'_>> {
    match initial_path::find(name) {
        None => Ok(Initial::Interface(name)),
        Some(entry) if !entry.runs_in(World::Run) => Err(Failure::Usage(format!(
            "--initial-path {name}: run has {}, and the interfaces of this host",
            names_in(initial_path::all(), World::Run)
        ))),
        Some(entry) if entry.build().is_some() => Ok(Initial::Learnt),
        Some(_) => Ok(Initial::Routes),
    }
}

/// Those of `run`, for completions.
fn path_managers() -> Vec<&'static str> {
    let all = registered::all().iter();
    all.filter(|e| e.runs_in(World::Run))
        .map(|e| e.name)
        .collect()
}

fn path_manager(name: &str) -> Outcome<Paths> {
    if let Some(entry) = initial_path::former(name) {
        let hint = match entry.runs_in(World::Run) {
            true => format!("use --initial-path {}", entry.name),
            false => format!(
                "run has {} (--initial-path), compare has {} (--initial-paths)",
                names_in(initial_path::all(), World::Run),
                entry.name
            ),
        };
        return Err(Failure::Usage(format!(
            "{name} is no path manager: it chooses the initial path; {hint}"
        )));
    }
    let has = || names_in(registered::all(), World::Run);
    let Some(entry) = registered::find(name) else {
        return Err(Failure::Usage(format!(
            "unknown path manager {name}{} (run has {})",
            did_you_mean(name, path_managers()),
            has()
        )));
    };
    match entry.build() {
        PathManager::Fullmesh(_) => Ok(Paths::Fullmesh),
        PathManager::Backup(_) => Ok(Paths::Backup),
        PathManager::Single(_) => Ok(Paths::Single),
        // They act connection by connection, or all the time: nothing that run could set and leave.
        _ => Err(Failure::Usage(format!(
            "path manager {name} runs in {}; run has {}",
            entry.world_names().join(", "),
            has()
        ))),
    }
}

/// As a shell finds it.
fn locate(program: &OsString) -> Option<PathBuf> {
    if program.to_string_lossy().contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| external::is_executable(file))
}

fn say(code: u8, line: &str) -> u8 {
    outcome::say(&format!("multipilot: {line}"));
    code
}
