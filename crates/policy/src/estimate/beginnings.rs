//! Connections that have just begun, or begun anew after a rest: their windows are small (RFC 5681, section 4.1 on those that
//! rested), and what they carry says nothing of what their paths can.

use std::collections::HashMap;

/// Neither a retransmission timeout nor the polling interval while little moves is a rest, µs.
const REST_US: u64 = 1_500_000;
/// A connection moves for so long after data did, µs.
const MOVES_US: u64 = 250_000;

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
    pub fn poll(&mut self, now_us: u64, moving: impl Iterator<Item = u32>) {
        self.of.retain(|_, m| now_us < m.last_us + REST_US);
        for token in moving {
            let moves = self.of.entry(token).or_insert(Moves {
                began_us: now_us,
                last_us: now_us,
            });
            moves.last_us = now_us;
        }
    }

    /// When the oldest of those that move began; `None` while none moves.
    pub fn oldest(&self, now_us: u64) -> Option<u64> {
        let moves = |m: &&Moves| now_us < m.last_us + MOVES_US;
        self.of.values().filter(moves).map(|m| m.began_us).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_begins_again_after_a_rest_and_the_oldest_counts() {
        let mut beginnings = Beginnings::default();
        let mut oldest = |ms: u64, moving: &[u32]| {
            beginnings.poll(ms * 1_000, moving.iter().copied());
            beginnings.oldest(ms * 1_000).map(|us| us / 1_000)
        };
        assert_eq!(oldest(50, &[]), None, "nothing moves");
        assert_eq!(oldest(100, &[7]), Some(100));
        assert_eq!(oldest(1_500, &[7]), Some(100), "1.4 s are no rest");
        assert_eq!(oldest(2_900, &[7, 8]), Some(100));
        assert_eq!(oldest(3_050, &[8]), Some(100), "the older one may go on");
        assert_eq!(oldest(3_200, &[8]), Some(2_900), "it does not move");
        assert_eq!(oldest(4_800, &[7]), Some(4_800), "7 has rested, and 8 does");
    }
}
