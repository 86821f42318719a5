//! The open paths of one end, and a packet's way onto them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mp_policy::link::Priority;
use mp_policy::scheduler::{Entry, SubflowView};
use mp_policy::MAX_SUBFLOWS;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::deal::{for_repair, is_near, Dealer, Slots};
use super::order::REPAIR;
use super::packet::{encoded, Numbers, Packet, MOST_HEADER};
use super::parts::Part;
use super::queue::Queue;
use super::quic::Channel;
use super::repair::{Found, Recent};
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
    /// There was no path, or too much waited for one.
    pub dropped: AtomicU64,
}

impl Counts {
    /// For the first time, over these paths.
    fn on_sent(&self, slots: Slots) {
        count(&self.sent, 1);
        count(&self.copies, u64::from(slots.count_ones()) - 1);
    }
}

pub fn count(of: &AtomicU64, more: u64) {
    of.fetch_add(more, Ordering::Relaxed);
}

pub enum Sent {
    /// Over these.
    Yes(Slots),
    /// Until a path has room.
    Later,
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
    recent: Recent,
    /// Bulk for which no path has room.
    queue: Queue,
    wake: Arc<Wake>,
}

/// Wakes [`tend`] for repeats, for acknowledgements while bulk waits, and at the end of the paths.
#[derive(Debug, Default)]
pub struct Wake {
    due: Notify,
    bulk_waits: AtomicBool,
}

impl Wake {
    pub fn notify(&self) {
        self.due.notify_one();
    }

    pub fn on_acks(&self) {
        if self.bulk_waits.load(Ordering::Relaxed) {
            self.due.notify_one();
        }
    }
}

struct Batch {
    views: [SubflowView; MAX_SUBFLOWS],
    rooms: [usize; MAX_SUBFLOWS],
    known: [Known; MAX_SUBFLOWS],
}

