//! Who acts next: a tournament over the sources of events.
//!
//! Links deliver in order and timers are lazy, so that each source has one next time and not one event a packet. The
//! winner is found in O(1) and a change costs at most log₂(sources) comparisons, fewer where it does not reach the top.
//! Links have a tournament of their own: there are few of them, and nearly all events are theirs.

/// No event.
pub use mp_links::NEVER;

/// A time above the number of a source: at equal times the source with the lower number goes first, so that ties never
/// depend on history.
type Key = u128;

#[inline]
fn key(time: u64, source: u32) -> Key {
    Key::from(time) << 32 | Key::from(source)
}

#[inline]
fn time(key: Key) -> u64 {
    (key >> 32) as u64
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    Link(u32),
    Other(u32),
}

/// Links, and all others: timers, connections, the calendar. At equal times links go first.
#[derive(Debug, Clone, Default)]
pub struct Agenda {
    pub links: Tournament,
    pub others: Tournament,
}

impl Agenda {
    /// The earliest time and whose it is; [`NEVER`] where nobody has anything to do.
    #[inline]
    pub fn first(&self) -> (u64, Actor) {
        let (link_time, link) = self.links.first();
        let (other_time, other) = self.others.first();
        if link_time <= other_time {
            (link_time, Actor::Link(link))
        } else {
            (other_time, Actor::Other(other))
        }
    }
}

#[derive(Debug, Clone)]
pub struct Tournament {
    /// Heap-ordered winners; the leaves are the second half.
    nodes: Vec<Key>,
    base: usize,
    sources: u32,
}

impl Default for Tournament {
    fn default() -> Self {
        Tournament {
            nodes: vec![Key::MAX; 2],
            base: 1,
            sources: 0,
        }
    }
}

impl Tournament {
    /// A new source, with nothing to do yet.
    pub fn add(&mut self) -> u32 {
        let source = self.sources;
        self.sources += 1;
        if self.sources as usize > self.base {
            let leaves: Vec<_> = self.nodes[self.base..].to_vec();
            self.base *= 2;
            self.nodes = vec![Key::MAX; 2 * self.base];
            for (i, leaf) in leaves.into_iter().enumerate() {
                self.set(i as u32, time(leaf));
            }
        }
        self.set(source, NEVER);
        source
    }

    /// Changes when a source acts next.
    #[inline]
    pub fn set(&mut self, source: u32, time: u64) {
        let mut i = self.base + source as usize;
        let mut winner = key(time, source);
        self.nodes[i] = winner;
        while i > 1 {
            winner = winner.min(self.nodes[i ^ 1]);
            i >>= 1;
            if self.nodes[i] == winner {
                return;
            }
            self.nodes[i] = winner;
        }
    }

    #[inline]
    pub fn at(&self, source: u32) -> u64 {
        time(self.nodes[self.base + source as usize])
    }

    #[inline]
    fn first(&self) -> (u64, u32) {
        (time(self.nodes[1]), self.nodes[1] as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_minimum(steps in prop::collection::vec((0u32..40, 0u64..50), 1..300)) {
            let mut agenda = Tournament::default();
            let mut times: Vec<u64> = Vec::new();
            for (source, time) in steps {
                while times.len() <= source as usize {
                    prop_assert_eq!(agenda.add() as usize, times.len());
                    times.push(NEVER);
                }
                agenda.set(source, time);
                times[source as usize] = time;
                let (i, t) = times.iter().enumerate().min_by_key(|&(i, &t)| (t, i)).unwrap();
                prop_assert_eq!(agenda.first(), (*t, i as u32));
            }
        }
    }

    #[test]
    fn a_link_goes_before_what_is_due_at_the_same_time() {
        let mut agenda = Agenda::default();
        let (link, other) = (agenda.links.add(), agenda.others.add());
        assert_eq!(agenda.first().0, NEVER);
        agenda.others.set(other, 7);
        assert_eq!(agenda.first(), (7, Actor::Other(other)));
        agenda.links.set(link, 7);
        assert_eq!(agenda.first(), (7, Actor::Link(link)));
    }
}
