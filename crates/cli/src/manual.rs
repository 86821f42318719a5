//! `multipilot manual`: man pages from the definitions that `--help` has, for packages.

use std::path::PathBuf;

use crate::outcome::{usage, Outcome};

/// Write a man page for each command
#[derive(clap::Args)]
pub struct ManualArgs {
    /// Folder to write to; it has to exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn main(args: &ManualArgs, command: clap::Command) -> Outcome {
    clap_mangen::generate_to(command, &args.folder)
        .map_err(|e| usage(format!("{}: {e}", args.folder.display())))
}
