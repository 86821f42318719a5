//! A receiver's signs that a path has died: data came on it, and now nothing does, while the same connection's other
//! subflows go on as before.
//!
//! A receiver sends nothing that could go unanswered, and what the sender finds out by its timeouts stays with the
//! sender. An application that wants less looks different: then the others carry less, too. Where there are no others but
//! in backup, the sender tells after all: those carry data once it has given up the normal ones.

use std::collections::HashMap;

use crate::view::Activity;

/// Rates are smoothed over about this time, µs.
const SMOOTHING_US: f64 = 5e5;
/// Silence has to last this long, or four round trips, µs.
const LEAST_US: u64 = 250_000;
/// Of what its connection received, the subflow must have carried this share …
const SHARE: f64 = 0.1;
/// … and of what the others brought beside it this share must go on coming. Those in backup do not count: what comes there
/// was given to them before, and the silent one may be waiting for it (the receive window).
const GO_ON: f64 = 0.7;
/// One in backup has been given its data once the others bring so many times as much as they did.
const TAKEN_OVER: f64 = 1.5;

#[derive(Debug, Default)]
pub struct Silence {
    flows: HashMap<u64, Flow>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// Bytes/s, as of when something last arrived; and what the connection's others brought then, all and the normal ones.
    rate: f64,
    beside: f64,
    normal: f64,
    arrived_us: u64,
}

impl Silence {
    /// Takes in what arrived on each subflow in `elapsed_us`, and says which of them seem to be dead.
    pub fn poll(&mut self, now_us: u64, elapsed_us: u64, subflows: &[Activity]) -> Vec<bool> {
        let elapsed = elapsed_us.max(1) as f64;
        let weight = super::weight(elapsed, SMOOTHING_US);
        let mut of: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, subflow) in subflows.iter().enumerate() {
            of.entry(subflow.connection).or_default().push(at);
        }
        let mut flows = HashMap::with_capacity(subflows.len());
        let mut dead = vec![false; subflows.len()];
        for members in of.into_values().filter(|m| m.len() > 1) {
            // What each brings now: a silent one's rate fades.
            let current = |&at: &usize| -> (Flow, f64) {
                let Activity { id, arrived, .. } = subflows[at];
                let flow = self.flows.get(&id).copied();
                let flow = flow.unwrap_or_default();
                let faded = match arrived {
                    0 => flow.rate * (-((now_us - flow.arrived_us) as f64) / SMOOTHING_US).exp(),
                    _ => flow.rate + weight * (arrived as f64 * 1e6 / elapsed - flow.rate),
                };
                (flow, faded)
            };
            let now: Vec<(Flow, f64)> = members.iter().map(current).collect();
            let others = |at: usize, all: bool| -> f64 {
                let counts = |m: usize| m != at && (all || !subflows[m].backup);
                let rates = members.iter().zip(&now);
                rates.filter(|(&m, _)| counts(m)).map(|(_, of)| of.1).sum()
            };
            let in_reserve = |&at: &usize| subflows[at].backup && subflows[at].arrived > 0;
            let given_up = members.iter().any(in_reserve);
            for (&at, (flow, rate)) in members.iter().zip(&now) {
                let subflow = subflows[at];
                let (beside, normal) = (others(at, true), others(at, false));
                if subflow.arrived > 0 {
                    let heard = Flow {
                        rate: *rate,
                        beside,
                        normal,
                        arrived_us: now_us,
                    };
                    flows.insert(subflow.id, heard);
                    continue;
                }
                flows.insert(subflow.id, *flow);
                let patience = LEAST_US.max(4 * u64::from(subflow.rtt_us.unwrap_or(0)));
                let go_on = flow.normal > 0.0 && normal >= GO_ON * flow.normal;
                let taken_over = given_up && beside > TAKEN_OVER * flow.beside;
                dead[at] = !subflow.backup
                    && flow.rate > SHARE * (flow.rate + flow.beside)
                    && (go_on || taken_over)
                    && now_us >= flow.arrived_us + patience;
            }
        }
        self.flows = flows;
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(id: u64, bytes: u64) -> Activity {
        Activity {
            connection: 7,
            id,
            path: Some(id as usize),
            backup: false,
            arrived: bytes,
            moved: bytes,
            packets: 0,
            rtt_us: None,
        }
    }

    fn in_backup(id: u64, bytes: u64) -> Activity {
        Activity {
            backup: true,
            ..arrival(id, bytes)
        }
    }

    /// Two subflows that bring so much every 50 ms, for so many polls; how many polls took the first for dead.
    fn polls(silence: &mut Silence, from: u64, count: u64, bytes: [u64; 2]) -> usize {
        let both = [arrival(1, bytes[0]), arrival(2, bytes[1])];
        let dead = |n| silence.poll((from + n) * 50_000, 50_000, &both);
        let found: Vec<Vec<bool>> = (1..=count).map(dead).collect();
        assert!(found.iter().all(|v| !v[1]), "the other one lives");
        found.iter().filter(|v| v[0]).count()
    }

    #[test]
    fn a_path_that_falls_silent_while_the_other_goes_on_is_dead() {
        let mut silence = Silence::default();
        assert_eq!(polls(&mut silence, 0, 60, [50_000, 50_000]), 0);
        assert_eq!(polls(&mut silence, 60, 20, [0, 50_000]), 16);
        assert_eq!(polls(&mut silence, 80, 20, [50_000, 50_000]), 0);
    }

    #[test]
    fn a_path_is_dead_once_a_backup_brings_what_it_brought() {
        let mut silence = Silence::default();
        let mut polls = |from: u64, count: u64, bytes: [u64; 2]| {
            let both = [arrival(1, bytes[0]), in_backup(2, bytes[1])];
            let mut dead = |n| silence.poll((from + n) * 50_000, 50_000, &both)[0];
            (1..=count).map(|n| usize::from(dead(n))).sum::<usize>()
        };
        assert_eq!(polls(0, 60, [50_000, 0]), 0);
        assert_eq!(polls(60, 20, [0, 0]), 0, "nobody wants more");
        assert_eq!(polls(80, 20, [0, 20_000]), 20);
        // One that was set to backup only now, with data under way.
        assert_eq!(polls(100, 60, [50_000, 50_000]), 0);
        assert_eq!(polls(160, 20, [0, 5_000]), 0);
    }

    /// The slow path's queue drains, and the receive window leaves no room for more.
    #[test]
    fn a_path_that_waits_for_one_that_was_set_to_backup_is_not_dead() {
        let mut silence = Silence::default();
        assert_eq!(polls(&mut silence, 0, 60, [200_000, 10_000]), 0);
        let both = [arrival(1, 0), in_backup(2, 10_500)];
        let dead = (61..100).flat_map(|n| silence.poll(n * 50_000, 50_000, &both));
        assert_eq!(dead.filter(|dead| *dead).count(), 0);
    }

    #[test]
    fn neither_the_end_of_a_transfer_nor_less_demand_nor_an_idle_path_is_taken_for_death() {
        let mut silence = Silence::default();
        polls(&mut silence, 0, 60, [50_000, 50_000]);
        assert_eq!(polls(&mut silence, 60, 60, [0, 0]), 0);
        let mut silence = Silence::default();
        polls(&mut silence, 0, 60, [50_000, 50_000]);
        assert!(
            polls(&mut silence, 60, 60, [0, 15_000]) <= 1,
            "while its rate fades"
        );
        let mut silence = Silence::default();
        polls(&mut silence, 0, 60, [1_000, 50_000]);
        assert_eq!(polls(&mut silence, 60, 60, [0, 50_000]), 0);
    }
}
