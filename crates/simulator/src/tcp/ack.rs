//! An ACK arrives at the sender: `tcp_ack` of net/ipv4/tcp_input.c.

use super::board::{EVER_RETRANS, LOST, RETRANS, SACKED, SHORT};
use super::recovery::{Send, Told};
use super::sample::Sent;
use super::sender::{Cx, Sender};
use crate::agenda::NEVER;
use crate::congestion::{RateSample, State};
use crate::network::{flag, Packet, Sack};
use crate::time::MILLISECOND;

impl Sender {
    pub fn on_ack(&mut self, ack: &Packet, sack: Option<&Sack>, cx: &mut Cx<'_>) {
        if self.dead || !self.established {
            return;
        }
        let now = cx.net.now;
        self.flow.now_ns = now;
        self.last_ack = now;
        let prior_una = self.flow.snd_una;
        let prior_in_flight = self.flow.in_flight();
        let (prior_delivered, prior_lost) = (self.flow.delivered, self.flow.lost);
        let mut sent = Sent {
            prior_highest: self.highest_sacked,
            ..Sent::default()
        };
        let ack_seq = ack.seq.max(prior_una);
        let mut told = Told {
            una_advanced: ack_seq > prior_una,
            data_sacked: false,
            original_acked: false,
            retrans_acked: false,
            dsack: false,
            ece: ack.has(flag::ECE),
            echo: ack.stamp,
            rearm: false,
        };
        let had_packets = self.flow.packets_out() > 0;
        let mut sample = RateSample {
            rtt_us: -1,
            prior_in_flight,
            ..RateSample::default()
        };
        let mut newest = (0, 0);
        if let Some(sack) = sack {
            self.tag(
                sack,
                ack.seq,
                &mut told,
                &mut sent,
                &mut sample,
                &mut newest,
            );
        }
        self.note_delay(ack.delay_ms());
        // The echoed time plus the delay that the receiver measured is the receiver's clock.
        let sent_ms = (ack.stamp / MILLISECOND + ack.delay_ms()) as u32;
        self.latest_ack_ms = self.latest_ack_ms.max(sent_ms);
        if told.una_advanced {
            self.retransmits = 0;
            self.clean(ack_seq, &mut told, &mut sent, &mut sample, &mut newest);
        }
        if let Some(low) = sent.reordered {
            self.note_reordering(low);
        }
        if !had_packets {
            return;
        }
        let delivered = (self.flow.delivered - prior_delivered) as u32;
        let sampled = self.sample_rtt(&told, &sent, ack.stamp, &mut sample);
        if sent.newest != 0 {
            self.rack_update_window(sent.newest);
        }
        if sampled {
            self.timer.backoff = 0; // RFC 6298 section 5: only a sample ends it
        }
        told.rearm = told.una_advanced || (sampled && self.head_is_newer(&sent));
        if delivered > 0 || sampled {
            self.congestion.on_rtt(&mut self.flow, delivered, sampled);
        }
        if self.tlp_high_seq != 0 {
            self.process_probe_ack(cx, &told, ack_seq);
        }
        self.note_idle(cx);
        let mut send = Send::Nothing;
        let dubious = !told.una_advanced
            || told.data_sacked
            || told.ece
            || told.dsack
            || self.flow.state != State::Open;
        if dubious {
            send = self.alert(cx, &mut told);
        }
        if told.rearm {
            self.rearm_after_ack(now);
        }
        let newly_lost = (self.flow.lost - prior_lost) as u32;
        if told.ece {
            self.flow.ce += u64::from(delivered);
        }
        self.control_window(cx, &told, delivered, newly_lost, &mut sample);
        match send {
            Send::Nothing => {}
            Send::Lost => self.transmit_lost(cx),
            Send::New => {
                self.push(cx);
                if self.flow.snd_nxt <= self.high_seq {
                    self.frto = false;
                    self.transmit_lost(cx);
                }
            }
        }
    }

    /// What was acknowledged selectively was sent before the head was sent (again), whose ACK cannot be here yet.
    fn head_is_newer(&self, sent: &Sent) -> bool {
        sent.first_sacked != 0 && sent.first_sacked < self.board.at(self.flow.snd_una).sent
    }

    /// Whether anything is queued to send. Data that waits for the receive window is in the write queue of plain TCP,
    /// but not yet in a subflow's.
    #[inline]
    pub(super) fn note_idle(&mut self, cx: &Cx<'_>) {
        self.flow.idle = if self.profile.plain {
            self.flow.snd_nxt > cx.tail.0
        } else {
            self.flow.snd_nxt >= self.write_end && !cx.waiting
        };
    }

