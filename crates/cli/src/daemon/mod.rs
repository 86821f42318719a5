//! `multipilot daemon`, and the commands that talk to one.

mod log;
mod relay;
mod status;
mod top;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mp_daemon::control::{self, Request};
use mp_daemon::status::DaemonStatus;
use mp_daemon::Error;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

pub use status::{main as status, StatusArgs};
pub use top::{main as top, TopArgs};

use crate::outcome::{self, Failure, Outcome};

/// `up` waits so long for the daemon to answer, and `down` for its end.
const PATIENCE: Duration = Duration::from_secs(10);
const LOG: &str = "/run/multipilot/daemon.log";

#[derive(clap::Args)]
pub struct DaemonArgs {
    /// Configuration [default: /etc/multipilot/daemon.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only check that a configuration is valid and that a daemon could start with it here; needs no privilege
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "socket", "log"])]
    check: Option<PathBuf>,
    /// Control socket, in place of the configured one
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Append the log to this file in place of stderr; at 1 MiB it is renamed to FILE.1
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct UpArgs {
    /// Configuration [default: /etc/multipilot/daemon.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    socket: Socket,
    /// The daemon appends its log to this file [default: /run/multipilot/daemon.log]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Send TCP, UDP and pings of this host over all links to the relay that printed this line; - reads the line from stdin. It
    /// replaces the relay of the configuration, also in a running daemon
    #[arg(long, value_name = "LINE")]
    relay: Option<String>,
    /// With --relay: scheduler of both directions, see multipilot list schedulers [default: min-rtt]
    #[arg(long, value_name = "NAME", requires = "relay")]
    scheduler: Option<String>,
    /// With --relay: interface to use, may be repeated [default: every one with a default route]
    #[arg(long = "link", value_name = "INTERFACE", requires = "relay")]
    links: Vec<String>,
    #[command(flatten)]
    capture: crate::capture::Options,
}

#[derive(clap::Args)]
pub struct ReloadArgs {
    #[command(flatten)]
    socket: Socket,
}

#[derive(clap::Args)]
pub struct DownArgs {
    #[command(flatten)]
    socket: Socket,
    #[command(flatten)]
    relay: relay::RelaySocket,
}

/// Which daemon.
#[derive(clap::Args)]
pub struct Socket {
    /// Control socket of the daemon
    #[arg(long = "socket", value_name = "PATH", default_value = control::SOCKET)]
    path: PathBuf,
}

pub fn run(args: &DaemonArgs) -> Outcome {
    if let Some(file) = &args.check {
        mp_daemon::check(file)?;
        outcome::print(&format!("{}: valid\n", file.display()));
        return Ok(());
    }
    mp_daemon::log::start(args.log.as_deref())?;
    mp_daemon::run(args.config.clone(), args.socket.clone()).map_err(Failure::from)
}

pub fn up(args: &UpArgs) -> Outcome {
    if let Some(line) = &args.relay {
        return relay::up(args, line);
    }
    let socket = &args.socket.path;
    if ask(socket, Request::Status).is_ok() {
        return Err(listens_already(socket));
    }
    let id = start(args)?;
    let _ = writeln!(
        std::io::stderr(),
        "multipilot: the daemon is at work (process {id}); multipilot top shows what it does"
    );
    let report = read(ask(socket, Request::Status)?)?;
    outcome::say(&format!("multipilot: {}", status::programs(&report)));
    Ok(())
}

fn listens_already(socket: &Path) -> Failure {
    Failure::Usage(format!(
        "a multipilot daemon listens on {} already",
        socket.display()
    ))
}

/// A daemon that answers; its process number.
fn start(args: &UpArgs) -> Outcome<u32> {
    let socket = &args.socket.path;
    mp_daemon::privilege()?;
    let log = args.log.as_deref().unwrap_or(Path::new(LOG));
    let mut command = Command::new(own_program()?);
    command.arg("daemon").arg("--socket").arg(socket);
    command.arg("--log").arg(log);
    if let Some(config) = &args.config {
        command.arg("--config").arg(config);
    }
    command.stdin(Stdio::null());
    launch(command, log, || ask(socket, Request::Status).is_ok())
}

