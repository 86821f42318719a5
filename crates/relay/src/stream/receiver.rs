//! Joins what arrives over several paths, in any order and more than once, to the stream that was sent.

use std::collections::BTreeMap;

use super::chunks::Chunks;
use super::Violation;

/// Pieces beyond a gap: each takes memory beside its bytes.
pub const MOST_FRAGMENTS: usize = 1 << 14;
/// A shorter piece takes in what comes right behind it: a program that writes little at a time has many.
const JOINED: usize = 1 << 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes that were not there before.
    New,
    /// All of it was there: the sender may not have heard so.
    Duplicate,
}

/// Holds [`Receiver::capacity`] bytes at most, read or not.
#[derive(Debug)]
pub struct Receiver {
    /// In order, for the application.
    ready: Chunks,
    /// Offset behind `ready`: everything before has arrived.
    next: u64,
    /// Not overlapping, all beyond `next`.
    later: BTreeMap<u64, Vec<u8>>,
    later_bytes: usize,
    end: Option<u64>,
    capacity: u64,
    /// As the sender was told; it never shrinks.
    limit: u64,
}

impl Receiver {
    pub fn new(capacity: u64) -> Receiver {
        Receiver {
            ready: Chunks::default(),
            next: 0,
            later: BTreeMap::new(),
            later_bytes: 0,
            end: None,
            capacity,
            limit: capacity,
        }
    }

