//! `multipilot run`: any program of this host over MPTCP.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use mp_kernel::host::{self, Paths};
use mp_kernel::{check, child, controller, preload};

use crate::external;
use crate::outcome::{self, Failure, Outcome};

const AFTER: &str = "\
A statically linked program asks the kernel for its sockets without libc and stays with TCP; so does one with the
set-user-ID bit. A peer without MPTCP is talked to in TCP. The exit code is the program's own, or 128 plus its signal.";

#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub struct Run {
    /// Congestion controller of its connections, see multipilot list controllers (default: the system's)
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// fullmesh, backup or single, on this host's interfaces (default: as the system is set up)
    #[arg(long, value_name = "NAME")]
    path_manager: Option<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn main(args: &Run) -> Outcome {
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
    let _paths = paths.map(host::choose).transpose().map_err(of_kernel)?;
    let controller = args
        .controller
        .as_deref()
        .map(|name| controller::acquire(name, &[]))
        .transpose()
        .map_err(of_kernel)?;

    let mut command = Command::new(&path);
    command.args(rest);
    preload::apply(
        &mut command,
        controller
            .as_ref()
            .map(|controller| controller.kernel_name()),
    )
    .map_err(of_kernel)?;
    let status = child::run(&mut command)
        .map_err(|error| Failure::Code(say(126, &format!("{}: {error}", path.display()))))?;
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
        "fullmesh" => Ok(Paths::Fullmesh),
        "backup" => Ok(Paths::Backup),
        "single" => Ok(Paths::Single),
        "ndiffports" => Err(Failure::Usage(
            "ndiffports opens subflows connection by connection, which run cannot do for another program: compare has it".into(),
        )),
        _ => Err(Failure::Usage(format!("unknown path manager {name} (run has fullmesh, backup and single)"))),
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

fn of_kernel(error: mp_kernel::Error) -> Failure {
    match error.exit_code() {
        2 => Failure::Usage(error.to_string()),
        3 => Failure::Unable(error.to_string()),
        _ => Failure::Run(error.to_string()),
    }
}
