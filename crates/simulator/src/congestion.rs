//! The seam between a TCP sender and whatever sets its window: the shared C controllers of `mp-controllers`, and the
//! models of those that Linux has built in ([`crate::linux`]).
//!
//! The hooks are those of `struct tcp_congestion_ops`. A sender calls them in Linux's order; each sees the [`Flow`],
//! whose facts are up to date, and changes its decisions.

/// Phases of Linux's sender (`enum tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum State {
    #[default]
    Open,
    Disorder,
    Cwr,
    Recovery,
    Loss,
}

/// One subflow as congestion control sees it: the part of `struct tcp_sock` that Linux's modules read.
///
/// Sequence numbers count segments from 0; a window is in segments.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    // Facts, kept by the sender.
    /// Virtual time, ns (`tcp_mstamp`, `tcp_clock_cache`).
    pub now_ns: u64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    pub state: State,
    /// Latest sample, µs (`ca_rtt_us`); 0 before the first.
    pub rtt_us: u32,
    /// Smoothed, µs (not scaled by 8); 0 before the first sample.
    pub srtt_us: u32,
    /// Lifetime minimum, µs (`tcp_min_rtt`); `u32::MAX` before the first sample.
    pub min_rtt_us: u32,
    /// First segment not yet acknowledged.
    pub snd_una: u64,
    /// Next segment to be sent for the first time.
    pub snd_nxt: u64,
    /// Selectively acknowledged, marked lost, retransmitted and still out: packets.
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    /// Packets acknowledged so far, each once.
    pub delivered: u64,
    /// Packets marked lost so far.
    pub lost: u64,
    /// Packets acknowledged by ACKs with ECN-Echo so far (`delivered_ce`).
    pub ce: u64,
    /// Nothing is queued to send.
    pub idle: bool,
    /// `tp->app_limited`: `delivered` at which the latest application-limited bubble ends; 0: not limited.
    pub app_limited: u64,
    /// The window, not the application, held back the last flight.
    pub is_cwnd_limited: bool,
    /// Largest flight of the last window, packets.
    pub max_packets_out: u32,
    /// The subflow is reserve (MP_PRIO).
    pub backup: bool,
    /// Time of the last transmission, ns (`lsndtime`); 0 before the first.
    pub last_sent_ns: u64,
    /// Pacing lets the next packet go at this time, ns (`tcp_wstamp_ns`); in the past where nothing is held back.
    pub next_send_ns: u64,

    // Decisions.
    /// Packets, at least 1.
    pub cwnd: u32,
    /// Packets; [`INFINITE_SSTHRESH`] before the first loss.
    pub ssthresh: u32,
    /// Window at the start of the last reduction (`prior_cwnd`).
    pub prior_cwnd: u32,
    /// Bytes/s, `u64::MAX` before it is first set. Linux computes it for every controller that does not own its window;
    /// packets are held back by it only where `pacing` is set.
    pub pacing_rate: u64,
    /// `SK_PACING_NEEDED`.
    pub pacing: bool,
}

/// `TCP_INFINITE_SSTHRESH` of include/net/tcp.h.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

impl Flow {
    /// `tp->packets_out`
    #[inline]
    pub fn packets_out(&self) -> u32 {
        (self.snd_nxt - self.snd_una) as u32
    }

    /// `tcp_packets_in_flight`
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }

    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// `tcp_is_cwnd_limited`
    #[inline]
    pub fn cwnd_limited(&self) -> bool {
        self.is_cwnd_limited || (self.in_slow_start() && self.cwnd < 2 * self.max_packets_out)
    }

    /// `tcp_in_cwnd_reduction`
    #[inline]
    pub fn in_reduction(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    #[inline]
    pub fn now_us(&self) -> u64 {
        self.now_ns / 1000
    }
}

/// One delivery-rate measurement per ACK (`struct rate_sample`, draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Debug, Clone, Copy, Default)]
pub struct RateSample {
    /// `delivered` when the newest packet of this ACK was sent.
    pub prior_delivered: u64,
    /// Time at which `prior_delivered` was reached, ns; 0: no sample.
    pub prior_ns: u64,
    /// Packets delivered over `interval_us`; negative: no sample.
    pub delivered: i64,
    /// max(send interval, ACK interval), µs; negative: no sample.
    pub interval_us: i64,
    /// Latest RTT of this ACK, µs; negative: none.
    pub rtt_us: i64,
    /// Packets newly marked lost by this ACK.
    pub losses: u32,
    /// Packets newly acknowledged, cumulatively or selectively.
    pub acked_sacked: u32,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    pub is_app_limited: bool,
    /// The newest packet of this ACK had been retransmitted.
    pub is_retrans: bool,
    /// The receiver probably delayed this ACK.
    pub is_ack_delayed: bool,
}

/// Events outside the ACK clock (`enum tcp_ca_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// First transmission with nothing in flight (`CA_EVENT_TX_START`).
    TxStart,
    /// The window was restored after idleness (`CA_EVENT_CWND_RESTART`).
    CwndRestart,
    /// A reduction is over (`CA_EVENT_COMPLETE_CWR`).
    CompleteCwr,
    /// Retransmission timeout (`CA_EVENT_LOSS`).
    Loss,
}

/// `struct tcp_congestion_ops`, in this order per ACK: [`on_rtt`](Control::on_rtt), then, for a controller with
/// [`OWNS_WINDOW`](Control::OWNS_WINDOW), [`on_rate_sample`](Control::on_rate_sample), for the others PRR or
/// [`on_ack`](Control::on_ack).
pub trait Control {
    /// `cong_control` is set: the module sets window and pacing rate itself on each ACK and PRR is not used.
    const OWNS_WINDOW: bool = false;

    /// `init`: the subflow is established.
    fn init(&mut self, flow: &mut Flow);

    /// `pkts_acked`: an ACK covered `acked` packets; `flow.rtt_us` is new where `sampled`. Called on each ACK that
    /// acknowledges something, before the window is touched.
    fn on_rtt(&mut self, flow: &mut Flow, acked: u32, sampled: bool);

    /// `cong_avoid`: an ACK of `acked` packets that may raise the window.
    fn on_ack(&mut self, flow: &mut Flow, acked: u32);

    /// `ssthresh`: one congestion event; the slow-start threshold to go to, packets.
    fn on_loss(&mut self, flow: &mut Flow) -> u32;

    /// `undo_cwnd`: the last event was spurious; the window to go back to, packets.
    fn on_undo(&mut self, flow: &mut Flow) -> u32;

    /// `set_state`: called just before `flow.state` becomes `state`.
    fn on_state(&mut self, _flow: &mut Flow, _state: State) {}

    /// `cwnd_event`
    fn on_event(&mut self, _flow: &mut Flow, _event: Event) {}

    /// `cong_control`: each ACK, where [`OWNS_WINDOW`](Control::OWNS_WINDOW).
    fn on_rate_sample(&mut self, _flow: &mut Flow, _sample: &RateSample) {}

    /// `release`
    fn on_close(&mut self, _flow: &mut Flow) {}
}
