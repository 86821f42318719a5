//! Any TOML file of multipilot's, read so that an error names file, line, column and key.

use std::sync::Arc;

pub use crate::field::{Field, Section};
pub use crate::tree::Node;

use crate::error::Source;
use crate::{tree, Error};

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
