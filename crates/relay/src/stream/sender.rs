//! Keeps a stream's bytes from the application until the peer has them in order, and which path carries which of them.
//!
//! At any time each byte that was given to a path and is not acknowledged is either carried by an open path or waits to be
//! sent again: no loss of paths, in whatever order, leaves a gap.

use std::collections::VecDeque;
use std::ops::Range;

use mp_policy::scheduler::{Choice, ConnectionView};
use mp_policy::MAX_SUBFLOWS;
use rangemap::RangeSet;

use super::chunks::Chunks;
use super::Violation;

/// What is sent again may go at least so far at once, however full the window is: the peer has room for it already.
const AGAIN: u64 = 1 << 16;

/// What one path is to carry: bytes from `start` on, and the stream's end where it is behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub start: u64,
    pub length: usize,
    pub end: bool,
}

impl Piece {
    /// Its offsets, the end counted.
    fn offsets(&self) -> Range<u64> {
        self.start..self.start + self.length as u64 + u64::from(self.end)
    }
}

/// Given to a path and not known to have arrived.
#[derive(Debug, Clone)]
struct Extent {
    offsets: Range<u64>,
    /// Waits to be sent again elsewhere, or was.
    again: bool,
}

#[derive(Debug, Default)]
struct Slot {
    carried: VecDeque<Extent>,
    /// First offset that this path has not carried, where each carries everything.
    cursor: u64,
}

#[derive(Debug)]
pub struct Sender {
    /// Not acknowledged yet; the first has the offset `base`.
    bytes: Chunks,
    base: u64,
    ended: bool,
    end_acknowledged: bool,
    /// First offset that no path was given.
    next: u64,
    /// The peer takes nothing from here on.
    limit: u64,
    /// Bytes that may be under way, by the sender's own measure.
    window: u64,
    slots: [Slot; MAX_SUBFLOWS],
    /// The first goes first: the peer waits for it, and may have much of what is behind it.
    again: RangeSet<u64>,
    /// Offsets of it.
    again_bytes: u64,
    reinjected: u64,
    replicates: bool,
}

impl Sender {
    /// The peer takes `limit` bytes until it says more. `replicates`: each path carries everything
    /// ([`mp_policy::scheduler::Schedule::replicates`]).
    pub fn new(limit: u64, replicates: bool) -> Sender {
        Sender {
            bytes: Chunks::default(),
            base: 0,
            ended: false,
            end_acknowledged: false,
            next: 0,
            limit,
            window: limit,
            slots: Default::default(),
            again: RangeSet::new(),
            again_bytes: 0,
            reinjected: 0,
            replicates,
        }
    }

    /// More from the application, which is asked for no more while much is [`Sender::unsent`].
    pub fn push(&mut self, bytes: &[u8]) {
        debug_assert!(!self.ended);
        self.bytes.push(bytes);
    }

    /// The application will send no more.
    pub fn end(&mut self) {
        self.ended = true;
    }

    pub fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// Bytes held.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// The peer has everything, the end too.
    pub fn done(&self) -> bool {
        self.end_acknowledged
    }

    /// Behind the last byte.
    fn total(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Behind all that is to be sent, the end counted.
    fn behind(&self) -> u64 {
        self.total() + u64::from(self.ended)
    }

    /// The peer has everything before it, the end counted.
    pub fn una(&self) -> u64 {
        self.base + u64::from(self.end_acknowledged)
    }

    /// Bytes that no path was given.
    pub fn unsent(&self) -> u64 {
        self.behind() - self.next
    }

    /// Bytes given to paths and not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.next - self.una()
    }

    /// The first range that waits to be sent again.
    fn waiting(&mut self) -> Option<Range<u64>> {
        let una = self.una();
        if self.again.first()?.start < una {
            self.drop_again(0..una);
        }
        self.again.first().cloned()
    }

    /// Waits to be sent again from now on.
    fn add_again(&mut self, offsets: Range<u64>) {
        let new: u64 = self
            .again
            .gaps(&offsets)
            .map(|gap| gap.end - gap.start)
            .sum();
        self.again_bytes += new;
        self.again.insert(offsets);
    }

