//! EDPF, earliest delivery path first (Chebrolu, Rao, IEEE TMC 5(4), 2006, section 3.1).
//!
//! Packet i of L_i bytes, ready at the sender at a_i, would arrive over path l at
//!
//! ```text
//! d_i^l = max(a_i + D_l, A_l) + L_i / B_l
//! ```
//!
//! with one-way delay D_l, bandwidth B_l, and A_l the time at which the path becomes free at its far end: the arrival of
//! the packet before it. The path of the least d_i^l takes the packet and A_l becomes that d.
//!
//! The paper knows D_l and B_l. Here D_l is half the minimum RTT, and B_l a window per smoothed RTT, which queueing
//! makes the delivery rate of a full path. A_l is taken from what the subflow holds now, drained at B_l, so that losses
//! and rate changes correct it by themselves. As in the paper a path may be given more than it can send at once: the
//! segment waits in the subflow's send buffer. Where that is full (the paper's queues have no end), the next earliest
//! path takes the segment.

use super::min_rtt::segment;
use super::{candidates, Choice, ConnectionView, Schedule, SubflowView};

#[derive(Debug, Clone, Default)]
pub struct Edpf;

/// Arrival of one more segment, µs from now.
fn arrival_us(s: &SubflowView) -> f64 {
    let delay = f64::from(s.min_rtt_us) / 2.0;
    let rate = f64::from(s.cwnd.max(1)) * f64::from(s.mss) / f64::from(s.srtt_us.max(1)); // bytes/µs
                                                                                          // Of the bytes outstanding, those within the bandwidth-delay product of the way there and back are not queued.
    let behind = (s.queued as f64 / rate - f64::from(s.min_rtt_us)).max(0.0);
    delay + behind + f64::from(s.mss) / rate
}

impl Schedule for Edpf {
    #[inline]
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        candidates(subflows)
            .filter(|(_, s)| s.room > 0)
            .map(|(i, s)| (arrival_us(s), i))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(Choice::WAIT, |(_, i)| segment(connection, subflows, i))
    }
}
