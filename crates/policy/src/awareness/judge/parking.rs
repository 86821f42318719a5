//! When a path is parked, and when it comes back.

use super::{Judge, Window};
use crate::awareness::memory::MEMORY_US;
use crate::awareness::missed::Missed;
use crate::awareness::probe::Evidence;
use crate::awareness::{Backoff, Config, Reason};

/// A path that loses less than this share of what it lost before has become better.
const AGAIN: f64 = 0.5;

#[derive(Debug, Clone, Copy)]
pub(in crate::awareness) struct Parked {
    pub reason: Reason,
    pub(super) since_us: u64,
    /// When it is tried again.
    until_us: u64,
    /// What it lost.
    loss: f64,
    /// Its subflow is a new one, that never carried data.
    relieved: bool,
    pub missed: Missed,
    /// By a connection before this one.
    pub inherited: bool,
}

impl Judge {
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
                Reason::Loss => {
                    let rest = match self.misled {
                        true => parked.until_us,
                        false => {
                            parked.since_us + config.resting.time(self.parkings.saturating_sub(1))
                        }
                    };
                    let cleared = now_us >= rest && self.evidence.clears(parked.loss, config);
                    self.cleared = cleared.then(|| self.evidence.loss(parked.loss));
                    cleared || now_us >= parked.until_us && !self.evidence.condemns(now_us, config)
                }
                _ => now_us >= parked.until_us,
            };
            if !over {
                return;
            }
            // Heavy loss looks like a short stall, each time that a retransmission is lost too. What was counted of it
            // holds, and may be judged at once; not so after an outage, which says nothing of what the path loses now.
            let short = now_us < parked.since_us + config.give_up_us;
            if parked.reason == Reason::Stalled && short {
                self.parked = None;
                (self.changed_us, self.suspect_us) = (None, Some(now_us));
            } else {
                self.release(now_us);
            }
        } else if self
            .suspect_us
            .is_some_and(|t| now_us >= t + config.forget_us)
        {
            (self.suspect_us, self.blamed) = (None, None);
            (self.parkings, self.cleared) = (0, None);
        }
    }

    /// It is normal again; what it did before says nothing of what it does now.
    pub(super) fn release(&mut self, now_us: u64) {
        self.parked = None;
        (self.changed_us, self.suspect_us) = (Some(now_us), Some(now_us));
        self.window = Window::default();
        self.peaks = [0.0; 2];
        self.unanswered = 0;
        self.progress_us = now_us;
    }

    pub fn park(&mut self, reason: Reason, now_us: u64, parking: &Backoff) {
        let alone = match reason {
            Reason::Loss => self.potential(),
            _ => 0.0,
        };
        let until_us = now_us + parking.time(self.parkings);
        let loss = self.window.share();
        let again = |before: f64| reason == Reason::Loss && loss >= AGAIN * before;
        self.misled = self.cleared.take().is_some_and(again);
        self.parked = Some(Parked {
            reason,
            since_us: now_us,
            until_us,
            loss,
            relieved: false,
            missed: Missed::new(now_us, self.together.mean().max(alone)),
            inherited: false,
        });
        self.blamed = Some(reason);
        self.evidence = Evidence::default();
        (self.changed_us, self.suspect_us) = (Some(now_us), Some(now_us));
        let timed = !matches!(reason, Reason::Stalled | Reason::Signal);
        self.parkings += u32::from(timed);
    }

    /// It has just been parked: it comes back unless the stream carries so much without it, bytes/s.
    pub fn on_trial(&mut self, aim: f64) {
        if let Some(parked) = &mut self.parked {
            parked.missed = parked.missed.unless(aim);
        }
    }

    pub fn acquit(&mut self, now_us: u64) {
        self.release(now_us);
        self.parkings = self.parkings.saturating_sub(1);
        if self.parkings == 0 {
            self.suspect_us = None;
        }
        self.acquitted_us = Some(now_us);
    }

    /// Of late it was missed while it was parked.
    pub fn acquitted(&self, now_us: u64, config: &Config) -> bool {
        self.acquitted_us
            .is_some_and(|t| now_us < t + config.forget_us)
    }

    /// Of late it lost, or nothing got through it.
    pub fn was_bad(&self) -> bool {
        matches!(self.blamed, Some(Reason::Loss | Reason::Stalled))
    }

    /// Of late.
    pub fn was_parked(&self) -> bool {
        self.suspect_us.is_some()
    }

    pub fn rested(&self, now_us: u64, config: &Config) -> bool {
        self.changed_us
            .is_none_or(|t| now_us >= t + config.dwell_us)
    }

    /// Once, when what waits on a parked path has had time to arrive.
    pub fn relief_due(&mut self, now_us: u64, config: &Config) -> bool {
        let Some(parked) = &mut self.parked else {
            return false;
        };
        let due = !parked.relieved && now_us >= parked.since_us + config.relief_us;
        parked.relieved |= due;
        due
    }

    /// While nothing is on the way on any path, no time passes for one that is parked: it would come back with the next
    /// transfer, unchanged. Not for ever, as from one connection to the next.
    pub fn rest(&mut self, from_us: u64, to_us: u64) {
        let known = to_us < self.known_us() + MEMORY_US;
        if let Some(parked) = self.parked.as_mut().filter(|_| known) {
            parked.until_us += to_us - from_us;
        }
    }

    /// What the next connection begins with, at `now_us`, where this one last looked at `looked_us`. In between nobody could
    /// use the path, nor find out anything, so that no time has passed for it. What is in use is judged anew: how much a
    /// path carries shows only once the new connection has found its rate.
    pub fn succeed(&self, looked_us: u64, now_us: u64, config: &Config) -> Judge {
        let gap = now_us.saturating_sub(looked_us);
        let later = |at: Option<u64>| at.map(|at| at + gap);
        // A handshake will tell whether something gets through again, and a trial that has not ended has told nothing.
        let lasting = |p: &Parked| p.reason != Reason::Stalled && !p.missed.on_trial();
        let parked = self.parked.filter(lasting);
        let parked = parked.map(|p| {
            // Probes that fail keep it parked, whatever the time. Those of the next connection go to another end, which may
            // answer none: they get one more parking time.
            let condemned = self.evidence.condemns(looked_us, config);
            let proving = config.parking.time(self.parkings.saturating_sub(1));
            let least = now_us + if condemned { proving } else { 0 };
            Parked {
                since_us: p.since_us + gap,
                until_us: (p.until_us + gap).max(least),
                loss: self.evidence.loss(p.loss),
                relieved: false,
                missed: p.missed.anew(now_us),
                inherited: true,
                ..p
            }
        });
        Judge {
            parked,
            srtt_us: self.srtt_us,
            min_rtt_us: self.min_rtt_us,
            window: parked.map_or(Window::default(), |_| self.window),
            changed_us: later(self.changed_us),
            suspect_us: later(self.suspect_us),
            parkings: self.parkings,
            blamed: self.blamed,
            cleared: self.cleared,
            misled: self.misled,
            acquitted_us: later(self.acquitted_us),
            known_us: self.known_us(),
            ..Judge::default()
        }
    }

    /// When something was last heard of the path; 0 where nothing ever was.
    pub fn known_us(&self) -> u64 {
        let own = self.heard_us.max(self.evidence.heard_us());
        self.known_us.max(own)
    }

    /// When it was parked or came back last.
    pub fn changed_us(&self) -> Option<u64> {
        self.changed_us
    }
}
