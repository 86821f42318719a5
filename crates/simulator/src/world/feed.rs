//! The connection gives its subflows what the scheduler decides (`__mptcp_push_pending`).

use mp_policy::scheduler::{Schedule, SubflowView};

use super::{cx, World};
use crate::mptcp::{Subflow, FRAGMENT};

fn view(s: &Subflow) -> SubflowView {
    let sender = &s.sender;
    let flow = &sender.flow;
    let queued = sender.queued();
    SubflowView {
        active: sender.established && !sender.dead,
        stale: s.stale,
        backup: s.backup,
        preferred: false,
        mss: sender.profile.mss,
        srtt_us: flow.srtt_us,
        rttvar_us: sender.rtt.deviation_us(),
        min_rtt_us: if flow.min_rtt_us == u32::MAX {
            0
        } else {
            flow.min_rtt_us
        },
        cwnd: flow.cwnd,
        in_flight: flow.in_flight(),
        unsent: (sender.end() - flow.snd_nxt) as u32,
        queued,
        room: sender.buffer.saturating_sub(queued),
        pacing_rate: flow.pacing_rate,
        sent: sender.sent,
        lost: flow.lost,
        delivered: flow.delivered,
    }
}

impl World<'_> {
    /// Brings the scheduler's view of a subflow up to date.
    #[inline]
    pub(super) fn refresh(&mut self, index: u32) {
        let s = &self.subflows[index as usize];
        let connection = &mut self.connections[s.connection as usize];
        if connection.multipath && connection.slots.get(s.slot) == Some(&index) {
            connection.views[s.slot] = view(s);
        }
    }

    /// The send buffers of the live subflows make up the connection's (`__mptcp_sync_sndbuf`).
    pub(super) fn resize_buffer(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !connection.multipath {
            return;
        }
        let live = connection
            .slots
            .iter()
            .map(|&i| &self.subflows[i as usize].sender);
        let sum = live
            .filter(|s| s.established && !s.dead)
            .map(|s| s.buffer)
            .sum();
        connection.buffer.resize(sum, connection.una);
    }

    /// Hands out data while the scheduler finds somebody to take them.
    pub(super) fn feed(&mut self, index: u32) {
        let connection = &self.connections[index as usize];
        if !connection.multipath || connection.closed {
            if let (false, Some(&i)) = (connection.closed, connection.slots.first()) {
                let connection = &mut self.connections[index as usize];
                let mut cx = cx(&mut self.net, connection);
                self.subflows[i as usize].sender.push(&mut cx);
                self.arm(i);
            }
            return;
        }
        if connection.scheduler.replicates() {
            return self.feed_copies(index);
        }
        loop {
            let connection = &mut self.connections[index as usize];
            connection.pending = connection.pending.max(connection.una);
            let limit = connection.limit();
            if connection.pending >= limit {
                break;
            }
            let count = connection.slots.len();
            let picture = connection.view(self.net.now);
            let choice = connection
                .scheduler
                .pick(&picture, &connection.views[..count]);
            connection.follow_scheduler();
            let Some(slot) = choice.first() else { break };
            let Some(&chosen) = connection.slots.get(slot) else {
                break;
            };
            let s = &mut self.subflows[chosen as usize];
            // Whole fragments, until the burst is used up or the send buffer is full.
            let room = s.sender.buffer.saturating_sub(s.sender.queued());
            let wanted = u64::from(choice.burst)
                .min(room)
                .div_ceil(u64::from(FRAGMENT));
            let burst = (wanted * u64::from(FRAGMENT)).min(u64::from(choice.burst));
            let segments = (burst / u64::from(connection.mss)).max(1);
            let end = (connection.pending + segments).min(limit);
            if room == 0 || end == connection.pending {
                break;
            }
            // A burst of full segments leaves no short one at its end.
            let ragged = burst % u64::from(connection.mss) != 0;
            let from = connection.pending;
            s.sender.assign_burst(from, end, ragged && end < limit);
            connection.reinjected += end.min(connection.next).saturating_sub(connection.pending);
            connection.pending = end;
            connection.next = connection.next.max(end);
            if connection.retransmit_at == u64::MAX {
                connection.progress = self.net.now;
                connection.retransmit_at = self.net.now + u64::from(crate::tcp::RTO_MIN_US) * 1000;
                self.arm_connection(index);
            }
            self.push(chosen);
            for other in choice.iter().skip(1).filter(|&other| other < count) {
                self.copy(index, other, from, end);
            }
        }
    }

    /// Another subflow carries the same: the receiver takes what comes first, and drops what comes twice.
    fn copy(&mut self, index: u32, slot: usize, from: u64, end: u64) {
        let chosen = self.connections[index as usize].slots[slot];
        let sender = &mut self.subflows[chosen as usize].sender;
        if sender.queued() < sender.buffer {
            (from..end).for_each(|dseq| sender.assign(dseq));
            self.push(chosen);
        }
    }

    /// Every subflow that has room gets what it has not carried yet.
    fn feed_copies(&mut self, index: u32) {
        loop {
            let connection = &mut self.connections[index as usize];
            let limit = connection.limit();
            let count = connection.slots.len();
            for cursor in &mut connection.cursors[..count] {
                *cursor = (*cursor).max(connection.una);
            }
            let least = (0..count)
                .filter(|&i| connection.views[i].ready())
                .map(|i| connection.cursors[i])
                .min();
            if least.is_none_or(|least| least >= limit) {
                break;
            }
            let picture = connection.view(self.net.now);
            let choice = connection
                .scheduler
                .pick(&picture, &connection.views[..count]);
            let mut given = false;
            for slot in choice.iter().filter(|&slot| slot < count) {
                let connection = &mut self.connections[index as usize];
                let chosen = connection.slots[slot];
                let s = &mut self.subflows[chosen as usize];
                let burst = u64::from(choice.burst.div_ceil(connection.mss));
                let from = connection.cursors[slot];
                let end = (from + burst).min(limit);
                if end <= from || s.sender.queued() >= s.sender.buffer {
                    continue;
                }
                for dseq in from..end {
                    s.sender.assign(dseq);
                }
                connection.cursors[slot] = end;
                connection.next = connection.next.max(end);
                connection.pending = connection.next;
                given = true;
                self.push(chosen);
            }
            if !given {
                break;
            }
        }
    }

    /// A subflow sends what it was given.
    fn push(&mut self, index: u32) {
        let s = &mut self.subflows[index as usize];
        let connection = &mut self.connections[s.connection as usize];
        let mut cx = cx(&mut self.net, connection);
        s.sender.push(&mut cx);
        self.refresh(index);
        self.arm(index);
    }
}
