//! Scenarios as a call names them.

use std::io;

use mp_scenario::{Experiment, Overrides};

use crate::outcome::{usage, Outcome};

/// `-` is stdin; else a file if there is one of that name, else the built-in scenario.
pub fn load(wanted: &str, overrides: &Overrides) -> Outcome<Experiment> {
    if wanted == "-" {
        let text = mp_scenario::text("stdin", io::read_to_string(io::stdin())).map_err(usage)?;
        return mp_builtin::parse("stdin", &text, overrides).map_err(usage);
    }
    mp_builtin::load(wanted, overrides).map_err(usage)
}

pub fn builtin(name: &str, overrides: &Overrides) -> Outcome<Experiment> {
    mp_builtin::builtin(name, overrides).map_err(usage)
}
