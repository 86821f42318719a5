#![forbid(unsafe_code)]
//! The `multipilot` command.

mod agent;
mod capture;
mod check;
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
mod report;
mod run;
mod runner;
mod scenario;
mod selection;
mod serve;
mod sheet;
mod signals;
mod state;
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
#[command(name = "multipilot", version, after_help = after_help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn after_help() -> String {
    format!(
        "\
Further commands are programs named multipilot-NAME beside this one or on the PATH; the Python package brings {}.

Exit codes: 0 done, 1 a run failed, 2 the call or a file is wrong, 3 this machine cannot do it, 130 interrupted.",
        external::PYTHON.join(", ")
    )
}

#[derive(Subcommand)]
enum Command {
    /// List controllers, schedulers, path managers, initial paths and scenarios
    List(list::ListArgs),
    /// Run the variants of a scenario and show which is better, and how certain that is
    Compare(compare::CompareArgs),
    /// Validate a scenario and show the cells, variants, runs and time of compare
    Check(check::CheckArgs),
    /// Run a program over MPTCP, or over a relay
    Run(run::RunArgs),
    Agent(agent::AgentArgs),
    Load(load::LoadArgs),
    Unload(load::UnloadArgs),
    /// Compare pilot with stock Linux: one file over emulated Wi-Fi and LTE, alone and together, in under three minutes
    Demo(demo::DemoArgs),
    /// Compare plain TCP, MPTCP and the relay while the Wi-Fi fades: a download, a call and page loads, in one minute
    Try(trial::TryArgs),
    /// Run the daemon in the foreground: it monitors links and sets unhealthy paths to backup
    Daemon(daemon::DaemonArgs),
    /// Start the daemon in the background
    Up(daemon::UpArgs),
    /// Stop the daemon and restore endpoints, limits and controller, also after a crash
    Down(daemon::DownArgs),
    /// Reload the daemon's configuration; an invalid file changes nothing
    Reload(daemon::ReloadArgs),
    /// Show the daemon's paths, their rates, and why one is in backup
    Status(daemon::StatusArgs),
    /// Show the daemon's paths and every subflow, live
    Top(daemon::TopArgs),
    /// Run the edge server: it recommends the initial path to devices and learns from the outcomes
    Serve(serve::ServeArgs),
    /// Run a relay: devices send TCP and UDP to it over all links at once, and it connects to any server
    Relay(relay::RelayArgs),
    /// Measure this host's links against a relay of yours, and write the scenario of your network
    Probe(probe::ProbeArgs),
    /// Show the rates, handoffs, beams and energy of a scenario's [radio], also as an animated page
    Radio(radio::RadioArgs),
    /// Print completions for a shell, to be sourced: source <(multipilot completions bash)
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    #[command(hide = true)]
    Manual(manual::ManualArgs),
    #[command(external_subcommand)]
    External(Vec<OsString>),
}

fn main() -> ExitCode {
    let command = match help_of_external().map_or_else(|| Cli::try_parse().map(|c| c.command), Ok) {
        Ok(command) => command,
        Err(error) => return refuse(&error),
    };
    // The daemon, the server and other programs have signals of their own.
    if !matches!(
        command,
        Command::Daemon(_) | Command::Serve(_) | Command::External(_)
    ) {
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

/// `multipilot help federation join` is `multipilot federation join --help`: clap knows no external commands.
fn help_of_external() -> Option<Command> {
    let mut words = std::env::args_os().skip(1);
    let (help, name) = (words.next()?, words.next()?);
    let ours = name == "help" || own_commands().iter().any(|own| name == own.as_str());
    let flag = name.as_encoded_bytes().starts_with(b"-");
    let asked = help == "help" && !ours && !flag;
    let call = std::iter::once(name).chain(words).chain(["--help".into()]);
    asked.then(|| Command::External(call.collect()))
}

/// The command whose help explains this call.
fn called() -> String {
    let first = std::env::args_os().nth(1).unwrap_or_default();
    let own = own_commands().into_iter().find(|own| first == own.as_str());
    own.map_or("multipilot".into(), |own| format!("multipilot {own}"))
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
    // "use '-- --jobs'": what looks like an option was meant as one.
    let lines = lines.filter(|l| !l.starts_with("tip: to pass "));
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
            format!("{line}; see {} --help", called())
        },
    );
    outcome::say(&format!("multipilot: {failure}"));
    ExitCode::from(failure.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_json_document_is_in_the_reference() {
        let page = include_str!("../../../docs/reference/json.md");
        let cli = Cli::command();
        let prints = |c: &&clap::Command| c.get_arguments().any(|a| a.get_id() == "json");
        for command in cli.get_subcommands().filter(prints) {
            let call = format!("`multipilot {}", command.get_name());
            let mut rows = page.lines().filter(|line| line.starts_with('|'));
            assert!(rows.any(|row| row.contains(&call)), "{call}");
        }
    }

    #[test]
    fn every_option_is_explained_and_defaults_look_alike() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name}");
            for argument in command.get_arguments().filter(|a| !a.is_hide_set()) {
                let help = argument.get_help().map(ToString::to_string);
                let help = help.unwrap_or_default();
                assert!(!help.is_empty(), "{name}: {}", argument.get_id());
                assert!(!help.contains("(default"), "{name}: {help}");
            }
        }
    }
}
