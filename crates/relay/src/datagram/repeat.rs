//! Small flows have a copy of each packet on every path. Where all copies are lost too often, one more follows a little later.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mp_policy::scheduler::SubflowView;
use mp_policy::MAX_SUBFLOWS;

use super::deal::Slots;

/// The product of the paths' losses up to which copies suffice: one packet in a thousand.
const TARGET: f64 = 1e-3;
/// A burst of losses that takes a packet on all paths may be over by then; a jitter buffer still waits.
const LATER: Duration = Duration::from_millis(5);
/// A path's queue is short while no packet waits longer than this in it, or than half of a round trip: else what it loses is what
/// it is given, and more would make that worse.
const QUEUE: Duration = Duration::from_millis(25);
/// Packets that wait; further ones are not sent again.
const MOST: usize = 256;

/// What is known of a path beside the schedulers' view.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// The share of packets that were lost of late.
    pub loss: f64,
    /// What a packet waits in its queue at least.
    pub queue: Duration,
}

/// The path for one more copy of a packet that went over these `slots`; `None` where it is not worth it.
pub fn path(
    slots: Slots,
    known: &[Known; MAX_SUBFLOWS],
    views: &[SubflowView; MAX_SUBFLOWS],
) -> Option<usize> {
    let used = || (0..MAX_SUBFLOWS).filter(|slot| slots >> slot & 1 == 1);
    let loss = |slot: usize| match views[slot].stale {
        true => 1.0,
        false => known[slot].loss,
    };
    if used().map(loss).product::<f64>() <= TARGET {
        return None;
    }
    let fits = |slot: &usize| {
        let view = &views[*slot];
        let most = QUEUE.max(Duration::from_micros(view.min_rtt_us.into()) / 2);
        view.alive() && view.window() > 0 && known[*slot].queue <= most
    };
    used().filter(fits).min_by(|a, b| {
        let rtt = |slot: usize| views[slot].srtt_us;
        loss(*a).total_cmp(&loss(*b)).then(rtt(*a).cmp(&rtt(*b)))
    })
}

/// Packets that are sent once more when their time has come.
#[derive(Debug, Default)]
pub struct Repeats(VecDeque<(Duration, usize, Bytes)>);

impl Repeats {
    /// Time never goes back.
    pub fn put(&mut self, slot: usize, packet: Bytes, now: Duration) {
        if self.0.len() < MOST {
            self.0.push_back((now + LATER, slot, packet));
        }
    }

    /// The next one whose time has come, and its path.
    pub fn take(&mut self, now: Duration) -> Option<(usize, Bytes)> {
        self.due().filter(|due| *due <= now)?;
        let (_, slot, packet) = self.0.pop_front()?;
        Some((slot, packet))
    }

    /// When that is.
    pub fn due(&self) -> Option<Duration> {
        self.0.front().map(|(due, ..)| *due)
    }
}
