//! Lowest RTT first: of the subflows whose congestion window has room, the one with the lowest smoothed RTT. The
//! default of the out-of-tree MPTCP (net/mptcp/mptcp_sched.c, `get_subflow_from_selectors`).

use super::{candidates, Choice, ConnectionView, Schedule, SubflowView};

#[derive(Debug, Clone, Default)]
pub struct MinRtt;

/// The ready subflow of lowest srtt, `None` where none is ready.
#[inline]
pub(super) fn lowest_rtt_ready(subflows: &[SubflowView]) -> Option<usize> {
    candidates(subflows)
        .filter(|(_, s)| s.ready())
        .min_by_key(|(_, s)| s.srtt_us)
        .map(|(i, _)| i)
}

/// The live subflow of lowest srtt, ready or not.
#[inline]
pub(super) fn lowest_rtt(subflows: &[SubflowView]) -> Option<usize> {
    candidates(subflows)
        .min_by_key(|(_, s)| s.srtt_us)
        .map(|(i, _)| i)
}

/// One segment on slot `i`, as far as the peer's window admits it.
#[inline]
pub(super) fn segment(connection: &ConnectionView, subflows: &[SubflowView], i: usize) -> Choice {
    match connection.window_left.min(u64::from(subflows[i].mss)) {
        0 => Choice::WAIT,
        bytes => Choice::one(i, bytes as u32),
    }
}

impl Schedule for MinRtt {
    #[inline]
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        lowest_rtt_ready(subflows).map_or(Choice::WAIT, |i| segment(connection, subflows, i))
    }
}
