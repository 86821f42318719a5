//! How far ACKs run ahead of the bandwidth (`bbr_update_ack_aggregation`): Wi-Fi and cable deliver them in bursts, and
//! the window must cover the silence between.

use super::BW_SCALE;

/// The filter holds the maxima of this round's group of five and of the one before.
const GROUP_ROUNDS: u32 = 5;
/// Most that is granted, µs at the estimated bandwidth.
const MAX_US: u64 = 100_000;
/// Packets after which an epoch starts anew.
const RESET: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Aggregation {
    epoch_us: u64,
    acked: u64,
    extra: [u64; 2],
    rounds: u32,
    group: usize,
}

impl Aggregation {
    pub fn restart(&mut self, now_us: u64) {
        self.epoch_us = now_us;
        self.acked = 0;
    }

    /// An ACK of `acked` packets with the estimate `bw`.
    pub fn update(&mut self, now_us: u64, acked: u64, bw: u64, cwnd: u64, round_start: bool) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= GROUP_ROUNDS {
                self.rounds = 0;
                self.group = 1 - self.group;
                self.extra[self.group] = 0;
            }
        }
        let elapsed = now_us.saturating_sub(self.epoch_us);
        let mut expected = ((u128::from(bw) * u128::from(elapsed)) >> BW_SCALE) as u64;
        if self.acked <= expected || self.acked + acked >= RESET {
            self.restart(now_us);
            expected = 0;
        }
        self.acked += acked;
        let extra = self.acked.saturating_sub(expected).min(cwnd);
        self.extra[self.group] = self.extra[self.group].max(extra);
    }

    /// Packets to be added to the window.
    pub fn cwnd(&self, bw: u64) -> u64 {
        let most = ((u128::from(bw) * u128::from(MAX_US)) >> BW_SCALE) as u64;
        self.extra[0].max(self.extra[1]).min(most)
    }
}
