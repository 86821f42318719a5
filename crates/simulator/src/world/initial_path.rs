//! The initial path of a connection, where a bandit chooses it.
//!
//! Connections of the same client over the same paths share one learner, which begins anew with each run. It knows what the
//! scenario's events tell of the radios, and of round-trip times, where they tell nothing, what the client's end of the
//! connections before has seen on each path. A connection's outcome is known when it ends: its goodput, and the round-trip
//! time of the path that it started on.

use mp_policy::bandit::context::{Reading, Readings};
use mp_policy::bandit::starter::Starter;
use mp_policy::bandit::Settings;
use mp_record::Decision;
use mp_scenario::{Scenario, Variant};

use super::manage::halves;
use super::World;
use crate::time::seconds;
use crate::Error;

pub(super) struct Learner {
    client: String,
    /// Indices into the scenario's paths: the arms.
    paths: Vec<usize>,
    policy: String,
    starter: Starter,
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
            let names: Vec<&str> = connection.paths.iter().map(String::as_str).collect();
            let seed = seed.wrapping_add(place as u64);
            let starter = Starter::new(Settings::new(policy), &names, seed)
                .map_err(|_| Error::Unknown("path", String::new()))?;
            all.push(Learner {
                client: connection.client.clone(),
                paths,
                policy: name.clone(),
                starter,
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
        let told: Vec<Readings> = (learner.paths.iter())
            .map(|path| {
                let mut readings = Readings::default();
                if let Some(dbm) = self.signals.get(path) {
                    readings.set(Reading::Signal, f64::from(*dbm));
                }
                for (reading, value) in self.readings.get(path).into_iter().flatten() {
                    readings.set(*reading, *value);
                }
                readings
            })
            .collect();
        let (decision, context) = learner.starter.decide(&told, &[]);
        let bandit = &learner.starter.bandit;
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
            arm: bandit.arms()[decision.arm].clone(),
            explored: decision.explored,
            probability: decision.probability,
            features: named(bandit.features(), &context),
            scores: named(bandit.arms(), &decision.scores),
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
        let starter = &mut self.learners[learner].starter;
        let mut latency_ms = f64::NAN;
        for (k, &index) in connection.subflows.iter().enumerate() {
            let s = &self.subflows[index as usize];
            let seen = halves(s, connection.mss).counters();
            let rtt_ms = seen.srtt_us.map_or(f64::NAN, |us| f64::from(us) / 1e3);
            if k == 0 {
                latency_ms = rtt_ms;
            }
            starter.note(s.path, Reading::Rtt, rtt_ms);
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
        let arms = starter.bandit.arms();
        let Some(arm) = arms.iter().position(|a| *a == decision.arm) else {
            return;
        };
        let features = decision.features.iter();
        let context: Vec<f64> = features.map(|(_, v)| v.unwrap_or(f64::NAN)).collect();
        let reward = starter.learn(&context, arm, throughput_mbps, latency_ms);
        decision.throughput_mbps = Some(throughput_mbps);
        decision.latency_ms = Some(latency_ms).filter(|l| l.is_finite());
        decision.reward = Some(reward);
    }
}

/// Scenario and bandit name the same readings.
#[cfg(test)]
#[test]
fn the_scenario_knows_every_reading() {
    let names: Vec<&str> = Reading::ALL.iter().map(|r| r.name()).collect();
    assert_eq!(names, mp_scenario::READINGS);
}