    /// `tcp_cong_control`
    #[inline]
    fn control_window(
        &mut self,
        cx: &mut Cx<'_>,
        told: &Told,
        delivered: u32,
        newly_lost: u32,
        sample: &mut RateSample,
    ) {
        if self.congestion.owns_window() {
            self.rate_sample(sample, delivered, newly_lost);
            self.congestion
                .on_rate_sample(&mut self.flow, cx.shared, sample);
            return;
        }
        if self.flow.in_reduction() {
            self.reduce(delivered, newly_lost, told.una_advanced);
        } else if delivered > 0 && self.may_raise(told) {
            self.congestion.on_ack(&mut self.flow, cx.shared, delivered);
        }
        self.update_pacing_rate();
    }

    /// `tcp_may_raise_cwnd`: with much reordering any progress counts, else only that of the cumulative ACK.
    #[inline]
    fn may_raise(&self, told: &Told) -> bool {
        if self.reordering > 3 {
            told.una_advanced || told.data_sacked
        } else {
            told.una_advanced
        }
    }

    /// `tcp_clean_rtx_queue`: everything below `ack` is done with.
    #[inline]
    fn clean(
        &mut self,
        ack: u64,
        told: &mut Told,
        sent: &mut Sent,
        sample: &mut RateSample,
        newest: &mut (u64, u64),
    ) {
        let una = self.flow.snd_una;
        let ack = ack.min(self.flow.snd_nxt);
        let f = &self.flow;
        let simple = f.state == State::Open
            && f.sacked_out == 0
            && f.lost_out == 0
            && f.retrans_out == 0
            && self.tlp_high_seq == 0
            && self.retrans_stamp == 0
            && !self.congestion.wants_samples();
        if simple {
            sent.first = self.board.at(una).sent;
            sent.last = self.board.at(ack - 1).sent;
            sent.newest = sent.last;
            self.flow.delivered += ack - una;
            self.flow.snd_una = ack;
            self.shorts_delivered += self.forget_shorts(ack);
            self.rack_advance(ack - 1, sent.last, false);
            return;
        }
        for seq in una..ack {
            let segment = *self.board.at(seq);
            let flags = segment.flags();
            if flags & EVER_RETRANS != 0 {
                if flags & RETRANS != 0 {
                    self.flow.retrans_out -= 1;
                }
                told.retrans_acked = true;
            } else if flags & SACKED == 0 {
                sent.last = segment.sent;
                if sent.first == 0 {
                    sent.first = segment.sent;
                }
                if seq < sent.prior_highest {
                    sent.reordered = Some(sent.reordered.map_or(seq, |low| low.min(seq)));
                }
                if seq < self.high_seq {
                    told.original_acked = true;
                }
            }
            if flags & SACKED != 0 {
                self.flow.sacked_out -= 1;
            } else {
                self.flow.delivered += 1;
                self.shorts_delivered += u64::from(flags & SHORT != 0);
                sent.newest = sent.newest.max(segment.sent);
                self.sample_delivery(seq, segment.sent, flags, sample, newest);
                let again = flags & EVER_RETRANS != 0;
                // tcp_skb_spurious_retrans: the ACK answers what was sent before.
                if !(again && told.echo < segment.sent) {
                    self.rack_advance(seq, segment.sent, again);
                }
            }
            if flags & LOST != 0 {
                self.flow.lost_out -= 1;
                if flags & (RETRANS | SACKED) == 0 {
                    self.lost_pending -= 1;
                }
            }
        }
        self.flow.snd_una = ack;
        self.forget_shorts(ack);
    }

    /// How many short segments lie below `ack`.
    #[inline]
    fn forget_shorts(&mut self, ack: u64) -> u64 {
        let mut count = 0;
        while self.shorts.front().is_some_and(|&seq| seq < ack) {
            self.shorts.pop_front();
            count += 1;
        }
        self.shorts_acked += count;
        count
    }

    /// `tcp_sacktag_write_queue`
    fn tag(
        &mut self,
        sack: &Sack,
        ack: u64,
        told: &mut Told,
        sent: &mut Sent,
        sample: &mut RateSample,
        newest: &mut (u64, u64),
    ) {
        let duplicate = tells_duplicate(sack, ack);
        if duplicate {
            self.note_duplicate(sack.blocks[0], told, sent, sample, newest);
        }
        let mut blocks = sack.blocks;
        let blocks = &mut blocks[usize::from(duplicate)..usize::from(sack.len)];
        // The newest comes first in the packet: in that order an older one would look late.
        blocks.sort_unstable();
        for &block in &*blocks {
            let (mut start, end) = (
                block.0.max(self.flow.snd_una),
                block.1.min(self.flow.snd_nxt),
            );
            // What an earlier ACK said need not be looked at again.
            for &(known_start, known_end) in &self.sack_cache {
                if known_start <= start && start < known_end {
                    start = known_end.min(end).max(start);
                }
            }
            for seq in start..end {
                self.tag_one(seq, told, sent, sample, newest);
            }
            self.highest_sacked = self.highest_sacked.max(end);
        }
        self.sack_cache = [(0, 0); 3];
        self.sack_cache[..blocks.len()].copy_from_slice(blocks);
    }

