//! When the subflow of a path is opened again.

use super::config::Config;

/// A dead path gets a new subflow after so long, µs: retransmissions of the old one come ever more rarely, up to two
/// minutes apart, and would find out late that the path is back …
const GIVE_UP_US: u64 = 2_000_000;
/// … and again after so long, µs: a SYN each, about 40 bytes/s.
const RETRY_US: u64 = 1_500_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Timers {
    /// Failures to open in a row, and when to try again.
    failures: u32,
    reopen_us: Option<u64>,
    opening_us: u64,
}

impl Timers {
    pub fn opening(&mut self, now_us: u64) {
        self.opening_us = now_us;
    }

    pub fn opened(&mut self) {
        (self.failures, self.reopen_us) = (0, None);
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

    /// Whether a path that died at `dead_us` gets a new subflow.
    pub fn may_retry(&self, now_us: u64, dead_us: u64) -> bool {
        now_us >= (self.opening_us + RETRY_US).max(dead_us + GIVE_UP_US)
    }

    /// Whether a handshake takes too long for a path of this round-trip time; 0: it has never worked.
    pub fn overdue(&self, now_us: u64, min_rtt_us: u32) -> bool {
        let patience_us = RETRY_US.max(3 * u64::from(min_rtt_us));
        min_rtt_us > 0 && now_us >= self.opening_us + patience_us
    }
}
