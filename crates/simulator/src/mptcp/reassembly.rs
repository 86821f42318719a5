//! The data level of a receiver: what has arrived of the stream, over whichever subflow.

/// Received segments above the next one expected are bits of a ring.
#[derive(Debug)]
pub struct Reassembly {
    /// First segment that has not arrived.
    pub next: u64,
    /// Segments above `next` that wait for it (head-of-line blocking).
    pub held: u64,
    words: Vec<u64>,
    mask: u64,
}

impl Default for Reassembly {
    fn default() -> Self {
        Reassembly {
            next: 0,
            held: 0,
            words: vec![0; 4],
            mask: 4 * 64 - 1,
        }
    }
}

impl Reassembly {
    /// False for a duplicate.
    #[inline]
    pub fn receive(&mut self, dseq: u64) -> bool {
        if dseq == self.next && self.held == 0 {
            self.next += 1;
            return true;
        }
        if dseq < self.next {
            return false;
        }
        if dseq - self.next > self.mask {
            self.grow(dseq);
        }
        let (word, bit) = self.place(dseq);
        if self.words[word] & bit != 0 {
            return false;
        }
        self.words[word] |= bit;
        self.held += 1;
        if dseq == self.next {
            self.advance();
        }
        true
    }

    #[inline]
    fn place(&self, dseq: u64) -> (usize, u64) {
        let index = dseq & self.mask;
        ((index >> 6) as usize, 1 << (index & 63))
    }

    fn advance(&mut self) {
        while self.held > 0 {
            let index = self.next & self.mask;
            let (word, shift) = ((index >> 6) as usize, index & 63);
            let run = u64::from((self.words[word] >> shift).trailing_ones());
            if run == 0 {
                break;
            }
            let ones = if run == 64 { u64::MAX } else { (1 << run) - 1 };
            self.words[word] &= !(ones << shift);
            self.next += run;
            self.held -= run;
        }
    }

    #[cold]
    fn grow(&mut self, dseq: u64) {
        let bits = (dseq - self.next + 1).next_power_of_two().max(64);
        let old = std::mem::replace(&mut self.words, vec![0; (bits / 64) as usize]);
        let old_mask = std::mem::replace(&mut self.mask, bits - 1);
        for seq in self.next..=self.next + old_mask {
            let index = seq & old_mask;
            if old[(index >> 6) as usize] >> (index & 63) & 1 == 1 {
                let (word, bit) = self.place(seq);
                self.words[word] |= bit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn is_a_set_with_its_head_cut_off(arrivals in prop::collection::vec(0u64..2000, 0..3000)) {
            let mut ring = Reassembly::default();
            let mut set = BTreeSet::new();
            for dseq in arrivals {
                prop_assert_eq!(ring.receive(dseq), set.insert(dseq));
                let next = (0..).find(|s| !set.contains(s)).unwrap();
                prop_assert_eq!(ring.next, next);
                prop_assert_eq!(ring.held, set.len() as u64 - next);
            }
        }
    }
}
