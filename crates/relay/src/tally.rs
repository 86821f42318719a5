//! Counters of slots, told apart by the links that have them one after the other.

use std::collections::BTreeMap;

use mp_policy::MAX_SUBFLOWS;

/// A slot's counters go on when another link gets the slot: what they count from then on is the new link's.
#[derive(Debug)]
pub struct Tally<const N: usize> {
    slots: [Option<Owner<N>>; MAX_SUBFLOWS],
    /// Of links that have lost their slots. One that comes back goes on from there, so that its counters never fall.
    kept: BTreeMap<String, [u64; N]>,
}

#[derive(Debug)]
struct Owner<const N: usize> {
    name: String,
    /// The slot's counters when it came.
    base: [u64; N],
}

impl<const N: usize> Default for Tally<N> {
    fn default() -> Tally<N> {
        Tally {
            slots: Default::default(),
            kept: BTreeMap::new(),
        }
    }
}

impl<const N: usize> Tally<N> {
    /// The slot is this link's from now on. `total`: what the slot has counted so far.
    pub fn settle(&mut self, slot: usize, name: &str, total: [u64; N]) {
        let owner = self.slots[slot].as_ref();
        if owner.is_some_and(|owner| owner.name == name) {
            return;
        }
        let base = match owner {
            Some(owner) => {
                let before = owner.name.clone();
                let counted = self.of(slot, &before, total);
                self.kept.insert(before, counted);
                total
            }
            None => [0; N],
        };
        self.slots[slot] = Some(Owner {
            name: name.to_owned(),
            base,
        });
    }

    /// What the link has counted.
    pub fn of(&self, slot: usize, name: &str, total: [u64; N]) -> [u64; N] {
        let mut counted = self.kept.get(name).copied().unwrap_or([0; N]);
        let owner = self.slots[slot].as_ref().filter(|o| o.name == name);
        if let Some(owner) = owner {
            for (place, counted) in counted.iter_mut().enumerate() {
                *counted += total[place].saturating_sub(owner.base[place]);
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_charged_with_what_the_one_before_has_carried() {
        let mut tally = Tally::default();
        tally.settle(0, "dock1", [0]);
        assert_eq!(tally.of(0, "dock1", [1000]), [1000]);
        assert_eq!(tally.of(0, "dock9", [1000]), [0], "it has yet to come");
        tally.settle(0, "dock9", [1000]);
        assert_eq!(tally.of(0, "dock9", [1000]), [0]);
        tally.settle(0, "dock9", [1200]);
        assert_eq!(tally.of(0, "dock9", [1250]), [250]);

        // The first is back, in a slot that has counted 70 for another.
        tally.settle(3, "dock4", [0]);
        tally.settle(3, "dock1", [70]);
        assert_eq!(tally.of(3, "dock1", [70]), [1000]);
        assert_eq!(tally.of(3, "dock1", [75]), [1005]);
        // And again where it was.
        tally.settle(0, "dock1", [1250]);
        tally.settle(0, "dock9", [1250]);
        assert_eq!(tally.of(0, "dock9", [1251]), [251]);
    }
}