    /// Does not wait any more.
    fn drop_again(&mut self, offsets: Range<u64>) {
        let part = |r: &Range<u64>| r.end.min(offsets.end) - r.start.max(offsets.start);
        let old: u64 = self.again.overlapping(&offsets).map(part).sum();
        self.again_bytes -= old;
        self.again.remove(offsets);
    }

    fn window_left(&self) -> u64 {
        self.limit
            .min(self.base + self.window)
            .saturating_sub(self.next)
    }

    /// As a scheduler sees it; `None` where there is nothing that could be sent on one of `slots` (bits).
    pub fn view(&mut self, now_us: u64, slots: u8) -> Option<ConnectionView> {
        self.waiting();
        let again = self.again_bytes;
        let only_end = self.ended && self.next == self.total();
        let window_left = match (again, only_end) {
            (0, false) => self.window_left(),
            _ => self.window_left().max(AGAIN),
        };
        let sendable = again > 0 || self.unsent() > 0 && window_left > 0;
        let behind = || {
            (0..MAX_SUBFLOWS)
                .any(|i| slots >> i & 1 == 1 && self.slots[i].cursor.max(self.una()) < self.next)
        };
        if !(sendable || self.replicates && behind()) {
            return None;
        }
        Some(ConnectionView {
            now_us,
            unsent: self.unsent() + again,
            in_flight: self.in_flight(),
            window_left,
            reinjected: self.reinjected,
        })
    }

    /// What each of the chosen paths is to carry now; they have it from then on. `None` for all: nothing is left for them.
    pub fn take(&mut self, choice: Choice) -> [Option<Piece>; MAX_SUBFLOWS] {
        let mut pieces = [None; MAX_SUBFLOWS];
        let burst = u64::from(choice.burst.max(1));
        if self.replicates {
            for i in choice.iter() {
                let start = self.slots[i].cursor.max(self.una());
                let furthest = self
                    .next
                    .max(self.next + self.window_left().min(self.unsent()));
                pieces[i] = self.piece(start, (start + burst).min(furthest));
                if let Some(piece) = pieces[i] {
                    self.slots[i].cursor = piece.offsets().end;
                    self.next = self.next.max(piece.offsets().end);
                }
            }
            return pieces;
        }
        let piece = match self.waiting() {
            Some(range) => {
                let piece = self.piece_of(range.start, range.end.min(range.start + burst));
                if let Some(piece) = piece {
                    self.drop_again(piece.offsets());
                    self.reinjected += 1;
                }
                piece
            }
            None => {
                let piece = self.piece(self.next, self.next + burst.min(self.window_left()));
                self.next = piece.map_or(self.next, |piece| piece.offsets().end);
                piece
            }
        };
        if let Some(piece) = piece {
            for i in choice.iter() {
                self.slots[i].carry(piece.offsets());
                pieces[i] = Some(piece);
            }
        }
        pieces
    }

    /// From `start` to before `behind` as far as there are bytes, and the end where they reach it.
    fn piece(&self, start: u64, behind: u64) -> Option<Piece> {
        let last = behind.min(self.total());
        // The end needs no window.
        let end = self.ended && last.max(start) == self.total();
        self.piece_of(start, last.max(start) + u64::from(end))
    }

    /// Exactly these offsets, the end counted.
    fn piece_of(&self, start: u64, behind: u64) -> Option<Piece> {
        let length = behind.min(self.total()).saturating_sub(start) as usize;
        let end = behind > self.total();
        (start < behind && behind <= self.behind()).then_some(Piece { start, length, end })
    }

    /// A piece's bytes. They are there until the peer has acknowledged them.
    pub fn slices(&self, start: u64, length: usize) -> (&[u8], &[u8]) {
        self.bytes.slices((start - self.base) as usize, length)
    }