    /// `tcp_sacktag_one`
    fn tag_one(
        &mut self,
        seq: u64,
        told: &mut Told,
        sent: &mut Sent,
        sample: &mut RateSample,
        newest: &mut (u64, u64),
    ) {
        let segment = *self.board.at(seq);
        let flags = segment.flags();
        if flags & SACKED != 0 {
            return;
        }
        sent.newest = sent.newest.max(segment.sent);
        self.sample_delivery(seq, segment.sent, flags, sample, newest);
        self.rack_advance(seq, segment.sent, flags & EVER_RETRANS != 0);
        if flags & LOST != 0 {
            self.flow.lost_out -= 1;
            if flags & RETRANS == 0 {
                self.lost_pending -= 1;
            }
        }
        // A retransmission not marked lost again is believed to be under way still.
        if flags & RETRANS != 0 && flags & LOST != 0 {
            self.flow.retrans_out -= 1;
            self.board.at_mut(seq).clear(RETRANS);
        } else if flags & EVER_RETRANS == 0 {
            if seq < self.highest_sacked {
                sent.reordered = Some(sent.reordered.map_or(seq, |low| low.min(seq)));
            }
            if seq < self.high_seq {
                told.original_acked = true;
            }
            if sent.first_sacked == 0 {
                sent.first_sacked = segment.sent;
            }
            sent.last_sacked = segment.sent;
        }
        let segment = self.board.at_mut(seq);
        segment.clear(LOST);
        segment.set(SACKED);
        told.data_sacked = true;
        self.flow.sacked_out += 1;
        self.flow.delivered += 1;
        self.shorts_delivered += u64::from(flags & SHORT != 0);
    }

    /// `tcp_dsack_seen`, and `tcp_sacktag_one` of a segment that arrived twice: it has arrived, after all.
    fn note_duplicate(
        &mut self,
        block: (u64, u64),
        told: &mut Told,
        sent: &mut Sent,
        sample: &mut RateSample,
        newest: &mut (u64, u64),
    ) {
        told.dsack = true;
        let probe = block.1 - block.0 == 1 && block.1 == self.tlp_high_seq;
        self.rack.dsack_seen |= self.reordering_seen && !probe;
        if block.1 <= self.flow.snd_una {
            self.count_needless(block.1, block.1 - block.0);
        }
        for seq in block.0.max(self.flow.snd_una)..block.1.min(self.flow.snd_nxt) {
            let flags = self.board.at(seq).flags();
            if flags & EVER_RETRANS != 0 {
                self.count_needless(seq + 1, 1);
                if flags & SACKED != 0 {
                    sent.reordered = Some(sent.reordered.map_or(seq, |low| low.min(seq)));
                }
            }
            self.tag_one(seq, told, sent, sample, newest);
            let segment = self.board.at_mut(seq);
            if segment.has(RETRANS) {
                segment.clear(RETRANS);
                self.flow.retrans_out -= 1;
            }
        }
    }

    /// Retransmissions up to `end` that were not needed.
    fn count_needless(&mut self, end: u64, segments: u64) {
        if self.undo_marker != NEVER && end > self.undo_marker && self.undo_retrans > 0 {
            let segments = segments.min(i32::MAX as u64) as i32;
            self.undo_retrans = (self.undo_retrans - segments).max(0);
        }
    }

    /// `tcp_check_sack_reordering`
    fn note_reordering(&mut self, low: u64) {
        if low >= self.highest_sacked {
            return;
        }
        let metric = (self.highest_sacked - low).min(300) as u32;
        self.reordering = self.reordering.max(metric);
        self.reordering_seen = true;
    }
}

/// `tcp_check_dsack`: whether the first block tells of a duplicate. Where an ACK has room for one block, a duplicate above
/// the cumulative ACK looks like news.
fn tells_duplicate(sack: &Sack, ack: u64) -> bool {
    let (first, second) = (sack.blocks[0], sack.blocks[1]);
    let within = sack.len > 1 && second.0 <= first.0 && first.1 <= second.1;
    sack.duplicate && (first.0 < ack || within)
}
