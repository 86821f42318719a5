//! `multipilot run`: any program of this host over MPTCP.

mod bandit;
mod primary;
mod readings;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use mp_kernel::agent::Agent;
use mp_kernel::host::{self, Paths};
use mp_kernel::{check, child, controller, preload};

use crate::agent::{network, LEARNED};
use crate::external;
use crate::outcome::{self, Failure, Outcome};

const AFTER: &str = "\
A statically linked program asks the kernel for its sockets without libc and stays with TCP; so does one with the
set-user-ID bit. A peer without MPTCP is talked to in TCP. The exit code is the program's own, or 128 plus its signal.

The path manager bandit learns which interface connections should start on from how they go, and keeps what it has
learnt in $XDG_STATE_HOME/multipilot (~/.local/state/multipilot), with what each connection lived through, of which
multipilot experience makes Parquet. It knows the round trips of connections before, the signal of Wi-Fi and modems, and
the rate of wired links; for other interfaces a file that MULTIPILOT_SIGNALS names may tell the signal, INTERFACE DBM a
line.";

#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub struct Run {
    /// Congestion controller of its connections, see multipilot list controllers (default: the system's)
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// With ddpg-mpcc: a trained actor, as multipilot train writes it (default: the one that ships)
    #[arg(long, value_name = "FILE")]
    actor: Option<PathBuf>,
    /// fullmesh, backup, single or bandit, on this host's interfaces (default: as the system is set up)
    #[arg(long, value_name = "NAME")]
    path_manager: Option<String>,
    /// The interface that its connections start on; further subflows are the path manager's
    #[arg(long, value_name = "INTERFACE")]
    primary: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn main(args: &Run) -> Outcome {
    let learns = args.path_manager.as_deref() == Some("bandit");
    if learns && args.primary.is_some() {
        return Err(Failure::Usage(
            "--primary and the path manager bandit both choose where connections start: give one"
                .into(),
        ));
    }
    if args.actor.is_some() && args.controller.as_deref() != Some(LEARNED) {
        return Err(Failure::Usage(format!(
            "--actor steers {LEARNED} alone: add --controller {LEARNED}"
        )));
    }
    let mind = network(args.actor.as_deref())?;
    let paths = args.path_manager.as_deref().map(path_manager).transpose()?;
    let (program, rest) = args.command.split_first().expect("clap requires a command");
    let path = locate(program).ok_or_else(|| {
        Failure::Code(say(
            127,
            &format!("{}: no such program", program.to_string_lossy()),
        ))
    })?;
    check::mptcp().map_err(|lack| {
        Failure::Unable(format!("this machine lacks {} ({})", lack.what, lack.mend))
    })?;
    if !preload::reaches(&path) {
        say(
            0,
            &format!(
                "{} is statically linked: its connections stay with TCP",
                path.display()
            ),
        );
    }
    let _paths = paths.map(host::choose).transpose()?;
    let controller = args
        .controller
        .as_deref()
        .map(|name| controller::acquire(name, &[]))
        .transpose()?;

    // Steers a learned controller for as long as the program runs.
    let _agent = controller
        .as_ref()
        .map(|controller| Agent::start(controller, mind))
        .transpose()?;

    let mut command = Command::new(&path);
    command.args(rest);
    preload::apply(
        &mut command,
        controller
            .as_ref()
            .map(|controller| controller.kernel_name()),
    )?;
    let _chosen = args
        .primary
        .as_deref()
        .map(|name| primary::user(&mut command, name))
        .transpose()?;
    let learning = learns.then(|| bandit::start(&mut command)).transpose()?;
    let status = child::run(&mut command)
        .map_err(|error| Failure::Code(say(126, &format!("{}: {error}", path.display()))))?;
    drop(learning);
    if let Some(sockets) = controller
        .and_then(|controller| controller.release().ok())
        .filter(|sockets| *sockets > 0)
    {
        say(0, &format!("{sockets} sockets go on with the controller until they close; it can no longer be chosen"));
    }
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Code(code as u8)),
        (None, signal) => Err(Failure::Code(128 + signal.unwrap_or(0) as u8)),
    }
}

fn path_manager(name: &str) -> Outcome<Paths> {
    match name {
        // The bandit chooses where a connection starts; the rest follows as in fullmesh.
        "fullmesh" | "bandit" => Ok(Paths::Fullmesh),
        "backup" => Ok(Paths::Backup),
        "single" => Ok(Paths::Single),
        "ndiffports" => Err(Failure::Usage(
            "ndiffports opens subflows connection by connection, which run cannot do for another program: compare has it".into(),
        )),
        _ => Err(Failure::Usage(format!("unknown path manager {name} (run has fullmesh, backup, single and bandit)"))),
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
