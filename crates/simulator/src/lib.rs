#![forbid(unsafe_code)]
//! The packet simulator: a scenario in virtual time.

pub mod congestion;
pub mod rivals;