/// Without an acknowledgement a path may become stale or join, so waiting bulk is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Does what `due` does, which says after what time it is to be done anew; `None`: once there is something. It ends when there are
/// no paths any more.
pub async fn tend(wake: Arc<Wake>, due: impl Fn() -> Option<Option<Duration>>) {
    while let Some(pause) = due() {
        let notified = wake.due.notified();
        match pause {
            Some(pause) => drop(timeout(pause, notified).await),
            None => notified.await,
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
            recent: Recent::default(),
            queue: Queue::default(),
            wake: Arc::default(),
        }
    }

    /// In place of the one that is there.
    pub fn join(&mut self, slot: usize, priority: Priority, channel: Arc<Channel>) {
        self.flush();
        self.dealer.forget(slot);
        self.priorities[slot] = priority;
        channel.wakes(self.wake.clone());
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

    /// Chooses the paths of a packet of this flow. It goes with the next [`Paths::flush`], or later.
    pub fn send(&mut self, flow: u32, packet: &Packet, now: Duration, counts: &Counts) -> Sent {
        let (datagram, copied) = (self.encode(packet), packet.is_copied());
        // Who waits goes first; small flows pass, but none its own packets.
        let waits = match (copied, packet) {
            (true, Packet::Data { .. }) => self.queue.has(flow),
            (true, _) => false,
            (false, _) => !self.queue.is_empty(),
        };
        let sent = match waits && self.batch().fits(datagram.len()) {
            true => Sent::Later,
            false => self.deal(&datagram, 0, copied, now, counts),
        };
        match (&sent, packet) {
            (Sent::Later, _) => {
                if self.queue.is_empty() {
                    self.wake.bulk_waits.store(true, Ordering::Relaxed);
                    self.wake.notify();
                }
                // The slab goes with the last packet in it.
                let datagram = Bytes::copy_from_slice(&datagram);
                count(&counts.dropped, self.queue.put(flow, datagram, now));
            }
            (Sent::Yes(slots), Packet::Data { .. }) if copied => {
                counts.on_sent(*slots);
                self.repeat_later(*slots, datagram, now);
            }
            (Sent::Yes(slots), _) => counts.on_sent(*slots),
            _ => {}
        }
        sent
    }

    /// Asks the other end for packets of this flow that were lost on the way here. To be flushed.
    pub fn ask(
        &mut self,
        flow: u32,
        missing: impl IntoIterator<Item = u32>,
        now: Duration,
        counts: &Counts,
    ) {
        let numbers = encoded(missing);
        if !numbers.is_empty() {
            let numbers = Numbers::new(&numbers);
            self.send(flow, &Packet::Missing { flow, numbers }, now, counts);
        }
    }

    /// The other end has asked for these: what is still there goes again, where it arrives first, unless no path has room for it, and
    /// of the rest it is told. To be flushed.
    pub fn repair(&mut self, flow: u32, numbers: Numbers, now: Duration, counts: &Counts) {
        let mut gone = Vec::new();
        for number in numbers.iter() {
            match self.recent.take(flow, number) {
                Found::Packet(datagram) => {
                    let bytes = datagram.len();
                    let batch = self.batch();
                    // Else it is not said to be gone: it may only be late, on a path that was taken for silent.
                    if let Some(slot) = for_repair(bytes, &batch.fitting(bytes)) {
                        batch.give(slot, bytes as u64);
                        self.queues[slot].push(Packet::again(&datagram).into());
                        count(&counts.copies, 1);
                    }
                }
                Found::Taken => {}
                Found::Gone => gone.push(number),
            }
        }
        let numbers = encoded(gone);
        if !numbers.is_empty() {
            let numbers = Numbers::new(&numbers);
            self.send(flow, &Packet::Gone { flow, numbers }, now, counts);
        }
    }

    /// Whether what is asked for can come in time.
    pub fn repairs(&self) -> bool {
        // Where nothing is sent then, no batch begins.
        let now = |batch: &Batch| is_near(&batch.views, REPAIR);
        let begun = self.batch.as_ref().map(now);
        begun.unwrap_or_else(|| now(&Batch::begin(&self.channels, &self.priorities)))
    }

    /// `behind`: bytes that wait.
    fn deal(
        &mut self,
        datagram: &Bytes,
        behind: usize,
        copied: bool,
        now: Duration,
        counts: &Counts,
    ) -> Sent {
        let batch = self
            .batch
            .get_or_insert_with(|| Batch::begin(&self.channels, &self.priorities));
        let (bytes, now_us) = (datagram.len(), now.as_micros() as u64);
        let fitting = batch.fitting(bytes);
        let slots = self.dealer.pick(bytes, behind, copied, &fitting, now_us);
        match slots {
            None => Sent::Later,
            Some(0) => {
                let (kind, sent) = match batch.rooms.iter().any(|room| *room > 0) {
                    true => (&counts.too_big, Sent::TooBig),
                    false => (&counts.dropped, Sent::NoPath),
                };
                count(kind, 1);
                sent
            }
            Some(slots) => {
                for slot in (0..MAX_SUBFLOWS).filter(|slot| slots >> slot & 1 == 1) {
                    batch.give(slot, bytes as u64);
                    self.queues[slot].push(datagram.clone());
                }
                if !copied {
                    // To be freed in time.
                    if self.recent.bytes() == 0 {
                        self.wake.notify();
                    }
                    self.recent.put(datagram, now);
                }
                Sent::Yes(slots)
            }
        }
    }

    fn repeat_later(&mut self, slots: Slots, datagram: Bytes, now: Duration) {
        let Some(batch) = &self.batch else { return };
        let fitting = batch.fitting(datagram.len());
        if let Some(slot) = repeat::path(slots, &batch.known, &fitting) {
            self.repeats.put(slot, datagram, now);
            self.wake.notify();
        }
    }

    pub fn wake(&self) -> Arc<Wake> {
        self.wake.clone()
    }

    /// Sends the repeats that are due, and the waiting packets that a path has room for; `carried` gets flow, paths and bytes of each.
    /// Returns the time until more is due.
    pub fn tend(
        &mut self,
        now: Duration,
        counts: &Counts,
        mut carried: impl FnMut(u32, Slots, usize),
    ) -> Option<Duration> {
        while let Some((slot, datagram)) = self.repeats.take(now) {
            // The path may be another one by now.
            let channel = self.channels[slot].as_ref();
            if channel.is_some_and(|channel| datagram.len() <= channel.room()) {
                self.queues[slot].push(datagram);
                count(&counts.copies, 1);
            }
        }
        let mut queue = std::mem::take(&mut self.queue);
        let mut goes = true;
        while goes {
            let behind = queue.bytes();
            let (dropped, gone) = queue.take(now, |flow, datagram| {
                let sent = self.deal(datagram, behind, false, now, counts);
                if let Sent::Yes(slots) = sent {
                    counts.on_sent(slots);
                    carried(flow, slots, datagram.len());
                }
                !matches!(sent, Sent::Later)
            });
            count(&counts.dropped, dropped);
            goes = gone;
        }
        self.queue = queue;
        self.flush();
        let waits = !self.queue.is_empty();
        self.wake.bulk_waits.store(waits, Ordering::Relaxed);
        let repeats = self.repeats.due().map(|due| due.saturating_sub(now));
        let looks = waits.then_some(LOOK_EVERY);
        let expires = self.recent.expire(now).map(|due| due.saturating_sub(now));
        repeats.into_iter().chain(looks).chain(expires).min()
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
        self.wake.notify();
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
        batch.spare_backups();
        batch
    }

    /// While another path works: what is too long for that is no reason to use them.
    fn spare_backups(&mut self) {
        if self.views.iter().any(|view| view.alive() && !view.backup) {
            for (view, room) in self.views.iter().zip(&mut self.rooms) {
                if view.backup {
                    *room = 0;
                }
            }
        }
    }

    /// Whether a packet of this length fits on any path.
    fn fits(&self, bytes: usize) -> bool {
        self.rooms.iter().any(|room| bytes <= *room)
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
        let packets = view.queued.div_ceil(view.mss.max(1).into()) as u32;
        view.in_flight = packets.saturating_sub(view.unsent);
        view.room = view.room.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_is_no_reason_to_use_a_backup() {
        let mut batch = Batch {
            views: Default::default(),
            rooms: Default::default(),
            known: Default::default(),
        };
        for (slot, room) in [(0, 1200), (1, 1420)] {
            batch.views[slot].active = true;
            batch.rooms[slot] = room;
        }
        batch.views[1].backup = true;
        let mut with = |is_stale| {
            batch.rooms[1] = 1420;
            batch.views[0].stale = is_stale;
            batch.spare_backups();
            batch.fits(1400)
        };
        assert!(!with(false) && with(true));
    }
}
