//! The open paths of one end, and a packet's way onto them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mp_policy::link::Priority;
use mp_policy::scheduler::{Entry, SubflowView};
use mp_policy::MAX_SUBFLOWS;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::deal::{Dealer, Slots};
use super::packet::{Packet, MOST_HEADER};
use super::parts::Part;
use super::quic::Channel;
use super::repeat::{self, Known, Repeats};

/// Of one end, in packets.
#[derive(Debug, Default)]
pub struct Counts {
    /// Each once, however often it was copied.
    pub sent: AtomicU64,
    pub copies: AtomicU64,
    pub received: AtomicU64,
    /// Copies that came later than the first.
    pub duplicates: AtomicU64,
    pub too_big: AtomicU64,
    /// There was no path.
    pub dropped: AtomicU64,
}

pub fn count(of: &AtomicU64, more: u64) {
    of.fetch_add(more, Ordering::Relaxed);
}

pub enum Sent {
    /// Over these.
    Yes(Slots),
    TooBig,
    NoPath,
}

/// Memory for packets, taken from the system at once.
const SLAB: usize = 1 << 16;

pub struct Paths {
    channels: [Option<Arc<Channel>>; MAX_SUBFLOWS],
    priorities: [Priority; MAX_SUBFLOWS],
    dealer: Dealer,
    slab: BytesMut,
    /// Packets that wait for [`Paths::flush`], by path.
    queues: [Vec<Bytes>; MAX_SUBFLOWS],
    /// The paths as the first packet of the batch has found them, and what the batch has given them since.
    batch: Option<Batch>,
    repeats: Repeats,
    /// There is something to repeat, or there are no paths any more.
    repeating: Arc<Notify>,
}

struct Batch {
    views: [SubflowView; MAX_SUBFLOWS],
    rooms: [usize; MAX_SUBFLOWS],
    known: [Known; MAX_SUBFLOWS],
}

/// Does what `due` does, which says how long nothing is due; `None`: nothing is there. It ends when there are no paths any
/// more.
pub async fn repeat_when_due(repeating: Arc<Notify>, due: impl Fn() -> Option<Option<Duration>>) {
    while let Some(pause) = due() {
        match pause {
            Some(pause) => sleep(pause).await,
            None => repeating.notified().await,
        }
    }
}

impl Paths {
    pub fn new(scheduler: &Entry) -> Paths {
        Paths {
            channels: Default::default(),
            priorities: Default::default(),
            dealer: Dealer::new(scheduler),
            slab: BytesMut::new(),
            queues: Default::default(),
            batch: None,
            repeats: Repeats::default(),
            repeating: Arc::default(),
        }
    }

    /// In place of the one that is there.
    pub fn join(&mut self, slot: usize, priority: Priority, channel: Arc<Channel>) {
        self.flush();
        self.dealer.forget(slot);
        self.priorities[slot] = priority;
        if let Some(old) = self.channels[slot].replace(channel) {
            old.close();
        }
    }

    /// Unless another is there by now.
    pub fn set_priority(&mut self, slot: usize, channel: &Arc<Channel>, priority: Priority) {
        if self.is(slot, channel) {
            self.flush();
            self.priorities[slot] = priority;
        }
    }

    fn is(&self, slot: usize, channel: &Arc<Channel>) -> bool {
        let there = self.channels[slot].as_ref();
        there.is_some_and(|there| Arc::ptr_eq(there, channel))
    }

    /// Unless another is there by now.
    pub fn leave(&mut self, slot: usize, channel: &Arc<Channel>) {
        self.flush();
        if self.is(slot, channel) {
            self.channels[slot] = None;
            self.dealer.forget(slot);
            channel.close();
        }
    }

    /// The connections of all paths; each leaves then.
    pub fn close(&self) {
        for channel in self.channels.iter().flatten() {
            channel.close();
        }
    }

    pub fn is_backup(&self, slot: usize) -> bool {
        self.priorities[slot] == Priority::Backup
    }

    pub fn get(&self, slot: usize) -> Option<&Arc<Channel>> {
        self.channels[slot].as_ref()
    }

    pub fn are_open(&self) -> bool {
        self.channels.iter().any(Option::is_some)
    }

    fn batch(&mut self) -> &mut Batch {
        self.batch
            .get_or_insert_with(|| Batch::begin(&self.channels, &self.priorities))
    }

