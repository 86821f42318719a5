//! Flows that have ended of late, by which late path connections are known.

use std::collections::{HashMap, HashSet};

use super::FlowId;

/// Flows of a generation: a table of 32,768 buckets is full then.
const GENERATION: usize = 28_672;

/// Two generations: the older one is forgotten as a whole, and its memory goes back to the system. A list by age would leave an
/// allocation for each flow between others that come and go.
#[derive(Default)]
pub struct Ended {
    newer: HashMap<FlowId, bool>,
    older: HashMap<FlowId, bool>,
    /// Open at the relay before this one: late path connections come here for as long as they are.
    elsewhere: HashSet<FlowId>,
}

impl Ended {
    /// `well`: a late path connection has nothing to learn, because the flow came to its end, or is with a relay of before.
    pub fn put(&mut self, id: FlowId, well: bool) {
        if self.newer.len() >= GENERATION {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(id, well);
    }

    pub fn keep(&mut self, elsewhere: impl IntoIterator<Item = FlowId>) {
        self.elsewhere.extend(elsewhere);
    }

    /// Those of relays before this one, as far as they may be open.
    pub fn elsewhere(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.elsewhere.iter().copied()
    }

    /// The relay before this one is gone, and with it the flows that were open there.
    pub fn lose(&mut self) {
        for id in std::mem::take(&mut self.elsewhere) {
            self.put(id, false);
        }
    }

    pub fn get(&self, id: &FlowId) -> Option<bool> {
        if self.elsewhere.contains(id) {
            return Some(true);
        }
        self.newer.get(id).or_else(|| self.older.get(id)).copied()
    }

    /// Those that are forgotten first come first; without those that are open elsewhere.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, bool)> + '_ {
        let older = self
            .older
            .iter()
            .filter(|(id, _)| !self.newer.contains_key(*id));
        older.chain(&self.newer).map(|(id, well)| (*id, *well))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_a_generation_is_known_and_at_most_two() {
        let id = |number: usize| (Default::default(), [0; 16], number as u64);
        let mut ended = Ended::default();
        for number in 0..5 * GENERATION {
            ended.put(id(number), number.is_multiple_of(3));
            if number >= GENERATION && number % 1_000 == 0 {
                let oldest = number - GENERATION + 1;
                assert_eq!(ended.get(&id(oldest)), Some(oldest.is_multiple_of(3)));
                assert_eq!(ended.get(&id(number + 1)), None);
                assert!(ended.iter().count() <= 2 * GENERATION);
            }
        }
        // It ends otherwise than was thought.
        ended.put(id(4 * GENERATION - 1), true);
        ended.put(id(4 * GENERATION - 1), false);
        assert_eq!(ended.get(&id(4 * GENERATION - 1)), Some(false));
        let again: Vec<_> = ended
            .iter()
            .filter(|(of, _)| *of == id(4 * GENERATION - 1))
            .collect();
        assert_eq!(again.len(), 1);
    }

    /// After a reload a flow of hours may still be there, and its device go on trying to join it over a link that is back.
    #[test]
    fn what_is_open_elsewhere_is_not_forgotten() {
        let id = |number: usize| (Default::default(), [0; 16], number as u64);
        let mut ended = Ended::default();
        ended.keep([id(0)]);
        (1..4 * GENERATION).for_each(|number| ended.put(id(number), true));
        assert_eq!(ended.get(&id(0)), Some(true));
        // A further relay is to know it as open too.
        assert!(ended.elsewhere().eq([id(0)]));
        assert!(ended.iter().all(|(one, _)| one != id(0)));
        ended.lose();
        assert_eq!(ended.elsewhere().count(), 0);
        assert_eq!(ended.get(&id(0)), Some(false));
    }
}
