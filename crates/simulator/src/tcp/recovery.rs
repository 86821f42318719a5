//! What a sender does about losses: `tcp_fastretrans_alert`, PRR (RFC 9937), undo, F-RTO (RFC 5682).

use super::board::{LOST, RETRANS, SACKED};
use super::sender::{Cx, Sender};
use super::timer::Kind;
use crate::agenda::NEVER;
use crate::congestion::{Event, State};

/// What one ACK said (`FLAG_*` of net/ipv4/tcp_input.c).
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub una_advanced: bool,
    /// Something new was acknowledged selectively.
    pub data_sacked: bool,
    /// A first transmission from before `high_seq` was (s)acked: not all was lost.
    pub original_acked: bool,
    pub retrans_acked: bool,
    pub dsack: bool,
    pub ece: bool,
    /// Time echoed by the ACK, ns.
    pub echo: u64,
    /// The timer is to be set anew (`FLAG_SET_XMIT_TIMER`), unless RACK waits for reordering.
    pub rearm: bool,
}

/// What to send after the window is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Send {
    Nothing,
    Lost,
    /// F-RTO: new data first.
    New,
}

impl Sender {
    pub(super) fn alert(&mut self, cx: &mut Cx<'_>, told: &mut Told) -> Send {
        if told.ece {
            self.prior_ssthresh = 0;
        }
        if self.flow.state == State::Open {
            self.retrans_stamp = 0;
        } else if self.flow.snd_una >= self.high_seq {
            match self.flow.state {
                // A reduction lasts until something after its start is acknowledged.
                State::Cwr if self.flow.snd_una != self.high_seq => {
                    self.end_reduction();
                    self.set_state(State::Open);
                }
                State::Recovery => {
                    self.try_undo_recovery(cx, told);
                    self.end_reduction();
                    if self.flow.state == State::Recovery {
                        self.set_state(State::Open);
                    }
                }
                _ => {}
            }
        }
        match self.flow.state {
            State::Recovery => {
                if told.una_advanced && self.try_undo_partial(cx, told) {
                    return Send::Nothing;
                }
                if self.try_undo_dsack(cx) {
                    self.try_to_open(cx, told);
                }
                told.rearm &= !self.identify_loss(cx.net.now);
                if self.flow.state == State::Recovery {
                    return Send::Lost;
                }
                if self.flow.lost_out == 0 {
                    return Send::Nothing;
                }
            }
            State::Loss => {
                let send = self.process_loss(cx, told);
                let retransmitted = self.flow.retrans_out;
                told.rearm &= !self.identify_loss(cx.net.now);
                let lost_again = retransmitted > self.flow.retrans_out;
                if self.flow.state != State::Open && !lost_again {
                    return send;
                }
                if self.flow.lost_out == 0 {
                    self.try_to_open(cx, told);
                    return send;
                }
            }
            _ => {
                if self.flow.state <= State::Disorder {
                    self.try_undo_dsack(cx);
                }
                told.rearm &= !self.identify_loss(cx.net.now);
                if self.flow.lost_out == 0 {
                    self.try_to_open(cx, told);
                    return Send::Nothing;
                }
            }
        }
        self.enter_recovery(cx, told.ece);
        Send::Lost
    }

    /// `tcp_try_to_open`
    fn try_to_open(&mut self, cx: &mut Cx<'_>, told: &Told) {
        if self.flow.retrans_out == 0 {
            self.retrans_stamp = 0;
        }
        if told.ece {
            self.enter_cwr(cx);
        }
        if self.flow.state != State::Cwr {
            self.try_keep_open();
        }
    }

    fn try_keep_open(&mut self) {
        let disorder =
            self.flow.sacked_out > 0 || self.flow.lost_out > 0 || self.flow.retrans_out > 0;
        let state = if disorder {
            State::Disorder
        } else {
            State::Open
        };
        if self.flow.state != state {
            self.set_state(state);
            self.high_seq = self.flow.snd_nxt;
        }
    }

    /// `tcp_enter_cwr`: the network marked a packet.
    fn enter_cwr(&mut self, cx: &mut Cx<'_>) {
        self.prior_ssthresh = 0;
        if self.flow.state < State::Cwr {
            self.undo_marker = NEVER;
            self.init_reduction(cx);
            self.set_state(State::Cwr);
        }
    }

