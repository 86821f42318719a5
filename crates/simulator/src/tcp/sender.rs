//! The sending half of a subflow: its state, and when segments leave (`tcp_write_xmit`).

use std::collections::VecDeque;

use mp_controllers::Connection;

use super::board::{Board, Rack, SHORT};
use super::control::Congestion;
use super::rtt::Rtt;
use super::timer::Timer;
use super::INITIAL_WINDOW;
use crate::agenda::NEVER;
use crate::congestion::{Event, Flow, State, INFINITE_SSTHRESH};
use crate::network::Network;

/// What a sender needs from its surroundings while it acts.
pub struct Cx<'a> {
    pub net: &'a mut Network,
    /// State of the shared controllers of the whole connection.
    pub shared: &'a mut Connection,
    /// Number of the connection's last segment, and its payload, bytes.
    pub tail: (u64, u32),
    /// First data sequence number beyond the receive window and the application's data.
    pub limit: u64,
    /// Data wait at the connection for room in a subflow's window: a scheduler other than Linux' queues none at subflows.
    pub waiting: bool,
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
    /// Short segments that the cumulative ACK has not reached.
    pub(super) shorts: VecDeque<u64>,
    /// The first of them at or above `snd_nxt`, unless `snd_nxt` has passed it; [`NEVER`]: none.
    pub(super) next_short: u64,
    /// How many of them were delivered, and how many the cumulative ACK has passed.
    pub(super) shorts_delivered: u64,
    pub(super) shorts_acked: u64,

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
    /// Segments that pacing lets go now.
    pub(super) pace_credit: u32,
    /// How much later than it might have this burst began, ns.
    pub(super) pace_late: u64,
    /// `first_tx_mstamp` and `delivered_mstamp` of the rate sampler, ns.
    pub(super) first_ns: u64,
    pub(super) delivered_ns: u64,
    pub(super) send_cwr: bool,
    /// Lowest forward delay so far, ms.
    pub(super) min_delay_ms: u64,
    /// Segments that the send buffer takes (`sk_sndbuf`), and their upper bound, bytes.
    pub buffer: u64,
    pub(super) buffer_limit: u64,
    /// Window that the receiver announced last (`snd_wnd`), segments.
    pub window: u64,
    /// Time of the last ACK (`rcv_tstamp`).
    pub last_ack: u64,
    /// When the latest ACK was sent, ms (`ts_recent`).
    pub latest_ack_ms: u32,
    pub established: bool,
    /// Closed, or given up after too many timeouts.
    pub dead: bool,
}

/// Memory that Linux reserves for a segment in a send buffer (`tcp_sndbuf_expand`), bytes: `MAX_TCP_HEADER` and
/// `struct skb_shared_info` beside the payload, rounded up to a power of two, and `struct sk_buff`.
fn segment_memory(mss: u32) -> u64 {
    u64::from((mss + 640).next_power_of_two() + 256)
}

impl Sender {
    pub fn new(profile: Profile, congestion: Congestion, buffer: (u64, bool)) -> Self {
        let samples = congestion.wants_samples();
        let (buffer_limit, autotune) = buffer;
        let start = 2 * u64::from(INITIAL_WINDOW) * segment_memory(profile.mss);
        Sender {
            profile,
            flow: Flow {
                mss: profile.mss,
                min_rtt_us: u32::MAX,
                cwnd: INITIAL_WINDOW,
                ssthresh: INFINITE_SSTHRESH,
                // sock_init_data: no limit until somebody sets one. MPTCP's scheduler skips a subflow with a rate of 0.
                pacing_rate: u64::MAX,
                ..Flow::default()
            },
            congestion,
            board: Board::new(samples),
            rtt: Rtt::default(),
            rack: Rack::default(),
            timer: Timer::default(),
            write_end: 0,
            shorts: VecDeque::new(),
            next_short: NEVER,
            shorts_delivered: 0,
            shorts_acked: 0,
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
            pace_credit: 0,
            pace_late: 0,
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
            window: 0,
            last_ack: 0,
            latest_ack_ms: 0,
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
        self.note_idle(cx);
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
                if self.next_short == last {
                    self.next_short = NEVER;
                }
            }
        }
        for dseq in from..end {
            self.assign(dseq);
        }
        if whole && self.profile.short > 0 {
            self.shorts.push_back(self.write_end);
            self.next_short = self.next_short.min(self.write_end);
            self.assign(end - 1);
            self.board.at_mut(self.write_end - 1).set(SHORT);
        }
    }

    /// Payload bytes delivered so far.
    pub fn delivered_bytes(&self) -> u64 {
        let missing = u64::from(self.profile.mss - self.profile.short);
        self.flow.delivered * u64::from(self.profile.mss) - self.shorts_delivered * missing
    }

    /// Payload bytes below the cumulative ACK (`tcpi_bytes_acked`).
    pub fn acked_bytes(&self) -> u64 {
        let missing = u64::from(self.profile.mss - self.profile.short);
        self.flow.snd_una * u64::from(self.profile.mss) - self.shorts_acked * missing
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
            let burst = self.burst();
            let most = burst.max(self.stretch());
            let whole = self.unbroken(limit, most.min(quota) + 1);
            if quota < burst && whole > 1 && self.defers(quota, whole, limit, cx.net.now) {
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
        let idle = cx.net.now.saturating_sub(self.flow.last_sent_ns);
        let rto = self.rtt.rto();
        if self.flow.last_sent_ns == 0 || idle <= rto || self.congestion.owns_window() {
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

    /// `tcp_new_space`: the send buffer grows to some windows where it ran empty below a full one. True where it did.
    #[inline]
    pub fn expand_buffer(&mut self) -> bool {
        if self.flow.in_flight() >= self.flow.cwnd {
            return false;
        }
        let segments = u64::from(self.flow.cwnd.max(INITIAL_WINDOW));
        let windows = self.congestion.buffer_windows();
        let wanted = windows * segments * segment_memory(self.profile.mss);
        let wanted = wanted.min(self.buffer_limit);
        let grows = wanted > self.buffer;
        self.buffer = self.buffer.max(wanted);
        grows
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