fn own_program() -> Outcome<PathBuf> {
    std::env::current_exe().map_err(|e| Failure::Run(format!("/proc/self/exe: {e}")))
}

/// Starts it in the background and waits until it answers; its process number.
fn launch(mut command: Command, log: &Path, answers: impl Fn() -> bool) -> Outcome<u32> {
    let failed = |what: &Path, e: std::io::Error| Failure::Run(format!("{}: {e}", what.display()));
    let log = log::Log::open(log)?;
    let file = log.file().map_err(|e| failed(log.path(), e))?;
    // A process group of its own: Ctrl-C in this terminal is not meant for it.
    let mut child = command
        .stdout(Stdio::null())
        .stderr(file)
        .process_group(0)
        .spawn()
        .map_err(|e| failed(Path::new(command.get_program()), e))?;
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if answers() {
            return Ok(child.id());
        }
        if let Ok(Some(status)) = child.try_wait() {
            let line = log.last_line();
            let code = status.code().unwrap_or_default();
            return Err(Failure::with_code(code as u8, line));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Failure::Run(format!(
        "the process does not answer; {} says what it did",
        log.path().display()
    )))
}

pub fn reload(args: &ReloadArgs) -> Outcome {
    ask(&args.socket.path, Request::Reload).map(drop)
}

pub fn down(args: &DownArgs) -> Outcome {
    let socket = &args.socket.path;
    let answer = control::request(socket, Request::Down);
    if let Ok(answer) = &answer {
        await_end(&answer["pid"]);
    }
    // What is left of a relay now is not the daemon's any more.
    let relay = relay::down(&args.relay.relay_socket)?;
    let stay = match answer {
        Ok(answer) => {
            let stay = answer["endpoints_in_use"].as_array().into_iter().flatten();
            stay.filter_map(|a| a.as_str().map(str::to_owned)).collect()
        }
        Err(nobody @ Error::Down(_)) => match after_a_crash(socket)? {
            Some(stay) => stay,
            None if relay => return Ok(()),
            None => return Err(nobody.into()),
        },
        Err(e) => return Err(e.into()),
    };
    for address in stay {
        outcome::say(&format!(
            "multipilot: the endpoint {address} stays: a connection has no other subflow (later: down again)"
        ));
    }
    Ok(())
}

/// The next daemon finds nothing of one that has ended.
fn await_end(pid: &serde_json::Value) {
    let pid = pid.as_i64().and_then(|pid| Pid::from_raw(pid as i32));
    // One that cannot be opened is gone, or in another PID namespace.
    let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return;
    };
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    let _ = poll(&mut ends, Timespec::try_from(PATIENCE).ok().as_ref());
}

/// What a daemon that was killed could not put back; `None` where it has left nothing.
fn after_a_crash(socket: &Path) -> Outcome<Option<Vec<String>>> {
    let Some(stay) = mp_daemon::undo()? else {
        return Ok(None);
    };
    let _ = std::fs::remove_file(socket);
    outcome::say("multipilot: the daemon was gone; what it had changed is as it was before");
    Ok(Some(stay.iter().map(ToString::to_string).collect()))
}

fn ask(socket: &Path, request: Request) -> Outcome<serde_json::Value> {
    control::request(socket, request).map_err(|e| match e {
        Error::Down(nobody) => Failure::Run(format!("{nobody}: multipilot up starts one")),
        e => e.into(),
    })
}

/// What a daemon answered when it was asked for its status.
fn read(answer: serde_json::Value) -> Outcome<DaemonStatus> {
    serde_json::from_value(answer).map_err(|e| {
        Failure::Run(format!(
            "the daemon is of another version ({e}): multipilot down, then up"
        ))
    })
}