    pub(super) fn enter_recovery(&mut self, cx: &mut Cx<'_>, ece: bool) {
        self.prior_ssthresh = 0;
        self.init_undo();
        if !self.flow.in_reduction() {
            if !ece {
                self.prior_ssthresh = self.current_ssthresh();
            }
            self.init_reduction(cx);
        }
        self.set_state(State::Recovery);
    }

    pub(super) fn init_undo(&mut self) {
        self.undo_marker = self.flow.snd_una;
        // Retransmissions still in flight may yet turn out to be needless.
        self.undo_retrans = if self.flow.retrans_out > 0 {
            self.flow.retrans_out as i32
        } else {
            -1
        };
    }

    /// `tcp_init_cwnd_reduction`
    fn init_reduction(&mut self, cx: &mut Cx<'_>) {
        self.high_seq = self.flow.snd_nxt;
        self.tlp_high_seq = 0;
        self.flow.prior_cwnd = self.flow.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.flow.ssthresh = self.congestion.on_loss(&mut self.flow, cx.shared);
        self.send_cwr = self.profile.ecn;
    }

    /// `tcp_cwnd_reduction`: proportional rate reduction.
    pub(super) fn reduce(&mut self, acked_sacked: u32, newly_lost: u32, una_advanced: bool) {
        if acked_sacked == 0 || self.flow.prior_cwnd == 0 {
            return;
        }
        let in_flight = i64::from(self.flow.in_flight());
        let ssthresh = i64::from(self.flow.ssthresh);
        self.prr_delivered += acked_sacked;
        let (delivered, out) = (i64::from(self.prr_delivered), i64::from(self.prr_out));
        let room = ssthresh - in_flight;
        let send = if room < 0 {
            let prior = i64::from(self.flow.prior_cwnd);
            (ssthresh * delivered + prior - 1) / prior - out
        } else {
            let mut send = (delivered - out).max(i64::from(acked_sacked));
            if una_advanced && newly_lost == 0 {
                send += 1;
            }
            send.min(room)
        };
        // The first retransmission is never held back.
        let send = send.max(i64::from(self.prr_out == 0));
        self.flow.cwnd = (in_flight + send).max(1) as u32;
    }

    /// `tcp_end_cwnd_reduction`
    fn end_reduction(&mut self) {
        if self.congestion.owns_window() {
            return;
        }
        let known = self.flow.ssthresh < crate::congestion::INFINITE_SSTHRESH;
        if known && (self.flow.state == State::Cwr || self.undo_marker != NEVER) {
            self.flow.cwnd = self.flow.ssthresh;
        }
        self.congestion.on_event(&mut self.flow, Event::CompleteCwr);
    }

    /// `tcp_packet_delayed`: the ACK answers a packet from before the first retransmission (Eifel, RFC 3522), which pacing
    /// may have held back so far.
    fn packet_delayed(&self, told: &Told) -> bool {
        self.retrans_stamp == 0 || told.echo < self.retrans_stamp
    }

    /// `tcp_may_undo`
    fn may_undo(&self, told: &Told) -> bool {
        self.undo_marker != NEVER && (self.undo_retrans == 0 || self.packet_delayed(told))
    }

    /// `tcp_undo_cwnd_reduction`
    fn undo(&mut self, cx: &mut Cx<'_>, unmark: bool) {
        if unmark {
            for seq in self.flow.snd_una..self.flow.snd_nxt {
                let segment = self.board.at_mut(seq);
                if segment.has(LOST) {
                    segment.clear(LOST);
                }
            }
            self.flow.lost_out = 0;
            self.lost_pending = 0;
            self.lost_hint = self.flow.snd_nxt;
        }
        if self.prior_ssthresh != 0 {
            self.flow.cwnd = self.congestion.on_undo(&mut self.flow, cx.shared);
            if self.prior_ssthresh > self.flow.ssthresh {
                self.flow.ssthresh = self.prior_ssthresh;
                self.send_cwr = false;
            }
        }
        self.undo_marker = NEVER;
        self.rack.advanced = true;
    }

