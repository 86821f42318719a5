//! Any TOML file of multipilot's, read so that an error names file, line, column and key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use crate::choices::{controller, controller_or, parameter, scheduler};
pub use crate::field::{Field, Section};
pub use crate::tree::Node;

use crate::error::Source;
use crate::{tree, units, Error};

/// The text of a configuration file, and what errors call it.
pub fn read(file: &Path) -> Result<(String, String), Error> {
    let shown = file.display().to_string();
    match std::fs::read_to_string(file) {
        Ok(text) => Ok((shown, text)),
        Err(e) => Err(Error {
            place: shown,
            key: String::new(),
            problem: format!("cannot read the configuration: {e}"),
            expected: "a readable TOML file".into(),
        }),
    }
}

/// A time with its unit, as an option of a command has it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = |(problem, expected)| format!("{problem}; expected {expected}");
    units::duration(text).map_err(wrong)
}

/// A rate in bit/s with its unit, more than 0, as an option of a command has it.
pub fn rate(text: &str) -> Result<u64, String> {
    match units::rate(text) {
        Ok(0) => Err(format!("\"{text}\" is zero; expected {}", units::RATE)),
        Ok(rate) => Ok(rate),
        Err((problem, expected)) => Err(format!("{problem}; expected {expected}")),
    }
}

/// A section below another one, where there is one.
pub fn section<'a>(
    parent: &Section<'a>,
    key: &str,
    known: &[&str],
) -> Result<Option<Section<'a>>, Error> {
    let open = |f| Section::open(&f, known);
    parent.get(key).map(open).transpose()
}

/// Parses a text; `shown` is what errors call it.
pub fn parse(shown: &str, text: &str) -> Result<Node, Error> {
    tree::parse(&Arc::new(Source {
        name: shown.to_owned(),
        text: text.to_owned(),
        has_lines: true,
    }))
}

/// The document as a whole, whose keys are all `known`.
pub fn root<'a>(node: &'a Node, known: &[&str]) -> Result<Section<'a>, Error> {
    let field = Field {
        node,
        path: String::new(),
    };
    Section::open(&field, known)
}
