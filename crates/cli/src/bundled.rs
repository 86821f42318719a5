//! Scenarios by path, or by the name of one that is built in.

use std::io;
use std::path::{Component, Path};

use mp_scenario::{did_you_mean, Experiment, Overrides};

use crate::outcome::{usage, Outcome};

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/bundled.rs"));
}

/// Names of the built-in scenarios, `rsf/2` for one in a folder.
pub fn names() -> impl Iterator<Item = &'static str> {
    embedded::FILES
        .iter()
        .filter_map(|(name, _)| name.strip_suffix(".toml"))
}

/// `-` is stdin; else a file where there is one of that name, else the built-in scenario.
pub fn load(wanted: &str, overrides: &Overrides) -> Outcome<Experiment> {
    if wanted == "-" {
        let text = io::read_to_string(io::stdin()).map_err(|e| usage(format!("stdin: {e}")))?;
        let folder = std::env::current_dir().unwrap_or_default();
        let from_disk = |file: &Path| std::fs::read(file);
        return mp_scenario::parse("stdin", &text, &folder, &from_disk, overrides).map_err(usage);
    }
    if Path::new(wanted).is_file() {
        return mp_scenario::load(Path::new(wanted), overrides).map_err(usage);
    }
    let Some(name) = names().find(|n| *n == wanted) else {
        if Path::new(wanted).is_dir() {
            return Err(usage(format!(
                "scenario {wanted}: is a folder; name a scenario file in it"
            )));
        }
        let hint = did_you_mean(wanted, names());
        return Err(usage(format!(
            "scenario {wanted}: no such file and no built-in of that name{hint}; see multipilot list scenarios"
        )));
    };
    builtin(name, overrides)
}

pub fn builtin(name: &str, overrides: &Overrides) -> Outcome<Experiment> {
    let file = format!("{name}.toml");
    let content = read(Path::new(&file)).map_err(usage)?;
    let text = String::from_utf8_lossy(&content);
    let folder = Path::new(&file).parent().unwrap_or(Path::new(""));
    mp_scenario::parse(&file, &text, folder, &read, overrides).map_err(usage)
}

/// An embedded file by its path below `scenarios/`; traces that the user names with `--set` come from the disk.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let plain = path.components().all(|c| matches!(c, Component::Normal(_)));
    let embedded = embedded::FILES
        .iter()
        .find(|(name, _)| plain && Path::new(name) == path);
    match embedded {
        Some((_, content)) => Ok(content.to_vec()),
        None => std::fs::read(path),
    }
}
