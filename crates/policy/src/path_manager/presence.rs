//! Whether connections have subflows on a path where one is wanted. A host learns of no handshake that fails, and of no subflow
//! that the peer closes: it sees that none is there.

use super::State;

/// A connection of this age has had the time to open its subflows: two retransmissions of a SYN, after 1 s and 2 s
/// (`TCP_TIMEOUT_INIT`, RFC 6298 section 2), µs.
const GROWN_US: u64 = 3_000_000;

/// A connection as a poll found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// When it was first seen, µs.
    pub since_us: u64,
    /// It has a subflow on the path.
    pub here: bool,
}

/// What has become of a path's subflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresenceChange {
    /// After they were missing, or had died, one is there.
    Established,
    /// None is there, although connections had the time to open one.
    Missing,
}

/// The subflows of one path, of all connections that one path manager sees.
#[derive(Debug, Clone, Copy, Default)]
pub struct Presence {
    /// They are asked for.
    open: bool,
    /// None came, or none is left.
    missing: bool,
    /// It is closed for that, and for nothing else.
    lapsed: bool,
    /// They have died, and others are asked for in their place.
    stuck: bool,
    asked_us: u64,
}

impl Presence {
    /// Subflows that are there already.
    pub fn taken_over() -> Presence {
        Presence {
            open: true,
            ..Presence::default()
        }
    }

    /// [`Action::Open`](super::Action::Open); `stuck`: in place of what [`Action::Close`](super::Action::Close) ended just
    /// now.
    pub fn open(&mut self, now_us: u64, stuck: bool) {
        (self.open, self.stuck, self.asked_us) = (true, stuck, now_us);
        self.lapsed = false;
    }

    /// [`Action::Close`](super::Action::Close)
    pub fn close(&mut self) {
        (self.open, self.lapsed) = (false, false);
    }

    /// Nobody waits any more for what was to replace dead subflows: another path manager has taken over, which may ask anew.
    pub fn give_up(&mut self) {
        if self.stuck {
            (self.open, self.stuck) = (false, false);
        }
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    pub fn state(&self) -> State {
        match (self.open, self.stuck) {
            (true, true) => State::Opening,
            (true, false) => State::Established,
            (false, _) => State::Closed,
        }
    }

    /// Takes in a poll: `up`, whether the path is; `fresh`, whether a subflow there is new; and the live connections.
    pub fn poll(
        &mut self,
        now_us: u64,
        up: bool,
        fresh: bool,
        connections: impl Iterator<Item = Present>,
    ) -> Option<PresenceChange> {
        // No handshake gets over a path that is dead.
        if (self.missing || self.stuck) && fresh {
            (self.missing, self.stuck) = (false, false);
            // A new connection may begin there before the path manager asks again.
            self.open |= std::mem::take(&mut self.lapsed);
            return Some(PresenceChange::Established);
        }
        // Handshakes over a dead path are missing until it is back, and the path manager says when to begin another.
        let due = self.open && !self.stuck && up && now_us >= self.asked_us + GROWN_US;
        if !due || !lacking(now_us, connections) {
            return None;
        }
        (self.missing, self.open, self.lapsed) = (true, false, true);
        Some(PresenceChange::Missing)
    }
}

/// Some are old enough to have a subflow on the path, and none of those has.
fn lacking(now_us: u64, connections: impl Iterator<Item = Present>) -> bool {
    let mut grown = connections
        .filter(|c| now_us >= c.since_us + GROWN_US)
        .peekable();
    grown.peek().is_some() && !grown.any(|c| c.here)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000;

    fn since(seconds: u64, here: bool) -> Present {
        Present {
            since_us: seconds * SECOND,
            here,
        }
    }

    #[test]
    fn a_path_is_missed_once_no_grown_connection_has_a_subflow_there() {
        let missed = |now_s: u64, all: &[Present]| lacking(now_s * SECOND, all.iter().copied());
        assert!(!missed(2, &[since(0, false)]), "too young");
        assert!(missed(3, &[since(0, false)]));
        assert!(!missed(9, &[since(0, false), since(1, true)]), "one has it");
        assert!(
            missed(9, &[since(0, false), since(8, true)]),
            "too young to count"
        );
        assert!(!missed(9, &[]), "nobody misses it");
    }

    #[test]
    fn it_is_asked_for_until_a_new_subflow_is_there() {
        let mut path = Presence::default();
        let poll = |path: &mut Presence, s: u64, fresh| {
            path.poll(s * SECOND, true, fresh, [since(0, false)].into_iter())
        };
        assert_eq!(poll(&mut path, 9, false), None, "nobody asks");
        path.open(9 * SECOND, false);
        assert_eq!(poll(&mut path, 11, false), None, "handshakes take time");
        assert_eq!(poll(&mut path, 12, false), Some(PresenceChange::Missing));
        assert_eq!(
            (path.state(), poll(&mut path, 20, false)),
            (State::Closed, None)
        );
        path.open(20 * SECOND, false);
        assert_eq!(poll(&mut path, 21, true), Some(PresenceChange::Established));
        assert_eq!(poll(&mut path, 22, true), None, "one more is no news");
    }

    #[test]
    fn what_replaces_dead_subflows_is_opening_until_it_is_there() {
        let mut path = Presence::taken_over();
        assert_eq!(path.state(), State::Established);
        path.close();
        path.open(5 * SECOND, true);
        assert_eq!(path.state(), State::Opening);
        // Of the dead ones none is left.
        let none = [since(0, false)];
        assert_eq!(path.poll(60 * SECOND, true, false, none.into_iter()), None);
        assert_eq!(path.state(), State::Opening);
        let dead = [since(0, true)];
        let change = path.poll(61 * SECOND, true, true, dead.into_iter());
        assert_eq!(change, Some(PresenceChange::Established));
        assert_eq!(path.state(), State::Established);
    }

    proptest! {
        /// Each loss is reported once, and only of a path that is up and asked for.
        #[test]
        fn missing_and_established_take_turns(
            polls in prop::collection::vec((0..4u64, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()), 1..200)
        ) {
            let (mut path, mut now, mut missing) = (Presence::default(), 0, false);
            for (seconds, up, fresh, here, ask) in polls {
                now += seconds * SECOND;
                if ask && !path.is_open() {
                    path.open(now, false);
                }
                let was_open = path.is_open();
                match path.poll(now, up, fresh, [since(0, here)].into_iter()) {
                    Some(PresenceChange::Missing) => {
                        prop_assert!(up && was_open && !here && !path.is_open());
                        missing = true;
                    }
                    Some(PresenceChange::Established) => {
                        prop_assert!(missing && fresh && path.is_open());
                        missing = false;
                    }
                    None => prop_assert_eq!(path.is_open(), was_open),
                }
            }
        }
    }
}
