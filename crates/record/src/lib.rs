#![forbid(unsafe_code)]
//! What a run leaves behind, alike for every world: rows, samples, metrics and the folder they are kept in.

pub mod arrow;
pub mod decisions;
mod document;
pub mod experience;
mod folder;
pub mod intervals;
pub mod metrics;
mod row;
pub mod run;

pub use document::{Document, Failure, SCHEMA};
pub use folder::{Error, Folder};
pub use row::{is_under_test, Row};
pub use run::*;
