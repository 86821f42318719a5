//! What of the physical rate reaches IP: aggregation, block acknowledgement, channel access, retransmission.
//!
//! One exchange is: access to the channel, preamble, A-MPDU, SIFS, block ack; and, where data is answered by transport
//! acknowledgements, their A-MPDU in the other direction under the same grant (reverse direction protocol) with a block
//! ack of its own.

/// µs; IEEE 802.11-2020, table 20-31 and 802.11ay.
pub const SIFS_US: f64 = 3.0;
pub const SLOT_US: f64 = 5.0;
/// Mean of a first backoff: half of CWmin = 15 slots.
pub const BACKOFF_SLOTS: f64 = 7.5;
/// EDMG SC preamble and headers of one PPDU.
pub const PREAMBLE_US: f64 = 5.0;
/// Longest PPDU.
pub const MAX_PPDU_US: f64 = 2000.0;
/// Block ack frames go out at the slowest data rate, which all can read.
const ACK_RATE_MBPS: f64 = 385.0;
/// Header, QoS and HT control, FCS.
const MPDU_HEADER: f64 = 34.0;
const DELIMITER: f64 = 4.0;
/// Of an MSDU within an A-MSDU: addresses and length, LLC and SNAP; then padded to four bytes.
const SUBFRAME: f64 = 14.0 + 8.0;
const BLOCK_ACK_HEADER: f64 = 24.0;

/// Limits of aggregation. The default is paper *drones*, table 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aggregation {
    /// Bytes of an A-MSDU.
    pub amsdu: u32,
    /// Bytes of an A-MPDU.
    pub ampdu: u32,
    /// MPDUs that one block ack covers.
    pub block_ack: u32,
    /// How often an MPDU is sent again before it is given up.
    pub retries: u32,
    /// Transport acknowledgements per data packet, whose airtime counts too.
    pub acks_per_packet: f64,
}

impl Default for Aggregation {
    fn default() -> Self {
        Aggregation {
            amsdu: 7935,
            ampdu: 4_194_303,
            block_ack: 1024,
            retries: 7,
            acks_per_packet: 0.5,
        }
    }
}

/// IP packets' size on which efficiency is reckoned.
pub const PACKET: f64 = 1500.0;
/// A pure TCP acknowledgement with timestamps and a data acknowledgement.
const ACK_PACKET: f64 = 60.0;

/// One exchange at a physical rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exchange {
    pub airtime_us: f64,
    /// IP packets that it carries, in means.
    pub packets: f64,
}

impl Exchange {
    /// Mbit/s of IP packets.
    pub fn rate_mbps(&self) -> f64 {
        self.packets * PACKET * 8.0 / self.airtime_us
    }
}

fn padded(bytes: f64) -> f64 {
    (bytes / 4.0).ceil() * 4.0
}

impl Aggregation {
    /// A full exchange at `phy_mbps` where each MPDU fails with probability `error`.
    pub fn exchange(&self, phy_mbps: f64, error: f64) -> Exchange {
        let subframe = padded(PACKET + SUBFRAME);
        let per_mpdu = ((f64::from(self.amsdu) / subframe).floor()).max(1.0);
        let mpdu = padded(per_mpdu * subframe + MPDU_HEADER) + DELIMITER;
        let longest = (f64::from(self.ampdu)).min(MAX_PPDU_US * phy_mbps / 8.0);
        let mpdus = (longest / mpdu)
            .floor()
            .clamp(1.0, f64::from(self.block_ack));
        let packets = mpdus * per_mpdu;
        let block_ack_us = PREAMBLE_US
            + (BLOCK_ACK_HEADER + f64::from(self.block_ack) / 8.0) * 8.0 / ACK_RATE_MBPS;
        let access_us = SIFS_US + 2.0 * SLOT_US + BACKOFF_SLOTS * SLOT_US;
        let mut airtime_us =
            access_us + PREAMBLE_US + mpdus * mpdu * 8.0 / phy_mbps + SIFS_US + block_ack_us;
        if self.acks_per_packet > 0.0 {
            let each = padded(ACK_PACKET + SUBFRAME);
            let acks = packets * self.acks_per_packet;
            airtime_us +=
                SIFS_US + PREAMBLE_US + acks * each * 8.0 / phy_mbps + SIFS_US + block_ack_us;
        }
        Exchange {
            airtime_us,
            packets: packets * (1.0 - error),
        }
    }

    /// What is still lost after all retries.
    pub fn residual_loss(&self, error: f64) -> f64 {
        error.powi(self.retries as i32 + 1)
    }
}
