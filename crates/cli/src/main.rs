#![forbid(unsafe_code)]
//! The `multipilot` command.

mod agent;
mod bundled;
mod check;
mod choice;
mod compare;
mod daemon;
mod demo;
mod external;
mod fallback;
mod list;
mod load;
mod manual;
mod names;
mod outcome;
mod plan;
mod probe;
mod progress;
mod radio;
mod relay;
mod run;
mod runner;
mod serve;
mod sheet;
mod signals;
mod table;
mod trial;
mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use outcome::{Failure, Outcome};

/// An autopilot for Multipath TCP: compare congestion controllers, path managers and schedulers on emulated paths
#[derive(Parser)]
#[command(name = "multipilot", version, after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Further commands are programs named multipilot-NAME beside this one or on the PATH; the Python package brings report,
agree, paper, train, sweep, federation and experience.

Exit codes: 0 done, 1 a run failed, 2 the call or a file is wrong, 3 this machine cannot do it, 130 interrupted.";

#[derive(Subcommand)]
enum Command {
    /// What there is to choose from
    List(list::List),
    /// A scenario's variants side by side: who does better, and how sure that is
    Compare(compare::Compare),
    /// Validate a scenario and show what compare would run: cells, variants, runs, time
    Check(check::Check),
    /// Any program of this host, over MPTCP
    Run(run::Run),
    Agent(agent::Args),
    Load(load::Load),
    Unload(load::Unload),
    /// One file over emulated Wi-Fi and LTE with every controller: a first look in under three minutes
    Demo(demo::Demo),
    /// A download, a call and pages while one walks out of the Wi-Fi: without us, over MPTCP, over the relay; one minute
    Try(trial::Try),
    /// Spare this host's bad paths, for every connection: in the foreground, as a service manager wants it
    Daemon(daemon::Daemon),
    /// Start the daemon in the background
    Up(daemon::Up),
    /// End the daemon and put endpoints, limits and controller back as they were, also after a crash
    Down(daemon::Down),
    /// Have the daemon read its configuration again; a wrong one changes nothing
    Reload(daemon::Reload),
    /// The daemon's paths: what they carry, and why one is spared
    Status(daemon::Status),
    /// The same, live and with every subflow
    Top(daemon::Top),
    /// Tell many devices where their connections should start, and learn from what came of them
    Serve(serve::Serve),
    /// Run a relay: devices send their TCP streams to it over all links at once, and it connects to any server
    Relay(relay::Relay),
    /// Measure this host's links against a relay of yours, and write the scenario of your network
    Probe(probe::Probe),
    /// What a scenario's [radio] makes of its places: rates, handoffs, beams, energy, and a moving picture
    Radio(radio::Radio),
    /// Completions for a shell, to be sourced
    Completions {
        shell: clap_complete::Shell,
    },
    #[command(hide = true)]
    Manual(manual::Manual),
    #[command(external_subcommand)]
    External(Vec<OsString>),
}

fn main() -> ExitCode {
    let command = match help_of_external().map_or_else(|| Cli::try_parse().map(|c| c.command), Ok) {
        Ok(command) => command,
        Err(error) => return refuse(&error),
    };
    // The daemon and the server have signals of their own.
    if !matches!(command, Command::Daemon(_) | Command::Serve(_)) {
        signals::catch();
    }
    match dispatch(command) {
        Ok(()) if outcome::lost_output() => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let line = failure.to_string();
            if !line.is_empty() {
                outcome::say(&format!("multipilot: {line}"));
            }
            ExitCode::from(failure.code())
        }
    }
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::List(args) => list::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Agent(args) => agent::main(&args),
        Command::Load(args) => load::load(&args),
        Command::Unload(args) => load::unload(&args),
        Command::Demo(args) => demo::main(&args),
        Command::Try(args) => trial::main(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Up(args) => daemon::up(&args),
        Command::Down(args) => daemon::down(&args),
        Command::Reload(args) => daemon::reload(&args),
        Command::Status(args) => daemon::status(&args),
        Command::Top(args) => daemon::top(&args),
        Command::Serve(args) => serve::main(&args),
        Command::Relay(args) => relay::main(&args),
        Command::Probe(args) => probe::main(&args),
        Command::Radio(args) => radio::main(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "multipilot", &mut script);
            outcome::print(&String::from_utf8_lossy(&script));
            Ok(())
        }
        Command::Manual(args) => manual::main(&args, Cli::command()),
        Command::External(words) => external::main(&words, &own_commands()),
    }
}

fn own_commands() -> Vec<String> {
    let cli = Cli::command();
    let visible = cli.get_subcommands().filter(|c| !c.is_hide_set());
    visible.map(|c| c.get_name().to_owned()).collect()
}

/// `multipilot help report` is `multipilot report --help`: clap knows no external commands.
fn help_of_external() -> Option<Command> {
    let mut words = std::env::args_os().skip(1);
    let (help, name) = (words.next()?, words.next()?);
    let ours = name == "help" || own_commands().iter().any(|own| name == own.as_str());
    let flag = name.as_encoded_bytes().starts_with(b"-");
    let asked = help == "help" && !ours && !flag && words.next().is_none();
    asked.then(|| Command::External(vec![name, "--help".into()]))
}

/// Help goes to stdout as it is; an error of the call becomes one line.
fn refuse(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let useful =
        lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more information"));
    let line = useful
        .collect::<Vec<_>>()
        .join(" ")
        .replacen("error: ", "", 1)
        .replace("tip: ", "— ");
    let failure = Failure::Usage(
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            "no command; see multipilot --help".into()
        } else {
            format!("{line}; see multipilot --help")
        },
    );
    outcome::say(&format!("multipilot: {failure}"));
    ExitCode::from(failure.code())
}
