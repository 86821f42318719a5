//! The sending half of a subflow: state, and how segments leave (`tcp_write_xmit`, `tcp_retransmit_skb`).

use std::collections::VecDeque;

use mp_controllers::Connection;

use super::board::{Board, EVER_RETRANS, RETRANS, SHORT};
use super::control::Congestion;
use super::rack::Rack;
use super::rtt::Rtt;
use super::timer::Timer;
use super::INITIAL_WINDOW;
use crate::agenda::NEVER;
use crate::congestion::{Event, Flow, State, INFINITE_SSTHRESH};
use crate::network::{flag, Kind, Network, Packet, NO_SACK};
use crate::time::{MICROSECOND, MILLISECOND, SECOND};

/// What a sender needs from its surroundings while it acts.
pub struct Cx<'a> {
    pub net: &'a mut Network,
    /// State of the shared controllers of the whole connection.
    pub shared: &'a mut Connection,
    /// Number of the connection's last segment, and its payload, bytes.
    pub tail: (u64, u32),
    /// First data sequence number beyond the receive window and the application's data.
    pub limit: u64,
}

/// What does not change while a subflow lives.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    pub subflow: u32,
    /// First link of the data direction.
    pub link: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// IP, TCP and MPTCP headers, bytes.
    pub header: u32,
    /// Payload bytes of the short end of a burst; 0: bursts are of full segments.
    pub short: u32,
    /// Segments an event.
    pub train: u32,
    pub ecn: bool,
    /// One subflow, whose sequence numbers are those of the data: plain TCP.
    pub plain: bool,
}

#[derive(Debug)]
pub struct Sender {
    pub profile: Profile,
    pub flow: Flow,
    pub congestion: Congestion,
    pub board: Board,
    pub rtt: Rtt,
    pub(super) rack: Rack,
    pub(super) timer: Timer,
    /// End of what the connection has assigned (not for plain TCP).
    pub write_end: u64,
    /// Short segments that the cumulative ACK has not reached, and how many were delivered.
    pub(super) shorts: VecDeque<u64>,
    pub(super) shorts_delivered: u64,

    // Loss recovery.
    pub(super) high_seq: u64,
    pub(super) highest_sacked: u64,
    pub(super) reordering: u32,
    pub(super) reordering_seen: bool,
    /// `snd_una` when the reduction began; [`NEVER`]: nothing to undo.
    pub(super) undo_marker: u64,
    pub(super) undo_retrans: i32,
    pub(super) retrans_stamp: u64,
    pub(super) prior_ssthresh: u32,
    pub(super) prr_delivered: u32,
    pub(super) prr_out: u32,
    pub(super) frto: bool,
    /// Marked lost and not sent again yet.
    pub(super) lost_pending: u32,
    /// No such segment lies below.
    pub(super) lost_hint: u64,
    /// Retransmissions in order of sending: sequence number and time.
    pub(super) resent: VecDeque<(u64, u64)>,
    pub(super) sack_cache: [(u64, u64); 3],
    /// `snd_nxt` when the tail was probed; 0: no probe is out.
    pub(super) tlp_high_seq: u64,
    pub(super) tlp_retransmitted: bool,
    /// Timeouts in a row.
    pub(super) retransmits: u32,

    // Window use and pacing.
    /// Segments, retransmissions included.
    pub sent: u64,
    pub(super) usage_seq: u64,
    pub(super) last_sent: u64,
    /// Paced: nothing new leaves before.
    pub(super) pace_until: u64,
    pub(super) pace_credit: u32,
    /// `first_tx_mstamp` and `delivered_mstamp` of the rate sampler, ns.
    pub(super) first_ns: u64,
    pub(super) delivered_ns: u64,
    pub(super) send_cwr: bool,
    /// Lowest forward delay so far, ms.
    pub(super) min_delay_ms: u64,
    /// Segments that the send buffer takes (`sk_sndbuf`), and their upper bound, bytes.
    pub buffer: u64,
    pub(super) buffer_limit: u64,
    /// Time of the last ACK (`rcv_tstamp`).
    pub last_ack: u64,
    pub established: bool,
    /// Closed, or given up after too many timeouts.
    pub dead: bool,
}