    /// Everything before `next` is with the peer, which takes what is before `limit`.
    pub fn on_ack(&mut self, next: u64, limit: u64) -> Result<(), Violation> {
        if next > self.next {
            return Err(Violation("an acknowledgement of what was not sent"));
        }
        let (total, una) = (self.total(), self.una());
        self.limit = self.limit.max(limit);
        if next <= una {
            return Ok(());
        }
        let data = next.min(total);
        self.bytes.consume((data - self.base) as usize);
        self.base = data;
        self.end_acknowledged = next > total;
        for slot in &mut self.slots {
            while slot.carried.front().is_some_and(|e| e.offsets.end <= next) {
                slot.carried.pop_front();
            }
        }
        Ok(())
    }

    /// Gives back memory that a burst has left.
    pub fn rest(&mut self) {
        self.bytes.shrink();
        for slot in &mut self.slots {
            slot.carried.shrink_to_fit();
        }
    }

    /// A path has gone silent: what it alone carries is sent again elsewhere. It may still arrive.
    pub fn lose(&mut self, slot: usize) {
        let una = self.una();
        // Silent paths come here again and again.
        let mut carried = std::mem::take(&mut self.slots[slot].carried);
        for extent in &mut carried {
            if !extent.again && extent.offsets.end > una {
                extent.again = true;
                self.add_again(extent.offsets.start.max(una)..extent.offsets.end);
            }
        }
        self.slots[slot].carried = carried;
    }

    /// A path's connection is closed; the slot may be used by another.
    pub fn close(&mut self, slot: usize) {
        self.lose(slot);
        self.slots[slot] = Slot::default();
    }
}

