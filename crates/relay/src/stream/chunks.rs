//! A queue of bytes in pieces of one size: its memory follows what it holds. A ring (`VecDeque`) doubles, and keeps in memory all
//! that it ever wrapped around.

use std::collections::VecDeque;

/// Bytes of a piece; a slice that spans two of them has at most so many.
const PIECE: usize = 1 << 16;

#[derive(Debug, Default)]
pub struct Chunks {
    /// All but the last are full.
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are gone.
    gone: usize,
    length: usize,
    /// The next piece, which saves its allocation.
    spare: Option<Vec<u8>>,
}

impl Chunks {
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len();
        while !bytes.is_empty() {
            if self.pieces.back().is_none_or(|last| last.len() == PIECE) {
                let whole = self.pieces.is_empty().then(Vec::new);
                let next = self.spare.take().or(whole);
                let next = next.unwrap_or_else(|| Vec::with_capacity(PIECE));
                self.pieces.push_back(next);
            }
            let last = self.pieces.back_mut().expect("there is one now");
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - last.len()));
            let needed = last.len() + now.len();
            if needed > last.capacity() {
                // Doubles, as a vector does by itself, up to a piece.
                let wanted = needed.max(2 * last.capacity()).min(PIECE);
                last.reserve_exact(wanted - last.len());
            }
            last.extend_from_slice(now);
            bytes = later;
        }
    }

    /// The first ones, as many as lie together.
    pub fn first(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| &piece[self.gone..])
    }

    /// The first so many are done with.
    pub fn consume(&mut self, count: usize) {
        self.length -= count;
        self.gone += count;
        if self.length == 0 {
            // What comes next is written where these were.
            self.pieces.truncate(1);
            self.pieces.iter_mut().for_each(Vec::clear);
            (self.gone, self.spare) = (0, None);
            return;
        }
        while self.gone >= PIECE {
            self.gone -= PIECE;
            let mut done = self.pieces.pop_front().expect("a full piece is gone");
            done.clear();
            self.spare = Some(done);
        }
    }

    /// `length` of them, at most [`PIECE`], from so many behind the first on.
    pub fn slices(&self, from: usize, length: usize) -> (&[u8], &[u8]) {
        debug_assert!(length <= PIECE && from + length <= self.length);
        let (index, at) = ((self.gone + from) / PIECE, (self.gone + from) % PIECE);
        let piece = |index: usize| self.pieces.get(index).map_or(&[][..], Vec::as_slice);
        let first = &piece(index)[at.min(piece(index).len())..];
        match length.checked_sub(first.len()) {
            None | Some(0) => (&first[..length], &[]),
            Some(rest) => (first, &piece(index + 1)[..rest]),
        }
    }

    /// Gives back memory that is not needed for what it holds.
    pub fn shrink(&mut self) {
        self.spare = None;
        if self.length == 0 {
            self.pieces = VecDeque::new();
        } else if let Some(last) = self.pieces.back_mut() {
            last.shrink_to_fit();
        }
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub fn allocated(&self) -> usize {
        let pieces = self.pieces.iter().chain(&self.spare);
        pieces.map(Vec::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The bytes that go in come out, and memory beyond them is three pieces at most.
        #[test]
        fn it_is_a_queue_whose_memory_follows_what_it_holds(
            steps in prop::collection::vec((0usize..3 * PIECE, 0usize..100, 0usize..PIECE, any::<bool>()), 1..60),
        ) {
            let (mut chunks, mut model) = (Chunks::default(), VecDeque::<u8>::new());
            let mut next = 0u32;
            for (pushed, share, looked, shrinks) in steps {
                let bytes: Vec<u8> = (0..pushed).map(|_| { next += 1; ((next * 7) >> 3) as u8 }).collect();
                chunks.push(&bytes);
                model.extend(&bytes);
                let from = model.len() * share / 100;
                let length = looked.min(model.len() - from);
                let (first, second) = chunks.slices(from, length);
                let wanted: Vec<u8> = model.range(from..from + length).copied().collect();
                prop_assert_eq!([first, second].concat(), wanted);
                prop_assert_eq!(chunks.first().is_empty(), model.is_empty());
                let count = (model.len() * share / 50).min(model.len());
                chunks.consume(count);
                model.drain(..count);
                if shrinks {
                    chunks.shrink();
                }
                prop_assert_eq!(chunks.len(), model.len());
                prop_assert_eq!(chunks.is_empty(), model.is_empty());
                prop_assert!(chunks.allocated() <= model.len() + 3 * PIECE, "{} for {}", chunks.allocated(), model.len());
                prop_assert!(!shrinks || !model.is_empty() || chunks.allocated() == 0);
            }
        }
    }

    #[test]
    fn a_few_bytes_take_little() {
        let mut chunks = Chunks::default();
        for _ in 0..10_000 {
            chunks.push(&[7; 100]);
            assert_eq!(chunks.first(), [7; 100]);
            chunks.consume(100);
        }
        assert!(chunks.allocated() < 1000, "{}", chunks.allocated());
    }
}