/// Payload of the largest packet buffer: 64 KiB less room for headers (`sk_gso_max_size`), bytes.
const LARGEST_BUFFER: u32 = 65_343;

/// Memory that Linux reserves for a segment in a send buffer: the buffer's rounding of a full Ethernet frame
/// (`tcp_sndbuf_expand`), bytes.
const SEGMENT_MEMORY: u64 = 4096 + 256;

impl Sender {
    pub fn new(profile: Profile, congestion: Congestion, buffer: (u64, bool)) -> Self {
        let samples = congestion.wants_samples();
        let (buffer_limit, autotune) = buffer;
        let start = 2 * u64::from(INITIAL_WINDOW) * SEGMENT_MEMORY;
        Sender {
            profile,
            flow: Flow {
                mss: profile.mss,
                min_rtt_us: u32::MAX,
                cwnd: INITIAL_WINDOW,
                ssthresh: INFINITE_SSTHRESH,
                ..Flow::default()
            },
            congestion,
            board: Board::new(samples),
            rtt: Rtt::default(),
            rack: Rack::default(),
            timer: Timer::default(),
            write_end: 0,
            shorts: VecDeque::new(),
            shorts_delivered: 0,
            high_seq: 0,
            highest_sacked: 0,
            reordering: 3,
            reordering_seen: false,
            undo_marker: NEVER,
            undo_retrans: 0,
            retrans_stamp: 0,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            frto: false,
            lost_pending: 0,
            lost_hint: 0,
            resent: VecDeque::new(),
            sack_cache: [(0, 0); 3],
            tlp_high_seq: 0,
            tlp_retransmitted: false,
            retransmits: 0,
            sent: 0,
            usage_seq: 0,
            last_sent: 0,
            pace_until: 0,
            pace_credit: 0,
            first_ns: 0,
            delivered_ns: 0,
            send_cwr: false,
            min_delay_ms: u64::MAX,
            buffer: if autotune {
                start.min(buffer_limit)
            } else {
                buffer_limit
            },
            buffer_limit,
            last_ack: 0,
            established: false,
            dead: false,
        }
    }

    /// The handshake is done; `rtt` is its round trip, ns, where it could be measured.
    pub fn establish(&mut self, cx: &mut Cx<'_>, rtt: Option<u64>) {
        self.established = true;
        self.last_ack = cx.net.now;
        self.flow.now_ns = cx.net.now;
        if let Some(rtt) = rtt {
            let us = (rtt / 1000).max(1) as u32;
            self.rtt.sample(us, 0, 0);
            self.flow.srtt_us = self.rtt.srtt_us();
            self.flow.min_rtt_us = us;
            self.flow.rtt_us = us;
        }
        self.congestion.init(&mut self.flow, cx.shared);
        self.update_pacing_rate();
    }

    /// Payload assigned and not yet acknowledged, bytes (`sk_wmem_queued`).
    #[inline]
    pub fn queued(&self) -> u64 {
        (self.end() - self.flow.snd_una) * u64::from(self.profile.mss)
    }

    #[inline]
    pub fn end(&self) -> u64 {
        self.write_end.max(self.flow.snd_nxt)
    }

    /// Queues one more segment of the connection's data.
    #[inline]
    pub fn assign(&mut self, dseq: u64) {
        self.board.reserve(self.flow.snd_una, self.write_end + 1);
        self.board.assign(self.write_end, dseq);
        self.write_end += 1;
    }

    /// Queues a burst of the connection's data. It ends with a short segment (`mptcp_sendmsg_frag` maps what a packet
    /// buffer takes, full segments, and then what is left of the burst), unless what follows comes here too, and in time
    /// (`mptcp_skb_can_collapse_to`).
    pub fn assign_burst(&mut self, from: u64, end: u64, whole: bool) {
        if let Some(&last) = self.shorts.back() {
            let unsent = last + 1 == self.write_end && last >= self.flow.snd_nxt;
            if unsent && self.board.at(last).dseq() + 1 == from {
                self.shorts.pop_back();
                self.write_end = last;
            }
        }
        for dseq in from..end {
            self.assign(dseq);
        }
        if whole && self.profile.short > 0 {
            self.shorts.push_back(self.write_end);
            self.assign(end - 1);
            self.board.at_mut(self.write_end - 1).set(SHORT);
        }
    }

