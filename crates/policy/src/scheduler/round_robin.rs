//! Round robin over the subflows whose congestion window has room, one segment each (net/mptcp/mptcp_rr.c of the
//! out-of-tree MPTCP with `num_segments` = 1 and `cwnd_limited`, its defaults).

use super::min_rtt::segment;
use super::{eligible, Choice, ConnectionView, Schedule, SubflowView};

#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    /// Slot to be asked first.
    next: usize,
}

impl Schedule for RoundRobin {
    #[inline]
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        let set = eligible(subflows);
        let n = subflows.len();
        for k in 0..n {
            let i = (self.next + k) % n;
            if set >> i & 1 == 1 && subflows[i].ready() {
                let choice = segment(connection, subflows, i);
                if !choice.is_wait() {
                    self.next = (i + 1) % n;
                }
                return choice;
            }
        }
        Choice::WAIT
    }
}
