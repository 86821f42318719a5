//! ECF, earliest completion first (Lim, Nahum, Towsley, Gibbens, CoNEXT 2017, algorithm 1).
//!
//! With k packets still to be scheduled, f the subflow of lowest RTT and s the one that lowest-RTT-first would take
//! because f's window is full:
//!
//! ```text
//! n = 1 + k / CWND_f          δ = max(σ_f, σ_s)
//! if n · RTT_f < (1 + waiting · β) · (RTT_s + δ)       f, once free, is done before s would be …
//!     if k / CWND_s · RTT_s ≥ 2 · RTT_f + δ            … and s would not be done within f's wait:
//!         waiting = 1, send nothing
//!     else send on s
//! else waiting = 0, send on s
//! ```
//!
//! β = 0.25 (section 4.3), a hysteresis. σ is the deviation of the RTT.

use super::min_rtt::{lowest_rtt, lowest_rtt_ready, segment};
use super::{Choice, ConnectionView, Schedule, SubflowView};

const BETA: f64 = 0.25;

#[derive(Debug, Clone, Default)]
pub struct Ecf {
    waiting: bool,
}

impl Schedule for Ecf {
    #[inline]
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        let (Some(fast), Some(ready)) = (lowest_rtt(subflows), lowest_rtt_ready(subflows)) else {
            return Choice::WAIT;
        };
        if ready != fast {
            let (f, s) = (&subflows[fast], &subflows[ready]);
            let (rtt_f, rtt_s) = (f64::from(f.srtt_us), f64::from(s.srtt_us));
            let k = connection.unsent as f64 / f64::from(f.mss.max(1));
            let delta = f64::from(f.rttvar_us.max(s.rttvar_us));
            let n = 1.0 + k / f64::from(f.cwnd.max(1));
            let hysteresis = if self.waiting { 1.0 + BETA } else { 1.0 };
            if n * rtt_f < hysteresis * (rtt_s + delta) {
                if k / f64::from(s.cwnd.max(1)) * rtt_s >= 2.0 * rtt_f + delta {
                    self.waiting = true;
                    return Choice::WAIT;
                }
            } else {
                self.waiting = false;
            }
        }
        segment(connection, subflows, ready)
    }

    fn plans_ahead(&self) -> bool {
        true
    }
}
