#![forbid(unsafe_code)]
//! What a run leaves behind, alike for every world: rows, samples, metrics and the folder they are kept in.

pub mod run;

pub use run::*;
