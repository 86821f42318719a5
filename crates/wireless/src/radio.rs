//! What a radio scenario states: access points, devices, the air between them, and how they are run.

use crate::allocation::Scheme;
use crate::antenna::Codebook;
use crate::blockage::{Blockage, Building};
use crate::csv::Series;
use crate::energy::Power;
use crate::mac::Aggregation;
use crate::mcs::Phy;
use crate::mobility::{Mobility, Point};

#[derive(Debug, Clone, PartialEq)]
pub struct Ap {
    pub name: String,
    pub at: Point,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    pub name: String,
    pub mobility: Mobility,
}

/// Which access points a device holds at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// So many radios, each on another access point, on the best ones. A change of access point costs a handoff.
    Roaming(usize),
    /// One to each access point, as far as it reaches.
    All,
}

/// Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Radio {
    pub phy: Phy,
    /// Bonded channels. Access points use disjoint ones: between them there is no interference.
    pub channels: u32,
    /// RF chains of an access point.
    pub chains: usize,
    /// Most streams to one device.
    pub streams: usize,
    pub links: Links,
    pub tx_power_dbm: f64,
    pub noise_figure_db: f64,
    pub codebook: Codebook,
    pub aggregation: Aggregation,
    /// Share of MPDUs that fail: 1 % is what the table of SNRs is made for.
    pub mpdu_error: f64,
    /// Between two looks at places, beams and rates.
    pub interval: f64,
    /// Re-association with another access point; beam training comes on top.
    pub handoff: f64,
    /// By how much another access point must be better, dB.
    pub hysteresis_db: f64,
    pub allocation: Scheme,
    /// Devices that are chosen before their beams are trained; all where `None`.
    pub select: Option<usize>,
    /// Bounds of the delay one way from the server to an access point, drawn for each pair of device and access point.
    pub delay: (f64, f64),
    /// Between two draws of that delay.
    pub delay_interval: f64,
    pub blockage: Option<Blockage>,
    pub buildings: Vec<Building>,
    /// In place of the model's path loss, for the pairs that it names.
    pub channel: Vec<Series>,
    pub power: Power,
    pub seed: u64,
    pub aps: Vec<Ap>,
    pub devices: Vec<Device>,
}

impl Default for Radio {
    fn default() -> Self {
        Radio {
            phy: Phy::EdmgSc,
            channels: 4,
            chains: 1,
            streams: 1,
            links: Links::Roaming(2),
            tx_power_dbm: 12.0,
            noise_figure_db: 10.0,
            codebook: Codebook::default(),
            aggregation: Aggregation::default(),
            mpdu_error: 0.01,
            interval: 0.1,
            handoff: 0.1,
            hysteresis_db: 3.0,
            allocation: Scheme::Greedy,
            select: None,
            delay: (0.006, 0.006),
            delay_interval: 1.0,
            blockage: None,
            buildings: Vec::new(),
            channel: Vec::new(),
            power: Power::default(),
            seed: 1,
            aps: Vec::new(),
            devices: Vec::new(),
        }
    }
}

impl Radio {
    /// Links of each device.
    pub fn links_per_device(&self) -> usize {
        match self.links {
            Links::Roaming(n) => n.min(self.aps.len()),
            Links::All => self.aps.len(),
        }
    }
}
