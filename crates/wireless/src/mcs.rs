//! Modulation and coding schemes of 802.11ad (DMG) and 802.11ay (EDMG): rates, the SNR that each needs, bonding.
//!
//! Rates and SNRs are those of the public ns-3 802.11ay model: one stream in one channel of 2.16 GHz, 1 % of frames of
//! 4096 bytes in error, EDMG SC with the normal and EDMG OFDM with the short guard interval. The sensitivities are those
//! of IEEE 802.11ad, table 21-3.

/// Which physical layer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phy {
    /// 802.11ad single carrier: one channel, one stream.
    Dmg,
    /// 802.11ay single carrier.
    EdmgSc,
    /// 802.11ay OFDM.
    EdmgOfdm,
}

/// One row of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mcs {
    pub index: u8,
    /// Mbit/s of one stream in one channel.
    pub rate_mbps: f64,
    /// dB for 1 % of frames of 4096 bytes in error, in one channel.
    pub snr_db: f64,
}

const fn mcs(index: u8, rate_mbps: f64, snr_db: f64) -> Mcs {
    Mcs {
        index,
        rate_mbps,
        snr_db,
    }
}

/// What management frames use: robust and slow.
pub const CONTROL: Mcs = mcs(0, 27.5, -11.3);
/// dBm that 802.11ad's control PHY must receive.
pub const CONTROL_SENSITIVITY_DBM: f64 = -78.0;

const EDMG_SC: [Mcs; 21] = [
    mcs(1, 385.0, -1.9),
    mcs(2, 770.0, 0.5),
    mcs(3, 962.5, 2.0),
    mcs(4, 1155.0, 3.2),
    mcs(5, 1251.25, 4.2),
    mcs(6, 1347.5, 5.5),
    mcs(7, 1540.0, 3.5),
    mcs(8, 1925.0, 4.9),
    mcs(9, 2310.0, 6.2),
    mcs(10, 2502.5, 7.4),
    mcs(11, 2695.0, 8.5),
    mcs(12, 3080.0, 9.4),
    mcs(13, 3850.0, 11.2),
    mcs(14, 4620.0, 12.9),
    mcs(15, 5005.0, 13.8),
    mcs(16, 5390.0, 15.1),
    mcs(17, 4620.0, 14.2),
    mcs(18, 5775.0, 16.2),
    mcs(19, 6930.0, 18.2),
    mcs(20, 7507.5, 19.5),
    mcs(21, 8085.0, 21.0),
];

const EDMG_OFDM: [Mcs; 20] = [
    mcs(1, 792.0, 0.5),
    mcs(2, 990.0, 2.0),
    mcs(3, 1188.0, 3.3),
    mcs(4, 1287.0, 4.3),
    mcs(5, 1386.0, 5.6),
    mcs(6, 1584.0, 3.6),
    mcs(7, 1980.0, 4.9),
    mcs(8, 2376.0, 6.3),
    mcs(9, 2574.0, 7.2),
    mcs(10, 2772.0, 8.5),
    mcs(11, 3168.0, 9.4),
    mcs(12, 3960.0, 11.2),
    mcs(13, 4752.0, 12.7),
    mcs(14, 5148.0, 13.9),
    mcs(15, 5544.0, 15.2),
    mcs(16, 4752.0, 14.2),
    mcs(17, 5940.0, 16.2),
    mcs(18, 7128.0, 18.3),
    mcs(19, 7722.0, 19.6),
    mcs(20, 8316.0, 21.2),
];

/// 802.11ad numbers its rates without 7/8 codes: rates and SNRs are those of the EDMG rows of the same modulation.
const DMG: [Mcs; 12] = [
    mcs(1, 385.0, -1.9),
    mcs(2, 770.0, 0.5),
    mcs(3, 962.5, 2.0),
    mcs(4, 1155.0, 3.2),
    mcs(5, 1251.25, 4.2),
    mcs(6, 1540.0, 3.5),
    mcs(7, 1925.0, 4.9),
    mcs(8, 2310.0, 6.2),
    mcs(9, 2502.5, 7.4),
    mcs(10, 3080.0, 9.4),
    mcs(11, 3850.0, 11.2),
    mcs(12, 4620.0, 12.9),
];
const DMG_SENSITIVITY_DBM: [f64; 12] = [
    -68.0, -66.0, -65.0, -64.0, -62.0, -63.0, -62.0, -61.0, -59.0, -55.0, -54.0, -53.0,
];

/// Data subcarriers of EDMG OFDM by bonded channels.
const SUBCARRIERS: [f64; 4] = [336.0, 734.0, 1134.0, 1532.0];
pub const MAX_CHANNELS: u32 = 4;
/// Spatial streams of 802.11ay.
pub const MAX_STREAMS: u32 = 8;

impl Phy {
    pub fn table(self) -> &'static [Mcs] {
        match self {
            Phy::Dmg => &DMG,
            Phy::EdmgSc => &EDMG_SC,
            Phy::EdmgOfdm => &EDMG_OFDM,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Phy::Dmg => "dmg",
            Phy::EdmgSc => "edmg-sc",
            Phy::EdmgOfdm => "edmg-ofdm",
        }
    }

    /// Channels that it can bond.
    pub fn max_channels(self) -> u32 {
        if self == Phy::Dmg {
            1
        } else {
            MAX_CHANNELS
        }
    }

    /// How many times one channel's rate `channels` bonded ones carry.
    pub fn bonding(self, channels: u32) -> f64 {
        let channels = channels.clamp(1, self.max_channels());
        match self {
            Phy::EdmgOfdm => SUBCARRIERS[channels as usize - 1] / SUBCARRIERS[0],
            _ => f64::from(channels),
        }
    }

    /// Mbit/s of one stream in `channels` bonded channels.
    pub fn rate_mbps(self, mcs: &Mcs, channels: u32) -> f64 {
        mcs.rate_mbps * self.bonding(channels)
    }

    /// dBm that a receiver must be able to work with; 802.11ad states them, 802.11ay's table is in SNR.
    pub fn sensitivity_dbm(self, mcs: &Mcs) -> Option<f64> {
        (self == Phy::Dmg).then(|| DMG_SENSITIVITY_DBM[mcs.index as usize - 1])
    }

    /// The fastest scheme at this SNR (over the bonded channels' noise) and received power, if any works at all.
    ///
    /// Not the highest index: 64-QAM at a low code rate needs less SNR than 16-QAM at a high one.
    pub fn best(self, snr_db: f64, received_dbm: f64) -> Option<&'static Mcs> {
        let works = |m: &&Mcs| {
            snr_db >= m.snr_db
                && self
                    .sensitivity_dbm(m)
                    .is_none_or(|needed| received_dbm >= needed)
        };
        self.table()
            .iter()
            .filter(works)
            .max_by(|a, b| a.rate_mbps.total_cmp(&b.rate_mbps))
    }
}
