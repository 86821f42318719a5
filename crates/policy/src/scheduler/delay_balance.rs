//! Delay balancing: a block of packets is split so that its parts are expected to end together ([`crate::balance`]).
//!
//! A link's D is half its smoothed RTT and the time that packets take which wait there or were promised to it; its pace comes
//! from the acknowledgements of its last 200 packets, taken while most of its window was out. A link whose window is full keeps
//! its promise while others go on with further blocks. Until every subflow has a pace, and for subflows that come later, the
//! one of lowest RTT goes first.

use super::min_rtt::{lowest_rtt_ready, segment};
use super::{candidates, Choice, ConnectionView, Schedule, SubflowView};
use crate::balance::{balance, Balance, Link, Pace};
use crate::MAX_SUBFLOWS;

/// Packets in a block at most: larger ones are balanced no better and take longer to split.
const BLOCK: u32 = 64;
/// A lower target than this cannot be told from the noise of round-trip times, µs.
const LEAST_TARGET_US: f64 = 1000.0;
/// Packets with which a pace is known well enough.
const ENOUGH: usize = 16;
/// Blocks that are split at once at most, while none of them has a packet for a link that is ready.
const AHEAD: usize = 8;

#[derive(Debug, Clone, Default)]
struct Slot {
    pace: Pace,
    /// When its acknowledgements were last counted, and how many there were. None until one arrives at a full link: the
    /// time before that is the link's delay or an idle time, and says nothing of its pace.
    seen_us: Option<u64>,
    delivered: u64,
    /// Most of its window was out at the last look: acknowledgements come as fast as the link goes, not as it is given.
    full: bool,
    /// Packets of the blocks so far that it still is to carry.
    promised: u32,
}

#[derive(Debug, Clone, Default)]
pub struct DelayBalance {
    slots: [Slot; MAX_SUBFLOWS],
    /// When the last block is expected to be there: what was not sent until then is split anew.
    due_us: u64,
    target_us: Option<u64>,
}

impl Slot {
    fn look(&mut self, now_us: u64, view: &SubflowView) {
        let acked = view.delivered.saturating_sub(self.delivered);
        match self.seen_us.filter(|_| self.full) {
            // Of the same moment: counted with those that come next.
            Some(seen) if acked == 0 || now_us <= seen => {}
            seen => {
                if let Some(seen) = seen {
                    let packets = acked.min(u64::from(u32::MAX)) as u32;
                    self.pace.observe((now_us - seen) as f64, packets);
                }
                self.seen_us = (self.full && acked > 0).then_some(now_us);
                self.delivered = view.delivered;
            }
        }
        self.full = view.in_flight > 0 && view.in_flight >= view.cwnd / 2;
    }
}

/// max(1 ms, τ − max D_i) over the links that carry: the part of τ that a queue may take up.
fn target_us(links: &[Link], split: &Balance) -> u64 {
    let used = links.iter().zip(&split.packets).filter(|(_, w)| **w > 0);
    let delay = used.map(|(l, _)| l.delay_us).fold(0.0, f64::max);
    (split.expected_us - delay).clamp(LEAST_TARGET_US, 60e6) as u64
}

impl DelayBalance {
    /// Splits a block of so many packets; false while too little is known.
    fn plan(&mut self, now_us: u64, subflows: &[SubflowView], packets: u32) -> bool {
        let open = || candidates(subflows);
        if open().any(|(i, _)| self.slots[i].pace.len() < ENOUGH) {
            return false;
        }
        let links: Vec<_> = open()
            .map(|(i, s)| {
                let slot = &self.slots[i];
                let mut link = slot.pace.link(0.0);
                let before = f64::from(s.unsent) + f64::from(slot.promised);
                link.delay_us = f64::from(s.srtt_us) / 2.0 + before * link.pace_us;
                link
            })
            .collect();
        let split = balance(&links, packets);
        // A shorter block says how little there is to send, not how long the links take.
        if packets == BLOCK {
            self.target_us = Some(target_us(&links, &split));
        }
        for ((i, _), &share) in open().zip(&split.packets) {
            self.slots[i].promised += share;
        }
        self.due_us = now_us.saturating_add(split.expected_us.min(1e9) as u64);
        true
    }

