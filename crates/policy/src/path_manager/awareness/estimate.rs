//! What is known of one path: rates, round-trip times, loss, and whether anything gets through.

use super::config::{Config, PACKETS};
use super::loss::Window;
use crate::estimate::weight;
use crate::view::Counters;

/// Rates are smoothed over about this time, µs.
const SMOOTHING_US: f64 = 1e6;
/// What counts as having carried a rate, µs, and how long that is remembered.
const PEAK_SMOOTHING_US: f64 = 2e5;
const PEAK_MEMORY_US: u64 = 120_000_000;
/// A loss at an RTT above this many times its minimum is put down to a full queue, not to the path.
const QUEUE: f64 = 1.5;
/// Of what the others bring, so many times as much becomes in order while a path waits for them.
const WAITS: f64 = 1.5;
/// Payload of a packet, bytes, as Ethernet leaves it to MPTCP.
const PAYLOAD: f64 = 1_400.0;

/// So far, either way, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    pub in_order: u64,
    /// On all paths, in order or not.
    pub delivered: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Estimate {
    /// Delivery over about a second, and over a fifth of a second, bytes/s.
    pub rate: f64,
    pub recent: f64,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    /// Loss events that no queue explains.
    pub window: Window,
    /// When something was last delivered, µs; 0: never.
    pub delivered_us: u64,
    /// As of then.
    progress: Progress,
    /// First poll of its subflow, µs.
    pub opened_us: u64,
    /// Maxima of `recent` in this and in the previous half of the memory.
    peaks: [f64; 2],
    peaks_us: u64,
    /// Latest loss event; nothing was delivered since.
    event_us: u64,
    event_open: bool,
    last: Option<Counters>,
    in_flight: bool,
    /// When payload last arrived at this end.
    arrived_us: u64,
    /// Since when what was sent is unanswered.
    unanswered_us: Option<u64>,
}

impl Estimate {
    /// Whether payload arrived here, at the latest a round trip ago: a connection that moves has more in flight. On all its
    /// paths, so that one on which nothing arrives meanwhile may have died.
    pub fn follows(&mut self, now_us: u64, counters: &Counters) -> bool {
        let arrived = |of: &Counters| of.received.map_or(0, |r| r.bytes);
        let grown = |last| arrived(counters) > arrived(&last);
        if self.last.is_some_and(grown) {
            self.arrived_us = now_us;
        }
        let srtt_us = u64::from(counters.srtt_us.unwrap_or(0));
        self.arrived_us > 0 && now_us < self.arrived_us + srtt_us
    }

    /// New counters, so many µs after the last.
    pub fn update(
        &mut self,
        now_us: u64,
        elapsed_us: u64,
        counters: Option<&Counters>,
        progress: Progress,
        in_flight: bool,
        config: &Config,
    ) {
        self.in_flight = in_flight;
        let Some(&counters) = counters else {
            self.last = None;
            (self.rate, self.recent) = (0.0, 0.0);
            return;
        };
        // A first poll, or another subflow: nothing to compare with.
        let last = self.last.replace(counters);
        let Some(moved) = last.and_then(|last| counters.since(&last)) else {
            (self.opened_us, self.delivered_us, self.progress) = (now_us, now_us, progress);
            self.unanswered_us = None;
            return;
        };
        self.srtt_us = counters.srtt_us.unwrap_or(0);
        self.min_rtt_us = counters.min_rtt_us.unwrap_or(0);
        let delivered = moved.bytes;
        let event = self.loss_event(now_us, moved.lost);
        self.event_open &= delivered == 0;
        let queued = f64::from(self.srtt_us) > QUEUE * f64::from(self.min_rtt_us);
        let size = config.harm.map_or(PACKETS, |harm| harm.packets);
        let lost = u64::from(event && !queued);
        self.window.add(moved.packets, lost, size);
        self.measure_rate(now_us, elapsed_us as f64, delivered);
        // A receiver has nothing that could go unanswered, but its sender has.
        let silent = counters.received.is_some_and(|r| r.silent) && !self.waits(progress);
        if delivered > 0 {
            (self.delivered_us, self.progress, self.unanswered_us) = (now_us, progress, None);
        } else if moved.packets > 0 || silent {
            self.unanswered_us.get_or_insert(now_us - elapsed_us);
        }
    }

