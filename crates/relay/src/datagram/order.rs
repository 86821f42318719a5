//! Restores the order of a bulk flow whose packets came over paths of unlike delay.
//!
//! A path delivers in order, so a packet is lost once every path that has delivered something of the flow within [`LATE`] has
//! delivered a later one. Then the other end is asked for it, once. No packet waits for longer than [`LONGEST`], nor for one that the
//! other end has not any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mp_policy::MAX_SUBFLOWS;

/// Longer than the delays of two useful paths differ, queues included: a path may still bring a packet for so long after its last.
pub const LATE: Duration = Duration::from_millis(100);
/// A repair may take so long.
pub const REPAIR: Duration = Duration::from_millis(60);
/// A packet is held at most.
pub const LONGEST: Duration = LATE.saturating_add(REPAIR);
/// Bytes held of one flow; beyond, the next ones go.
pub const MOST: usize = 1 << 22;
/// A number that is so far off begins anew.
const FAR: u64 = 1 << 16;

/// Time is that since any fixed moment.
#[derive(Debug)]
pub struct Order<T> {
    /// One above the highest number released; none before the first packet. Sequence numbers wrap, these do not.
    next: Option<i64>,
    held: BTreeMap<i64, (T, usize)>,
    bytes: usize,
    /// Arrival times of held packets, oldest first; released ones may still be listed.
    since: VecDeque<(Duration, i64)>,
    /// Packets up to this number have waited for [`LONGEST`].
    overdue: i64,
    /// Highest number that each path has delivered, and the time of its last packet.
    paths: [Option<(i64, Duration)>; MAX_SUBFLOWS],
    /// Those below were asked for where they were missing.
    asked: i64,
    /// Lost, and not to be waited for.
    gone: BTreeSet<i64>,
}

/// The number near `next` that wraps to this one.
fn unwrapped(sequence: u32, next: i64) -> i64 {
    next + i64::from(sequence.wrapping_sub(next as u32) as i32)
}

/// The place of a packet that has to wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Place(i64);

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order {
            next: None,
            held: BTreeMap::new(),
            bytes: 0,
            since: VecDeque::new(),
            overdue: i64::MIN,
            paths: [None; MAX_SUBFLOWS],
            asked: i64::MIN,
            gone: BTreeSet::new(),
        }
    }
}

impl<T> Order<T> {
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// A packet that is no copy of an earlier one has come, over this path or sent again: [`None`] where it goes at once, before what is
    /// held.
    pub fn take(&mut self, sequence: u32, slot: Option<usize>, now: Duration) -> Option<Place> {
        let (number, next) = self.first(sequence, slot, now);
        if number > next {
            return Some(Place(number));
        }
        self.next = Some(next.max(number + 1));
        None
    }

    /// One goes at once, because nothing is held and its flow is small.
    pub fn pass(&mut self, sequence: u32, slot: usize, now: Duration) {
        let (number, next) = self.first(sequence, Some(slot), now);
        self.next = Some(next.max(number + 1));
    }

    /// A copy of an earlier one has come: this path has delivered all that went over it before.
    pub fn copy(&mut self, sequence: u32, slot: usize, now: Duration) {
        let Some(next) = self.next else { return };
        let number = unwrapped(sequence, next);
        if number.abs_diff(next) < FAR {
            self.has_delivered(number, slot, now);
        }
    }

    /// The number of a packet that is no copy, and [`Order::next`].
    fn first(&mut self, sequence: u32, slot: Option<usize>, now: Duration) -> (i64, i64) {
        let mut next = self.next.unwrap_or(sequence.into());
        let number = unwrapped(sequence, next);
        if number.abs_diff(next) >= FAR {
            next = number;
            if self.holds() {
                self.overdue = i64::MAX;
            }
            self.paths = [None; MAX_SUBFLOWS];
            self.asked = number;
            self.gone.clear();
        }
        self.next = Some(next);
        // What is sent again tells nothing of what went out before it.
        if let Some(slot) = slot {
            self.has_delivered(number, slot, now);
        }
        (number, next)
    }

    fn has_delivered(&mut self, number: i64, slot: usize, now: Duration) {
        let newest = self.paths[slot].map_or(number, |(newest, _)| newest.max(number));
        self.paths[slot] = Some((newest, now));
    }

    /// Holds a packet until [`Order::pop`] returns it.
    pub fn hold(&mut self, Place(number): Place, item: T, bytes: usize, now: Duration) {
        self.bytes += bytes;
        self.since.push_back((now, number));
        self.held.insert(number, (item, bytes));
    }

    /// The next packet that need not wait any more.
    pub fn pop(&mut self, now: Duration) -> Option<T> {
        while let Some((since, number)) = self.since.front().copied() {
            let is_overdue = now.saturating_sub(since) >= LONGEST;
            if is_overdue {
                self.overdue = self.overdue.max(number);
            }
            if !is_overdue && self.held.contains_key(&number) {
                break;
            }
            self.since.pop_front();
        }
        let (first, mut next) = (*self.held.keys().next()?, self.next?);
        if !self.gone.is_empty() {
            self.gone = self.gone.split_off(&next);
            while self.gone.remove(&next) {
                next += 1;
            }
            self.next = Some(next);
        }
        if first > next.max(self.overdue) && self.bytes <= MOST {
            return None;
        }
        self.next = Some(next.max(first + 1));
        let (item, bytes) = self.held.remove(&first)?;
        self.bytes -= bytes;
        if self.held.is_empty() {
            self.overdue = i64::MIN;
            self.gone.clear();
        }
        Some(item)
    }

    /// Numbers that were found to be lost since the last call, `most` at most: the other end is to be asked for them, or
    /// [`Order::is_gone`] called.
    pub fn missing(&mut self, now: Duration, most: usize) -> Vec<u32> {
        let (Some(next), Some(last)) = (self.next, self.held.keys().next_back()) else {
            return Vec::new();
        };
        let past = self.all_past(now).min(*last);
        let unasked = self.asked.max(next)..past;
        let lost = unasked.filter(|number| !self.held.contains_key(number));
        let lost: Vec<i64> = lost.take(most).collect();
        self.asked = match lost.last() {
            Some(last) if lost.len() == most => last + 1,
            _ => self.asked.max(past),
        };
        // Numbers wrap.
        lost.into_iter().map(|number| number as u32).collect()
    }

    /// This number will not come.
    pub fn is_gone(&mut self, sequence: u32) {
        let Some(next) = self.next else { return };
        let number = unwrapped(sequence, next);
        if (next..self.asked).contains(&number) && !self.held.contains_key(&number) {
            self.gone.insert(number);
        }
    }

    /// Number that every path of late has delivered or passed.
    fn all_past(&self, now: Duration) -> i64 {
        let of_late = |path: &&(i64, Duration)| now.saturating_sub(path.1) < LATE;
        let paths = self.paths.iter().flatten().filter(of_late);
        paths.map(|(newest, _)| *newest).min().unwrap_or(i64::MAX)
    }

    /// Time of the next release, or loss to be found, without an arrival. Call it after [`Order::pop`] has returned nothing.
    pub fn due(&self, now: Duration) -> Option<Duration> {
        let (since, _) = self.since.front()?;
        let last = *self.held.keys().next_back()?;
        let paths = self.paths.iter().flatten();
        let awaited = paths.filter(|(newest, _)| *newest < last);
        let silent = awaited.map(|(_, at)| *at + LATE).filter(|at| *at > now);
        silent.chain([*since + LONGEST]).min()
    }
}
