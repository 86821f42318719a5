//! How segments leave: in bursts as of segmentation offload, first and again, and paced (`tcp_tso_autosize`,
//! `tcp_tso_should_defer`, `tcp_retransmit_skb`, `tcp_update_skb_after_send`).

use super::board::{EVER_RETRANS, RETRANS, SHORT};
use super::sender::{Cx, Sender};
use crate::agenda::NEVER;
use crate::congestion::{Event, State};
use crate::network::{flag, Kind, Packet, SPREAD};
use crate::time::{MICROSECOND, MILLISECOND, SECOND};

/// Payload of the largest packet buffer: 64 KiB less room for headers (`sk_gso_max_size`), bytes.
const LARGEST_BUFFER: u32 = 65_343;

/// Pacing counts from the burst on that has a connection's tenth segment.
const UNPACED: u64 = 10;

/// A paced train spans such a part of a round trip, and so many µs at most.
const SPAN: u64 = 8;
const LONGEST: u64 = 255 * SPREAD / MICROSECOND;

impl Sender {
    /// How many of the segments to send next are in one packet buffer (`struct sk_buff`), up to `most`.
    #[inline]
    pub(super) fn unbroken(&mut self, limit: u64, most: u32) -> u32 {
        let from = self.flow.snd_nxt;
        let most = (limit - from).min(u64::from(most));
        if self.profile.plain {
            let size = u64::from((LARGEST_BUFFER / self.profile.mss).max(1));
            return most.min(size - from % size) as u32;
        }
        if self.next_short < from {
            let at = self.shorts.partition_point(|&seq| seq < from);
            self.next_short = self.shorts.get(at).copied().unwrap_or(NEVER);
        }
        most.min((self.next_short - from).max(1)) as u32
    }

    /// `tcp_tso_should_defer`: with room for less than a burst, rather wait for the next ACK, if one is soon to come.
    #[inline]
    pub(super) fn defers(&self, quota: u32, whole: u32, limit: u64, now: u64) -> bool {
        let f = &self.flow;
        if f.state >= State::Recovery || now > f.last_sent_ns + MILLISECOND || 3 * quota >= f.cwnd {
            return false;
        }
        let tail = f.snd_nxt + u64::from(whole) >= limit;
        if (whole <= quota && !tail) || f.packets_out() == 0 {
            return false;
        }
        let srtt = u64::from(f.srtt_us) * MICROSECOND;
        let expected = self.board.at(f.snd_una).sent + srtt;
        expected <= now + (srtt / 2).min(MILLISECOND)
    }

    /// New segments that the host sends as one, which the last of them tells (PSH).
    #[inline]
    pub(super) fn send_chunk(&mut self, cx: &mut Cx<'_>, count: u32) {
        let end = self.flow.snd_nxt + u64::from(count);
        while self.flow.snd_nxt < end {
            let left = (end - self.flow.snd_nxt) as u32;
            let next = left.min(self.profile.train);
            let last = count > 1 && next == left;
            self.send_new(cx, next, if last { flag::PUSH } else { 0 });
        }
    }

    /// `count` new segments as one train; they are consecutive in the data, or the train is cut.
    pub(super) fn send_new(&mut self, cx: &mut Cx<'_>, count: u32, flags: u8) {
        let first = self.flow.snd_nxt;
        let now = cx.net.now;
        if self.flow.packets_out() == 0 {
            self.congestion.on_event(&mut self.flow, Event::TxStart);
            (self.first_ns, self.delivered_ns) = (now, now);
        }
        if self.profile.plain {
            self.board
                .reserve(self.flow.snd_una, first + u64::from(count));
        }
        let mut sent = 0;
        while sent < count {
            let seq = first + u64::from(sent);
            if self.profile.plain {
                self.board.assign(seq, seq);
            }
            let dseq = self.board.at(seq).dseq();
            if sent > 0 && dseq != self.board.at(first).dseq() + u64::from(sent) {
                break;
            }
            self.stamp(seq, now);
            sent += 1;
        }
        self.flow.snd_nxt = first + u64::from(sent);
        self.emit(cx, first, sent as u8, flags);
    }

    /// Sends a segment again.
    pub(super) fn resend(&mut self, cx: &mut Cx<'_>, seq: u64) {
        let now = cx.net.now;
        self.stamp(seq, now);
        let segment = self.board.at_mut(seq);
        let pending = segment.has(super::board::LOST) && !segment.has(RETRANS);
        if !segment.has(RETRANS) {
            self.flow.retrans_out += 1;
        }
        segment.set(RETRANS | EVER_RETRANS);
        if pending {
            self.lost_pending -= 1;
        }
        if self.retrans_stamp == 0 {
            self.retrans_stamp = now;
        }
        self.undo_retrans = self.undo_retrans.max(0) + 1;
        self.resent.push_back((seq, now));
        self.emit(cx, seq, 1, flag::RETRANSMISSION);
    }

    /// The last segment once more, as a probe: outside of the accounts of recovery (`__tcp_retransmit_skb`).
    pub(super) fn resend_probe(&mut self, cx: &mut Cx<'_>, seq: u64) {
        self.stamp(seq, cx.net.now);
        self.board.at_mut(seq).set(EVER_RETRANS);
        self.resent.push_back((seq, cx.net.now));
        self.emit(cx, seq, 1, flag::RETRANSMISSION);
    }

