//! What has come of the flows of one end, on its way to programs or targets: held for its order, and joined from parts.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use super::flow::{Arrival, Flow};
use super::packet::{How, Numbers};
use super::parts::{Joiner, Part};

/// Held packets of a flow that may go, go a few at a time: programs' sockets hold a hundred packets or so, and lose the rest. With each
/// packet that arrives so many go …
const WITH_EACH: usize = 2;
/// … and after each pause so many more.
const AT_ONCE: usize = 8;
const PAUSE: Duration = Duration::from_millis(1);

/// What has become of a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is a copy.
    Copy,
    Yes,
    /// It waits, the first of its flow, or others may go: [`Inbox::release`] says when to call it.
    Waits,
}

/// A packet's number, how it went out, which part of a datagram it is, and its payload.
pub type Arrived = (u32, How, Option<Part>, Bytes);

#[derive(Debug, Default)]
pub struct Inbox {
    joiner: Joiner,
    /// Flows of which packets wait, since when, or since the last [`Inbox::release`].
    waiting: HashMap<u32, Duration>,
    /// Of one of them more may go, or is missing, than the last call has said.
    is_early: bool,
}

impl Inbox {
    /// A packet of a flow that minds the order or not, over the path of this slot; `give` gets the datagrams that go on now.
    pub fn put(
        &mut self,
        (id, flow): (u32, &mut Flow),
        (sequence, how, part, payload): Arrived,
        (slot, minds_order): (usize, bool),
        now: Duration,
        mut give: impl FnMut(Bytes),
    ) -> Taken {
        let mut taken = Taken::Yes;
        let arrived = (sequence, how, part, &payload[..]);
        let due = self.has(id).then(|| flow.due(now)).flatten();
        match flow.arrives(arrived, slot, minds_order, now) {
            Arrival::Copy => return Taken::Copy,
            Arrival::Goes => {
                let whole = self.join(id, (sequence, part, payload), now);
                whole.into_iter().for_each(&mut give);
            }
            Arrival::Waits => {
                if let Entry::Vacant(place) = self.waiting.entry(id) {
                    place.insert(now);
                    taken = Taken::Waits;
                } else if flow.due(now) < due {
                    taken = Taken::Waits;
                }
            }
        }
        if self.has(id) {
            let next = self.let_go(id, flow, WITH_EACH, now, give);
            if next == Some(now + PAUSE) {
                taken = Taken::Waits;
            }
        }
        taken
    }

    /// `give` gets the datagrams of this flow that need not wait any more, some at a time. Returns the time of the next call.
    pub fn release(
        &mut self,
        id: u32,
        flow: &mut Flow,
        now: Duration,
        give: impl FnMut(Bytes),
    ) -> Option<Duration> {
        let since = self.waiting.get_mut(&id)?;
        let next = *since + PAUSE;
        if now < next {
            return Some(next);
        }
        *since = now;
        let due = self.let_go(id, flow, AT_ONCE, now, give);
        match self.take_early() {
            true => due.map(|due| due.min(now + PAUSE)),
            false => due,
        }
    }

    /// Whether [`Inbox::release`] is to be called earlier than was said.
    pub fn take_early(&mut self) -> bool {
        std::mem::take(&mut self.is_early)
    }

    /// The same of so many packets, at once.
    fn let_go(
        &mut self,
        id: u32,
        flow: &mut Flow,
        most: usize,
        now: Duration,
        mut give: impl FnMut(Bytes),
    ) -> Option<Duration> {
        for _ in 0..most {
            let Some(kept) = flow.pop(now) else {
                let due = flow.due(now);
                if due.is_none() {
                    self.waiting.remove(&id);
                }
                return due;
            };
            let packet = (kept.sequence, kept.part, kept.payload);
            self.join(id, packet, now).into_iter().for_each(&mut give);
        }
        Some(now + PAUSE)
    }

    /// The other end has no packets of these numbers any more. Then [`Inbox::take_early`].
    pub fn are_gone(
        &mut self,
        (id, flow): (u32, &mut Flow),
        numbers: impl IntoIterator<Item = u32>,
        now: Duration,
        give: impl FnMut(Bytes),
    ) {
        flow.are_gone(numbers);
        if self.let_go(id, flow, WITH_EACH, now, give) == Some(now + PAUSE) {
            self.is_early = true;
        }
    }

