//! One path's record.

mod parking;
mod subflow;

use parking::Parked;

use super::loss::Window;
use super::missed::Together;
use super::probe::Evidence;
use super::{Config, Contribution, Reason};
use crate::path_manager::Stats;

/// Rates are smoothed over about this time, µs.
const SMOOTHING_US: f64 = 1e6;
/// What counts as having carried a rate, µs, and how long that is remembered.
const PEAK_SMOOTHING_US: f64 = 2e5;
const PEAK_MEMORY_US: u64 = 120_000_000;
/// A path whose queue has stood for so long, with something delivered at each look, has shown what it can carry, µs.
const FULL_US: u64 = 500_000;
/// An estimate below this share of the last one is another estimate.
pub(super) const REVISED: f64 = 0.7;

pub(super) fn weight(elapsed_us: f64) -> f64 {
    elapsed_us / (elapsed_us + SMOOTHING_US)
}

/// Over a fifth of a second.
pub(super) fn brief_weight(elapsed_us: f64) -> f64 {
    elapsed_us / (elapsed_us + PEAK_SMOOTHING_US)
}

#[derive(Debug, Clone, Default)]
pub(super) struct Judge {
    pub parked: Option<Parked>,
    pub evidence: Evidence,
    /// Payload delivered, bytes/s.
    pub rate: f64,
    pub srtt_us: u32,
    min_rtt_us: u32,
    /// Loss events that no queue explains.
    window: Window,

    /// Latest loss event.
    event_us: u64,
    /// Nothing was delivered since.
    event_open: bool,
    /// Payload of a packet, bytes.
    packet: f64,
    /// Delivery over about a fifth of a second, bytes/s, and its maxima in this and in the previous half of the memory.
    pub recent: f64,
    peaks: [f64; 2],
    peaks_us: u64,
    /// The maximum since the queue began to stand, and when that was.
    full: f64,
    full_us: u64,
    last: Option<Stats>,
    /// Packets sent since something was last delivered, and when that was.
    unanswered: u64,
    progress_us: u64,
    progressed: bool,
    /// First look at its subflow.
    opened_us: u64,
    /// When something was last delivered.
    heard_us: u64,
    /// Latest change between parked and not, after which it stays as it is for a while; `None` where nothing is waited
    /// for.
    changed_us: Option<u64>,
    /// When it was parked or came back last; `None` once that is forgotten.
    suspect_us: Option<u64>,
    /// What it was last parked for; `None` once that is forgotten.
    blamed: Option<Reason>,
    /// Parkings in a row that ended by time.
    parkings: u32,
    /// Probes ended its last parking for loss, after it had lost so much; and it lost that again: it loses what they do not,
    /// as where its own data fill a short queue.
    cleared: Option<f64>,
    misled: bool,
    /// When it was last found to be missed.
    acquitted_us: Option<u64>,
    /// What the stream carries with this path, since it last began to lose.
    together: Together,
    sank: bool,
    /// Failures to open in a row, and when to try again.
    failures: u32,
    reopen_us: Option<u64>,
    opening_us: u64,
    /// When a connection before this one last heard of the path.
    known_us: u64,
}

impl Judge {
    /// More is being sent over it than it carries: its queue stands, or it loses.
    pub fn pressed(&self, now_us: u64) -> bool {
        self.full > 0.0 || self.event_us > 0 && now_us <= self.event_us
    }

    /// New counters, `elapsed` µs after the last.
    pub fn measure(&mut self, now_us: u64, elapsed: f64, stats: Option<&Stats>, config: &Config) {
        self.progressed = false;
        let Some(&stats) = stats else {
            self.last = None;
            (self.rate, self.recent) = (0.0, 0.0);
            return;
        };
        // A first look, or another subflow: nothing to compare with.
        let last = self
            .last
            .replace(stats)
            .filter(|l| l.sent <= stats.sent && l.delivered <= stats.delivered);
        let Some(last) = last else {
            (self.opened_us, self.progress_us, self.heard_us) = (now_us, now_us, now_us);
            self.unanswered = 0;
            return;
        };
        (self.srtt_us, self.min_rtt_us) = (stats.srtt_us, stats.min_rtt_us);
        let (sent, delivered) = (stats.sent - last.sent, stats.delivered - last.delivered);
        let queue = config.loss.map_or(f64::MAX, |rule| rule.queue);
        let congested = f64::from(self.srtt_us) > queue * f64::from(self.min_rtt_us);
        if let Some(rule) = config.loss {
            let lost = stats.lost.saturating_sub(last.lost);
            let events = u64::from(self.loss_event(now_us, lost));
            self.event_open &= delivered == 0;
            self.window
                .add(sent, if congested { 0 } else { events }, rule.window);
        }
        let rate = delivered as f64 * 1e6 / elapsed;
        // A path that has nothing to carry does not show what it can.
        if delivered > 0 || stats.unacked > 0 {
            self.rate += weight(elapsed) * (rate - self.rate);
        }
        self.remember_peak(now_us, elapsed, rate, congested);
        let arrived = stats.sent.saturating_sub(stats.lost);
        if arrived > 0 {
            self.packet = stats.delivered as f64 / arrived as f64;
        }
        if delivered > 0 {
            self.heard_us = now_us;
        }
        self.unanswered += sent;
        if delivered > 0 || self.unanswered == 0 {
            self.progressed = delivered > 0;
            self.unanswered = 0;
            self.progress_us = now_us;
        }
    }

