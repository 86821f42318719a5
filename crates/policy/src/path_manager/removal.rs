//! What may be removed without harm to a connection, and when its address may be used again. `A` is how a host names a local
//! address.

use std::collections::BTreeMap;

/// A subflow that is established, as its host finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<A> {
    pub connection: u32,
    pub local: A,
    pub backup: bool,
    /// Since anything last arrived on it, ms.
    pub silent_ms: u32,
    /// Retransmission timeout, µs.
    pub rto_us: u32,
    /// Retransmission timeouts in a row.
    pub backoff: u32,
}

impl<A> Standing<A> {
    /// What arrived within a retransmission timeout of the latest is as good as that, unless such a timeout has passed; ms.
    fn slack_ms(&self) -> u32 {
        match self.backoff {
            0 => self.rto_us / 1000,
            _ => 0,
        }
    }
}

/// Whether a connection has no subflow but at this address and at those that are `gone`.
pub fn indispensable<A: Copy + PartialEq>(local: A, gone: &[A], subflows: &[Standing<A>]) -> bool {
    let elsewhere = |connection: u32| {
        subflows
            .iter()
            .any(|s| s.connection == connection && s.local != local && !gone.contains(&s.local))
    };
    let mut here = subflows.iter().filter(|s| s.local == local);
    here.any(|s| !elsewhere(s.connection))
}

/// Addresses of `ours` that have to stay so that every connection keeps a subflow that works. That one is established says
/// little: its link may have come back without a route, and the kernel asks nothing of a subflow that is not its turn. So
/// it counts when something last arrived.
pub fn lifelines<A: Copy + PartialEq>(ours: &[A], subflows: &[Standing<A>]) -> Vec<A> {
    let mut connections: BTreeMap<u32, Vec<&Standing<A>>> = BTreeMap::new();
    for subflow in subflows {
        let of = connections.entry(subflow.connection).or_default();
        of.push(subflow);
    }
    let mut stay: Vec<A> = Vec::new();
    for mut of in connections.into_values() {
        let least = of.iter().map(|s| s.silent_ms).min().unwrap_or(0);
        of.retain(|s| s.silent_ms <= least.saturating_add(s.slack_ms()));
        let without_us = |s: &&Standing<A>| !ours.contains(&s.local) || stay.contains(&s.local);
        if !of.iter().any(without_us) {
            let best = of.iter().min_by_key(|s| (s.backup, s.silent_ms));
            stay.extend(best.map(|s| s.local));
        }
    }
    stay
}

/// Timeouts of subflows that have died themselves double and double, µs.
const LONGEST_REST_US: u32 = 1_000_000;

/// How long a removed address rests before a subflow may be opened from it again, µs. The kernel tells the peer of the removal
/// by RM_ADDR (RFC 8684, section 3.4.2), once, over another path, and the peer then closes whatever it has from that address.
/// What is not there by the retransmission timeout of the slowest path that it may have taken is lost.
pub fn rest_us<A: Copy + PartialEq>(local: A, subflows: &[Standing<A>]) -> u32 {
    let elsewhere = subflows.iter().filter(|s| s.local != local);
    let slowest = elsewhere.map(|s| s.rto_us).max().unwrap_or(0);
    slowest.min(LONGEST_REST_US)
}

/// A subflow between two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between<E> {
    pub ends: E,
    /// The host's own name for it.
    pub id: u64,
    /// Payload, either way, bytes.
    pub carried: u64,
}