    /// The ready subflow of lowest RTT that still has a share to carry.
    fn next(&self, subflows: &[SubflowView]) -> Option<usize> {
        candidates(subflows)
            .filter(|(i, s)| self.slots[*i].promised > 0 && s.ready())
            .min_by_key(|(_, s)| s.srtt_us)
            .map(|(i, _)| i)
    }

    /// Packets of the next block: none before there are enough for a whole one, while others are promised.
    fn block(&self, connection: &ConnectionView, subflows: &[SubflowView]) -> u32 {
        let promised = candidates(subflows).map(|(i, _)| u64::from(self.slots[i].promised));
        let promised: u64 = promised.sum();
        let mss = candidates(subflows).map(|(_, s)| s.mss).max();
        let unsent = connection
            .unsent
            .div_ceil(u64::from(mss.unwrap_or(1).max(1)));
        match unsent.saturating_sub(promised).min(u64::from(BLOCK)) as u32 {
            BLOCK => BLOCK,
            less if promised == 0 => less.max(1),
            _ => 0,
        }
    }

    /// The slot for the next packet. `None`: it belongs to a subflow whose window is full, elsewhere it would arrive later.
    fn slot(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Option<usize> {
        if connection.now_us >= self.due_us {
            self.slots.iter_mut().for_each(|s| s.promised = 0);
        }
        for _ in 0..AHEAD {
            if let Some(slot) = self.next(subflows) {
                return Some(slot);
            }
            match self.block(connection, subflows) {
                0 => return None,
                block if self.plan(connection.now_us, subflows, block) => {}
                _ => return lowest_rtt_ready(subflows),
            }
        }
        self.next(subflows)
    }
}

impl Schedule for DelayBalance {
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        for (slot, view) in self.slots.iter_mut().zip(subflows) {
            slot.look(connection.now_us, view);
        }
        if lowest_rtt_ready(subflows).is_none() || connection.window_left == 0 {
            return Choice::WAIT;
        }
        let Some(slot) = self.slot(connection, subflows) else {
            return Choice::WAIT;
        };
        let promised = &mut self.slots[slot].promised;
        *promised = promised.saturating_sub(1);
        segment(connection, subflows, slot)
    }

    fn queue_target_us(&self) -> Option<u64> {
        self.target_us
    }

    fn forget(&mut self, subflow: usize) {
        self.slots[subflow] = Slot::default();
    }

