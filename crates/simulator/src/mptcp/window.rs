//! The receive window of a connection, and how it grows (`mptcp_rcv_space_adjust`, dynamic right-sizing).

/// Payload in a byte of receive buffer: the share of an Ethernet frame in the memory that holds it, in 1/256
/// (`tcp_scaling_ratio` once it has been measured).
const SCALING: u64 = 160;
/// net.ipv4.tcp_rmem\[1\]
const FIRST_BUFFER: u64 = 131_072;
/// Segments of the first measurement (`TCP_INIT_CWND`).
const FIRST_ROUND: u64 = 10;

#[derive(Debug)]
pub struct Window {
    /// Payload the buffer takes, and its bound, segments.
    size: u64,
    limit: u64,
    autotune: bool,
    /// First segment beyond what the sender was told that it may send.
    edge: u64,
    /// Segments read during the last round, time and position of the start of this one.
    space: u64,
    round_start: u64,
    round_from: u64,
}

impl Window {
    /// `buffer`: bytes, and whether it grows up to them.
    pub fn new(buffer: (u64, bool), multipath: bool, mss: u32) -> Self {
        let (bound, autotune) = buffer;
        let segments = |bytes: u64| (bytes * SCALING / 256 / u64::from(mss)).max(2);
        let limit = segments(bound);
        let size = match (autotune, multipath) {
            (false, _) => limit,
            // It counts half of its memory as payload until every subflow has measured what it gets.
            (true, true) => limit.min(Window::first(mss)),
            (true, false) => limit.min(segments(FIRST_BUFFER)),
        };
        Window {
            size,
            limit,
            autotune,
            edge: 0,
            space: FIRST_ROUND,
            round_start: 0,
            round_from: 0,
        }
    }

    /// Whether a segment lies within what the sender was told that it may send.
    #[inline]
    pub fn admits(&self, dseq: u64) -> bool {
        dseq < self.edge
    }

    /// What an ACK announces: segments above `next`. Held segments take room, a subflow announces no more than it has
    /// `opened`, and what was granted stays granted.
    #[inline]
    pub fn announce(&mut self, next: u64, held: u64, opened: u64) -> u64 {
        let room = self.size.saturating_sub(held).min(opened);
        self.edge = self.edge.max(next + room);
        self.edge - next
    }

    /// Window that a subflow starts with: 64 KiB, segments (`tcp_select_initial_window`; net.ipv4.tcp_rmem\[1\] is 128 KiB,
    /// and half of it counts as payload before anything has been measured).
    pub fn first(mss: u32) -> u64 {
        u64::from(65_535 / mss).max(1)
    }

    /// `tcp_grow_window`: a subflow lets its sender have two segments more for each that arrives, `opened` so far.
    #[inline]
    pub fn open(&self, opened: u64, arrived: u64) -> u64 {
        (opened + 2 * arrived).min(self.size.max(opened))
    }

    /// A round trip of the subflow that data arrived on has gone by.
    #[inline]
    pub fn due(&self, now: u64, rtt: u64) -> bool {
        self.autotune && rtt != 0 && now - self.round_start >= rtt
    }

    /// Called as the application reads: once a round trip (ns) the size is held against what was read. `ahead`: as of
    /// [`Window::make_room`], 0 for MPTCP.
    #[inline]
    pub fn adjust(&mut self, now: u64, rtt: u64, next: u64, ahead: u64) {
        if !self.due(now, rtt) {
            return;
        }
        let copied = next - self.round_from;
        if copied > self.space {
            let grown = 2 * (2 * copied * (copied - self.space) / self.space);
            self.space = copied;
            self.make_room(grown + ahead);
        }
        self.round_start = now;
        self.round_from = next;
    }

    /// Two rounds and `more` segments shall fit: as those of a subflow arrive out of order, plain TCP makes room for what
    /// lies between the next one expected and the furthest (`tcp_data_queue_ofo`). MPTCP does not.
    #[inline]
    pub fn make_room(&mut self, more: u64) {
        if self.autotune {
            self.size = self.size.max((2 * self.space + more).min(self.limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUCH: u64 = u64::MAX;

    #[test]
    fn grows_with_what_is_read_and_never_takes_back() {
        let mut window = Window::new((6 << 20, true), true, 1428);
        let first = window.announce(0, 0, MUCH);
        assert_eq!(window.announce(0, 20, MUCH), first);
        let mut next = 0;
        let mut rate = 10;
        for round in 1..12 {
            next += rate;
            window.adjust(round * 1000, 1000, next, 0);
            rate *= 2;
            assert!(window.announce(next, 0, MUCH) >= rate || window.size == window.limit);
        }
        assert!(window.size * 1428 <= 6 << 20);
    }

    #[test]
    fn a_fixed_buffer_stays() {
        let mut window = Window::new((64 << 10, false), true, 1428);
        let size = window.announce(0, 0, MUCH);
        window.adjust(1000, 10, 1000, 0);
        assert_eq!(window.announce(0, 0, MUCH), size);
    }

    #[test]
    fn a_subflow_opens_by_two_segments_for_each_that_arrives() {
        let mut window = Window::new((6 << 20, false), true, 1428);
        let opened = Window::first(1428);
        assert_eq!(window.announce(0, 0, opened), 45);
        let opened = window.open(opened, 3);
        assert_eq!(window.announce(3, 0, opened), 51);
        assert_eq!(window.open(opened, 10_000), window.size);
    }

    #[test]
    fn plain_tcp_makes_room_for_what_lies_ahead() {
        let mut window = Window::new((6 << 20, true), false, 1448);
        // 80 KiB: what gets through is measured with the first segment.
        assert_eq!(window.announce(0, 0, MUCH), 56);
        window.make_room(100);
        assert_eq!(window.announce(0, 0, MUCH), 2 * FIRST_ROUND + 100);
        let mut fixed = Window::new((64 << 10, false), false, 1448);
        let size = fixed.announce(0, 0, MUCH);
        fixed.make_room(1000);
        assert_eq!(fixed.announce(0, 0, MUCH), size);
    }
}
