//! How long beams take to train: sector sweeps of 802.11ad and 802.11ay.
//!
//! Frame times are those of the public ns-3 802.11ad/ay model, µs.

pub const SSW_US: f64 = 14.909;
pub const EDMG_SSW_US: f64 = 19.273;
pub const SHORT_SSW_US: f64 = 13.411;
pub const FEEDBACK_US: f64 = 18.255;
pub const EDMG_FEEDBACK_US: f64 = 24.945;
pub const BRP_POLL_US: f64 = 25.091;
/// Between two frames of one sweep.
pub const SBIFS_US: f64 = 1.0;
/// Between a sweep and its answer.
pub const MBIFS_US: f64 = 9.0;
/// From one beacon to the next.
pub const BEACON_INTERVAL_US: f64 = 102_400.0;

/// Frames of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// 802.11ad
    Ssw,
    /// 802.11ay with all fields
    EdmgSsw,
    /// 802.11ay, for stations that know each other
    ShortSsw,
}

fn sweep_us(frames: usize, frame: f64) -> f64 {
    frames as f64 * frame + frames.saturating_sub(1) as f64 * SBIFS_US
}

/// A sector-level sweep of two stations: both sweep, then feedback and acknowledgement.
pub fn sector_sweep_us(sweep: Sweep, initiator: usize, responder: usize) -> f64 {
    let (frame, answer) = match sweep {
        Sweep::Ssw => (SSW_US, FEEDBACK_US),
        Sweep::EdmgSsw => (EDMG_SSW_US, EDMG_FEEDBACK_US),
        Sweep::ShortSsw => (SHORT_SSW_US, EDMG_FEEDBACK_US),
    };
    sweep_us(initiator, frame)
        + MBIFS_US
        + sweep_us(responder, frame)
        + MBIFS_US
        + answer
        + MBIFS_US
        + answer
}

/// 802.11ad in one beacon interval: the access point sweeps once for all, then each of `devices` sweeps and is answered.
pub fn all_devices_us(devices: usize, sectors: usize) -> f64 {
    let each = MBIFS_US + sweep_us(sectors, SSW_US) + MBIFS_US + FEEDBACK_US;
    sweep_us(sectors, SSW_US) + devices as f64 * each
}

/// Only the devices that were chosen beforehand are polled and trained, with 802.11ay's short frames.
pub fn selected_devices_us(selected: usize, sectors: usize) -> f64 {
    let each = BRP_POLL_US + MBIFS_US + sector_sweep_us(Sweep::ShortSsw, 0, sectors);
    sweep_us(sectors, SHORT_SSW_US) + selected as f64 * each
}
