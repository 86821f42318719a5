//! What the expiry of a sender's timer does (`tcp_write_timer_handler`), and when it is armed.

use super::board::SACKED;
use super::rtt::RTO_MAX;
use super::sender::{Cx, Sender};
use super::timer::Kind;
use crate::agenda::NEVER;
use crate::congestion::{Event, State};
use crate::time::{MICROSECOND, MILLISECOND};

/// Net.ipv4.tcp_retries2: timeouts in a row after which a connection is given up.
const RETRIES: u32 = 15;

/// Linux's timer wheel (kernel/time/timer.c) rounds up, the coarser the further away: by up to an eighth. A row of
/// backed-off timeouts adds up to as much.
fn wheel(now: u64, at: u64) -> u64 {
    const SLOTS: u64 = 64;
    let mut granule = 4 * MILLISECOND;
    while at - now >= SLOTS * granule {
        granule *= 8;
    }
    (at / granule + 1) * granule
}

impl Sender {
    /// When [`Sender::on_timer`] wants to be called next.
    #[inline]
    pub fn deadline(&self) -> u64 {
        let waiting = self.flow.pacing && self.flow.next_send_ns != 0 && !self.dead;
        if waiting && self.pace_credit == 0 && self.may_send_more() {
            self.timer.at.min(self.flow.next_send_ns)
        } else {
            self.timer.at
        }
    }

    /// The retransmission timer, or the loss probe: ns until it is due, where it runs.
    pub fn timeout(&self) -> Option<u64> {
        (self.timer.at != NEVER).then_some(self.timer.at)
    }

    fn may_send_more(&self) -> bool {
        let unsent = self.profile.plain || self.flow.snd_nxt < self.write_end;
        (unsent || self.lost_pending > 0) && self.flow.in_flight() < self.flow.cwnd
    }

    /// Retransmission timeout with its back-off, ns.
    pub fn rto(&self) -> u64 {
        (self.rtt.rto() << self.timer.backoff.min(16)).min(RTO_MAX)
    }

    /// When the head would time out, counted from its last transmission.
    fn head_expiry(&self) -> u64 {
        self.board.at(self.flow.snd_una).sent + self.rto()
    }

    /// `tcp_rearm_rto`
    pub(super) fn rearm(&mut self, now: u64) {
        if self.flow.packets_out() == 0 {
            self.timer.clear();
            return;
        }
        let at = match self.timer.kind {
            Kind::Probe | Kind::Reorder => self.head_expiry().max(now + MILLISECOND),
            _ => now + self.rto(),
        };
        self.timer.set(Kind::Retransmit, at);
    }

    /// `tcp_set_xmit_timer`: an ACK moved the window.
    #[inline]
    pub(super) fn rearm_after_ack(&mut self, now: u64) {
        if !self.schedule_probe(now, true) {
            self.rearm(now);
        }
    }

    /// After new data (`tcp_event_new_data_sent`, then `tcp_schedule_loss_probe`).
    #[inline]
    pub(super) fn arm_after_sending(&mut self, now: u64) {
        if self.timer.kind != Kind::Retransmit && self.timer.kind != Kind::Reorder {
            self.rearm(now);
        }
        self.schedule_probe(now, false);
    }

    /// `tcp_schedule_loss_probe`; false where a probe is out of place and the RTO has to run.
    #[inline]
    fn schedule_probe(&mut self, now: u64, advancing: bool) -> bool {
        let usable = matches!(self.flow.state, State::Open | State::Cwr);
        if !usable || self.flow.packets_out() == 0 {
            return false;
        }
        let expiry = if advancing {
            now + self.rto()
        } else {
            self.head_expiry()
        };
        let probe = now + self.rtt.probe(self.flow.packets_out());
        // An expiry in the past is RTO's business.
        let at = if expiry > now {
            probe.min(expiry)
        } else {
            probe
        };
        self.timer.set(Kind::Probe, at);
        true
    }

