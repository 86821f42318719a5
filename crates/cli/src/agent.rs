//! `multipilot agent`: a network of the user's steers the learned controllers of this host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mp_kernel::agent::{Agent, Pilots};
use mp_kernel::controller;
use mp_policy::actor::{Actor, Pilot};

use crate::outcome::{print, say, usage, Failure, Outcome};
use crate::signals;

/// Of those that there are, the one that asks an agent.
pub const LEARNED: &str = mp_controllers::learned::NAME;

/// Steer every ddpg-mpcc connection of this host
///
/// Runs in the foreground until Ctrl-C. Meanwhile the agents of `multipilot run` yield to it. When it ends, its connections
/// continue under the agent of their own run, or as plain MPCC.
#[derive(clap::Args)]
pub struct AgentArgs {
    /// Trained actor, as multipilot train writes it [default: the shipped one]
    #[arg(long, value_name = "FILE")]
    actor: Option<PathBuf>,
}

/// The network in a file, or the one that ships.
pub fn network(file: Option<&Path>) -> Outcome<Pilots> {
    Ok(match file {
        None => Pilots::default(),
        Some(file) => Pilots::new(Pilot::new(Arc::new(Actor::open(file).map_err(usage)?))),
    })
}

pub fn main(args: &AgentArgs) -> Outcome {
    let pilots = network(args.actor.as_deref())?;
    let controller = controller::acquire(LEARNED, &[])?;
    let name = controller.kernel_name().to_owned();
    let mut agent = Agent::start_first(&controller, pilots)?
        .ok_or_else(|| Failure::Run(format!("{LEARNED} asks no agent")))?;
    say(&format!(
        "multipilot: {name} has an agent until Ctrl-C; multipilot run --controller {LEARNED} -- COMMAND uses it"
    ));
    while agent.lives() && !signals::stopped() {
        std::thread::sleep(Duration::from_millis(50));
    }
    agent.end()?;
    let tally = agent.tally();
    let late = match tally.delays_us.len() {
        0 => String::new(),
        n => format!(
            ", 99 % of them within {:.0} µs",
            tally.delays_us[(n - 1) * 99 / 100]
        ),
    };
    print(&format!(
        "answered {} monitor intervals{late}; {} answers were none\n",
        tally.answered, tally.refused
    ));
    let sockets = controller.release()?;
    if sockets > 0 {
        say(&format!(
            "multipilot: {sockets} sockets go on with {name} until they close, as plain MPCC"
        ));
    }
    Ok(())
}