    /// Lost packets of this flow that were found since the last call, at most [`Numbers::MOST`]. The other end is to be asked for them,
    /// unless it does not `repair` in time: then nothing waits for them, and the list is empty. Then [`Inbox::take_early`].
    pub fn missing(
        &mut self,
        (id, flow): (u32, &mut Flow),
        repairs: impl FnOnce() -> bool,
        now: Duration,
        give: impl FnMut(Bytes),
    ) -> Vec<u32> {
        let missing = flow.missing(now, Numbers::MOST);
        self.is_early |= missing.len() == Numbers::MOST;
        if missing.is_empty() || repairs() {
            return missing;
        }
        self.are_gone((id, flow), missing, now, give);
        Vec::new()
    }

    /// Whether packets of this flow wait.
    pub fn has(&self, id: u32) -> bool {
        self.waiting.contains_key(&id)
    }

    /// The flows that [`Inbox::release`] is to be called for.
    pub fn waiting(&self) -> Vec<u32> {
        self.waiting.keys().copied().collect()
    }

    /// It is open no more.
    pub fn forget(&mut self, id: u32) {
        self.waiting.remove(&id);
    }

    /// The datagram, unless parts are missing.
    fn join(
        &mut self,
        id: u32,
        (sequence, part, payload): (u32, Option<Part>, Bytes),
        now: Duration,
    ) -> Option<Bytes> {
        match part {
            None => Some(payload),
            Some(part) => {
                let whole = self.joiner.take(id, sequence, part, &payload, now);
                whole.map(Bytes::from)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_gap_that_is_gone_the_rest_goes_at_once() {
        let (mut inbox, mut flow) = (Inbox::default(), Flow::new(Duration::ZERO));
        let now = Duration::from_secs(1);
        let mut gone = Vec::new();
        for number in (0..100).chain(102..142) {
            let payload = Bytes::from(vec![number; 1400]);
            let give = |payload: Bytes| gone.push(payload[0]);
            let arrived = (u32::from(number), How::Bulk, None, payload);
            inbox.put((1, &mut flow), arrived, (0, true), now, give);
        }
        assert_eq!(gone.len(), 100);
        let give = |payload: Bytes| gone.push(payload[0]);
        let asked = inbox.missing((1, &mut flow), || true, now, give);
        assert_eq!(
            (asked.as_slice(), inbox.take_early()),
            (&[100, 101][..], false)
        );
        inbox.are_gone((1, &mut flow), asked, now, |payload| gone.push(payload[0]));
        assert!(inbox.take_early());
        let mut at = now;
        while let Some(due) = inbox.release(1, &mut flow, at, |payload| gone.push(payload[0])) {
            at = due;
        }
        let all: Vec<u8> = (0..100).chain(102..142).collect();
        assert_eq!(gone, all);
        assert!(at - now < 10 * PAUSE, "{at:?}");
    }

    #[test]
    fn what_was_held_goes_a_few_at_a_time() {
        let (mut inbox, mut flow) = (Inbox::default(), Flow::new(Duration::ZERO));
        let mut put = |inbox: &mut Inbox, number: u32, now| {
            let mut gone = Vec::new();
            let payload = Bytes::from(vec![number as u8; 1400]);
            let give = |payload: Bytes| gone.push(payload[0]);
            inbox.put(
                (1, &mut flow),
                (number, How::Bulk, None, payload),
                (0, true),
                now,
                give,
            );
            gone
        };
        let now = Duration::ZERO;
        for number in 0..100 {
            assert_eq!(put(&mut inbox, number, now), [number as u8]);
        }
        for number in 101..151 {
            assert!(put(&mut inbox, number, now).is_empty());
        }
        assert_eq!(put(&mut inbox, 100, now), [100, 101, 102]);
        assert_eq!(put(&mut inbox, 151, now), [103, 104]);
        let (mut now, mut next) = (Duration::ZERO, 105);
        let mut gone = Vec::new();
        while let Some(due) = inbox.release(1, &mut flow, now, |payload| gone.push(payload[0])) {
            assert!(
                gone.len() <= AT_ONCE && due <= now + PAUSE,
                "{gone:?} {due:?}"
            );
            for number in gone.drain(..) {
                assert_eq!(number, next);
                next += 1;
            }
            now = due;
        }
        assert_eq!(next + gone.len() as u8, 152);
        assert!(inbox.waiting().is_empty());
    }
}