    /// Payload bytes delivered so far.
    pub fn delivered_bytes(&self) -> u64 {
        let missing = u64::from(self.profile.mss - self.profile.short);
        self.flow.delivered * u64::from(self.profile.mss) - self.shorts_delivered * missing
    }

    /// First segment that may not be sent yet.
    #[inline]
    fn sendable(&self, limit: u64) -> u64 {
        if self.profile.plain {
            limit
        } else {
            self.write_end
        }
    }

    /// Sends what window and pacing allow. True where something new left.
    pub fn push(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.established || self.dead {
            return false;
        }
        let limit = self.sendable(cx.limit);
        if self.flow.snd_nxt >= limit {
            return false;
        }
        let before = self.flow.snd_nxt;
        if self.flow.packets_out() == 0 {
            self.restart_after_idle(cx);
        }
        let mut limited = false;
        while self.flow.snd_nxt < limit {
            let in_flight = self.flow.in_flight();
            if in_flight >= self.flow.cwnd {
                limited = true;
                break;
            }
            if self.flow.pacing && !self.pacing_admits(cx.net.now) {
                break;
            }
            if self.profile.plain && self.queued() >= self.buffer_limit {
                break;
            }
            let quota = self.flow.cwnd - in_flight;
            let most = self.burst();
            let whole = self.unbroken(limit, most.min(quota) + 1);
            if quota < most && whole > 1 && self.defers(quota, whole, limit, cx.net.now) {
                limited = true;
                break;
            }
            let mut count = quota.min(most).min(whole);
            if self.flow.pacing {
                count = count.min(self.pace_credit);
            }
            self.send_chunk(cx, count);
        }
        let sent = self.flow.snd_nxt > before;
        if sent {
            if self.flow.in_reduction() {
                self.prr_out += (self.flow.snd_nxt - before) as u32;
            }
            self.validate_window(limited || self.flow.in_flight() >= self.flow.cwnd);
            self.arm_after_sending(cx.net.now);
        }
        sent
    }

    /// How many of the segments to send next are in one packet buffer (`struct sk_buff`), up to `most`.
    #[inline]
    fn unbroken(&self, limit: u64, most: u32) -> u32 {
        let from = self.flow.snd_nxt;
        let most = (limit - from).min(u64::from(most));
        if self.profile.plain {
            let size = u64::from((LARGEST_BUFFER / self.profile.mss).max(1));
            return most.min(size - from % size) as u32;
        }
        if self.shorts.is_empty() {
            return most as u32;
        }
        let cut = (0..most).find(|i| self.board.at(from + i).has(SHORT));
        cut.map_or(most, |i| i.max(1)) as u32
    }

    /// `tcp_tso_should_defer`: with room for less than a burst, rather wait for the next ACK, if one is soon to come.
    #[inline]
    fn defers(&self, quota: u32, whole: u32, limit: u64, now: u64) -> bool {
        let f = &self.flow;
        if f.state >= State::Recovery || now > self.last_sent + MILLISECOND || 3 * quota >= f.cwnd {
            return false;
        }
        let tail = f.snd_nxt + u64::from(whole) >= limit;
        if (whole <= quota && !tail) || f.packets_out() == 0 {
            return false;
        }
        let age = now - self.board.at(f.snd_una).sent;
        2 * age >= u64::from(f.srtt_us) * MICROSECOND
    }