    /// Something may be due at `now`.
    pub fn on_timer(&mut self, cx: &mut Cx<'_>) {
        let now = cx.net.now;
        if self.dead || !self.established {
            return;
        }
        self.flow.now_ns = now;
        if self.timer.at <= now {
            match self.timer.kind {
                Kind::None => self.timer.clear(),
                Kind::Retransmit => self.on_timeout(cx),
                Kind::Probe => self.send_probe(cx),
                Kind::Reorder => self.on_reorder_timeout(cx),
            }
        }
        if self.flow.pacing && now >= self.flow.next_send_ns {
            self.pacing_admits(now);
            self.transmit_lost(cx);
            self.push(cx);
        }
    }

    /// `tcp_send_loss_probe`
    fn send_probe(&mut self, cx: &mut Cx<'_>) {
        let now = cx.net.now;
        if self.tlp_high_seq == 0 && self.flow.packets_out() > 0 {
            let limit = if self.profile.plain {
                cx.limit
            } else {
                self.write_end
            };
            self.tlp_retransmitted = self.flow.snd_nxt >= limit;
            if self.tlp_retransmitted {
                self.resend_probe(cx, self.flow.snd_nxt - 1);
            } else {
                self.send_new(cx, 1, 0);
            }
            self.tlp_high_seq = self.flow.snd_nxt;
        }
        self.rearm(now);
    }

    /// `tcp_rack_reo_timeout`
    fn on_reorder_timeout(&mut self, cx: &mut Cx<'_>) {
        let prior = self.flow.in_flight();
        self.timer.clear();
        self.detect_loss(cx.net.now);
        if self.flow.in_flight() != prior {
            if self.flow.state != State::Recovery {
                self.enter_recovery(cx, false);
                if !self.congestion.owns_window() {
                    self.reduce(1, 1, false);
                }
            }
            self.transmit_lost(cx);
        }
        if self.timer.kind != Kind::Retransmit {
            self.timer.kind = Kind::Reorder;
            self.rearm(cx.net.now);
        }
    }

    /// `tcp_retransmit_timer`
    fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.net.now;
        if self.flow.packets_out() == 0 {
            self.timer.clear();
            return;
        }
        if self.retransmits >= RETRIES {
            self.close(cx.shared);
            return;
        }
        self.enter_loss(cx);
        self.retransmits += 1;
        let head = self.flow.snd_una;
        if !self.board.at(head).has(SACKED) {
            self.resend(cx, head);
        }
        self.timer.backoff += 1;
        let at = wheel(now, now + self.rto());
        self.timer.set(Kind::Retransmit, at);
    }

    /// `tcp_enter_loss`
    fn enter_loss(&mut self, cx: &mut Cx<'_>) {
        let new_recovery = self.flow.state < State::Recovery;
        self.mark_lost_at_timeout(cx.net.now);
        self.note_idle(cx);
        let f = &self.flow;
        if f.state <= State::Disorder
            || self.high_seq <= f.snd_una
            || (f.state == State::Loss && self.retransmits == 0)
        {
            self.prior_ssthresh = self.current_ssthresh();
            self.flow.prior_cwnd = self.flow.cwnd;
            self.flow.ssthresh = self.congestion.on_loss(&mut self.flow, cx.shared);
            self.congestion.on_event(&mut self.flow, Event::Loss);
            self.init_undo();
        }
        self.flow.cwnd = self.flow.in_flight() + 1;
        if self.flow.state <= State::Disorder && self.flow.sacked_out >= self.reordering {
            self.reordering = self.reordering.min(3);
        }
        self.set_state(State::Loss);
        self.congestion.on_timeout(&self.flow, cx.shared);
        self.high_seq = self.flow.snd_nxt;
        self.tlp_high_seq = 0;
        self.send_cwr = self.profile.ecn;
        self.frto = new_recovery || self.retransmits > 0;
    }

    /// `tcp_timeout_mark_lost`: the head, and what was sent long enough ago.
    fn mark_lost_at_timeout(&mut self, now: u64) {
        let rtt = u64::from(self.rack.rtt_us) * MICROSECOND;
        let head = self.flow.snd_una;
        for seq in head..self.flow.snd_nxt {
            if seq == head || self.board.at(seq).sent + rtt <= now {
                self.mark_lost(seq);
            }
        }
    }
}
