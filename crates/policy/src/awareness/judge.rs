//! One path's record.

use super::loss::Window;
use super::{Config, Loss, Reason};
use crate::path_manager::Stats;

/// Rates are smoothed over about this time, µs.
const SMOOTHING_US: f64 = 1e6;

pub(super) fn weight(elapsed_us: f64) -> f64 {
    elapsed_us / (elapsed_us + SMOOTHING_US)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Parked {
    pub reason: Reason,
    since_us: u64,
    /// When it is tried again.
    until_us: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Judge {
    pub parked: Option<Parked>,
    /// Payload delivered, bytes/s.
    pub rate: f64,
    pub srtt_us: u32,
    min_rtt_us: u32,
    window: Window,
    last: Option<Stats>,
    /// Packets sent since something was last delivered, and when that was.
    unanswered: u64,
    progress_us: u64,
    progressed: bool,
    /// Latest change between parked and not; `None` before the first.
    changed_us: Option<u64>,
    /// Times in a row that it was parked, or acquitted.
    parkings: u32,
    acquittals: u32,
    acquitted_us: u64,
    /// Failures to open in a row, and when to try again.
    failures: u32,
    reopen_us: Option<u64>,
}

impl Judge {
    /// New counters, `elapsed` µs after the last.
    pub fn measure(&mut self, now_us: u64, elapsed: f64, stats: Option<&Stats>, config: &Config) {
        self.progressed = false;
        let Some(&stats) = stats else {
            self.last = None;
            self.rate = 0.0;
            return;
        };
        // A first look, or another subflow: nothing to compare with.
        let last = self
            .last
            .replace(stats)
            .filter(|l| l.sent <= stats.sent && l.delivered <= stats.delivered);
        let Some(last) = last else {
            self.progress_us = now_us;
            self.unanswered = 0;
            return;
        };
        (self.srtt_us, self.min_rtt_us) = (stats.srtt_us, stats.min_rtt_us);
        let (sent, delivered) = (stats.sent - last.sent, stats.delivered - last.delivered);
        if let Some(loss) = config.loss {
            self.window
                .add(sent, stats.lost.saturating_sub(last.lost), loss.window);
        }
        self.rate += weight(elapsed) * (delivered as f64 * 1e6 / elapsed - self.rate);
        self.unanswered += sent;
        if delivered > 0 || self.unanswered == 0 {
            self.progressed = delivered > 0;
            self.unanswered = 0;
            self.progress_us = now_us;
        }
    }

    pub fn loss(&self) -> f64 {
        self.window.lower_bound()
    }

    /// Ends a parking whose time or cause is over.
    pub fn settle(&mut self, now_us: u64, signal_dbm: Option<i32>, config: &Config) {
        if let Some(parked) = self.parked {
            let rested = now_us >= parked.since_us + config.dwell_us;
            let over = match parked.reason {
                Reason::Stalled => self.progressed,
                Reason::Signal => {
                    let back = config
                        .signal
                        .is_none_or(|s| signal_dbm.is_none_or(|dbm| dbm >= s.back));
                    rested && back
                }
                _ => now_us >= parked.until_us,
            };
            if over {
                self.release(now_us);
            }
        } else if self
            .changed_us
            .is_some_and(|t| now_us >= t + config.forget_us)
        {
            self.parkings = 0;
        }
    }

    fn release(&mut self, now_us: u64) {
        self.parked = None;
        self.changed_us = Some(now_us);
        self.window = Window::default();
        self.unanswered = 0;
        self.progress_us = now_us;
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
        let rested = self
            .changed_us
            .is_none_or(|t| now_us >= t + config.dwell_us);
        // While nothing at all gets through, silence will tell: a stall ends sooner than a parking for loss.
        if !rested || self.unanswered > 0 {
            return None;
        }
        if config
            .signal
            .is_some_and(|s| signal_dbm.is_some_and(|dbm| dbm < s.park))
        {
            return Some((Reason::Signal, 1e6 - f64::from(signal_dbm.unwrap_or(0))));
        }
        let loss = self.loss();
        if config.loss.is_some_and(|rule| loss > self.threshold(&rule)) {
            return Some((Reason::Loss, 1.0 + loss));
        }
        let rtt = f64::from(self.srtt_us);
        config
            .rtt
            .filter(|r| self.srtt_us > r.park)
            .map(|r| (Reason::Rtt, rtt / (rtt + f64::from(r.park))))
    }

    /// A path that has been parked of late has to do better than one that has not.
    fn threshold(&self, rule: &Loss) -> f64 {
        let class = if self.min_rtt_us < rule.long_rtt_us {
            rule.short
        } else {
            rule.long
        };
        if self.parkings > 0 {
            class.back
        } else {
            class.park
        }
    }

    pub fn park(&mut self, reason: Reason, now_us: u64, config: &Config) {
        let until_us = now_us + config.parking.time(self.parkings);
        self.parked = Some(Parked {
            reason,
            since_us: now_us,
            until_us,
        });
        self.changed_us = Some(now_us);
        self.parkings += 1;
    }

    /// Whether a trial without this path is due: not right after a change, nor soon after an acquittal.
    pub fn may_be_tried(&self, now_us: u64, config: &Config) -> bool {
        let rested = self
            .changed_us
            .is_none_or(|t| now_us >= t + config.dwell_us);
        let pardoned = self.acquittals > 0
            && now_us < self.acquitted_us + config.parking.time(self.acquittals);
        rested && !pardoned
    }

    pub fn acquit(&mut self, now_us: u64) {
        self.release(now_us);
        self.parkings = self.parkings.saturating_sub(1);
        self.acquittals += 1;
        self.acquitted_us = now_us;
    }

    /// A subflow is up.
    pub fn opened(&mut self) {
        self.failures = 0;
        self.reopen_us = None;
        self.last = None;
    }

    /// A subflow was refused, reset, or timed out.
    pub fn failed(&mut self, now_us: u64, config: &Config) {
        self.reopen_us = Some(now_us + config.reopening.time(self.failures));
        self.failures += 1;
    }

    /// Once when it is time to open a subflow again.
    pub fn reopen_due(&mut self, now_us: u64) -> bool {
        self.reopen_us.take_if(|t| *t <= now_us).is_some()
    }
}
