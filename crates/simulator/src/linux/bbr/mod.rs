//! BBR version 1 (Cardwell, Cheng, Gunn, Yeganeh, Jacobson, ACM Queue 14(5), 2016) as Linux does it,
//! net/ipv4/tcp_bbr.c.
//!
//! Each ACK updates a model of the path, and the model sets rate and window:
//!
//! ```text
//! bw      = max of delivered / elapsed over 10 round trips
//! min_rtt = min of the RTT over 10 s
//! pacing rate = pacing_gain · bw · 0.99
//! cwnd        = max(cwnd_gain · bw · min_rtt + quantum, 4)
//!
//! Startup (gain 2.89) ─ bw grew < 25 % in 3 rounds → Drain (1/2.89) ─ inflight ≤ BDP → ProbeBw (1.25, 0.75, 1 × 6)
//!                      ProbeRtt (cwnd 4 for 200 ms and a round) whenever min_rtt is 10 s old
//! ```
//!
//! All of the module is here, the policer detection ("long-term bandwidth") and the ACK aggregation filter included.
//! The starting phase of ProbeBw, random in Linux, comes from a generator that the run's seed and the subflow's number seed.

mod aggregation;
mod hooks;
mod max_filter;
mod policer;
mod window;

use aggregation::Aggregation;
use max_filter::MaxFilter;
use policer::{Policer, Verdict};

use crate::congestion::{Flow, RateSample, State, INFINITE_SSTHRESH};

/// Bandwidths are packets/µs · 2^24.
const BW_SCALE: u32 = 24;
const BW_UNIT: u64 = 1 << BW_SCALE;
/// Gains are in 1/256.
const UNIT: u64 = 256;
/// 2/ln 2: the least gain that doubles the rate each round.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const CWND_GAIN: u64 = UNIT * 2;
/// One probe, one drain, six cruises, a minimum RTT each.
const CYCLE: [u64; 8] = [
    UNIT * 5 / 4,
    UNIT * 3 / 4,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
];
/// Phases to start from: any but the draining one.
const CYCLE_STARTS: u64 = 7;
/// Pace this far below the estimate, to keep the queue short.
const PACING_MARGIN_PERCENT: u64 = 1;
const BW_WINDOW_ROUNDS: u64 = 10;
const MIN_RTT_WINDOW_US: u64 = 10_000_000;
const PROBE_RTT_US: u64 = 200_000;
/// Four packets let a receiver that acknowledges every other one keep the pipe full.
const MIN_CWND: u64 = 4;
const INIT_CWND: u64 = 10;
/// Growth that counts as "more to be had" in Startup, and rounds without it that mean a full pipe.
const FULL_BW_GAIN: u64 = UNIT * 5 / 4;
const FULL_BW_ROUNDS: u32 = 3;

/// Below this rate one packet is a burst, else two at least (`bbr_min_tso_rate`), bytes/s.
const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// A burst is about a millisecond's worth (`sk_pacing_shift`), at most 64 KiB.
const PACING_SHIFT: u32 = 10;
const MAX_BURST: u64 = 65_536 - 1 - 320;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Debug, Clone, Default)]
pub struct Bbr {
    mode: Mode,
    /// State of the generator of the starting phase.
    seed: u64,
    bw: MaxFilter,
    min_rtt_us: u64,
    min_rtt_at_us: u64,
    /// `None` until the window of ProbeRtt is reached.
    probe_rtt_done_us: Option<u64>,
    probe_rtt_round_done: bool,
    rounds: u64,
    next_round_delivered: u64,
    round_start: bool,
    cycle: usize,
    cycle_at_us: u64,
    pacing_gain: u64,
    cwnd_gain: u64,
    full_bw: u64,
    full_bw_rounds: u32,
    full_bw_reached: bool,
    has_rtt: bool,
    idle_restart: bool,
    prior_cwnd: u64,
    previous_state: State,
    packet_conservation: bool,
    policer: Policer,
    aggregation: Aggregation,
}

