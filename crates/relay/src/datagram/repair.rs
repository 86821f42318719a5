//! Bulk that has gone out of late, to be sent again where the other end asks for it ([`super::order`]): an end whose flow minds the order
//! takes each loss for congestion, though a path that loses packets at random, or whose queue is short, is not congested.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::packet::Packet;

/// A packet that went so long ago is not waited for any more, at round trips of which repairs are of use ([`super::order::LONGEST`]).
const OLD: Duration = Duration::from_millis(500);
/// Bytes in all.
pub const MOST: usize = 1 << 21;

type Key = (u32, u32);

/// What is there of a packet that is asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Packet(Bytes),
    /// It was taken before: requests go over every path, and each copy comes here.
    Taken,
    Gone,
}

#[derive(Debug, Default)]
pub struct Recent {
    /// None of those that were taken.
    packets: HashMap<Key, Option<Bytes>>,
    /// Oldest first.
    times: VecDeque<(Duration, Key)>,
    bytes: usize,
}

impl Recent {
    /// A packet with data has gone out. Time never goes back.
    pub fn put(&mut self, datagram: &Bytes, now: Duration) {
        let Some(key) = Packet::key(datagram) else {
            return;
        };
        self.times.push_back((now, key));
        self.bytes += datagram.len();
        if let Some(Some(before)) = self.packets.insert(key, Some(datagram.clone())) {
            self.bytes -= before.len();
        }
        while self.bytes > MOST {
            self.drop_oldest();
        }
        self.expire(now);
    }

    /// To send it again, once.
    pub fn take(&mut self, flow: u32, sequence: u32) -> Found {
        let Some(kept) = self.packets.get_mut(&(flow, sequence)) else {
            return Found::Gone;
        };
        let Some(datagram) = kept.take() else {
            return Found::Taken;
        };
        self.bytes -= datagram.len();
        Found::Packet(datagram)
    }

    /// Frees what is old. Returns the time of the next one.
    pub fn expire(&mut self, now: Duration) -> Option<Duration> {
        while self.due().is_some_and(|due| due <= now) {
            self.drop_oldest();
        }
        self.due()
    }

    fn due(&self) -> Option<Duration> {
        self.times.front().map(|(since, _)| *since + OLD)
    }

    fn drop_oldest(&mut self) {
        let oldest = self.times.pop_front().map(|(_, key)| key);
        if let Some(Some(datagram)) = oldest.and_then(|key| self.packets.remove(&key)) {
            self.bytes -= datagram.len();
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
