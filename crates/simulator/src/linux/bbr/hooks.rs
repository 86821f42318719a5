//! What the sender calls.

use super::*;
use crate::congestion::{Control, Event};

impl Control for Bbr {
    const OWNS_WINDOW: bool = true;

    fn init(&mut self, flow: &mut Flow) {
        *self = Bbr::new(self.seed);
        flow.ssthresh = INFINITE_SSTHRESH;
        flow.pacing = true;
        self.min_rtt_us = if flow.min_rtt_us == u32::MAX {
            u64::MAX
        } else {
            u64::from(flow.min_rtt_us)
        };
        self.min_rtt_at_us = flow.now_us();
        self.next_round_delivered = flow.delivered;
        self.aggregation.restart(flow.now_us());
        self.pace_from_rtt(flow);
        self.policer.reset(flow);
        self.update_gains();
    }

    fn on_rtt(&mut self, _: &mut Flow, _: u32, _: bool) {}

    fn on_ack(&mut self, _: &mut Flow, _: u32) {}

    fn on_loss(&mut self, flow: &mut Flow) -> u32 {
        self.save_cwnd(flow);
        flow.ssthresh
    }

    fn on_undo(&mut self, flow: &mut Flow) -> u32 {
        self.full_bw = 0;
        self.full_bw_rounds = 0;
        self.policer.reset(flow);
        flow.cwnd
    }

    fn on_state(&mut self, flow: &mut Flow, state: State) {
        if state == State::Loss {
            self.previous_state = State::Loss;
            self.full_bw = 0;
            self.round_start = true; // a timeout ends a round
            self.sample_policer(flow, 1, false);
        }
    }

    fn on_event(&mut self, flow: &mut Flow, event: Event) {
        if event != Event::TxStart || flow.app_limited == 0 {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(flow.now_us());
        match self.mode {
            Mode::ProbeBw => self.pace(flow, self.estimate(), UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(flow),
            _ => {}
        }
    }

    fn on_rate_sample(&mut self, flow: &mut Flow, sample: &RateSample) {
        self.update_bandwidth(flow, sample);
        self.update_aggregation(flow, sample);
        self.update_cycle(flow, sample);
        self.check_full_pipe(sample);
        self.check_drain(flow);
        self.update_min_rtt(flow, sample);
        self.update_gains();

        let bw = self.estimate();
        self.pace(flow, bw, self.pacing_gain);
        self.set_cwnd(flow, sample, bw);
    }
}
