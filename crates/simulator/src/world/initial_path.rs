//! The initial path of a connection, where a bandit chooses it.
//!
//! Connections of the same client over the same paths share one learner, which begins anew with each run. It knows what the
//! scenario's events tell of the radios, and of round-trip times and losses, where they tell nothing, what the connections
//! before have seen on each path. A connection's outcome is known when it ends: its goodput, and the round-trip time of the
//! path that it started on.

use mp_policy::bandit::context::{self, Reading, Readings};
use mp_policy::bandit::reward::Judge;
use mp_policy::bandit::{Bandit, Settings};
use mp_record::Decision;
use mp_scenario::{Scenario, Variant};

use super::World;
use crate::time::seconds;
use crate::Error;

/// What one connection more counts in the memory of a path's round-trip time and loss.
const GAIN: f64 = 0.3;

pub(super) struct Learner {
    client: String,
    /// Indices into the scenario's paths: the arms.
    paths: Vec<usize>,
    policy: String,
    bandit: Bandit,
    judge: Judge,
    /// What earlier connections saw of each path.
    seen: Vec<Readings>,
}

/// Each connection's learner, by index, and the learners.
pub(super) fn learners(
    scenario: &Scenario,
    variant: &Variant,
    seed: u64,
) -> Result<(Vec<Option<usize>>, Vec<Learner>), Error> {
    let (mut of, mut all) = (Vec::new(), Vec::<Learner>::new());
    for connection in &scenario.connections {
        let name = connection
            .initial_path
            .as_ref()
            .unwrap_or(&variant.initial_path);
        let policy = mp_policy::initial_path::find(name)
            .ok_or_else(|| Error::Unknown("initial path", name.clone()))?
            .build();
        let mptcp = connection.protocol == mp_scenario::Protocol::Mptcp;
        let (Some(policy), true) = (policy, mptcp) else {
            of.push(None);
            continue;
        };
        let paths: Vec<usize> = connection
            .paths
            .iter()
            .filter_map(|p| scenario.paths.get_index_of(p))
            .collect();
        let same =
            |l: &Learner| l.client == connection.client && l.paths == paths && l.policy == *name;
        let place = all.iter().position(same).unwrap_or(all.len());
        if place == all.len() {
            let names = || connection.paths.iter().map(String::as_str);
            let bandit = Bandit::new(
                Settings::new(policy),
                names(),
                context::names(names()),
                seed.wrapping_add(place as u64),
            )
            .map_err(|_| Error::Unknown("path", String::new()))?;
            all.push(Learner {
                client: connection.client.clone(),
                seen: vec![Readings::default(); paths.len()],
                paths,
                policy: name.clone(),
                bandit,
                judge: Judge::default(),
            });
        }
        of.push(Some(place));
    }
    Ok((of, all))
}

impl World<'_> {
    /// Index of the path, within the plan's, that transfer `id` starts on.
    pub(super) fn choose_initial_path(&mut self, plan: usize, id: u32) -> usize {
        let Some(learner) = self.learner_of[plan] else {
            return 0;
        };
        let learner = &mut self.learners[learner];
        let known: Vec<Readings> = (learner.paths.iter().zip(&learner.seen))
            .map(|(path, seen)| {
                let mut readings = *seen;
                if let Some(dbm) = self.signals.get(path) {
                    readings.set(Reading::Signal, f64::from(*dbm));
                }
                for (reading, value) in self.readings.get(path).into_iter().flatten() {
                    readings.set(*reading, *value);
                }
                readings
            })
            .collect();
        let context = context::flatten(&known);
        let decision = learner.bandit.decide(&context);
        let named = |names: &[String], values: &[f64]| {
            let known = |v: &f64| v.is_finite().then_some(*v);
            names
                .iter()
                .cloned()
                .zip(values.iter().map(known))
                .collect()
        };
        self.run.decisions.push(Decision {
            transfer: id,
            time_s: seconds(self.net.now),
            policy: learner.policy.clone(),
            arm: learner.bandit.arms()[decision.arm].clone(),
            explored: decision.explored,
            probability: decision.probability,
            features: named(learner.bandit.features(), &context),
            scores: named(learner.bandit.arms(), &decision.scores),
            throughput_mbps: None,
            latency_ms: None,
            reward: None,
        });
        decision.arm
    }

    /// A connection has ended, well or not: its bandit learns from it.
    pub(super) fn learn(&mut self, owner: u32) {
        let connection = &self.connections[owner as usize];
        let Some(learner) = self.learner_of[connection.plan] else {
            return;
        };
        let learner = &mut self.learners[learner];
        let mut latency_ms = f64::NAN;
        for (k, &index) in connection.subflows.iter().enumerate() {
            let s = &self.subflows[index as usize];
            let flow = &s.sender.flow;
            let rtt = match flow.srtt_us {
                0 => f64::NAN,
                us => f64::from(us) / 1e3,
            };
            if k == 0 {
                latency_ms = rtt;
            }
            let seen = &mut learner.seen[s.path];
            let mut note = |reading, value: f64| {
                if value.is_finite() {
                    let before = seen.get(reading).unwrap_or(value);
                    seen.set(reading, before + GAIN * (value - before));
                }
            };
            note(Reading::Rtt, rtt);
            note(Reading::Loss, flow.lost as f64 / s.sender.sent as f64);
        }
        let lasted = seconds(self.net.now - connection.started);
        let throughput_mbps = match connection.finished {
            Some(_) if lasted > 0.0 => connection.delivered_bytes() as f64 * 8e-6 / lasted,
            _ => 0.0,
        };
        let id = connection.id;
        let found = |d: &&mut Decision| d.transfer == id;
        let Some(decision) = self.run.decisions.iter_mut().rev().find(found) else {
            return;
        };
        let reward = learner.judge.judge(throughput_mbps, latency_ms);
        decision.throughput_mbps = Some(throughput_mbps);
        decision.latency_ms = Some(latency_ms).filter(|l| l.is_finite());
        decision.reward = Some(reward);
        let arm = learner
            .bandit
            .arms()
            .iter()
            .position(|a| *a == decision.arm);
        let context: Vec<f64> = decision
            .features
            .iter()
            .map(|(_, value)| value.unwrap_or(f64::NAN))
            .collect();
        if let Some(arm) = arm {
            learner.bandit.update(&context, arm, reward);
        }
    }
}

/// Scenario and bandit name the same readings.
#[cfg(test)]
#[test]
fn the_scenario_knows_every_reading() {
    let names: Vec<&str> = Reading::ALL.iter().map(|r| r.name()).collect();
    assert_eq!(names, mp_scenario::READINGS);
}