    /// From now on it may hold so much; less than before has no effect.
    pub fn grow(&mut self, capacity: u64) {
        self.capacity = self.capacity.max(capacity);
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    pub fn on_data(
        &mut self,
        offset: u64,
        end: bool,
        payload: &[u8],
    ) -> Result<Arrival, Violation> {
        let behind = offset + payload.len() as u64;
        if behind > self.limit {
            return Err(Violation("data beyond the window"));
        }
        let known_end = self.end;
        if end && known_end.is_some_and(|at| at != behind)
            || known_end.is_some_and(|at| behind > at)
        {
            return Err(Violation("a stream with two ends"));
        }
        let mut news = false;
        if end && known_end.is_none() {
            let last = self
                .later
                .last_key_value()
                .map_or(self.next, |(at, bytes)| at + bytes.len() as u64);
            if last > behind {
                return Err(Violation("data beyond the stream's end"));
            }
            self.end = Some(behind);
            news = true;
        }
        news |= self.insert(offset, payload)?;
        Ok(if news {
            Arrival::New
        } else {
            Arrival::Duplicate
        })
    }

    /// Whether any of it is new.
    fn insert(&mut self, offset: u64, payload: &[u8]) -> Result<bool, Violation> {
        let behind = offset + payload.len() as u64;
        let mut at = offset.max(self.next);
        if at == self.next && at < behind && self.later.is_empty() {
            self.ready.push(&payload[(at - offset) as usize..]);
            self.next = behind;
            return Ok(true);
        }
        let mut news = false;
        while at < behind {
            // The piece that covers `at`, else the gap up to the next piece.
            let covering = self.later.range(..=at).next_back();
            let covered = covering.map_or(0, |(start, bytes)| start + bytes.len() as u64);
            if covered > at {
                at = covered;
                continue;
            }
            let gap_ends = self
                .later
                .range(at..)
                .next()
                .map_or(behind, |(start, _)| behind.min(*start));
            let fresh = &payload[(at - offset) as usize..(gap_ends - offset) as usize];
            let full = self.later.len() >= MOST_FRAGMENTS && at != self.next;
            let before = self.later.range_mut(..at).next_back();
            match before
                .filter(|(from, piece)| **from + piece.len() as u64 == at && piece.len() < JOINED)
            {
                Some((_, piece)) => piece.extend_from_slice(fresh),
                None if full => return Err(Violation("too many gaps")),
                None => drop(self.later.insert(at, fresh.to_vec())),
            }
            self.later_bytes += fresh.len();
            at = gap_ends;
            news = true;
        }
        while let Some(piece) = self
            .later
            .first_entry()
            .filter(|piece| *piece.key() == self.next)
        {
            let bytes = piece.remove();
            self.next += bytes.len() as u64;
            self.later_bytes -= bytes.len();
            self.ready.push(&bytes);
        }
        Ok(news)
    }

    /// The first bytes for the application.
    pub fn ready(&self) -> &[u8] {
        self.ready.first()
    }

    /// The application has taken so many of them.
    pub fn consume(&mut self, count: usize) {
        self.ready.consume(count);
    }

    /// Gives back memory that a burst has left.
    pub fn rest(&mut self) {
        self.ready.shrink();
    }

    /// Everything has arrived.
    pub fn has_end(&self) -> bool {
        self.end == Some(self.next)
    }

    /// The application has all there will ever be.
    pub fn finished(&self) -> bool {
        self.ready.is_empty() && self.has_end()
    }

    /// What an acknowledgement says now: everything before the first has arrived, the stream's end counted; the sender
    /// may send up to the second.
    pub fn acknowledgement(&mut self) -> (u64, u64) {
        self.limit = self.limit.max(self.consumed() + self.capacity);
        (self.next + u64::from(self.has_end()), self.limit)
    }

    /// Bytes that the application has taken so far.
    pub fn consumed(&self) -> u64 {
        self.next - self.ready.len() as u64
    }

    /// Bytes held.
    pub fn held(&self) -> usize {
        self.ready.len() + self.later_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_and_twice_are_one_stream() {
        let mut r = Receiver::new(100);
        assert_eq!(r.on_data(6, true, b"world"), Ok(Arrival::New));
        assert_eq!(r.on_data(6, true, b"world"), Ok(Arrival::Duplicate));
        assert_eq!(r.on_data(3, false, b"lo w"), Ok(Arrival::New));
        assert_eq!(r.ready(), b"");
        assert_eq!(r.acknowledgement(), (0, 100));
        assert_eq!(r.on_data(0, false, b"hell"), Ok(Arrival::New));
        assert_eq!(r.ready(), b"hello world");
        assert!(!r.finished());
        r.consume(11);
        assert!(r.finished());
        assert_eq!(r.acknowledgement(), (12, 111));
        assert_eq!(r.on_data(0, false, b"hell"), Ok(Arrival::Duplicate));
    }

    #[test]
    fn an_end_alone_ends_the_stream() {
        let mut r = Receiver::new(10);
        r.on_data(0, false, b"ab").unwrap();
        assert_eq!(r.on_data(2, true, b""), Ok(Arrival::New));
        assert_eq!(r.on_data(2, true, b""), Ok(Arrival::Duplicate));
        r.consume(2);
        assert!(r.finished());
    }

    #[test]
    fn a_peer_that_breaks_the_rules_is_refused() {
        let violation = |pieces: &[(u64, bool, usize)]| {
            let mut r = Receiver::new(50);
            let mut last = Ok(Arrival::New);
            for (offset, end, length) in pieces {
                last = r.on_data(*offset, *end, &vec![0; *length]);
            }
            last.unwrap_err()
        };
        assert_eq!(
            violation(&[(0, false, 51)]),
            Violation("data beyond the window")
        );
        assert_eq!(
            violation(&[(0, true, 5), (0, true, 6)]),
            Violation("a stream with two ends")
        );
        assert_eq!(
            violation(&[(0, true, 5), (3, false, 5)]),
            Violation("a stream with two ends")
        );
        assert_eq!(
            violation(&[(9, false, 5), (0, true, 5)]),
            Violation("data beyond the stream's end")
        );
    }

    #[test]
    fn many_small_pieces_behind_one_gap_are_taken() {
        let mut r = Receiver::new(1 << 20);
        let count = 2 * MOST_FRAGMENTS as u64;
        for at in 1..count {
            assert_eq!(
                r.on_data(at, at + 1 == count, &[at as u8]),
                Ok(Arrival::New)
            );
        }
        assert_eq!(r.held() as u64, count - 1);
        assert_eq!(r.on_data(0, false, &[0]), Ok(Arrival::New));
        let mut at = 0u64;
        while !r.ready().is_empty() {
            let piece = r.ready().to_vec();
            assert!(piece.iter().zip(at..).all(|(byte, at)| *byte == at as u8));
            at += piece.len() as u64;
            r.consume(piece.len());
        }
        assert_eq!(at, count);
        assert!(r.finished());
    }

    #[test]
    fn gaps_without_number_are_refused() {
        let mut r = Receiver::new(1 << 20);
        let result = (0..MOST_FRAGMENTS as u64 + 1)
            .try_for_each(|i| r.on_data(1 + 2 * i, false, b"x").map(drop));
        assert_eq!(result, Err(Violation("too many gaps")));
    }

    #[test]
    fn the_window_follows_the_application_and_never_shrinks() {
        let mut r = Receiver::new(10);
        r.on_data(0, false, &[1; 10]).unwrap();
        assert_eq!(r.acknowledgement(), (10, 10));
        assert!(r.on_data(10, false, &[1]).is_err());
        r.consume(4);
        assert_eq!(r.acknowledgement(), (10, 14));
        r.grow(20);
        r.grow(5);
        assert_eq!(r.acknowledgement(), (10, 24));
    }
}