    /// Bytes of a payload that fits on some path, and of a part of one that fits on every path.
    pub fn widths(&mut self) -> (usize, usize) {
        let rooms = self.batch().rooms;
        let widest = rooms.into_iter().max().unwrap_or(0);
        let narrowest = rooms.into_iter().filter(|room| *room > 0).min();
        let part = narrowest.unwrap_or(0).saturating_sub(MOST_HEADER);
        (
            widest.saturating_sub(MOST_HEADER),
            part.saturating_sub(Part::LENGTH),
        )
    }

    /// Chooses the packet's paths. It goes with the next [`Paths::flush`].
    pub fn send(&mut self, packet: &Packet, copied: bool, now: Duration, counts: &Counts) -> Sent {
        let datagram = self.encode(packet);
        let batch = self
            .batch
            .get_or_insert_with(|| Batch::begin(&self.channels, &self.priorities));
        let fitting = batch.fitting(datagram.len());
        let now_us = now.as_micros() as u64;
        let slots = self.dealer.pick(datagram.len(), copied, &fitting, now_us);
        if slots == 0 {
            let (kind, sent) = match batch.rooms.iter().any(|room| *room > 0) {
                true => (&counts.too_big, Sent::TooBig),
                false => (&counts.dropped, Sent::NoPath),
            };
            count(kind, 1);
            return sent;
        }
        for slot in (0..MAX_SUBFLOWS).filter(|slot| slots >> slot & 1 == 1) {
            batch.give(slot, datagram.len() as u64);
            self.queues[slot].push(datagram.clone());
        }
        count(&counts.sent, 1);
        count(&counts.copies, u64::from(slots.count_ones()) - 1);
        if let (true, Packet::Data { .. }) = (copied, packet) {
            if let Some(slot) = repeat::path(slots, &batch.known, &fitting) {
                self.repeats.put(slot, datagram, now);
                self.repeating.notify_one();
            }
        }
        Sent::Yes(slots)
    }

    pub fn repeating(&self) -> Arc<Notify> {
        self.repeating.clone()
    }

    /// Sends what is to be repeated by now; for how long there is nothing else, where there is more.
    pub fn repeat(&mut self, now: Duration, counts: &Counts) -> Option<Duration> {
        while let Some((slot, datagram)) = self.repeats.take(now) {
            // The path may be another one by now.
            let channel = self.channels[slot].as_ref();
            if channel.is_some_and(|channel| datagram.len() <= channel.room()) {
                self.queues[slot].push(datagram);
                count(&counts.copies, 1);
            }
        }
        self.flush();
        self.repeats.due().map(|due| due.saturating_sub(now))
    }

    fn encode(&mut self, packet: &Packet) -> Bytes {
        let most = packet.most_bytes();
        if self.slab.capacity() < most {
            self.slab.reserve(SLAB.max(most));
        }
        packet.write(&mut self.slab);
        self.slab.split().freeze()
    }

    /// What the batch has for each path goes to it at once: one lock and one wake-up, and packets of one size in one call.
    pub fn flush(&mut self) {
        self.batch = None;
        for (queue, channel) in self.queues.iter_mut().zip(&self.channels) {
            if let (Some(channel), false) = (channel, queue.is_empty()) {
                channel.send(queue);
            }
            queue.clear();
        }
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        self.repeating.notify_one();
    }
}

impl Batch {
    fn begin(
        channels: &[Option<Arc<Channel>>; MAX_SUBFLOWS],
        priorities: &[Priority; MAX_SUBFLOWS],
    ) -> Batch {
        let mut batch = Batch {
            views: Default::default(),
            rooms: Default::default(),
            known: Default::default(),
        };
        for (slot, channel) in channels.iter().enumerate() {
            if let Some(channel) = channel {
                batch.rooms[slot] = channel.room();
                batch.views[slot] = channel.view();
                batch.known[slot] = channel.known();
                batch.views[slot].set_priority(priorities[slot]);
            }
        }
        batch
    }

    /// The paths that a packet of this length fits on.
    fn fitting(&self, bytes: usize) -> [SubflowView; MAX_SUBFLOWS] {
        let mut views = self.views;
        for (view, room) in views.iter_mut().zip(&self.rooms) {
            if bytes > *room {
                *view = SubflowView::default();
            }
        }
        views
    }

    fn give(&mut self, slot: usize, bytes: u64) {
        let view = &mut self.views[slot];
        view.queued += bytes;
        view.in_flight += 1;
        view.room = view.room.saturating_sub(bytes);
    }
}
