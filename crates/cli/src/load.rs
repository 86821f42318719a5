//! `multipilot load` and `multipilot unload`: controllers that any program of this host can choose by themselves.

use mp_kernel::controller;

use crate::names::{self, Names};
use crate::outcome::{print, say, Failure, Outcome};

/// Register a controller until `unload`, so that sockets and namespaces of this host can choose it
///
/// Prints the name that setsockopt(TCP_CONGESTION) and net.ipv4.tcp_congestion_control take.
#[derive(clap::Args)]
pub struct LoadArgs {
    /// Name of the controller, see multipilot list controllers
    #[arg(value_parser = Names(names::controllers), hide_possible_values = true)]
    controller: String,
    /// Change a parameter of the controller, a whole number in its unit; may be repeated
    #[arg(long, value_name = "KEY=N")]
    set: Vec<String>,
}

/// Unregister a controller: sockets that use it keep it until they close, new ones cannot choose it
#[derive(clap::Args)]
pub struct UnloadArgs {
    /// The name that `load` printed; multipilot list loaded shows them
    name: String,
}

pub fn load(args: &LoadArgs) -> Outcome {
    names::known_controller(Some(&args.controller))?;
    let settings = args.set.iter().map(|text| setting(text));
    let settings = settings.collect::<Outcome<Vec<_>>>()?;
    let loaded = controller::acquire(&args.controller, &settings)?;
    loaded.keep()?;
    print(&format!("{}\n", loaded.kernel_name()));
    Ok(())
}

pub fn unload(args: &UnloadArgs) -> Outcome {
    let sockets = controller::unload(&args.name)?;
    if sockets > 0 {
        say(&format!(
            "multipilot: {sockets} sockets go on with {} until they close",
            args.name
        ));
    }
    Ok(())
}

fn setting(text: &str) -> Outcome<(&str, u64)> {
    let parsed = text
        .split_once('=')
        .and_then(|(key, value)| Some((key, value.parse().ok()?)));
    parsed.ok_or_else(|| {
        Failure::Usage(format!(
            "--set {text}: expected KEY=N with a whole number, see multipilot list controllers"
        ))
    })
}
