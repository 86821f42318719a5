//! Connections that have just begun, or begun anew after a rest: their windows are small (RFC 5681, section 4.1 on those that
//! rested), and what they carry says nothing of what their paths can.

use std::collections::HashMap;

/// Neither a retransmission timeout nor the pause between two looks while little moves is a rest, µs.
const REST_US: u64 = 1_500_000;
/// A connection moves for so long after data did, µs.
const MOVES_US: u64 = 250_000;
/// Some ten round trips of a long path for the window to grow, and some for what it overshoots, µs.
const START_US: u64 = 3_000_000;

#[derive(Debug, Default)]
pub struct Beginnings {
    /// By token.
    of: HashMap<u32, Moves>,
}

#[derive(Debug, Clone, Copy)]
struct Moves {
    began_us: u64,
    last_us: u64,
}

impl Beginnings {
    /// Data of these connections moved.
    pub fn look(&mut self, now_us: u64, moving: impl Iterator<Item = u32>) {
        self.of.retain(|_, m| now_us < m.last_us + REST_US);
        for token in moving {
            let moves = self.of.entry(token).or_insert(Moves {
                began_us: now_us,
                last_us: now_us,
            });
            moves.last_us = now_us;
        }
    }

    /// Whether all that move began after that time, and not long ago.
    pub fn all_since(&self, since_us: u64, now_us: u64) -> bool {
        let young = |m: &Moves| m.began_us > since_us && now_us < m.began_us + START_US;
        let moves = |m: &&Moves| now_us < m.last_us + MOVES_US;
        let mut moving = self.of.values().filter(moves).peekable();
        moving.peek().is_some() && moving.all(young)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_begins_again_after_a_rest_and_an_older_one_speaks_for_all() {
        let mut beginnings = Beginnings::default();
        let mut begins = |ms: u64, moving: &[u32]| {
            beginnings.look(ms * 1_000, moving.iter().copied());
            beginnings.all_since(0, ms * 1_000)
        };
        assert!(!begins(50, &[]), "nothing moves");
        assert!(begins(100, &[7]) && begins(1_500, &[7]) && begins(2_900, &[7]));
        assert!(!begins(3_200, &[7]) && !begins(3_250, &[7, 8]));
        assert!(!begins(3_400, &[8]), "the older one may go on");
        assert!(begins(3_550, &[8]) && begins(4_800, &[7]), "rested");
        assert!(!beginnings.all_since(4_800_000, 4_800_000), "no later");
    }
}
