//! What has come of the flows of one end, on its way to programs or targets: held for its order, and joined from parts.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;

use super::flow::{Arrival, Flow};
use super::parts::{Joiner, Part};

/// What has become of a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is a copy.
    Copy,
    Yes,
    /// It waits, the first of its flow: [`Inbox::release`] is to be called in time.
    Waits,
}

/// A packet's number, which part of a datagram it is, and its payload.
pub type Arrived = (u32, Option<Part>, Bytes);

#[derive(Debug, Default)]
pub struct Inbox {
    joiner: Joiner,
    /// Flows of which packets wait for earlier ones.
    waiting: HashSet<u32>,
}

impl Inbox {
    /// A packet of a flow that minds the order or not, over the path of this slot; `give` gets the datagrams that go on now.
    pub fn put(
        &mut self,
        (id, flow): (u32, &mut Flow),
        (sequence, part, payload): Arrived,
        (slot, minds_order): (usize, bool),
        now: Duration,
        mut give: impl FnMut(Bytes),
    ) -> Taken {
        let mut taken = Taken::Yes;
        match flow.arrives((sequence, part, &payload), slot, minds_order, now) {
            Arrival::Copy => return Taken::Copy,
            Arrival::Goes => {
                let whole = self.join(id, (sequence, part, payload), now);
                whole.into_iter().for_each(&mut give);
            }
            Arrival::Waits if self.waiting.insert(id) => taken = Taken::Waits,
            Arrival::Waits => {}
        }
        if self.waiting.contains(&id) {
            self.release(id, flow, now, give);
        }
        taken
    }

    /// `give` gets the datagrams of this flow that need not wait any more. Returns the time of the next.
    pub fn release(
        &mut self,
        id: u32,
        flow: &mut Flow,
        now: Duration,
        mut give: impl FnMut(Bytes),
    ) -> Option<Duration> {
        while let Some(kept) = flow.pop(now) {
            let packet = (kept.sequence, kept.part, kept.payload);
            self.join(id, packet, now).into_iter().for_each(&mut give);
        }
        let due = flow.due();
        if due.is_none() {
            self.waiting.remove(&id);
        }
        due
    }

    /// The flows that [`Inbox::release`] is to be called for.
    pub fn waiting(&self) -> Vec<u32> {
        self.waiting.iter().copied().collect()
    }

    /// It is open no more.
    pub fn forget(&mut self, id: u32) {
        self.waiting.remove(&id);
    }

    /// The datagram, unless parts are missing.
    fn join(
        &mut self,
        id: u32,
        (sequence, part, payload): Arrived,
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
