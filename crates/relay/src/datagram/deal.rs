//! Which paths carry a packet. A packet of a call never waits while there is a path; bulk does.

use std::time::Duration;

use mp_policy::scheduler::{self, shown, ConnectionView, Entry, Schedule, Scheduler, SubflowView};
use mp_policy::MAX_SUBFLOWS;

use crate::SCHEDULER;

/// A bit a slot.
pub type Slots = u8;
/// For schedulers that mind the receiver's window, which datagrams have none of.
const WINDOW: u64 = 1 << 24;
/// A path that bulk has filled has room for copies and repairs up to this many of its windows, or so many packets.
const ROOM_FOR_COPIES: (u32, u32) = (2, 64);

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

    /// For a packet of this many bytes, with so many that wait behind it, whose flow is worth copies or not: its paths, or no bit
    /// where no path is active; [`None`]: it waits for an acknowledgement.
    pub fn pick(
        &mut self,
        bytes: usize,
        behind: usize,
        copied: bool,
        views: &[SubflowView; MAX_SUBFLOWS],
        now_us: u64,
    ) -> Option<Slots> {
        let which = |fits: &dyn Fn(&SubflowView) -> bool| which(views, fits);
        let (normal, live) = living(views);
        // A stale path gets copies too, within its window: the first that is acknowledged shows that it is back.
        let within = |room: (u32, u32)| {
            which(&|v| v.active && has_room(v, room) && !(v.backup && normal != 0))
        };
        if live == 0 {
            // One of them may have come back: all, until one has shown it.
            let active = which(&|v| v.active);
            return match copied || active == 0 {
                true => Some(active),
                false => Some(within((1, 0))).filter(|free| *free != 0),
            };
        }
        if copied {
            let free = within(ROOM_FOR_COPIES);
            return Some(match free & live {
                0 => 1 << least_loaded(bytes, live, views),
                _ => free,
            });
        }
        let chosen = if self.scheduler.replicates() {
            within((1, 0))
        } else {
            let connection = ConnectionView {
                now_us,
                unsent: (bytes + behind) as u64,
                in_flight: views.iter().map(|v| v.queued).sum(),
                window_left: WINDOW,
                reinjected: 0,
            };
            self.scheduler.pick(&connection, &shown(views)[..]).subflows & live
        };
        (chosen & live != 0).then_some(chosen)
    }

    /// Another connection, or none, has this slot.
    pub fn forget(&mut self, slot: usize) {
        self.scheduler.forget(slot);
    }
}

fn which(views: &[SubflowView; MAX_SUBFLOWS], fits: impl Fn(&SubflowView) -> bool) -> Slots {
    let slots = views.iter().enumerate().filter(|(_, v)| fits(v));
    slots.fold(0, |set, (slot, _)| set | 1 << slot)
}

/// Whether less than so many windows, or so many packets, are in flight.
fn has_room(view: &SubflowView, (windows, packets): (u32, u32)) -> bool {
    view.in_flight + view.unsent < view.cwnd.saturating_mul(windows).max(packets)
}

/// The paths that live and are no backups, and those to be used: backups only where there is no other.
fn living(views: &[SubflowView; MAX_SUBFLOWS]) -> (Slots, Slots) {
    let normal = which(views, |v| v.alive() && !v.backup);
    match normal {
        0 => (0, which(views, SubflowView::alive)),
        _ => (normal, normal),
    }
}

/// The path for a packet of this many bytes that is sent again: where it would arrive first, backups only where no other works.
/// [`None`] where no path has room: it would come too late, or make others late.
pub fn for_repair(bytes: usize, views: &[SubflowView; MAX_SUBFLOWS]) -> Option<usize> {
    let (_, live) = living(views);
    let free = live & which(views, |v| has_room(v, ROOM_FOR_COPIES));
    (free != 0).then(|| least_loaded(bytes, free, views))
}

/// Whether a path that [`for_repair`] may choose has a round trip below this.
pub fn is_near(views: &[SubflowView; MAX_SUBFLOWS], below: Duration) -> bool {
    let (_, live) = living(views);
    let near = which(views, |v| Duration::from_micros(v.srtt_us.into()) < below);
    live & near != 0
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
