#![forbid(unsafe_code)]
//! Scenario files: parsed, validated, expanded. Nothing here runs anything.
//!
//! A file is read into a tree that remembers lines and columns, the command line's overrides, `[[cases]]` and `[grid]` are
//! laid over it, and each resulting tree becomes one [`Scenario`]. `docs/reference/scenario.md` is the reference of every
//! key.

mod air;
mod choices;
mod entries;
mod error;
mod field;
mod grid;
mod links;
mod notes;
mod parse;
mod policer;
mod print;
mod process;
mod radio;
mod sources;
mod traffic;
mod tree;
mod units;
mod variants;

pub mod defaults;
pub mod document;
pub mod model;
pub mod trace;

use std::io;
use std::path::Path as FsPath;
use std::sync::Arc;

pub use air::Air;
pub use choices::CARRIERS;
pub use error::{did_you_mean, Error};
pub use model::*;
pub use print::print;
pub use trace::{RadioLink, Step, Trace, TraceKind};

use error::Source;

/// How trace files are read: from the disk, or from what is embedded in a program.
pub type ReadFile<'a> = dyn Fn(&FsPath) -> io::Result<Vec<u8>> + 'a;

/// What a command line changes in a file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `KEY=VALUE` with a dotted key.
    pub set: Vec<String>,
    /// With its unit, e.g. `5s`.
    pub duration: Option<String>,
    /// Each replaces the choices of the variants; empty leaves them.
    pub controllers: Vec<String>,
    pub path_managers: Vec<String>,
    pub initial_paths: Vec<String>,
    pub schedulers: Vec<String>,
    pub carriers: Vec<String>,
}

/// A file with all the cells that its grid spans; one cell without a grid.
#[derive(Debug, Clone)]
pub struct Experiment {
    pub name: String,
    pub title: String,
    pub cells: Vec<Cell>,
    /// What a user may not have meant: one line each.
    pub notes: Vec<String>,
    tree: tree::Node,
}

/// One combination of the grid. The names of its scenario's variants end in `label`, so that they are unique over the grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub label: String,
    /// Dotted key and value of every axis; empty without a grid.
    pub values: Vec<(String, String)>,
    pub scenario: Scenario,
}

impl Experiment {
    /// As TOML that loads to the same cells: expanded, unless a grid has to stay what it is.
    pub fn to_toml(&self) -> String {
        match (&self.cells[..], &self.tree.value) {
            ([cell], tree::Value::Table(table)) if cell.values.is_empty() => {
                // Paths name the links of the radio: it stays as it was written.
                let radio = table
                    .get_key_value("radio")
                    .map(|(k, n)| (k.clone(), n.clone()));
                print(&cell.scenario) + &tree::print(&radio.into_iter().collect())
            }
            (_, tree::Value::Table(table)) => {
                let name = (!table.contains_key("name"))
                    .then(|| format!("name = {}\n", tree::quote(&self.name)));
                name.unwrap_or_default() + &tree::print(table)
            }
            _ => String::new(),
        }
    }
}

/// Loads a file; traces are found relative to its folder.
pub fn load(path: &FsPath, overrides: &Overrides) -> Result<Experiment, Error> {
    let shown = path.display().to_string();
    let text = text(&shown, std::fs::read_to_string(path))?;
    let folder = std::path::absolute(path)
        .ok()
        .and_then(|p| p.parent().map(FsPath::to_owned))
        .unwrap_or_default();
    parse(
        &shown,
        &text,
        &folder,
        &|file| std::fs::read(file),
        overrides,
    )
}

/// What came of reading a scenario; `shown` is what errors call it.
pub fn text(shown: &str, read: io::Result<String>) -> Result<String, Error> {
    read.map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData => Error::new(shown, "", "is no text (UTF-8)", "a TOML file"),
        _ => Error::new(
            shown,
            "",
            format!("cannot read the scenario: {e}"),
            "a readable TOML file",
        ),
    })
}

/// Loads a text. `shown` is what errors call it (its stem is the scenario's name), `folder` what trace files are relative to.
pub fn parse(
    shown: &str,
    text: &str,
    folder: &FsPath,
    read: &ReadFile<'_>,
    overrides: &Overrides,
) -> Result<Experiment, Error> {
    let source = Arc::new(Source {
        name: shown.to_owned(),
        text: text.to_owned(),
        has_lines: true,
    });
    let mut root = tree::parse(&source)?;
    let written = entries::Written::of(&root);
    grid::apply(&mut root, overrides)?;
    tree::anchor_traces(&mut root, folder);
    let stem = FsPath::new(shown)
        .file_stem()
        .map_or("scenario".into(), |s| s.to_string_lossy().into_owned());
    let traces = sources::Traces::new(read);
    let (mut cells, mut notes) = (Vec::new(), notes::Notes::default());
    for cell in grid::expand(&root)? {
        let expanded = radio::expand(&cell.root);
        written.check(&cell.root, &expanded)?;
        let mut scenario = parse::scenario(&expanded, &stem, &traces)?;
        notes.add(&scenario);
        if !cell.label.is_empty() {
            scenario
                .variants
                .iter_mut()
                .for_each(|v| v.name = format!("{} {}", v.name, cell.label));
        }
        cells.push(Cell {
            label: cell.label,
            values: cell.values,
            scenario,
        });
    }
    let first = &cells[0].scenario;
    Ok(Experiment {
        name: first.name.clone(),
        title: first.title.clone(),
        notes: notes.lines(),
        cells,
        tree: root,
    })
}

/// Every key that a scenario may have, by the section it stands in; what `docs/reference/scenario.md` has to cover.
pub fn known_keys() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("top level", parse::TOP_KEYS),
        ("buffers", parse::BUFFER_KEYS),
        ("paths", links::PATH_KEYS),
        ("links", links::LINK_KEYS),
        ("downlink, uplink", links::DIRECTION_KEYS),
        ("policer", policer::KEYS),
        ("queue", links::QUEUE_KEYS),
        ("gilbert-elliott", links::GILBERT_ELLIOTT_KEYS),
        ("connections", traffic::CONNECTION_KEYS),
        ("events", traffic::EVENT_KEYS),
        ("variants", variants::VARIANT_KEYS),
        ("radio", radio::RADIO_KEYS),
        ("radio.aps", radio::AP_KEYS),
        ("radio.devices", radio::DEVICE_KEYS),
        ("orbit", radio::ORBIT_KEYS),
        ("line", radio::LINE_KEYS),
        ("blockage", radio::BLOCKAGE_KEYS),
        ("buildings", radio::BUILDING_KEYS),
        ("paths.NAME.radio", radio::PATH_RADIO_KEYS),
        ("connections", &[radio::EACH_DEVICE]),
    ]
}
