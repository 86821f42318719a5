//! Redundant: every subflow carries the whole stream, and the receiver takes whichever copy comes first (Frömmgen et
//! al. 2016; net/mptcp/mptcp_redundant.c of the out-of-tree MPTCP).
//!
//! A subflow that falls behind skips what is acknowledged at the data level meanwhile, so the connection runs at the
//! pace of the best subflow rather than of the worst; the caller's cursors do that ([`Schedule::replicates`]).

use super::{candidates, Choice, ConnectionView, Schedule, SubflowView};

#[derive(Debug, Clone, Default)]
pub struct Redundant;

impl Schedule for Redundant {
    #[inline]
    fn pick(&mut self, _: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        // The receive window is left to the caller: a copy of data in flight needs none of it.
        let mut choice = Choice::WAIT;
        for (i, s) in candidates(subflows).filter(|(_, s)| s.ready()) {
            let mss = s.mss.max(1);
            choice.burst = if choice.is_wait() {
                mss
            } else {
                choice.burst.min(mss)
            };
            choice.subflows |= 1 << i;
        }
        choice
    }

    fn replicates(&self) -> bool {
        true
    }
}