impl Slot {
    fn carry(&mut self, offsets: Range<u64>) {
        match self.carried.back_mut() {
            Some(last) if last.offsets.end == offsets.start && !last.again => {
                last.offsets.end = offsets.end
            }
            _ => self.carried.push_back(Extent {
                offsets,
                again: false,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Also where several paths carry the same.
        #[test]
        fn what_waits_to_be_sent_again_is_counted(
            steps in prop::collection::vec((0u8..4, 0usize..3, 1u32..50), 1..200),
        ) {
            let mut s = Sender::new(1 << 20, false);
            for (what, slot, count) in steps {
                match what {
                    0 => s.push(&vec![0; count as usize]),
                    1 => drop(s.take(Choice { subflows: 1 << slot | 1, burst: count })),
                    2 => s.lose(slot),
                    _ => s.on_ack((s.una() + u64::from(count)).min(s.next), 1 << 20).unwrap(),
                }
                s.view(1, 7);
                let sum: u64 = s.again.iter().map(|r| r.end - r.start).sum();
                prop_assert_eq!(s.again_bytes, sum);
            }
        }
    }

    fn filled(bytes: &[u8]) -> Sender {
        let mut s = Sender::new(1 << 20, false);
        s.push(bytes);
        s
    }

    fn piece(start: u64, length: usize, end: bool) -> Option<Piece> {
        Some(Piece { start, length, end })
    }

    #[test]
    fn what_a_lost_path_carried_goes_elsewhere_once_and_before_new_data() {
        let mut s = filled(b"0123456789");
        assert_eq!(s.take(Choice::one(0, 4))[0], piece(0, 4, false));
        assert_eq!(s.take(Choice::one(1, 2))[1], piece(4, 2, false));
        s.on_ack(2, 100).unwrap();
        s.lose(0);
        s.lose(0);
        let view = s.view(5, 3).unwrap();
        assert_eq!((view.unsent, view.in_flight), (4 + 2, 4));
        assert_eq!(s.take(Choice::one(1, 100))[1], piece(2, 2, false));
        assert_eq!(s.slices(2, 2).0, b"23");
        assert_eq!(s.take(Choice::one(1, 100))[1], piece(6, 4, false));
        s.close(1);
        let again: Vec<_> = std::iter::from_fn(|| s.take(Choice::one(0, 100))[0]).collect();
        assert_eq!(again.iter().map(|p| p.length).sum::<usize>(), 2 + 2 + 4);
    }

    #[test]
    fn of_what_several_paths_have_lost_the_first_goes_first() {
        let mut s = filled(b"0123456789");
        for (slot, length) in [(0, 2), (1, 2), (0, 2), (1, 2)] {
            s.take(Choice::one(slot, length));
        }
        s.close(1);
        s.close(0);
        s.on_ack(1, 100).unwrap();
        assert_eq!(s.view(5, 1).unwrap().unsent, 7 + 2);
        assert_eq!(s.take(Choice::one(0, 3))[0], piece(1, 3, false));
        // Lost again, together with what still waits.
        s.close(0);
        assert_eq!(s.take(Choice::one(2, 100))[2], piece(1, 7, false));
        assert_eq!(s.take(Choice::one(2, 100))[2], piece(8, 2, false));
    }

    #[test]
    fn the_end_needs_no_window_and_is_acknowledged() {
        let mut s = Sender::new(3, false);
        s.push(b"abcd");
        assert_eq!(s.take(Choice::one(0, 10))[0], piece(0, 3, false));
        assert_eq!(s.view(0, 1), None);
        s.end();
        assert_eq!(s.view(0, 1), None, "a byte before the end needs the window");
        s.on_ack(3, 4).unwrap();
        assert_eq!(s.take(Choice::one(0, 10))[0], piece(3, 1, true));
        assert!(s.on_ack(6, 9).is_err());
        s.on_ack(4, 9).unwrap();
        assert!(!s.done());
        s.lose(0);
        assert_eq!(s.take(Choice::one(1, 10))[1], piece(4, 0, true));
        s.on_ack(5, 9).unwrap();
        assert!(s.done());
        assert_eq!((s.unsent(), s.in_flight(), s.view(0, 3)), (0, 0, None));
    }

    #[test]
    fn an_end_that_comes_late_goes_alone() {
        let mut s = filled(b"ab");
        s.take(Choice::one(0, 10));
        s.on_ack(2, 2).unwrap();
        s.end();
        assert!(s.view(0, 1).unwrap().window_left > 0);
        assert_eq!(s.take(Choice::one(0, 10))[0], piece(2, 0, true));
    }

    #[test]
    fn copies_on_every_path_have_cursors_of_their_own() {
        let mut s = Sender::new(1 << 20, true);
        s.push(b"0123456789");
        let both = Choice {
            subflows: 3,
            burst: 4,
        };
        let pieces = s.take(both);
        assert_eq!(
            (pieces[0], pieces[1]),
            (piece(0, 4, false), piece(0, 4, false))
        );
        assert_eq!(s.take(Choice::one(0, 4))[0], piece(4, 4, false));
        s.on_ack(6, 100).unwrap();
        assert_eq!(
            s.take(Choice::one(1, 9))[1],
            piece(6, 4, false),
            "what is acknowledged is skipped"
        );
        s.close(1);
        assert_eq!(s.take(Choice::one(1, 9))[1], piece(6, 4, false));
        assert_eq!(s.view(0, 0b10), None);
        assert!(s.view(0, 0b01).is_some());
    }

    #[test]
    fn rest_gives_back_memory_and_nothing_else() {
        let mut s = filled(&[7; 100_000]);
        s.take(Choice::one(0, 60_000));
        s.on_ack(50_000, 1 << 20).unwrap();
        s.rest();
        assert_eq!(
            (s.held(), s.in_flight(), s.unsent()),
            (50_000, 10_000, 40_000)
        );
        s.take(Choice::one(0, 40_000));
        s.on_ack(100_000, 1 << 20).unwrap();
        s.rest();
        assert_eq!(s.bytes.allocated(), 0);
        s.push(b"more");
        assert_eq!(s.take(Choice::one(0, 10))[0], piece(100_000, 4, false));
    }

    #[test]
    fn bytes_are_found_on_both_sides_of_the_ring() {
        let mut s = filled(&[0; 8]);
        for round in 0u8..50 {
            let at = s.total();
            s.push(&[round, round + 1, round + 2]);
            let (first, second) = s.slices(at, 3);
            assert_eq!([first, second].concat(), [round, round + 1, round + 2]);
            s.take(Choice::one(0, 100));
            s.on_ack(at, 1 << 20).unwrap();
        }
    }
}
