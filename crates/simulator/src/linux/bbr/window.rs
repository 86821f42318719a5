//! The congestion window, in recovery too (`bbr_set_cwnd`, `bbr_set_cwnd_to_recover_or_restore`).

use super::*;

impl Bbr {
    /// The window during recovery or on leaving it, and whether packet conservation alone rules.
    fn recover_or_restore(&mut self, flow: &Flow, sample: &RateSample, acked: u64) -> (u64, bool) {
        let conserved = u64::from(flow.in_flight()) + acked;
        let mut cwnd = u64::from(flow.cwnd);
        if sample.losses > 0 {
            cwnd = cwnd.saturating_sub(u64::from(sample.losses)).max(1);
        }
        if flow.state == State::Recovery && self.previous_state != State::Recovery {
            self.packet_conservation = true; // for one round
            self.next_round_delivered = flow.delivered;
            cwnd = conserved;
        } else if self.previous_state >= State::Recovery && flow.state < State::Recovery {
            self.packet_conservation = false;
            cwnd = cwnd.max(self.prior_cwnd);
        }
        self.previous_state = flow.state;
        if self.packet_conservation {
            (cwnd.max(conserved), true)
        } else {
            (cwnd, false)
        }
    }

    pub(super) fn set_cwnd(&mut self, flow: &mut Flow, sample: &RateSample, bw: u64) {
        let acked = u64::from(sample.acked_sacked);
        let mut cwnd = u64::from(flow.cwnd);
        if acked > 0 {
            let conserving;
            (cwnd, conserving) = self.recover_or_restore(flow, sample, acked);
            if !conserving {
                let aggregated = if self.full_bw_reached {
                    self.aggregation.cwnd(bw)
                } else {
                    0
                };
                let target = self.quantize(flow, self.bdp(bw, self.cwnd_gain) + aggregated);
                if self.full_bw_reached {
                    cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || flow.delivered < INIT_CWND {
                    cwnd += acked;
                }
                cwnd = cwnd.max(MIN_CWND);
            }
        }
        if self.mode == Mode::ProbeRtt {
            cwnd = cwnd.min(MIN_CWND);
        }
        flow.cwnd = cwnd.min(u64::from(u32::MAX)) as u32;
    }
}
