//! CUBIC (RFC 9438) as Linux does it, net/ipv4/tcp_cubic.c, with HyStart (Ha, Rhee 2008).
//!
//! After a reduction at window W_max the window follows
//!
//! ```text
//! W(t) = C · (t − K)³ + W_max        K = ∛(W_max · (1 − β) / C)        RFC 9438 equations 1 and 2
//! ```
//!
//! with C = 0.4 packets/s³ and β = 0.7 (410/1024 and 717/1024 in the kernel), t in seconds since the epoch began plus
//! the minimum RTT, so that the target is the window one round trip ahead. Where Reno of the same loss rate would be
//! faster (RFC 9438 section 4.3) its estimate is followed instead.
//!
//! Departures: time has 1 ms steps (HZ = 1000), whatever the kernel's HZ; the cube root is exact where the kernel's is
//! within 0.2 %. The growth is capped at half a packet per packet acknowledged, as in the kernel.

use crate::congestion::{Control, Event, Flow, State};

/// C · 1024.
const C: u64 = 410;
/// β · 1024.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// Packets acknowledged per packet of growth of the Reno estimate, per packet of window, · 8: (1 + β) / (3 (1 − β)).
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// K and t have 2^-10 s.
const TIME_BITS: u32 = 10;
/// Least time between two evaluations at an unchanged window, ms (HZ / 32).
const UPDATE_INTERVAL_MS: u64 = 31;

/// HyStart leaves windows below this alone, packets.
const HYSTART_LOW_WINDOW: u64 = 16;
/// ACKs at most this far apart belong to one train, µs.
const HYSTART_ACK_DELTA_US: u64 = 2_000;
/// RTT samples that a round needs before its minimum counts.
const HYSTART_MIN_SAMPLES: u32 = 8;
/// Bounds of the RTT rise that ends slow start, µs.
const HYSTART_DELAY_US: (u64, u64) = (4_000, 16_000);
/// Bytes of four segmentation-offload bursts (`sk_gso_max_size` · 4), whose sending delays the train's end.
const HYSTART_BURSTS: u64 = 4 * 65_536;

#[derive(Debug, Clone, Default)]
pub struct Cubic {
    /// Packets to be acknowledged for one packet of growth.
    count: u64,
    /// Packets acknowledged and not yet turned into growth (`snd_cwnd_cnt`).
    credit: u64,
    last_max: u64,
    last_cwnd: u64,
    last_ms: u64,
    origin: u64,
    /// 2^-10 s
    k: u64,
    /// Minimum RTT since the last timeout, µs; 0: none.
    delay_min_us: u64,
    /// ms; `None` between a reduction and the next growth.
    epoch_ms: Option<u64>,
    acked: u64,
    reno_cwnd: u64,
    hystart: HyStart,
}

/// Slow start ends early when a round's ACK train is as long as the path, or its least RTT has risen.
#[derive(Debug, Clone, Copy, Default)]
struct HyStart {
    found: bool,
    samples: u32,
    round_start_us: u64,
    /// Last segment of the round.
    round_end: u64,
    last_ack_us: u64,
    rtt_us: u64,
}

impl Control for Cubic {
    /// `cubictcp_init`
    fn init(&mut self, flow: &mut Flow) {
        *self = Cubic::default();
        self.hystart.restart(flow);
    }

    /// `cubictcp_acked`
    fn on_rtt(&mut self, flow: &mut Flow, _acked: u32, sampled: bool) {
        // Right after a reduction the queue still holds what overflowed it.
        let recovering = self
            .epoch_ms
            .is_some_and(|epoch| (flow.now_us() / 1000).saturating_sub(epoch) < 1000);
        if !sampled || recovering {
            return;
        }
        let rtt_us = u64::from(flow.rtt_us.max(1));
        if self.delay_min_us == 0 || rtt_us < self.delay_min_us {
            self.delay_min_us = rtt_us;
        }
        if !self.hystart.found && flow.in_slow_start() && self.hystart.ends(flow, self.delay_min_us)
        {
            self.hystart.found = true;
            flow.ssthresh = flow.cwnd;
        }
    }

    /// `cubictcp_cong_avoid`
    fn on_ack(&mut self, flow: &mut Flow, mut acked: u32) {
        if !flow.cwnd_limited() {
            return;
        }
        if flow.in_slow_start() {
            let grown = flow.cwnd.saturating_add(acked).min(flow.ssthresh);
            acked -= grown - flow.cwnd;
            flow.cwnd = grown;
            if acked == 0 {
                return;
            }
        }
        let acked = u64::from(acked);
        self.update(flow.now_us() / 1000, u64::from(flow.cwnd), acked);
        self.avoid(flow, acked);
    }