    fn try_undo_recovery(&mut self, cx: &mut Cx<'_>, told: &Told) {
        if self.may_undo(told) {
            self.undo(cx, false);
        } else if self.rack.persist > 0 {
            self.rack.persist -= 1;
        }
        self.set_state(State::Open);
    }

    /// `tcp_try_undo_partial`: true where retransmissions are still out, and what becomes of them is to be waited for.
    fn try_undo_partial(&mut self, cx: &mut Cx<'_>, told: &Told) -> bool {
        if self.undo_marker == NEVER || !self.packet_delayed(told) {
            return false;
        }
        if self.flow.retrans_out == 0 {
            self.retrans_stamp = 0;
            self.undo(cx, true);
            self.try_keep_open();
        }
        self.flow.retrans_out > 0
    }

    /// `tcp_try_undo_dsack`: every retransmission was reported as a duplicate.
    fn try_undo_dsack(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.undo_marker == NEVER || self.undo_retrans != 0 {
            return false;
        }
        self.rack.persist = (self.rack.persist + 1).min(16);
        self.undo(cx, false);
        true
    }

    fn try_undo_loss(&mut self, cx: &mut Cx<'_>, told: &Told, frto: bool) -> bool {
        if !frto && !self.may_undo(told) {
            return false;
        }
        self.undo(cx, true);
        self.retransmits = 0;
        self.timer.backoff = 0;
        self.set_state(State::Open);
        true
    }

    /// `tcp_process_loss`: after a timeout.
    fn process_loss(&mut self, cx: &mut Cx<'_>, told: &Told) -> Send {
        let recovered = self.flow.snd_una >= self.high_seq;
        if told.una_advanced && self.try_undo_loss(cx, told, false) {
            return Send::Nothing;
        }
        if self.frto {
            if told.original_acked && self.try_undo_loss(cx, told, true) {
                return Send::Nothing;
            }
            if self.flow.snd_nxt > self.high_seq {
                if told.data_sacked || !told.una_advanced {
                    self.frto = false;
                }
            } else if told.una_advanced && !recovered {
                self.high_seq = self.flow.snd_nxt;
                let limit = if self.profile.plain {
                    cx.limit
                } else {
                    self.write_end
                };
                if self.flow.snd_nxt < limit {
                    return Send::New;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(cx, told);
            return Send::Nothing;
        }
        Send::Lost
    }

    /// `tcp_process_tlp_ack`
    pub(super) fn process_probe_ack(&mut self, cx: &mut Cx<'_>, told: &Told, ack: u64) {
        if ack < self.tlp_high_seq {
            return;
        }
        if !self.tlp_retransmitted || told.dsack {
            self.tlp_high_seq = 0;
        } else if ack > self.tlp_high_seq {
            // The probe repaired a loss, which deserves a reduction.
            self.init_reduction(cx);
            self.set_state(State::Cwr);
            self.end_reduction();
            self.try_keep_open();
        } else if !told.una_advanced && !told.data_sacked {
            self.tlp_high_seq = 0;
        }
    }

    /// `tcp_xmit_retransmit_queue`
    pub(super) fn transmit_lost(&mut self, cx: &mut Cx<'_>) {
        if self.lost_pending == 0 {
            return;
        }
        let mut seq = self.lost_hint.max(self.flow.snd_una);
        let mut rearm = false;
        while self.lost_pending > 0 && seq < self.flow.snd_nxt {
            let segment = self.board.at(seq);
            if segment.has(LOST) && !segment.has(RETRANS) && !segment.has(SACKED) {
                if self.flow.in_flight() >= self.flow.cwnd {
                    break;
                }
                if self.flow.pacing && !self.pacing_admits(cx.net.now) {
                    break;
                }
                self.resend(cx, seq);
                if self.flow.in_reduction() {
                    self.prr_out += 1;
                }
                rearm |= seq == self.flow.snd_una && self.timer.kind != Kind::Reorder;
            }
            seq += 1;
        }
        self.lost_hint = seq;
        if rearm {
            let at = cx.net.now + self.rto();
            self.timer.set(Kind::Retransmit, at);
        }
    }
}