    /// The receive window has no room for more of this path: what it brought before becomes in order by what the others bring.
    /// If the path is dead, the connection lacks some of its data, and gets no more in order than arrives. A new subflow on
    /// another path counts from 0: then nobody knows.
    pub fn waits(&self, now: Progress) -> bool {
        let in_order = now.in_order.saturating_sub(self.progress.in_order);
        let others = now.delivered.checked_sub(self.progress.delivered);
        others.is_some_and(|others| in_order as f64 > WAITS * others as f64)
    }

    /// Losses within one round trip, or between two polls, are one event (RFC 5348 section 5.2): a full buffer drops
    /// many packets at once, and slow start overshoots by hundreds, but that says nothing of the next thousand. So are
    /// those between which nothing was delivered: retransmissions into an outage.
    fn loss_event(&mut self, now_us: u64, lost: u64) -> bool {
        let event =
            lost > 0 && !self.event_open && now_us >= self.event_us + u64::from(self.srtt_us);
        if event {
            (self.event_us, self.event_open) = (now_us, true);
        }
        event
    }

    fn measure_rate(&mut self, now_us: u64, elapsed: f64, delivered: u64) {
        let rate = delivered as f64 * 1e6 / elapsed;
        // A path that has nothing to carry does not show what it can.
        if delivered > 0 || self.in_flight {
            self.rate += weight(elapsed, SMOOTHING_US) * (rate - self.rate);
        }
        self.recent += weight(elapsed, PEAK_SMOOTHING_US) * (rate - self.recent);
        if now_us >= self.peaks_us + PEAK_MEMORY_US / 2 {
            self.peaks = [0.0, self.peaks[0]];
            self.peaks_us = now_us;
        }
        self.peaks[0] = self.peaks[0].max(self.recent);
    }

    /// What the path alone would carry, bytes/s: what it was seen to carry, or what its loss leaves to a Reno-like
    /// controller if that is less (Mathis et al. 1997), but no less than it carries now:
    ///
    /// ```text
    /// MSS / RTT · √(3 / 2p)
    /// ```
    pub fn standalone(&self) -> f64 {
        let seen = self.peaks[0].max(self.peaks[1]);
        if self.window.lower_bound() == 0.0 || self.srtt_us == 0 {
            return seen;
        }
        let rtt = f64::from(self.srtt_us) / 1e6;
        let reno = PAYLOAD / rtt * (1.5 / self.window.share()).sqrt();
        seen.min(reno.max(self.rate))
    }

    /// What it carried before no longer counts.
    pub fn forget_peaks(&mut self) {
        self.peaks = [self.rate, 0.0];
    }

    /// What it did before says nothing of what it does now.
    pub fn begin_anew(&mut self) {
        self.window = Window::default();
        self.peaks = [0.0; 2];
        self.unanswered_us = None;
    }

    /// A new subflow has counters of its own.
    pub fn opened(&mut self) {
        self.last = None;
    }

    /// Nothing was delivered for so long, µs, although something was sent.
    pub fn stalled_us(&self, now_us: u64) -> Option<u64> {
        self.unanswered_us.map(|at| now_us - at)
    }

    /// Something gets through: while nothing does, only the silence can be judged. A receiver does not know what is in
    /// flight to it, but what a path delivers follows on what it delivered a round trip ago.
    pub fn responds(&self, now_us: u64, config: &Config) -> bool {
        self.unanswered_us.is_none() && self.delivers(now_us, config)
    }

    /// Something has been delivered within the last round trip.
    fn delivers(&self, now_us: u64, config: &Config) -> bool {
        let patience_us = u64::from(self.srtt_us).max(2 * config.interval_us);
        now_us <= self.delivered_us + patience_us
    }

    /// The present subflow has delivered something since the last poll.
    pub fn delivered_at(&self, now_us: u64) -> bool {
        self.delivered_us == now_us && self.opened_us < now_us
    }

    /// Something is in flight, and nothing is delivered.
    pub fn silent(&self, now_us: u64, config: &Config) -> bool {
        self.in_flight && !self.delivers(now_us, config)
    }

    /// For the next connection: how long a round trip is, and what was lost.
    pub fn inherited(&self) -> Estimate {
        Estimate {
            srtt_us: self.srtt_us,
            min_rtt_us: self.min_rtt_us,
            window: self.window,
            ..Estimate::default()
        }
    }
}
