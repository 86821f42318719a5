#![forbid(unsafe_code)]
//! What people name: scenarios, by file or by the name of one that is built in, and the entries of every registry as JSON. The
//! command and the Python extension have both from here.

use std::fs;
use std::io;
use std::path::Path;

use mp_scenario::{did_you_mean, Error, Experiment, Overrides};

pub mod list;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));
}

/// Where built-in files seem to lie. An expanded scenario names its traces so, and can be loaded from any folder.
const ROOT: &str = "/multipilot:built-in";
/// At most so many names answer one that does not exist.
const NEAR: usize = 8;

/// Names of the built-in scenarios, `rsf/1-no-loss` for one in a folder.
pub fn names() -> impl Iterator<Item = &'static str> {
    let files = embedded::FILES.iter();
    files.filter_map(|(name, _)| name.strip_suffix(".toml"))
}

/// The text of a built-in scenario.
pub fn text(name: &str) -> Option<&'static str> {
    let content = embedded(&Path::new(ROOT).join(format!("{name}.toml")))?;
    std::str::from_utf8(content).ok()
}

/// A file if there is one of that name, else the built-in scenario.
pub fn load(wanted: &str, overrides: &Overrides) -> Result<Experiment, Error> {
    let path = Path::new(wanted);
    if path.exists() && !path.is_dir() {
        return file(path, overrides);
    }
    let refuse = |problem| Error {
        place: format!("scenario {wanted}"),
        key: String::new(),
        problem,
        expected: String::new(),
    };
    match text(wanted) {
        Some(_) => builtin(wanted, overrides),
        None if path.is_dir() => Err(refuse("is a folder; name a scenario file in it".into())),
        None => Err(refuse(format!(
            "no such file and no built-in of that name{}; see multipilot list scenarios",
            near(wanted)
        ))),
    }
}

/// A scenario file; traces are found relative to its folder, or are built in.
pub fn file(path: &Path, overrides: &Overrides) -> Result<Experiment, Error> {
    let shown = path.display().to_string();
    let text = mp_scenario::text(&shown, fs::read_to_string(path))?;
    let absolute = std::path::absolute(path).unwrap_or_default();
    let folder = absolute.parent().unwrap_or(Path::new(""));
    mp_scenario::parse(&shown, &text, folder, &read, overrides)
}

/// A text; traces are found relative to the current folder, or are built in. `shown` is what errors call it.
pub fn parse(shown: &str, text: &str, overrides: &Overrides) -> Result<Experiment, Error> {
    let folder = std::env::current_dir().unwrap_or_default();
    mp_scenario::parse(shown, text, &folder, &read, overrides)
}

/// The built-in scenario of that name; traces that `overrides` name are found relative to the current folder.
pub fn builtin(name: &str, overrides: &Overrides) -> Result<Experiment, Error> {
    let file = format!("{name}.toml");
    let place = Path::new(ROOT).join(&file);
    let folder = place.parent().unwrap_or(Path::new(ROOT));
    let set = overrides.set.iter().map(|set| from_here(set, folder));
    let overrides = Overrides {
        set: set.collect(),
        ..overrides.clone()
    };
    mp_scenario::parse(
        &file,
        text(name).unwrap_or_default(),
        folder,
        &read,
        &overrides,
    )
}

/// `KEY=FILE` with the file's absolute path, unless the key names no file or the scenario's own folder has that one.
fn from_here(set: &str, folder: &Path) -> String {
    let Some((key, value)) = set.split_once('=') else {
        return set.to_owned();
    };
    let file = value.trim().trim_matches(['"', '\'']);
    let names_a_file = matches!(
        key.trim().rsplit('.').next(),
        Some("trace" | "waypoints" | "channel")
    ) && !file.starts_with(['[', '{']);
    match std::path::absolute(file) {
        Ok(path) if names_a_file && embedded(&folder.join(file)).is_none() => {
            format!("{key}={:?}", path.to_string_lossy())
        }
        _ => set.to_owned(),
    }
}

