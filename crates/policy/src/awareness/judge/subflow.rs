//! A path's subflow: opened, refused, given up, opened again.

use super::Judge;
use crate::awareness::{Config, Reason};

impl Judge {
    /// Stalled for so long that a new subflow is the better probe.
    pub fn given_up(&self, now_us: u64, config: &Config) -> bool {
        let tried = self.opening_us + config.retry_us;
        self.parked.is_some_and(|p| {
            p.reason == Reason::Stalled && now_us >= tried.max(p.since_us + config.give_up_us)
        })
    }

    /// A new subflow begins as a backup. Not where nothing got through: its handshake alone ends that, and the kernel's path
    /// manager tells MP_PRIO to the first subflow of an address only, which may be the dead one
    /// (`mptcp_pm_mp_prio_send_ack`, net/mptcp/pm.c).
    pub fn comes_parked(&self) -> bool {
        self.parked.is_some_and(|p| p.reason != Reason::Stalled)
    }

    /// A subflow is being opened.
    pub fn opening(&mut self, now_us: u64) {
        self.opening_us = now_us;
    }

    /// The handshake on a path that has worked before is overdue.
    pub fn overdue(&self, now_us: u64, config: &Config) -> bool {
        let patience = config.retry_us.max(3 * u64::from(self.min_rtt_us));
        self.min_rtt_us > 0 && now_us >= self.opening_us + patience
    }

    /// A subflow is up, and with it the path.
    pub fn opened(&mut self, now_us: u64) {
        if self.parked.is_some_and(|p| p.reason == Reason::Stalled) {
            self.release(now_us);
        }
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
