//! When the subflow of a path is opened again.

use super::config::Config;
use crate::path_manager::Backoff;

/// A dead path gets a new subflow after so long, µs: retransmissions of the old one come ever more rarely, up to two
/// minutes apart, and would find out late that the path is back …
const GIVE_UP_US: u64 = 2_000_000;
/// … and another one after each of these times. Meanwhile the kernel repeats the SYN, after 1, 2, 3, 4, 5, 7 and 11 s
/// (tcp_syn_linear_timeouts), which costs nothing: each subflow that is closed, established or not, makes the sender send all
/// data again that are not acknowledged (`__mptcp_retransmit_pending_data`, net/mptcp/protocol.c). With the longest time a path
/// that returns is found after 4 s at most.
const RETRY: Backoff = Backoff {
    first_us: 6_000_000,
    most_us: 12_000_000,
};

#[derive(Debug, Clone, Default)]
pub(super) struct Timers {
    /// Subflows in a row that failed before anything was delivered, and when to try again.
    failures: u32,
    reopen_us: Option<u64>,
    opening_us: u64,
    /// Subflows in a row that were opened in place of others and delivered nothing.
    in_vain: u32,
}

impl Timers {
    pub fn opening(&mut self, now_us: u64) {
        self.opening_us = now_us;
    }

    /// It is opened in place of one that nothing got through.
    pub fn replaces(&mut self) {
        self.in_vain += 1;
    }

    pub fn opened(&mut self) {
        self.reopen_us = None;
    }

    /// Something is delivered: the next time that the path dies is another one. A handshake alone does not show that data get
    /// through.
    pub fn delivered(&mut self) {
        (self.failures, self.in_vain) = (0, 0);
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

    /// How long the latest subflow is given.
    fn patience_us(&self) -> u64 {
        RETRY.time(self.in_vain.saturating_sub(1))
    }

    /// Whether a path that died at `dead_us` gets a new subflow.
    pub fn may_retry(&self, now_us: u64, dead_us: u64) -> bool {
        let attempt_us = match self.in_vain {
            // Its subflow has delivered data, however young it is.
            0 => 0,
            _ => self.opening_us + self.patience_us(),
        };
        now_us >= attempt_us.max(dead_us + GIVE_UP_US)
    }

    /// Whether a handshake takes too long for a path of this round-trip time; 0: it has never worked.
    pub fn overdue(&self, now_us: u64, min_rtt_us: u32) -> bool {
        let patience_us = self.patience_us().max(3 * u64::from(min_rtt_us));
        min_rtt_us > 0 && now_us >= self.opening_us + patience_us
    }
}
