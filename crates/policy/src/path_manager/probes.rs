//! What worlds keep of the probes that [`Action::Probe`](super::Action::Probe) asks for.

use std::ops::Range;

use super::Probes;

/// Those of one path between the same ends, numbered from 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct Probing {
    pub told: Probes,
    sent: u64,
    /// The first whose fate is open.
    due: u64,
}

impl Probing {
    /// Between other ends than those that told this.
    pub fn after(told: Probes) -> Probing {
        Probing {
            told,
            ..Probing::default()
        }
    }

    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// So many more: their numbers.
    pub fn send(&mut self, count: u32) -> Range<u64> {
        let first = self.sent;
        self.sent += u64::from(count);
        first..self.sent
    }

    pub fn answer(&mut self, number: u64) {
        self.told.answered += 1;
        match number.checked_sub(self.due) {
            Some(unanswered) => {
                self.told.lost += unanswered;
                self.due = number + 1;
            }
            None => self.told.lost = self.told.lost.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_overtaken_is_lost_until_its_answer_comes() {
        let mut probing = Probing::default();
        assert_eq!(probing.send(3), 0..3);
        assert_eq!(probing.send(2), 3..5);
        let mut after = |number| {
            probing.answer(number);
            (probing.told.answered, probing.told.lost)
        };
        assert_eq!(
            [0, 3, 1, 4].map(&mut after),
            [(1, 0), (2, 2), (3, 1), (4, 1)]
        );
        let mut elsewhere = Probing::after(probing.told);
        assert_eq!(elsewhere.send(1), 0..1);
        elsewhere.answer(0);
        assert_eq!((elsewhere.told.answered, elsewhere.told.lost), (5, 1));
    }
}
