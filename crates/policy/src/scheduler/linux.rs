//! The default scheduler of Linux 6.x, `mptcp_subflow_get_send` of net/mptcp/protocol.c.
//!
//! Each subflow has a linger time, the time its queue takes to empty:
//!
//! ```text
//! linger = queued bytes / average pacing rate
//! ```
//!
//! The live normal subflow of the shortest linger time gets the next burst (a backup one only where no normal one
//! lives), provided that its send buffer has room; if that one has no room, nobody sends. The kernel calls this its
//! form of BLEST: only the subflow that empties first is ever fed, so the slow one is never given what the fast one
//! would have delivered earlier.
//!
//! A subflow's congestion window plays no part: data wait in its send buffer, which Linux lets grow to about twice the
//! window. The average pacing rate is weighted by bytes, a burst of B onto a queue of Q counting B / (B + Q).

use super::{Choice, ConnectionView, Schedule, SubflowView};
use crate::MAX_SUBFLOWS;

/// `MPTCP_SEND_BURST_SIZE`: 64 KiB less the TCP header with its options (20 + 40) and an IPv6 header with a fragment
/// header (40 + 8), bytes.
pub const SEND_BURST_SIZE: u64 = (1 << 16) - 20 - 40 - 40 - 8;

#[derive(Debug, Clone, Default)]
pub struct Linux {
    /// `subflow->avg_pacing_rate`, bytes/s; 0 before the first pick.
    average_rate: [u64; MAX_SUBFLOWS],
}

impl Schedule for Linux {
    #[inline]
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        let mut best: [(u64, Option<usize>); 2] = [(u64::MAX, None); 2];
        let mut normal_lives = false;
        for (i, s) in subflows.iter().enumerate().take(MAX_SUBFLOWS) {
            if !s.alive() {
                continue;
            }
            normal_lives |= !s.backup;
            if self.average_rate[i] == 0 {
                self.average_rate[i] = s.pacing_rate;
                if s.pacing_rate == 0 {
                    continue;
                }
            }
            // 32 fraction bits as in the kernel; a queue above 4 GiB saturates.
            let linger = (s.queued.min(u64::from(u32::MAX)) << 32) / self.average_rate[i];
            let slot = &mut best[usize::from(s.backup)];
            if linger < slot.0 {
                *slot = (linger, Some(i));
            }
        }
        let Some(i) = best[usize::from(!normal_lives)].1 else {
            return Choice::WAIT;
        };
        let s = &subflows[i];
        if s.room == 0 {
            return Choice::WAIT;
        }
        let burst = SEND_BURST_SIZE.min(connection.window_left);
        if burst == 0 {
            return Choice::WAIT;
        }
        self.average_rate[i] = (self.average_rate[i].saturating_mul(s.queued))
            .saturating_add(s.pacing_rate.saturating_mul(burst))
            / (burst + s.queued);
        Choice::one(i, burst as u32)
    }

    fn forget(&mut self, subflow: usize) {
        self.average_rate[subflow] = 0;
    }
}
