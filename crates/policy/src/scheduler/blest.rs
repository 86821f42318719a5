//! BLEST, blocking estimation (Ferlin, Alay, Mehani, Boreli, IFIP Networking 2016).
//!
//! When only a slow subflow S has room in its window, estimate what the fast subflow F will want to send while a
//! segment on S is under way (equation 1 of the paper, F's window growing by one packet a round trip):
//!
//! ```text
//! rtts = RTT_S / RTT_F
//! X    = MSS_F · (CWND_F + (rtts − 1) / 2) · rtts
//! ```
//!
//! S is skipped where that does not fit into the send window besides what S holds there (equation 2):
//!
//! ```text
//! X · λ > MPTCP_SW − MSS_S · (inflight_S + 1)
//! ```
//!
//! λ corrects the estimate: once an RTT of S, up where the window was blocked after all (seen as a reinjection), else
//! down. The paper leaves step and bounds open; they are those of its authors' code (net/mptcp/mptcp_blest.c: start
//! 1.2, within 1.0 … 1.3, +0.04, −0.01).

use super::min_rtt::{lowest_rtt, lowest_rtt_ready, segment};
use super::{Choice, ConnectionView, Schedule, SubflowView};

/// λ in thousandths.
const LAMBDA_START: u32 = 1200;
const LAMBDA_MIN: u32 = 1000;
const LAMBDA_MAX: u32 = 1300;
const LAMBDA_UP: u32 = 40;
const LAMBDA_DOWN: u32 = 10;

#[derive(Debug, Clone)]
pub struct Blest {
    lambda: u32,
    updated_us: u64,
    reinjected: u64,
}

impl Default for Blest {
    fn default() -> Self {
        Blest {
            lambda: LAMBDA_START,
            updated_us: 0,
            reinjected: 0,
        }
    }
}

impl Blest {
    /// λ, thousandths.
    pub fn lambda(&self) -> u32 {
        self.lambda
    }

    fn adapt(&mut self, connection: &ConnectionView, slow: &SubflowView) {
        if connection.now_us.saturating_sub(self.updated_us) < u64::from(slow.srtt_us) {
            return;
        }
        self.lambda = if connection.reinjected > self.reinjected {
            (self.lambda + LAMBDA_UP).min(LAMBDA_MAX)
        } else {
            (self.lambda - LAMBDA_DOWN).max(LAMBDA_MIN)
        };
        self.updated_us = connection.now_us;
        self.reinjected = connection.reinjected;
    }

    fn would_block(
        &self,
        connection: &ConnectionView,
        slow: &SubflowView,
        fast: &SubflowView,
    ) -> bool {
        let rtts = f64::from(slow.srtt_us) / f64::from(fast.srtt_us.max(1));
        let x = f64::from(fast.mss) * (f64::from(fast.cwnd) + (rtts - 1.0) / 2.0) * rtts;
        let window = connection.in_flight.saturating_add(connection.window_left) as f64;
        let slow_bytes =
            f64::from(slow.mss) * (f64::from(slow.in_flight) + f64::from(slow.unsent) + 1.0);
        x * f64::from(self.lambda) / 1000.0 > window - slow_bytes
    }
}

impl Schedule for Blest {
    #[inline]
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        let (Some(fast), Some(ready)) = (lowest_rtt(subflows), lowest_rtt_ready(subflows)) else {
            return Choice::WAIT;
        };
        if ready != fast {
            self.adapt(connection, &subflows[ready]);
            if self.would_block(connection, &subflows[ready], &subflows[fast]) {
                return Choice::WAIT;
            }
        }
        segment(connection, subflows, ready)
    }
}