    /// `cubictcp_recalc_ssthresh`
    fn on_loss(&mut self, flow: &mut Flow) -> u32 {
        let cwnd = u64::from(flow.cwnd);
        self.epoch_ms = None;
        // tcp_init_cwnd_reduction, tcp_enter_loss
        self.credit = 0;
        // Fast convergence: a flow that stopped below its last peak leaves room for the newcomer that caused it.
        self.last_max = if cwnd < self.last_max {
            cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE)
        } else {
            cwnd
        };
        (cwnd * BETA / BETA_SCALE).max(2) as u32
    }

    /// `tcp_reno_undo_cwnd`
    fn on_undo(&mut self, flow: &mut Flow) -> u32 {
        flow.cwnd.max(flow.prior_cwnd)
    }

    /// `cubictcp_state`
    fn on_state(&mut self, flow: &mut Flow, state: State) {
        if state == State::Loss {
            let found = false;
            *self = Cubic {
                hystart: HyStart {
                    found,
                    ..self.hystart
                },
                ..Cubic::default()
            };
            self.hystart.restart(flow);
        }
    }

    /// `cubictcp_cwnd_event`: the curve stands still while the application sends nothing.
    fn on_event(&mut self, flow: &mut Flow, event: Event) {
        if let (Event::TxStart, Some(epoch)) = (event, &mut self.epoch_ms) {
            let idle_ms = flow.now_ns.saturating_sub(flow.last_sent_ns) / 1_000_000;
            *epoch = (*epoch + idle_ms).min(flow.now_us() / 1000);
        }
    }
}

impl Cubic {
    /// `tcp_cong_avoid_ai`: one packet per `count` acknowledged.
    fn avoid(&mut self, flow: &mut Flow, acked: u64) {
        if self.credit >= self.count {
            self.credit = 0; // gathered at a higher count
            flow.cwnd += 1;
        }
        self.credit += acked;
        flow.cwnd += (self.credit / self.count) as u32;
        self.credit %= self.count;
    }

    /// `bictcp_update`
    fn update(&mut self, now_ms: u64, cwnd: u64, acked: u64) {
        self.acked += acked;
        if self.last_cwnd == cwnd && now_ms.saturating_sub(self.last_ms) <= UPDATE_INTERVAL_MS {
            return;
        }
        if self.epoch_ms.is_none() || now_ms != self.last_ms {
            self.last_cwnd = cwnd;
            self.last_ms = now_ms;
            self.follow_cubic(now_ms, cwnd, acked);
        }
        self.follow_reno(cwnd);
        self.count = self.count.max(2);
    }

    fn follow_cubic(&mut self, now_ms: u64, cwnd: u64, acked: u64) {
        let epoch = match self.epoch_ms {
            Some(epoch) => epoch,
            None => {
                self.epoch_ms = Some(now_ms);
                self.acked = acked;
                self.reno_cwnd = cwnd;
                let below = self.last_max.saturating_sub(cwnd);
                self.k = cube_root((below << (10 + 3 * TIME_BITS)) / C);
                self.origin = self.last_max.max(cwnd);
                now_ms
            }
        };
        let t = ((now_ms - epoch + self.delay_min_us.div_ceil(1000)) << TIME_BITS) / 1000;
        let delta = (u128::from(C) * u128::from(t.abs_diff(self.k)).pow(3)) >> (10 + 3 * TIME_BITS);
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        let target = if t < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
        self.count = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            100 * cwnd
        };
        // Nothing known of the path yet: at least 5 % an RTT.
        if self.last_max == 0 {
            self.count = self.count.min(20);
        }
    }

    fn follow_reno(&mut self, cwnd: u64) {
        let per_packet = ((cwnd * RENO_SCALE) >> 3).max(1);
        // As the kernel's loop, which leaves 1 … per_packet packets over.
        let steps = self.acked.saturating_sub(1) / per_packet;
        self.acked -= steps * per_packet;
        self.reno_cwnd += steps;
        if self.reno_cwnd > cwnd {
            self.count = self.count.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }
}

impl HyStart {
    fn restart(&mut self, flow: &Flow) {
        self.round_start_us = flow.now_us();
        self.last_ack_us = flow.now_us();
        self.round_end = flow.snd_nxt;
        self.rtt_us = u64::MAX;
        self.samples = 0;
    }

    /// `hystart_update`
    fn ends(&mut self, flow: &Flow, delay_min_us: u64) -> bool {
        if flow.snd_una > self.round_end {
            self.restart(flow);
        }
        if u64::from(flow.cwnd) < HYSTART_LOW_WINDOW {
            return false;
        }
        let mut found = false;
        let now_us = flow.now_us();
        if now_us.saturating_sub(self.last_ack_us) <= HYSTART_ACK_DELTA_US {
            self.last_ack_us = now_us;
            let bursts = (HYSTART_BURSTS * 1_000_000)
                .checked_div(flow.pacing_rate)
                .unwrap_or(0)
                .min(1_000);
            let limit = delay_min_us + bursts;
            // Pacing stretches the train to up to an RTT.
            let limit = if flow.pacing { limit } else { limit / 2 };
            found = now_us - self.round_start_us > limit;
        }
        self.rtt_us = self.rtt_us.min(u64::from(flow.rtt_us.max(1)));
        if self.samples < HYSTART_MIN_SAMPLES {
            self.samples += 1;
        } else {
            let rise = (delay_min_us / 8).clamp(HYSTART_DELAY_US.0, HYSTART_DELAY_US.1);
            found |= self.rtt_us > delay_min_us + rise;
        }
        found
    }
}

/// Largest x with x³ ≤ a.
fn cube_root(a: u64) -> u64 {
    let mut x = 0u64;
    for bit in (0..=21).rev() {
        let y = x | 1 << bit;
        if u128::from(y).pow(3) <= u128::from(a) {
            x = y;
        }
    }
    x
}

#[cfg(test)]
mod tests;