    /// Losses within one round trip, or between two looks, are one event (RFC 5348 section 5.2): a full buffer drops
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

    fn remember_peak(&mut self, now_us: u64, elapsed: f64, rate: f64, congested: bool) {
        self.recent += brief_weight(elapsed) * (rate - self.recent);
        if now_us >= self.peaks_us + PEAK_MEMORY_US / 2 {
            self.peaks = [0.0, self.peaks[0]];
            self.peaks_us = now_us;
        }
        self.peaks[0] = self.peaks[0].max(self.recent);
        if !congested || rate == 0.0 {
            (self.full, self.full_us) = (0.0, now_us);
            return;
        }
        self.full = self.full.max(self.recent);
        if now_us >= self.full_us + FULL_US {
            self.peaks = [self.full, 0.0];
            (self.peaks_us, self.full, self.full_us) = (now_us, 0.0, now_us);
        }
    }

    /// What the path alone would carry, bytes/s: what it was seen to carry since its queue last stood, which shows all that
    /// it can; or what its loss leaves to a Reno-like controller if that is less (Mathis et al. 1997), but no less than it
    /// carries now:
    ///
    /// ```text
    /// MSS / RTT · √(3 / 2p)
    /// ```
    pub fn potential(&self) -> f64 {
        let seen = self.peaks[0].max(self.peaks[1]);
        if self.loss() == 0.0 || self.srtt_us == 0 {
            return seen;
        }
        let rtt = f64::from(self.srtt_us) / 1e6;
        let reno = self.packet / rtt * (1.5 / self.window.share()).sqrt();
        seen.min(reno.max(self.rate))
    }

    /// Lower bound of the loss events per packet.
    pub fn loss(&self) -> f64 {
        self.window.lower_bound()
    }

    /// Why the path should be parked now, and how bad it is.
    pub fn grounds(
        &self,
        now_us: u64,
        signal_dbm: Option<i32>,
        config: &Config,
    ) -> Option<(Reason, f64)> {
        let silence = (config.stall_rtts * u64::from(self.srtt_us)).max(config.stall_us);
        if self.unanswered > 0 && now_us >= self.progress_us + silence {
            return Some((Reason::Stalled, f64::MAX));
        }
        if !self.rested(now_us, config) {
            return None;
        }
        if config
            .signal
            .is_some_and(|s| signal_dbm.is_some_and(|dbm| dbm < s.park))
        {
            return Some((Reason::Signal, 1e6 - f64::from(signal_dbm.unwrap_or(0))));
        }
        let rtt = f64::from(self.srtt_us);
        config
            .rtt
            .filter(|r| self.srtt_us > r.park)
            .map(|r| (Reason::Rtt, rtt / (rtt + f64::from(r.park))))
    }

    /// Its loss, where that is above the threshold: a lower one for a path that has been parked of late.
    pub fn lossy(&self, now_us: u64, config: &Config) -> Option<f64> {
        let rule = config.loss?;
        let class = if self.min_rtt_us < rule.long_rtt_us {
            rule.short
        } else {
            rule.long
        };
        let (threshold, events) = if self.was_parked() {
            (class.back, rule.events / 2)
        } else {
            (class.park, rule.events)
        };
        let loss = self.loss();
        // One that came back and loses heavily again has had its chance. While nothing at all gets through, silence will tell: a stall ends sooner than a parking for loss.
        let heavy = self.was_parked() && loss > rule.heavy;
        let judged = (heavy || self.rested(now_us, config)) && self.answers(now_us, config);
        (judged && self.window.lost() >= events && loss > threshold).then_some(loss)
    }

    /// Something gets through: while nothing does, only the silence can be judged. A receiver does not know what is on the
    /// way to it, but what a path delivers follows on what it delivered a round trip ago.
    pub fn answers(&self, now_us: u64, config: &Config) -> bool {
        self.unanswered == 0 && self.delivers(now_us, config)
    }

    /// Something has been delivered of late.
    pub fn delivers(&self, now_us: u64, config: &Config) -> bool {
        now_us <= self.heard_us + self.patience(config)
    }

    /// Something is on the way, and nothing is heard.
    pub fn silent(&self, now_us: u64, config: &Config) -> bool {
        self.last.is_some_and(|s| s.unacked > 0) && now_us > self.heard_us + self.patience(config)
    }

    fn patience(&self, config: &Config) -> u64 {
        u64::from(self.srtt_us).max(2 * config.interval_us)
    }

    /// Its subflow has had the time to find its rate.
    pub fn grown(&self, now_us: u64, rule: &Contribution) -> bool {
        now_us >= self.opened_us + rule.grown_us
    }

    /// It loses, and how little it carries with that is not known yet.
    pub fn sinks(&self, now_us: u64, config: &Config) -> bool {
        self.lossy(now_us, config).is_some() && self.recent < REVISED * self.potential()
    }

    /// The stream moved on with this path at work.
    pub fn worked(&mut self, now_us: u64, step: (f64, f64), config: &Config) {
        let sinks = self.lossy(now_us, config).is_some();
        if sinks && !self.sank {
            self.together = Together::default();
        }
        // While nothing is heard of it, it has not ceased to lose.
        if self.answers(now_us, config) {
            self.sank = sinks;
        }
        self.together.add(step, config.together_s);
    }

    /// Other paths are at work from now on.
    pub fn begin_anew(&mut self) {
        self.together = Together::default();
    }

    /// What it carried before no longer counts.
    pub fn forget_peaks(&mut self) {
        self.peaks = [self.rate, 0.0];
    }
}