    fn plans_ahead(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(srtt_us: u32, cwnd: u32) -> SubflowView {
        SubflowView {
            active: true,
            mss: 1000,
            srtt_us,
            cwnd,
            room: 1 << 30,
            ..SubflowView::default()
        }
    }

    /// Acknowledges packets on two links at a steady pace while it picks.
    fn taught(paces_us: [u64; 2], views: &mut [SubflowView; 2]) -> (DelayBalance, u64) {
        let mut scheduler = DelayBalance::default();
        let mut connection = ConnectionView {
            unsent: 1 << 30,
            window_left: 1 << 30,
            ..ConnectionView::default()
        };
        for now_us in (0..40_000).step_by(10) {
            connection.now_us = now_us;
            for (view, pace) in views.iter_mut().zip(paces_us) {
                view.in_flight = 999;
                view.delivered = now_us / pace;
            }
            scheduler.pick(&connection, views);
        }
        scheduler.slots.iter_mut().for_each(|s| s.promised = 0);
        (scheduler, connection.now_us)
    }

    #[test]
    fn a_block_is_split_by_pace() {
        let mut views = [view(20_000, 1000), view(20_000, 1000)];
        let (mut scheduler, now_us) = taught([100, 300], &mut views);
        assert!(scheduler.plan(now_us, &views, BLOCK));
        let share = [scheduler.slots[0].promised, scheduler.slots[1].promised];
        assert_eq!(share.iter().sum::<u32>(), 64);
        assert_eq!(share, [48, 16], "three times as fast, three times as many");
        // 48 packets at 100 µs take as long as 16 at 300 µs.
        assert_eq!(scheduler.queue_target_us(), Some(4_800));
    }

    #[test]
    fn the_target_is_what_the_balanced_delay_leaves_for_queues() {
        let link = |delay_us, pace_us| Link {
            delay_us,
            pace_us,
            covariance: Vec::new(),
        };
        let target = |links: &[Link]| target_us(links, &balance(links, 60));
        // 20 + 0.5·w = 30 + 0.5·(60 − w) ms: 40 and 20 packets, and τ = 40 ms.
        assert_eq!(
            target(&[link(20_000.0, 500.0), link(30_000.0, 500.0)]),
            10_000
        );
        // A link that is too far to carry anything takes nothing from the others' target.
        assert_eq!(
            target(&[link(20_000.0, 500.0), link(90_000.0, 500.0)]),
            30_000
        );
        assert_eq!(target(&[link(20_000.0, 5.0)]), 1_000, "the least");
    }

    #[test]
    fn a_short_block_leaves_the_target() {
        let mut views = [view(20_000, 1000), view(20_000, 1000)];
        let (mut scheduler, now_us) = taught([100, 300], &mut views);
        let before = scheduler.queue_target_us();
        assert!(before.is_some());
        assert!(scheduler.plan(now_us, &views, 3));
        assert_eq!(scheduler.queue_target_us(), before);
    }

    #[test]
    fn neither_idle_time_nor_the_first_round_trip_counts_as_pace() {
        let mut slot = Slot::default();
        let mut view = view(20_000, 10);
        let mut now_us = 0;
        for _ in 0..20 {
            // Ten packets at once, acknowledged 100 µs apart after 20 ms; then nothing for 50 ms.
            view.in_flight = 10;
            slot.look(now_us, &view);
            now_us += 20_000;
            for _ in 0..10 {
                (view.in_flight, view.delivered) = (view.in_flight - 1, view.delivered + 1);
                slot.look(now_us, &view);
                now_us += 100;
            }
            now_us += 50_000;
        }
        assert!(slot.pace.len() > ENOUGH);
        assert_eq!(slot.pace.link(0.0).pace_us, 100.0);
    }

    #[test]
    fn what_belongs_to_a_full_link_waits_for_it() {
        let mut views = [view(20_000, 1000), view(20_000, 1000)];
        let (mut scheduler, now_us) = taught([100, 100], &mut views);
        let connection = ConnectionView {
            now_us,
            unsent: 20_000,
            window_left: 1 << 30,
            ..ConnectionView::default()
        };
        assert!(scheduler.plan(now_us, &views, 20));
        views[1].in_flight = 1000;
        let sent = (0..20)
            .take_while(|_| scheduler.pick(&connection, &views).first() == Some(0))
            .count();
        assert_eq!(sent, 10, "its own half");
        let late = ConnectionView {
            now_us: now_us + 1_000_000,
            ..connection
        };
        assert!(!scheduler.pick(&late, &views).is_wait(), "not for ever");
    }

    #[test]
    fn a_long_stream_does_not_wait_for_a_full_link() {
        let mut views = [view(20_000, 1000), view(20_000, 1000)];
        let (mut scheduler, now_us) = taught([100, 300], &mut views);
        views[0].in_flight = 1000;
        let connection = ConnectionView {
            now_us,
            unsent: 1 << 30,
            window_left: 1 << 30,
            ..ConnectionView::default()
        };
        for _ in 0..1000 {
            assert_eq!(scheduler.pick(&connection, &views).first(), Some(1));
        }
        // As long as a block takes the other one, which is free each time.
        assert_eq!(scheduler.slots[0].promised, 192);
    }
}