fn embedded(path: &Path) -> Option<&'static [u8]> {
    let name = path.strip_prefix(ROOT).ok()?;
    let mut files = embedded::FILES.iter();
    files
        .find(|(file, _)| Path::new(file) == name)
        .map(|(_, content)| *content)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    embedded(path).map_or_else(|| fs::read(path), |content| Ok(content.to_vec()))
}

/// Names that have this one in them, or the nearest one.
fn near(wanted: &str) -> String {
    let like = names().filter(|name| name.contains(wanted) || wanted.contains(name));
    let like: Vec<String> = like.take(NEAR).map(|n| format!("\"{n}\"")).collect();
    match like.as_slice() {
        [] => did_you_mean(wanted, names()),
        like => format!(" (did you mean {}?)", like.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(wanted: &str) -> String {
        load(wanted, &Overrides::default()).unwrap_err().to_string()
    }

    #[test]
    fn an_expanded_scenario_is_the_built_in_one_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["wifi-lte", "ddpg/varying-capacity", "pilot/walks"] {
            let first = load(name, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
            let expanded = first.to_toml();
            let again = parse("scenario", &expanded, &Overrides::default());
            assert_eq!(again.unwrap_or_else(|e| panic!("{e}")).cells, first.cells);
            let path = folder.path().join("scenario.toml");
            fs::write(&path, expanded).unwrap();
            let again = file(&path, &Overrides::default());
            assert_eq!(again.unwrap_or_else(|e| panic!("{e}")).cells, first.cells);
        }
    }

    #[test]
    fn a_trace_of_the_call_lies_where_it_was_made() {
        let traced = |value: &str| {
            let overrides = Overrides {
                set: vec![format!("paths.one.trace={value}")],
                ..Overrides::default()
            };
            let loaded = load("ddpg/varying-capacity", &overrides);
            loaded.map(|e| e.cells[0].scenario.paths["one"].down.rate.clone())
        };
        // Tests run in the folder of their crate.
        let here = traced("../../scenarios/ddpg/varying-two.csv").unwrap();
        let quoted = traced("\"../../scenarios/ddpg/varying-two.csv\"").unwrap();
        let beside = traced("varying-two.csv").unwrap();
        let kind = |rate| match rate {
            mp_scenario::Rate::Trace(trace) => trace.kind.clone(),
            other => panic!("{other:?}"),
        };
        let beside = kind(beside);
        assert_eq!(kind(here), beside);
        assert_eq!(kind(quoted), beside);
        let missing = traced("nosuch.csv").unwrap_err().to_string();
        let path = std::path::absolute("nosuch.csv").unwrap();
        assert!(
            missing.contains(&format!("cannot read {}", path.display())),
            "{missing}"
        );
    }

    #[test]
    fn near_names_answer_one_that_does_not_exist() {
        let said = "no such file and no built-in of that name (did you mean";
        for (wanted, names) in [
            ("wifi-lt", "\"wifi-lte\""),
            ("wfii-lte", "\"wifi-lte\""),
            ("scenarios/wifi-lte.toml", "\"wifi-lte\""),
            (
                "goal-",
                "\"rsf/goal-1-throughput\", \"rsf/goal-2-no-harm\", \"rsf/goal-3-balance\"",
            ),
        ] {
            assert!(
                refused(wanted).starts_with(&format!("scenario {wanted}: {said} {names}?)")),
                "{}",
                refused(wanted)
            );
        }
        assert_eq!(
            refused("qqq"),
            "scenario qqq: no such file and no built-in of that name; see multipilot list scenarios"
        );
        assert_eq!(
            refused("/"),
            "scenario /: is a folder; name a scenario file in it"
        );
    }

    #[test]
    fn a_file_comes_first_and_may_be_a_pipe() {
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"[paths.a]\nrate = '1Mbit'\n").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let loaded = load(&path, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(loaded.cells[0].scenario.paths.len(), 1);
    }
}
