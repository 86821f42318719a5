#![forbid(unsafe_code)]
//! 802.11ad and 802.11ay at 60 GHz, from places to path traces. No transport, no clock, no I/O.
//!
//! ```text
//! mobility ─► budget, antenna, blockage ─► association ─► allocation ─► mcs, mac ─► a trace for each link
//! ```
//!
//! [`Radio`] states a scenario and [`Radio::run`] gives a [`Timeline`]; [`Timeline::trace`] is what the simulator and
//! the emulated paths take. [`Timeline::shared`] is what becomes of it where some links are not in use. Sources stand at each table and formula.

pub mod allocation;
pub mod antenna;
pub mod association;
pub mod blockage;
pub mod budget;
pub mod csv;
pub mod energy;
pub mod mac;
pub mod mcs;
pub mod mobility;
pub mod training;

mod radio;
mod run;
mod sample;
mod service;
mod timeline;

pub use radio::{Ap, Device, Links, Radio};
pub use sample::Sample;
pub use service::BEAMS_A_DEVICE;
pub use timeline::{ApTotals, Step, Timeline};