/// Which of a connection's subflows are duplicates: another one between the same addresses has carried more. A handshake that
/// goes unanswered is out of sight and its path is tried again: once the path is back, all of them may come through.
pub fn duplicates<E: PartialEq>(subflows: &[Between<E>]) -> Vec<bool> {
    let rank = |s: &Between<E>| (s.carried, s.id);
    let duplicate = |s: &Between<E>| {
        let mut others = subflows.iter().filter(|o| o.ends == s.ends);
        others.any(|o| rank(o) > rank(s))
    };
    subflows.iter().map(duplicate).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn standing(connection: u32, local: u8, silent_ms: u32, backup: bool) -> Standing<u8> {
        Standing {
            connection,
            local,
            backup,
            silent_ms,
            rto_us: 250_000,
            backoff: 0,
        }
    }

    #[test]
    fn one_subflow_of_each_connection_stays_and_it_is_one_that_works() {
        let stay = |subflows: &[Standing<u8>]| lifelines(&[1, 2], subflows);
        assert_eq!(stay(&[]), [0; 0]);
        let dead_first = [standing(7, 1, 9_000, false), standing(7, 2, 5, false)];
        assert_eq!(stay(&dead_first), [2]);
        let resting_first = [standing(7, 1, 0, true), standing(7, 2, 40, false)];
        assert_eq!(stay(&resting_first), [2]);
        let dying_first = [standing(7, 1, 700, false), standing(7, 2, 100, true)];
        assert_eq!(stay(&dying_first), [2]);
        let mut timed_out = [standing(7, 1, 300, false), standing(7, 2, 100, true)];
        assert_eq!(stay(&timed_out), [1]);
        timed_out[0].backoff = 1;
        assert_eq!(stay(&timed_out), [2]);
        let elsewhere = [standing(7, 1, 0, false), standing(7, 3, 90, false)];
        assert_eq!(stay(&elsewhere), [0; 0], "nobody deletes that one");
        let two = [
            standing(7, 1, 10, false),
            standing(8, 1, 50, false),
            standing(8, 2, 10, false),
        ];
        assert_eq!(stay(&two), [1], "as few as possible");
    }

    #[test]
    fn an_address_stays_while_a_connection_has_no_other() {
        let at = |connection, local| standing(connection, local, 0, false);
        let both = [at(7, 1), at(7, 2)];
        assert!(!indispensable(1, &[], &both));
        assert!(indispensable(1, &[2], &both));
        let another = [at(7, 1), at(7, 2), at(8, 1)];
        assert!(indispensable(1, &[], &another));
        assert!(!indispensable(3, &[], &another));
    }

    #[test]
    fn an_address_rests_for_the_slowest_other_path_but_not_for_a_dead_one() {
        let of = |local, rto_ms: u32| Standing {
            rto_us: rto_ms * 1000,
            ..standing(7, local, 0, false)
        };
        let all = [of(1, 900), of(2, 250), of(3, 201)];
        let rests = (rest_us(1, &all), rest_us(2, &all), rest_us(1, &[]));
        assert_eq!(rests, (250_000, 900_000, 0));
        assert_eq!(rest_us(1, &[of(2, 120_000)]), 1_000_000);
    }

    proptest! {
        /// Whatever goes but the lifelines, every connection keeps a subflow, and one that was heard no later than a
        /// retransmission timeout after the latest.
        #[test]
        fn every_connection_keeps_one_that_works(
            subflows in prop::collection::vec(
                (0..4u32, 0..5u8, 0..2_000u32, any::<bool>(), 0..3u32).prop_map(|(connection, local, silent, backup, backoff)| {
                    Standing { backoff, ..standing(connection, local, silent, backup) }
                }),
                0..20,
            ),
            ours in prop::collection::vec(0..5u8, 0..5),
        ) {
            let stay = lifelines(&ours, &subflows);
            prop_assert!(stay.iter().all(|a| ours.contains(a)));
            for s in &subflows {
                let of = || subflows.iter().filter(|o| o.connection == s.connection);
                let latest = of().map(|o| o.silent_ms).min().unwrap();
                let kept = |o: &&Standing<u8>| !ours.contains(&o.local) || stay.contains(&o.local);
                prop_assert!(of().filter(kept).any(|o| o.silent_ms <= latest + 250));
            }
        }

        /// One between each pair of ends is left, and it has carried the most.
        #[test]
        fn one_of_each_stays(all in prop::collection::vec((0..3u8, 0..5u64), 0..12)) {
            let all: Vec<Between<u8>> = all.iter().zip(0..)
                .map(|(&(ends, carried), id)| Between { ends, id, carried })
                .collect();
            let duplicate = duplicates(&all);
            for ends in 0..3 {
                let of = || all.iter().zip(&duplicate).filter(|(s, _)| s.ends == ends);
                let most = of().map(|(s, _)| s.carried).max();
                let left: Vec<u64> = of().filter(|(_, d)| !**d).map(|(s, _)| s.carried).collect();
                prop_assert_eq!(left, Vec::from_iter(most));
            }
        }
    }
}
