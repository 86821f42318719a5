//! Power of an access point's radio: chains, phase shifters, baseband.
//!
//! Parts are those of hybrid transmitters at 60 GHz in the survey of Méndez-Rial et al. (IEEE Access 4, 2016): a phase
//! shifter 30 mW, a chain with mixer and filters 40 mW, a converter 200 mW, baseband 200 mW. The amplifiers' drain is the
//! radiated power over an efficiency of 20 %.

use crate::allocation::Scheme;
use crate::budget::from_db;

/// mW of each part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    pub phase_shifter: f64,
    /// Phase shifters of one chain: the elements of its array.
    pub elements: f64,
    pub chain: f64,
    pub converter: f64,
    pub baseband: f64,
    pub amplifier_efficiency: f64,
}

impl Default for Power {
    fn default() -> Self {
        Power {
            phase_shifter: 30.0,
            elements: 32.0,
            chain: 40.0,
            converter: 200.0,
            baseband: 200.0,
            amplifier_efficiency: 0.2,
        }
    }
}

impl Power {
    /// Watts while `active` chains send. Zero-forcing multiplies each stream into each chain, which costs baseband.
    pub fn watts(&self, active: usize, tx_power_dbm: f64, scheme: Scheme) -> f64 {
        let n = active as f64;
        let each = self.phase_shifter * self.elements
            + self.chain
            + self.converter
            + from_db(tx_power_dbm) / self.amplifier_efficiency;
        let precoder = if scheme == Scheme::Hekaton { n } else { 1.0 };
        (n * each + self.baseband * precoder * f64::from(u8::from(active > 0))) / 1000.0
    }
}