    /// New segments that the host sends as one, which the last of them tells (PSH).
    #[inline]
    fn send_chunk(&mut self, cx: &mut Cx<'_>, count: u32) {
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
        if self.flow.pacing {
            let payload = size - self.profile.header * u32::from(count);
            self.pace(cx.net.now, u32::from(count), payload);
        }
        self.last_sent = cx.net.now;
        self.sent += u64::from(count);
        cx.net.data_packets += u64::from(count);
        cx.net.send(
            self.profile.link,
            &Packet {
                subflow: self.profile.subflow,
                kind: Kind::Data,
                flags,
                count,
                size,
                sack: NO_SACK,
                seq,
                dseq,
                stamp: cx.net.now,
                extra: u64::MAX >> (64 - count),
            },
        );
    }

    /// Internal pacing (`tcp_update_skb_after_send`): a burst of [`Sender::burst`] segments, then a pause. The rate is one
    /// of payload.
    fn pace(&mut self, now: u64, count: u32, payload: u32) {
        if self.flow.pacing_rate == 0 {
            return;
        }
        let gap = u128::from(payload) * u128::from(SECOND) / u128::from(self.flow.pacing_rate);
        self.pace_until = self.pace_until.max(now) + gap.min(u128::from(10 * SECOND)) as u64;
        self.pace_credit = self.pace_credit.saturating_sub(count);
    }

    #[inline]
    pub(super) fn pacing_admits(&mut self, now: u64) -> bool {
        if now >= self.pace_until {
            self.pace_credit = self.burst();
        }
        self.pace_credit > 0
    }

    /// Segments that segmentation offload would send as one: about 1 ms at the pacing rate (`tcp_tso_autosize`).
    fn burst(&self) -> u32 {
        let segments = (self.flow.pacing_rate >> 10) / u64::from(self.profile.mss.max(1));
        segments.clamp(2, 44) as u32
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

    /// `tcp_cwnd_validate`
    fn validate_window(&mut self, limited: bool) {
        let out = self.flow.packets_out();
        if self.flow.snd_una >= self.usage_seq
            || limited
            || (!self.flow.is_cwnd_limited && out > self.flow.max_packets_out)
        {
            self.flow.is_cwnd_limited = limited;
            self.flow.max_packets_out = out;
            self.usage_seq = self.flow.snd_nxt;
        }
    }

    /// `tcp_slow_start_after_idle_check`, RFC 2861
    fn restart_after_idle(&mut self, cx: &mut Cx<'_>) {
        let idle = cx.net.now.saturating_sub(self.last_sent);
        let rto = self.rtt.rto();
        if self.last_sent == 0 || idle <= rto || self.congestion.owns_window() {
            return;
        }
        self.flow.now_ns = cx.net.now;
        self.congestion.on_event(&mut self.flow, Event::CwndRestart);
        self.flow.ssthresh = self.current_ssthresh();
        let floor = INITIAL_WINDOW.min(self.flow.cwnd);
        let halvings = (idle / rto).min(31) as u32;
        self.flow.cwnd = (self.flow.cwnd >> halvings).max(floor);
    }

    /// `tcp_current_ssthresh`
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.flow.in_reduction() {
            self.flow.ssthresh
        } else {
            self.flow
                .ssthresh
                .max((self.flow.cwnd >> 1) + (self.flow.cwnd >> 2))
        }
    }

    /// `tcp_new_space`: the send buffer grows to twice the window where it ran empty below a full window.
    pub fn expand_buffer(&mut self) {
        if self.flow.in_flight() < self.flow.cwnd {
            let segments = u64::from(self.flow.cwnd.max(INITIAL_WINDOW));
            let wanted = (2 * segments * SEGMENT_MEMORY).min(self.buffer_limit);
            self.buffer = self.buffer.max(wanted);
        }
    }

    pub(super) fn set_state(&mut self, state: State) {
        self.congestion.on_state(&mut self.flow, state);
        self.flow.state = state;
    }

    /// Ends the subflow: nothing is sent any more.
    pub fn close(&mut self, shared: &mut Connection) {
        if self.established && !self.dead {
            self.congestion.on_close(&mut self.flow, shared);
        }
        self.dead = true;
        self.timer.clear();
        self.board.release();
        self.resent = VecDeque::new();
        self.shorts = VecDeque::new();
    }
}
