//! Policer detection: a token bucket shows as two intervals in a row of high loss and equal throughput; its rate is then
//! believed for a while in place of the maximum ("long-term bandwidth" in tcp_bbr.c).

use super::{Bbr, BW_UNIT, UNIT};
use crate::congestion::Flow;

/// Rounds of an interval: at least this, at most four times this.
const MIN_ROUNDS: u32 = 4;
/// Loss of a lossy interval, in 1/256 (20 %).
const LOSS: u64 = 50;
/// Two intervals agree within 1/8 (in 1/256), or within 4 kbit/s (bytes/s).
const RATIO: u64 = UNIT / 8;
const DIFFERENCE: u64 = 4000 / 8;
/// Rounds for which the policed rate is believed.
const USE_ROUNDS: u32 = 48;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Policer {
    sampling: bool,
    in_use: bool,
    rounds: u32,
    bw: u64,
    delivered: u64,
    lost: u64,
    at_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Unchanged,
    /// Policed, from now on.
    Policed,
    /// The rate was believed for long enough: probe again.
    Expired,
}

impl Policer {
    /// The policed rate, packets/µs · 2^24, while one is believed.
    pub fn bandwidth(&self) -> Option<u64> {
        self.in_use.then_some(self.bw)
    }

    pub fn reset(&mut self, flow: &Flow) {
        *self = Policer::default();
        self.begin_interval(flow);
    }

    fn begin_interval(&mut self, flow: &Flow) {
        (self.at_ms, self.delivered, self.lost, self.rounds) =
            (flow.now_us() / 1000, flow.delivered, flow.lost, 0);
    }

    /// `bbr_lt_bw_sampling`, each ACK. `probing`: in ProbeBw.
    pub fn sample(
        &mut self,
        flow: &Flow,
        losses: u32,
        app_limited: bool,
        round_start: bool,
        probing: bool,
    ) -> Verdict {
        if self.in_use {
            if probing && round_start {
                self.rounds += 1;
                if self.rounds >= USE_ROUNDS {
                    self.reset(flow);
                    return Verdict::Expired;
                }
            }
            return Verdict::Unchanged;
        }
        // Tokens left over would flatter the rate: an interval begins, and ends, with a loss.
        if !self.sampling {
            if losses == 0 {
                return Verdict::Unchanged;
            }
            self.begin_interval(flow);
            self.sampling = true;
        }
        if app_limited {
            self.reset(flow);
            return Verdict::Unchanged;
        }
        self.rounds += u32::from(round_start);
        if self.rounds < MIN_ROUNDS {
            return Verdict::Unchanged;
        }
        if self.rounds > 4 * MIN_ROUNDS {
            self.reset(flow);
            return Verdict::Unchanged;
        }
        let (lost, delivered) = (flow.lost - self.lost, flow.delivered - self.delivered);
        let elapsed_ms = (flow.now_us() / 1000).saturating_sub(self.at_ms);
        if losses == 0 || delivered == 0 || lost * UNIT < LOSS * delivered || elapsed_ms < 1 {
            return Verdict::Unchanged;
        }
        self.end_interval(flow, delivered * BW_UNIT / (elapsed_ms * 1000))
    }

    fn end_interval(&mut self, flow: &Flow, bw: u64) -> Verdict {
        let difference = bw.abs_diff(self.bw);
        let agree = difference * UNIT <= RATIO * self.bw
            || Bbr::rate(difference, UNIT, flow.mss) <= DIFFERENCE;
        if self.bw > 0 && agree {
            self.bw = (bw + self.bw) / 2;
            self.in_use = true;
            self.rounds = 0;
            return Verdict::Policed;
        }
        self.bw = bw;
        self.begin_interval(flow);
        Verdict::Unchanged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 100 ms with 100 packets delivered and `lost` lost each; returns the bandwidth believed after each.
    fn rounds(policer: &mut Policer, flow: &mut Flow, n: u32, lost: u64) -> Vec<Option<u64>> {
        let round = |_| {
            flow.now_ns += 100_000_000;
            flow.delivered += 100;
            flow.lost += lost;
            policer.sample(flow, lost as u32, false, true, true);
            policer.bandwidth()
        };
        (0..n).map(round).collect()
    }

    #[test]
    fn steady_rate_with_heavy_loss_is_a_policer() {
        let (mut policer, mut flow) = (
            Policer::default(),
            Flow {
                mss: 1448,
                ..Flow::default()
            },
        );
        let seen = rounds(&mut policer, &mut flow, 12, 30);
        let at = seen.iter().position(Option::is_some).expect("detected");
        assert_eq!(at, 7, "two intervals of four rounds");
        // 100 packets in 100 ms: 0.001 packets/µs.
        assert!(seen[at].unwrap().abs_diff(BW_UNIT / 1000) < BW_UNIT / 100_000);
        // Believed for 48 rounds, four of which are over.
        let after = rounds(&mut policer, &mut flow, 60, 0);
        let until = after.iter().position(Option::is_none).expect("expires");
        assert_eq!(until, 43);
    }

    #[test]
    fn light_loss_is_none() {
        let (mut policer, mut flow) = (
            Policer::default(),
            Flow {
                mss: 1448,
                ..Flow::default()
            },
        );
        assert!(rounds(&mut policer, &mut flow, 100, 5)
            .iter()
            .all(Option::is_none));
    }
}
