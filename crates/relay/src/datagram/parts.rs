//! Datagrams that are longer than any path takes: cut into parts, each in a datagram of its own with the next number of the flow,
//! and joined at the other end. A part that is lost costs the whole, as with fragments of IP.

use std::collections::HashMap;
use std::time::Duration;

/// The longest payload of IP.
pub const LONGEST: usize = 65_535;
/// For parts that come late.
const PATIENCE: Duration = Duration::from_secs(2);
/// Of those that are not whole yet: their number, and what they take.
pub const MOST_WAITING: usize = 64;
pub const MOST_BYTES: usize = 1 << 20;

/// Which part of its datagram a packet is: the number of the last one is one less than their count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub index: u8,
    pub last: u8,
}

impl Part {
    /// Bytes of it in a packet.
    pub const LENGTH: usize = 2;
}

/// Parts of at most `most` bytes, alike in length. Nothing where that takes too many.
pub fn split(payload: &[u8], most: usize) -> impl Iterator<Item = (Part, &[u8])> {
    let count = payload.len().div_ceil(most.max(1));
    let last = u8::try_from(count.saturating_sub(1)).ok();
    let each = payload.len().div_ceil(count.max(1)).max(1);
    let parts = last.map(|last| {
        let index = 0..=last;
        index
            .map(move |index| Part { index, last })
            .zip(payload.chunks(each))
    });
    parts.into_iter().flatten()
}

#[derive(Debug)]
struct Waiting {
    since: Duration,
    last: u8,
    parts: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

/// Time is that since any fixed moment, and never goes back.
#[derive(Debug, Default)]
pub struct Joiner {
    /// By flow and number of the first part.
    waiting: HashMap<(u32, u32), Waiting>,
    bytes: usize,
}

impl Joiner {
    /// The whole datagram with the part that completes it.
    pub fn take(
        &mut self,
        flow: u32,
        sequence: u32,
        part: Part,
        payload: &[u8],
        now: Duration,
    ) -> Option<Vec<u8>> {
        let key = (flow, sequence.wrapping_sub(part.index.into()));
        self.make_place(key, payload.len(), now);
        let waiting = self.waiting.entry(key).or_insert_with(|| Waiting {
            since: now,
            last: part.last,
            parts: vec![None; usize::from(part.last) + 1],
            bytes: 0,
        });
        let agrees = waiting.last == part.last && waiting.bytes + payload.len() <= LONGEST;
        let place = waiting.parts.get_mut(usize::from(part.index));
        let place = place.filter(|place| agrees && place.is_none())?;
        *place = Some(payload.to_vec());
        waiting.bytes += payload.len();
        self.bytes += payload.len();
        if waiting.parts.iter().any(Option::is_none) {
            return None;
        }
        let whole = self.remove(key)?;
        Some(whole.parts.into_iter().flatten().flatten().collect())
    }

    fn remove(&mut self, key: (u32, u32)) -> Option<Waiting> {
        let waiting = self.waiting.remove(&key)?;
        self.bytes -= waiting.bytes;
        Some(waiting)
    }

    /// For one part more of this datagram: what is too old goes, and of the rest the oldest.
    fn make_place(&mut self, key: (u32, u32), bytes: usize, now: Duration) {
        let places = match self.waiting.contains_key(&key) {
            true => MOST_WAITING + 1,
            false => MOST_WAITING,
        };
        loop {
            let others = self.waiting.iter().filter(|(other, _)| **other != key);
            let Some((oldest, waiting)) = others.min_by_key(|(_, waiting)| waiting.since) else {
                return;
            };
            let full = self.waiting.len() >= places || self.bytes + bytes > MOST_BYTES;
            if !full && now.saturating_sub(waiting.since) <= PATIENCE {
                return;
            }
            let oldest = *oldest;
            self.remove(oldest);
        }
    }

    /// Bytes of what is not whole yet.
    pub fn held(&self) -> usize {
        self.bytes
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
