//! RACK (RFC 8985, net/ipv4/tcp_recovery.c): a segment is lost when one sent sufficiently later has been delivered.
//!
//! Linux walks one list in order of sending. First transmissions are in order by themselves, so there a cursor does;
//! retransmissions have a queue of their own.

use super::board::{EVER_RETRANS, LOST, RETRANS, SACKED};
use super::sender::Sender;
use super::timer::Kind;
use crate::congestion::State;
use crate::time::{MICROSECOND, MILLISECOND};

/// `TCP_RACK_RECOVERY_THRESH`
const PERSIST: u32 = 16;
const MAX_STEPS: u32 = 255;

/// `tcp_skb_sent_after`
#[inline]
fn sent_after(t1: u64, end1: u64, t2: u64, end2: u64) -> bool {
    t1 > t2 || (t1 == t2 && end1 > end2)
}

impl Sender {
    /// `tcp_rack_advance`: `seq` was delivered.
    #[inline]
    pub(super) fn rack_advance(&mut self, seq: u64, sent: u64, retransmitted: bool) {
        let rtt_us = ((self.flow.now_ns - sent) / MICROSECOND) as u32;
        // So fast after a retransmission: it was the original that arrived.
        if retransmitted && rtt_us < self.flow.min_rtt_us {
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt_us = rtt_us;
        if sent_after(sent, seq + 1, self.rack.stamp, self.rack.end_seq) {
            self.rack.stamp = sent;
            self.rack.end_seq = seq + 1;
        }
    }

    /// `tcp_rack_update_reo_wnd`, per ACK that delivers something, the newest of it sent at `newest`: wider once a round trip.
    pub(super) fn rack_update_window(&mut self, newest: u64) {
        if newest < self.rack.widened_at {
            self.rack.dsack_seen = false;
        }
        if self.rack.dsack_seen {
            self.rack.steps = (self.rack.steps + 1).min(MAX_STEPS);
            self.rack.dsack_seen = false;
            self.rack.widened_at = self.flow.now_ns;
            self.rack.persist = PERSIST;
        } else if self.rack.persist == 0 {
            self.rack.steps = 1;
        }
    }

    /// `tcp_rack_reo_wnd`, µs
    fn reorder_window_us(&self) -> u64 {
        if !self.reordering_seen
            && (self.flow.state >= State::Recovery || self.flow.sacked_out >= self.reordering)
        {
            return 0;
        }
        let quarter = u64::from(self.flow.min_rtt_us >> 2);
        (quarter * u64::from(self.rack.steps)).min(u64::from(self.rtt.srtt_us()))
    }

    /// `tcp_rack_mark_lost`: true where it has set the timer.
    pub(super) fn identify_loss(&mut self, now: u64) -> bool {
        if !std::mem::take(&mut self.rack.advanced) {
            return false;
        }
        let wait = self.detect_loss(now);
        if let Some(wait) = wait {
            self.timer.set(Kind::Reorder, now + wait + 2 * MILLISECOND);
        }
        wait.is_some()
    }

    /// Marks what is lost by now; ns to wait for what may only be late.
    pub(super) fn detect_loss(&mut self, now: u64) -> Option<u64> {
        let window = (u64::from(self.rack.rtt_us) + self.reorder_window_us()) * MICROSECOND;
        let (stamp, end_seq) = (self.rack.stamp, self.rack.end_seq);
        let mut wait = None;
        let mut seq = self.rack.cursor.max(self.flow.snd_una);
        while seq < self.flow.snd_nxt {
            let segment = *self.board.at(seq);
            // Sent again, or out of the question: the queue below sees to it.
            if segment.flags() & (SACKED | LOST | EVER_RETRANS) == 0 {
                if !sent_after(stamp, end_seq, segment.sent, seq + 1) {
                    break;
                }
                if segment.sent + window > now {
                    wait = Some((stamp + window).saturating_sub(now).max(1));
                    break;
                }
                self.mark_lost(seq);
            }
            seq += 1;
        }
        self.rack.cursor = seq;
        while let Some(&(seq, sent)) = self.resent.front() {
            let current = seq >= self.flow.snd_una && {
                let s = self.board.at(seq);
                s.sent == sent && !s.has(SACKED) && (!s.has(LOST) || s.has(RETRANS))
            };
            if current {
                if !sent_after(stamp, end_seq, sent, seq + 1) {
                    break;
                }
                if sent + window > now {
                    wait = wait.max(Some((stamp + window).saturating_sub(now).max(1)));
                    break;
                }
                self.mark_lost(seq);
            }
            self.resent.pop_front();
        }
        wait
    }

    /// `tcp_mark_skb_lost`
    pub(super) fn mark_lost(&mut self, seq: u64) {
        let segment = self.board.at_mut(seq);
        if segment.has(SACKED) {
            return;
        }
        if segment.has(LOST) {
            if !segment.has(RETRANS) {
                return;
            }
            segment.clear(RETRANS);
            self.flow.retrans_out -= 1;
        } else {
            segment.set(LOST);
            self.flow.lost_out += 1;
            // A retransmission that nobody had given up counts once, as a loss.
            if segment.has(RETRANS) {
                segment.clear(RETRANS);
                self.flow.retrans_out -= 1;
            }
        }
        self.flow.lost += 1;
        self.lost_pending += 1;
        self.lost_hint = self.lost_hint.min(seq);
    }
}
