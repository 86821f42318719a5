//! `multipilot daemon`, and the commands that talk to one.

mod status;
mod top;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mp_daemon::control::{self, Request};
use mp_daemon::{Config, Error};

pub use status::{main as status, Status};
pub use top::{main as top, Top};

use crate::outcome::{self, Failure, Outcome};

/// `up` waits so long for the daemon to answer.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Daemon {
    /// Configuration (default: /etc/multipilot/daemon.toml, where there is one)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only see whether a configuration is right
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "socket"])]
    check: Option<PathBuf>,
    /// Control socket, in place of the configured one
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct Up {
    /// Configuration (default: /etc/multipilot/daemon.toml, where there is one)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    socket: Socket,
    /// Where the daemon writes what it does
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/run/multipilot/daemon.log"
    )]
    log: PathBuf,
}

#[derive(clap::Args)]
pub struct Down {
    #[command(flatten)]
    socket: Socket,
}

/// Which daemon.
#[derive(clap::Args)]
pub struct Socket {
    /// Control socket of the daemon
    #[arg(long = "socket", value_name = "PATH", default_value = control::SOCKET)]
    path: PathBuf,
}

pub fn run(args: &Daemon) -> Outcome {
    if let Some(file) = &args.check {
        Config::load(file).map_err(|e| of_daemon(e.into()))?;
        outcome::print(&format!("{}: right\n", file.display()));
        return Ok(());
    }
    mp_daemon::run(args.config.clone(), args.socket.clone()).map_err(of_daemon)
}

pub fn up(args: &Up) -> Outcome {
    let socket = &args.socket.path;
    if ask(socket, Request::Status).is_ok() {
        return Err(Failure::Usage(format!(
            "a multipilot daemon listens on {} already",
            socket.display()
        )));
    }
    let failed = |what: &Path, e: std::io::Error| Failure::Run(format!("{}: {e}", what.display()));
    if let Some(folder) = args.log.parent() {
        std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    }
    let log = std::fs::File::create(&args.log).map_err(|e| failed(&args.log, e))?;
    let own = std::env::current_exe().map_err(|e| failed(Path::new("/proc/self/exe"), e))?;
    let mut command = Command::new(&own);
    command.arg("daemon").arg("--socket").arg(socket);
    if let Some(config) = &args.config {
        command.arg("--config").arg(config);
    }
    // A process group of its own: Ctrl-C in this terminal is not meant for it.
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(|e| failed(&own, e))?;
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if ask(socket, Request::Status).is_ok() {
            let _ = writeln!(
                std::io::stderr(),
                "multipilot: the daemon is at work (process {}); multipilot top shows what it does",
                child.id()
            );
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            let text = std::fs::read_to_string(&args.log).unwrap_or_default();
            let last = text.lines().last().unwrap_or_default();
            let line = last.trim_start_matches("multipilot: ").to_owned();
            return Err(match status.code() {
                Some(2) => Failure::Usage(line),
                Some(3) => Failure::Unable(line),
                _ => Failure::Run(line),
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Failure::Run(format!(
        "the daemon does not answer; {} says what it did",
        args.log.display()
    )))
}

pub fn down(args: &Down) -> Outcome {
    let answer = ask(&args.socket.path, Request::Down)?;
    for address in answer["endpoints_in_use"].as_array().into_iter().flatten() {
        let address = address.as_str().unwrap_or_default();
        let _ = writeln!(
            std::io::stderr(),
            "multipilot: the endpoint {address} stays: a connection has no other subflow (later: up and down again)"
        );
    }
    Ok(())
}

fn ask(socket: &Path, request: Request) -> Outcome<serde_json::Value> {
    control::request(socket, request).map_err(of_daemon)
}

pub fn of_daemon(error: Error) -> Failure {
    let line = error.to_string();
    match error {
        Error::Usage(_) | Error::Denied(_) => Failure::Usage(line),
        Error::Missing(_) => Failure::Unable(line),
        Error::Busy(_) | Error::Down(_) | Error::Failed(_) => Failure::Run(line),
    }
}