impl Bbr {
    pub fn new(seed: u64) -> Bbr {
        Bbr {
            seed,
            ..Bbr::default()
        }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// bytes/s
    pub fn bandwidth(&self, mss: u32) -> u64 {
        ((u128::from(self.estimate()) * u128::from(mss) * 1_000_000) >> BW_SCALE) as u64
    }

    /// µs
    pub fn min_rtt_us(&self) -> u64 {
        self.min_rtt_us
    }

    fn estimate(&self) -> u64 {
        self.policer.bandwidth().unwrap_or_else(|| self.bw.get())
    }

    fn rate(bw: u64, gain: u64, mss: u32) -> u64 {
        let rate = u128::from(bw) * u128::from(mss) * u128::from(gain) / u128::from(UNIT);
        ((rate * 1_000_000 * u128::from(100 - PACING_MARGIN_PERCENT) / 100) >> BW_SCALE) as u64
    }

    fn pace_from_rtt(&mut self, flow: &mut Flow) {
        self.has_rtt = flow.srtt_us > 0;
        let rtt_us = if self.has_rtt {
            u64::from(flow.srtt_us)
        } else {
            1_000
        };
        flow.pacing_rate = Self::rate(u64::from(flow.cwnd) * BW_UNIT / rtt_us, HIGH_GAIN, flow.mss);
    }

    fn pace(&mut self, flow: &mut Flow, bw: u64, gain: u64) {
        if !self.has_rtt && flow.srtt_us > 0 {
            self.pace_from_rtt(flow);
        }
        let rate = Self::rate(bw, gain, flow.mss);
        // Until the pipe is full a low sample must not slow Startup down.
        if self.full_bw_reached || rate > flow.pacing_rate {
            flow.pacing_rate = rate;
        }
    }

    fn save_cwnd(&mut self, flow: &Flow) {
        let cwnd = u64::from(flow.cwnd);
        let intact = self.previous_state < State::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if intact {
            cwnd
        } else {
            self.prior_cwnd.max(cwnd)
        };
    }

    fn burst(flow: &Flow) -> u64 {
        let least = if flow.pacing_rate < MIN_TSO_RATE {
            1
        } else {
            2
        };
        ((flow.pacing_rate >> PACING_SHIFT).min(MAX_BURST) / u64::from(flow.mss.max(1)))
            .clamp(least, 127)
    }

    fn bdp(&self, bw: u64, gain: u64) -> u64 {
        if self.min_rtt_us == u64::MAX {
            return INIT_CWND;
        }
        let bytes =
            u128::from(bw) * u128::from(self.min_rtt_us) * u128::from(gain) / u128::from(UNIT);
        bytes.div_ceil(u128::from(BW_UNIT)) as u64
    }

    /// Room for bursts at both ends, and for delayed ACKs.
    fn quantize(&self, flow: &Flow, cwnd: u64) -> u64 {
        let even = (cwnd + 3 * Self::burst(flow)).next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle == 0 {
            even + 2
        } else {
            even
        }
    }

    fn target(&self, flow: &Flow, bw: u64, gain: u64) -> u64 {
        self.quantize(flow, self.bdp(bw, gain))
    }

    /// Packets in the network by the time that pacing lets the next one go.
    fn in_network_at_departure(&self, flow: &Flow, in_flight: u64) -> u64 {
        let wait_us = flow.next_send_ns.saturating_sub(flow.now_ns) / 1000;
        let leaving = ((u128::from(self.estimate()) * u128::from(wait_us)) >> BW_SCALE) as u64;
        let joining = if self.pacing_gain > UNIT {
            Self::burst(flow)
        } else {
            0
        };
        (in_flight + joining).saturating_sub(leaving)
    }

    fn update_bandwidth(&mut self, flow: &Flow, sample: &RateSample) {
        self.round_start = false;
        if sample.delivered < 0 || sample.interval_us <= 0 {
            return;
        }
        if sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = flow.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_policer(flow, sample.losses, sample.is_app_limited);
        let bw = sample.delivered as u64 * BW_UNIT / sample.interval_us as u64;
        // A sample that the application limited says nothing, unless it is the best yet.
        if !sample.is_app_limited || bw >= self.bw.get() {
            self.bw.update(BW_WINDOW_ROUNDS, self.rounds, bw);
        }
    }

    fn update_aggregation(&mut self, flow: &Flow, sample: &RateSample) {
        if sample.acked_sacked > 0 && sample.delivered >= 0 && sample.interval_us > 0 {
            let (acked, bw) = (u64::from(sample.acked_sacked), self.estimate());
            self.aggregation.update(
                flow.now_us(),
                acked,
                bw,
                u64::from(flow.cwnd),
                self.round_start,
            );
        }
    }

    fn update_cycle(&mut self, flow: &Flow, sample: &RateSample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full_length = flow.now_us().saturating_sub(self.cycle_at_us) > self.min_rtt_us;
        let in_flight = || self.in_network_at_departure(flow, u64::from(sample.prior_in_flight));
        let target = |gain| self.target(flow, self.bw.get(), gain);
        let next = match self.pacing_gain {
            UNIT => full_length,
            // Probe until the extra is in flight, or shown not to fit.
            gain if gain > UNIT => {
                full_length && (sample.losses > 0 || in_flight() >= target(gain))
            }
            // Drain no further than the pipe.
            _ => full_length || in_flight() <= target(UNIT),
        };
        if next {
            self.advance_cycle(flow);
        }
    }

    fn advance_cycle(&mut self, flow: &Flow) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_at_us = flow.now_us();
    }

