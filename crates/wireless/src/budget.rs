//! Link budget at 60 GHz: what leaves an antenna, what of it arrives, and the noise that it meets.

use std::f64::consts::PI;

/// m/s
pub const LIGHT: f64 = 299_792_458.0;
/// Centre of channel 2, which any regulation allows, Hz.
pub const FREQUENCY: f64 = 60.48e9;
/// Chip rate of the single carrier: the noise bandwidth of one channel, Hz.
pub const BANDWIDTH: f64 = 1.76e9;
/// Thermal noise at 290 K, dBm/Hz.
const THERMAL: f64 = -174.0;
/// Oxygen around 60 GHz at sea level (ITU-R P.676), dB/m.
pub const OXYGEN: f64 = 0.015;
/// Loss grows with d^3.2 out of sight (close-in model with reference at 1 m, 60 GHz indoor measurements).
pub const NLOS_EXPONENT: f64 = 3.2;

/// Friis: 20·log10(4πd/λ), dB. Nearer than 10 cm there is no far field, and it stays at that.
pub fn free_space_db(distance_m: f64) -> f64 {
    let wavelength = LIGHT / FREQUENCY;
    20.0 * (4.0 * PI * distance_m.max(0.1) / wavelength).log10()
}

/// Path loss with oxygen, in sight or behind a building, dB.
pub fn path_loss_db(distance_m: f64, in_sight: bool) -> f64 {
    let spread = if in_sight || distance_m <= 1.0 {
        free_space_db(distance_m)
    } else {
        free_space_db(1.0) + 10.0 * NLOS_EXPONENT * distance_m.log10()
    };
    spread + OXYGEN * distance_m
}

/// Noise over `channels` bonded channels, dBm: 10·log10(channels) above one channel's.
pub fn noise_dbm(channels: u32, noise_figure_db: f64) -> f64 {
    THERMAL + 10.0 * (BANDWIDTH * f64::from(channels.max(1))).log10() + noise_figure_db
}

pub fn to_db(ratio: f64) -> f64 {
    10.0 * ratio.log10()
}

pub fn from_db(db: f64) -> f64 {
    10f64.powf(db / 10.0)
}
