//! Commands that live elsewhere, as git and cargo have them: `multipilot report` runs `multipilot-report`.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use mp_scenario::did_you_mean;

use crate::outcome::{usage, Failure, Outcome};

/// Commands of the Python package, for help and hints: it may be missing.
pub const PYTHON: [&str; 7] = [
    "report",
    "agree",
    "paper",
    "train",
    "sweep",
    "federation",
    "experience",
];

/// Beside this program first, also beside a link by which it was called, then on the PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let file = format!("multipilot-{name}");
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(PathBuf::from));
    // sudo leaves little of the PATH.
    let called = env::args_os().next().map(PathBuf::from);
    let called = called.filter(|c| c.components().count() > 1);
    let called = called.and_then(|c| c.parent().map(PathBuf::from));
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = beside.into_iter().chain(called);
    let mut folders = beside.chain(env::split_paths(&path));
    folders.find_map(|folder| Some(folder.join(&file)).filter(|f| is_executable(f)))
}

pub fn is_executable(file: &std::path::Path) -> bool {
    file.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

pub fn main(words: &[OsString], own: &[String]) -> Outcome {
    let Some((name, rest)) = words.split_first() else {
        return Err(usage("no command"));
    };
    let name = name.to_string_lossy();
    let Some(program) = find(&name).filter(|_| !name.contains('/')) else {
        return Err(usage(missing(&name, own)));
    };
    // In our place: signals and exit code are its own.
    let error = Command::new(&program).args(rest).exec();
    Err(Failure::Run(format!(
        "{}: cannot be started: {error}",
        program.display()
    )))
}

fn missing(name: &str, own: &[String]) -> String {
    if PYTHON.contains(&name) {
        return format!("{name} is a command of the Python package, and there is no multipilot-{name} on the PATH; the wheel brings it, or make python");
    }
    let known = own.iter().map(String::as_str).chain(PYTHON);
    format!("unknown command {name}{}, and there is no multipilot-{name} on the PATH; see multipilot --help", did_you_mean(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_the_python_package_are_those_that_it_installs() {
        let project = include_str!("../../../python/pyproject.toml");
        let lines = project
            .lines()
            .filter_map(|l| l.strip_prefix("multipilot-"));
        let mut installed: Vec<&str> = lines.filter_map(|l| l.split(' ').next()).collect();
        installed.sort_unstable();
        let mut known = PYTHON;
        known.sort_unstable();
        assert_eq!(installed, known);
    }
}
