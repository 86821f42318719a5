//! The open paths of one end, and a packet's way onto them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mp_policy::link::Priority;
use mp_policy::scheduler::{Entry, SubflowView};
use mp_policy::MAX_SUBFLOWS;

use super::deal::Dealer;
use super::packet::Packet;
use super::quic::Channel;

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
    /// No path, or no room in the sender.
    pub dropped: AtomicU64,
}

pub fn count(of: &AtomicU64, more: u64) {
    of.fetch_add(more, Ordering::Relaxed);
}

pub enum Sent {
    Yes,
    /// Nor would any path that is open take more than so many bytes.
    TooBig(usize),
    NoPath,
}

pub struct Paths {
    channels: [Option<Arc<Channel>>; MAX_SUBFLOWS],
    priorities: [Priority; MAX_SUBFLOWS],
    dealer: Dealer,
}

impl Paths {
    pub fn new(scheduler: &Entry) -> Paths {
        Paths {
            channels: Default::default(),
            priorities: Default::default(),
            dealer: Dealer::new(scheduler),
        }
    }

    /// In place of the one that is there.
    pub fn join(&mut self, slot: usize, priority: Priority, channel: Arc<Channel>) {
        self.dealer.forget(slot);
        self.priorities[slot] = priority;
        if let Some(old) = self.channels[slot].replace(channel) {
            old.close();
        }
    }

    /// Unless another is there by now.
    pub fn leave(&mut self, slot: usize, channel: &Arc<Channel>) {
        let own = |there: &mut Arc<Channel>| Arc::ptr_eq(there, channel);
        if self.channels[slot].take_if(own).is_some() {
            self.dealer.forget(slot);
            channel.close();
        }
    }

    pub fn get(&self, slot: usize) -> Option<&Arc<Channel>> {
        self.channels[slot].as_ref()
    }

    pub fn are_open(&self) -> bool {
        self.channels.iter().any(Option::is_some)
    }

    pub fn send(&mut self, packet: &Packet, copied: bool, now: Duration, counts: &Counts) -> Sent {
        let datagram = Bytes::from(packet.encode());
        let mut views = [SubflowView::default(); MAX_SUBFLOWS];
        let mut widest = 0;
        let paths = self.channels.iter().zip(self.priorities);
        for (view, (channel, priority)) in views.iter_mut().zip(paths) {
            let Some(channel) = channel else { continue };
            let room = channel.room();
            widest = widest.max(room);
            if datagram.len() <= room {
                *view = channel.view();
                view.set_priority(priority);
            }
        }
        let slots = self
            .dealer
            .pick(datagram.len(), copied, &views, now.as_micros() as u64);
        if slots == 0 {
            let (kind, sent) = match widest {
                0 => (&counts.dropped, Sent::NoPath),
                widest => (&counts.too_big, Sent::TooBig(widest)),
            };
            count(kind, 1);
            return sent;
        }
        let taken = self.channels.iter().enumerate().filter(|(slot, channel)| {
            let chosen = channel.as_ref().filter(|_| slots >> slot & 1 == 1);
            chosen.is_some_and(|channel| channel.send(datagram.clone()))
        });
        match taken.count() as u64 {
            0 => count(&counts.dropped, 1),
            taken => {
                count(&counts.sent, 1);
                count(&counts.copies, taken - 1);
            }
        }
        Sent::Yes
    }
}
