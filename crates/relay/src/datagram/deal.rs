//! Which paths carry a packet. Somebody always does while there is a path: no packet waits.

use mp_policy::scheduler::{self, shown, ConnectionView, Entry, Schedule, Scheduler, SubflowView};
use mp_policy::MAX_SUBFLOWS;

use crate::SCHEDULER;

/// A bit a slot.
pub type Slots = u8;
/// For schedulers that mind the receiver's window, which datagrams have none of.
const WINDOW: u64 = 1 << 24;

#[derive(Debug)]
pub struct Dealer {
    scheduler: Scheduler,
}

impl Dealer {
    /// Linux' own is of no use here: it fills the queue that a packet then waits in.
    pub fn new(entry: &Entry) -> Dealer {
        let entry = match entry.name {
            "default" => scheduler::find(SCHEDULER).unwrap_or(entry),
            _ => entry,
        };
        Dealer {
            scheduler: entry.build(),
        }
    }

    /// For a packet of this many bytes, whose flow is worth copies or not. Nothing where no path is active.
    pub fn pick(
        &mut self,
        bytes: usize,
        copied: bool,
        views: &[SubflowView; MAX_SUBFLOWS],
        now_us: u64,
    ) -> Slots {
        let which = |fits: &dyn Fn(&SubflowView) -> bool| {
            let slots = views.iter().enumerate().filter(|(_, v)| fits(v));
            slots.fold(0, |set, (slot, _)| set | 1 << slot)
        };
        let normal = which(&|v| v.alive() && !v.backup);
        let live = match normal {
            0 => which(&SubflowView::alive),
            _ => normal,
        };
        if live == 0 {
            // One of them may have come back: all, until one has shown it.
            return which(&|v| v.active);
        }
        if copied || self.scheduler.replicates() {
            // A stale path gets copies too, within its window: the first that is acknowledged shows that it is back.
            let free = which(&|v| v.active && v.window() > 0 && !(v.backup && normal != 0));
            return match free & live {
                0 => 1 << least_loaded(bytes, live, views),
                _ => free,
            };
        }
        let connection = ConnectionView {
            now_us,
            unsent: bytes as u64,
            in_flight: views.iter().map(|v| v.queued).sum(),
            window_left: WINDOW,
            reinjected: 0,
        };
        let choice = self.scheduler.pick(&connection, &shown(views)[..]);
        match choice.subflows & live {
            // All are full, or the scheduler would rather wait.
            0 => 1 << least_loaded(bytes, live, views),
            slots => slots,
        }
    }

    /// Another connection, or none, has this slot.
    pub fn forget(&mut self, slot: usize) {
        self.scheduler.forget(slot);
    }
}

/// Where it would arrive first.
fn least_loaded(bytes: usize, among: Slots, views: &[SubflowView; MAX_SUBFLOWS]) -> usize {
    let arrival = |v: &SubflowView| {
        let ahead = u128::from(v.queued + bytes as u64) * 1_000_000;
        ahead / u128::from(v.pacing_rate.max(10_000)) + u128::from(v.srtt_us / 2)
    };
    let slots = (0..MAX_SUBFLOWS).filter(|slot| among >> slot & 1 == 1);
    slots.min_by_key(|slot| arrival(&views[*slot])).unwrap_or(0)
}