    #[inline]
    fn stamp(&mut self, seq: u64, now: u64) {
        self.board.at_mut(seq).sent = now;
        if let Some(t) = self.board.transmission_mut(seq) {
            t.delivered = self.flow.delivered;
            t.delivered_ns = self.delivered_ns;
            t.first_ns = self.first_ns;
            t.app_limited = self.flow.app_limited != 0;
        }
    }

    #[inline]
    fn emit(&mut self, cx: &mut Cx<'_>, seq: u64, count: u8, mut flags: u8) {
        let dseq = self.board.at(seq).dseq();
        let full = self.profile.mss + self.profile.header;
        let mut size = full * u32::from(count);
        if dseq + u64::from(count) > cx.tail.0 {
            size -= self.profile.mss - cx.tail.1;
        }
        if self.board.at(seq).has(SHORT) {
            size = self.profile.header + self.profile.short;
            flags |= flag::SHORT;
        }
        if self.profile.ecn && flags & flag::RETRANSMISSION == 0 {
            flags |= flag::ECT;
            if self.send_cwr {
                self.send_cwr = false;
                flags |= flag::CWR;
            }
        }
        self.sent += u64::from(count);
        let mut spread = 0;
        if self.flow.pacing {
            let payload = size - self.profile.header * u32::from(count);
            spread = self.pace(cx.net.now, u32::from(count), payload);
        }
        self.flow.last_sent_ns = cx.net.now;
        cx.net.data_packets += u64::from(count);
        cx.net.send(
            self.profile.link,
            &Packet {
                subflow: self.profile.subflow,
                kind: Kind::Data,
                flags,
                count,
                spread,
                size,
                more: self.latest_ack_ms,
                seq,
                dseq,
                stamp: cx.net.now,
                extra: u64::MAX >> (64 - count),
            },
        );
    }

    /// Internal pacing (`tcp_update_skb_after_send`): a burst of [`Sender::burst`] segments, then a pause. The rate is one
    /// of payload. Returns the [`Packet::spread`] of what stands for several bursts.
    fn pace(&mut self, now: u64, count: u32, payload: u32) -> u8 {
        self.flow.next_send_ns = self.flow.next_send_ns.max(now);
        if self.flow.pacing_rate == 0 || self.sent < UNPACED {
            return 0;
        }
        let gap = u128::from(payload) * u128::from(SECOND) / u128::from(self.flow.pacing_rate);
        let gap = gap.min(u128::from(10 * SECOND)) as u64;
        // Half the gap of a burst at most makes good for its delay.
        let burst = u64::from(self.burst().min(count));
        let credit = (gap * burst / u64::from(count) / 2).min(self.pace_late);
        self.pace_late -= credit;
        self.flow.next_send_ns += gap - credit;
        self.pace_credit = self.pace_credit.saturating_sub(count);
        if self.profile.train == 1 {
            return 0;
        }
        let before = u64::from(count.saturating_sub(self.burst()));
        (gap * before / u64::from(count) / SPREAD).min(255) as u8
    }

    #[inline]
    pub(super) fn pacing_admits(&mut self, now: u64) -> bool {
        if now >= self.flow.next_send_ns {
            self.pace_credit = self.burst().max(self.stretch());
            // A train's spread is that of bursts in time.
            let single = self.profile.train == 1;
            self.pace_late = if single {
                now - self.flow.next_send_ns
            } else {
                0
            };
        }
        self.pace_credit > 0
    }

    /// Segments that segmentation offload would send as one: about 1 ms at the pacing rate (`tcp_tso_autosize`).
    pub(super) fn burst(&self) -> u32 {
        let segments = (self.flow.pacing_rate >> 10) / u64::from(self.profile.mss.max(1));
        let most = u64::from(LARGEST_BUFFER / self.profile.mss).min(44);
        segments.min(most).max(2) as u32
    }

    /// Segments of a paced train: what pacing lets go in an eighth of a round trip travels as one that took so long to leave
    /// ([`Packet::spread`]). 0 packet by packet.
    #[inline]
    pub(super) fn stretch(&self) -> u32 {
        if self.profile.train == 1 || !self.flow.pacing {
            return 0;
        }
        let span = (u64::from(self.flow.srtt_us) / SPAN).min(LONGEST);
        let bytes = self.flow.pacing_rate.saturating_mul(span) / 1_000_000;
        (bytes / u64::from(self.profile.mss.max(1))).min(u64::from(self.profile.train)) as u32
    }

    /// `tcp_update_pacing_rate`: twice the window a round trip in slow start, 1.2 times after it.
    #[inline]
    pub(super) fn update_pacing_rate(&mut self) {
        if self.flow.pacing || self.congestion.owns_window() {
            return;
        }
        let ratio = if self.flow.cwnd < self.flow.ssthresh / 2 {
            200
        } else {
            120
        };
        let window = u64::from(self.flow.cwnd.max(self.flow.packets_out()));
        let rate = u64::from(self.profile.mss) * window * ratio * 10_000;
        self.flow.pacing_rate = rate / u64::from(self.flow.srtt_us.max(1));
    }
}
