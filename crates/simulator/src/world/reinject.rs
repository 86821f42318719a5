//! Data sent again on another subflow: after a data-level timeout, and all of them when a subflow goes stale or away
//! (`__mptcp_retrans`, `mptcp_pm_subflow_chk_stale`, `__mptcp_retransmit_pending_data`).

use mp_policy::scheduler::pick_reinjection;

use super::{cx, World};
use crate::agenda::NEVER;
use crate::mptcp::FRAGMENT;
use crate::time::MICROSECOND;

/// A subflow is stale after more timeouts without an ACK than this (net.mptcp.stale_loss_cnt).
const STALE: u32 = 4;

impl World<'_> {
    /// `mptcp_timeout_from_subflow`: the longest of the subflows' own timeouts.
    fn data_timeout(&self, index: u32) -> u64 {
        let connection = &self.connections[index as usize];
        let now = self.net.now;
        let longest = connection.slots.iter().filter_map(|&i| {
            let s = &self.subflows[i as usize];
            // Linux leaves out what has been counted at all, but computes the interval as it sends, before the count.
            let live = s.sender.established && !s.sender.dead && s.stale_count < 2;
            s.sender
                .timeout()
                .filter(|_| live)
                .map(|at| at.saturating_sub(now))
        });
        let floor = u64::from(crate::tcp::RTO_MIN_US) * MICROSECOND;
        match longest.max() {
            Some(t) if t > 0 => t,
            _ => floor,
        }
    }

    /// The data-level retransmission timer may be due.
    pub(super) fn on_data_timeout(&mut self, index: u32) {
        let now = self.net.now;
        let timeout = self.data_timeout(index);
        let connection = &mut self.connections[index as usize];
        if connection.closed || connection.una >= connection.next {
            connection.retransmit_at = NEVER;
            return;
        }
        // Data were acknowledged since the timer was set: it runs from then on.
        if connection.progress + timeout > now {
            connection.retransmit_at = connection.progress + timeout;
            return;
        }
        let stuck = self.note_stale(index);
        let connection = &mut self.connections[index as usize];
        let count = connection.slots.len();
        if let Some(slot) = pick_reinjection(&connection.views[..count], stuck) {
            let chosen = connection.slots[slot];
            let segments = u64::from(FRAGMENT / connection.mss).max(1);
            let end = (connection.una + segments).min(connection.next);
            let s = &mut self.subflows[chosen as usize];
            for dseq in connection.una..end {
                s.sender.assign(dseq);
            }
            connection.reinjected += end - connection.una;
            let mut cx = cx(&mut self.net, connection);
            s.sender.push(&mut cx);
            self.refresh(chosen);
            self.arm(chosen);
        }
        self.feed(index);
        let timeout = self.data_timeout(index);
        let connection = &mut self.connections[index as usize];
        connection.progress = now;
        connection.retransmit_at = now + timeout;
    }

    /// Counts timeouts of subflows without an ACK (`mptcp_pm_subflow_chk_stale`): the first in a row counts whatever came
    /// before it. The least count among those with data outstanding.
    fn note_stale(&mut self, index: u32) -> u32 {
        let mut least = u32::MAX;
        for k in 0..self.connections[index as usize].slots.len() {
            let i = self.connections[index as usize].slots[k];
            let s = &mut self.subflows[i as usize];
            if !s.sender.established || s.sender.dead || s.sender.queued() == 0 {
                continue;
            }
            if s.stale_count == 0 {
                s.stale_stamp = s.sender.last_ack;
                s.stale_count = 1;
            } else if s.stale_stamp == s.sender.last_ack {
                s.stale_count += 1;
                let late = s.stale_count > STALE && !s.stale;
                if late && self.has_alternative(index, i) {
                    self.subflows[i as usize].stale = true;
                    self.refresh(i);
                    self.send_all_again(index);
                }
            } else {
                s.stale_count = 0;
                s.stale = false;
                self.refresh(i);
            }
            least = least.min(self.subflows[i as usize].stale_count);
        }
        least
    }

    /// Another subflow gets through.
    fn has_alternative(&self, index: u32, stale: u32) -> bool {
        self.connections[index as usize].slots.iter().any(|&i| {
            let s = &self.subflows[i as usize];
            let live = s.sender.established && !s.sender.dead && !s.stale;
            i != stale && live && s.stale_count < STALE - 1
        })
    }

    /// Everything not acknowledged at the data level is handed out anew.
    pub(super) fn send_all_again(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.pending = connection.una;
        let una = connection.una;
        for cursor in &mut connection.cursors {
            *cursor = una;
        }
    }
}