    fn enter_probe_bw(&mut self, flow: &Flow) {
        self.mode = Mode::ProbeBw;
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.cycle = CYCLE.len() - 1 - ((self.seed >> 33) % CYCLE_STARTS) as usize;
        self.advance_cycle(flow);
    }

    fn check_full_pipe(&mut self, sample: &RateSample) {
        if self.full_bw_reached || !self.round_start || sample.is_app_limited {
            return;
        }
        if self.bw.get() >= self.full_bw * FULL_BW_GAIN / UNIT {
            self.full_bw = self.bw.get();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
    }

    fn check_drain(&mut self, flow: &mut Flow) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            flow.ssthresh = self.target(flow, self.bw.get(), UNIT) as u32;
        }
        if self.mode == Mode::Drain
            && self.in_network_at_departure(flow, u64::from(flow.in_flight()))
                <= self.target(flow, self.bw.get(), UNIT)
        {
            self.enter_probe_bw(flow);
        }
    }

    fn update_min_rtt(&mut self, flow: &mut Flow, sample: &RateSample) {
        let now_us = flow.now_us();
        let expired = now_us > self.min_rtt_at_us + MIN_RTT_WINDOW_US;
        if let Ok(rtt_us) = u64::try_from(sample.rtt_us) {
            if rtt_us < self.min_rtt_us || (expired && !sample.is_ack_delayed) {
                self.min_rtt_us = rtt_us;
                self.min_rtt_at_us = now_us;
            }
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(flow);
            self.probe_rtt_done_us = None;
        }
        if self.mode == Mode::ProbeRtt {
            // The low rate of this mode is our own doing.
            flow.app_limited = (flow.delivered + u64::from(flow.in_flight())).max(1);
            if self.probe_rtt_done_us.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(flow);
                }
            } else if u64::from(flow.in_flight()) <= MIN_CWND {
                self.probe_rtt_done_us = Some(now_us + PROBE_RTT_US);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = flow.delivered;
            }
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, flow: &mut Flow) {
        if self
            .probe_rtt_done_us
            .is_none_or(|done| flow.now_us() <= done)
        {
            return;
        }
        self.min_rtt_at_us = flow.now_us();
        flow.cwnd = flow.cwnd.max(self.prior_cwnd as u32);
        if self.full_bw_reached {
            self.enter_probe_bw(flow);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw => (
                if self.policer.bandwidth().is_some() {
                    UNIT
                } else {
                    CYCLE[self.cycle]
                },
                CWND_GAIN,
            ),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    fn sample_policer(&mut self, flow: &Flow, losses: u32, app_limited: bool) {
        let probing = self.mode == Mode::ProbeBw;
        match self
            .policer
            .sample(flow, losses, app_limited, self.round_start, probing)
        {
            Verdict::Unchanged => {}
            Verdict::Policed => self.pacing_gain = UNIT,
            Verdict::Expired => self.enter_probe_bw(flow),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Control;
    use crate::tcp::{Congestion, Kindred};

    #[test]
    fn seeds_start_the_cycle_in_different_phases() {
        let start = |seed| {
            let mut flow = Flow::default();
            let Congestion::Bbr(mut bbr) = Kindred::Bbr.build(0, seed) else {
                panic!("no BBR")
            };
            bbr.init(&mut flow);
            bbr.enter_probe_bw(&flow);
            bbr.cycle
        };
        let starts: Vec<usize> = [0x5eed, 1 << 40, 3 << 41].map(start).into();
        assert!(starts.iter().any(|s| *s != starts[0]), "{starts:?}");
        assert!(!starts.contains(&1), "none starts by draining");
    }
}
