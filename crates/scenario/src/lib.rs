#![forbid(unsafe_code)]
//! Scenario files: parsed, validated, expanded. Nothing here runs anything.

pub mod model;

pub use model::*;
