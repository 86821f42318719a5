//! The initial path on the kernel, where a bandit chooses it: learnt within the run, by the connections of a client host.
//!
//! It knows what a device knows: what the scenario's events tell of its radios, and the round trips that its own sockets
//! have seen.

use std::collections::HashMap;
use std::time::Duration;

use mp_kernel::mptcp_info::SubflowInfo;
use mp_policy::bandit::context::{Reading, Readings};
use mp_policy::bandit::starter::Starter;
use mp_policy::bandit::Settings;
use mp_policy::initial_path;
use mp_record::Decision;
use mp_scenario::{Change, Scenario};

use crate::network::path_of;
use crate::plan::Group;

/// From `at` on, the radio of this arm's path reads so.
#[derive(Debug, Clone, Copy)]
struct Told {
    at: Duration,
    arm: usize,
    reading: Reading,
    value: f64,
}

/// The learner of one client host.
#[derive(Debug, Clone)]
pub struct InitialPath {
    policy: &'static str,
    /// Indices in the scenario: the arms.
    paths: Vec<usize>,
    names: Vec<String>,
    starter: Starter,
    told: Vec<Told>,
    /// By transfer: its context, and its arm.
    open: HashMap<u32, (Vec<f64>, usize)>,
}

impl InitialPath {
    /// `policy`: its name in the registry of initial paths.
    pub fn new(scenario: &Scenario, group: &Group, policy: &'static str, seed: u64) -> InitialPath {
        let names: Vec<&str> = (group.paths.iter())
            .filter_map(|&path| Some(scenario.paths.get_index(path)?.0.as_str()))
            .collect();
        let learnt = initial_path::find(policy).and_then(|entry| entry.build());
        let settings = Settings::new(learnt.expect("the plan has asked"));
        let starter = Starter::new(settings, &names, seed).expect("a group has a path");
        InitialPath {
            policy,
            paths: group.paths.clone(),
            names: names.into_iter().map(str::to_owned).collect(),
            starter,
            told: told(scenario, group),
            open: HashMap::new(),
        }
    }

    /// Chooses for the next connection: the arm, and what goes into the record.
    pub fn decide(&mut self, now: Duration) -> (usize, Decision) {
        let mut told = vec![Readings::default(); self.paths.len()];
        for t in self.told.iter().filter(|t| t.at <= now) {
            told[t.arm].set(t.reading, t.value);
        }
        let (chosen, context) = self.starter.decide(&told, &[]);
        let known = |v: &f64| v.is_finite().then_some(*v);
        let named = |names: &[String], values: &[f64]| {
            names
                .iter()
                .cloned()
                .zip(values.iter().map(known))
                .collect()
        };
        let decision = Decision {
            time_s: now.as_secs_f64(),
            policy: self.policy.to_owned(),
            arm: self.names[chosen.arm].clone(),
            explored: chosen.explored,
            probability: chosen.probability,
            features: named(self.starter.bandit.features(), &context),
            scores: named(&self.names, &chosen.scores),
            ..Decision::default()
        };
        (chosen.arm, decision)
    }

    /// The connection of a decision has begun.
    pub fn begin(&mut self, transfer: u32, arm: usize, decision: &Decision) {
        let context = decision.features.iter().map(|(_, v)| v.unwrap_or(f64::NAN));
        self.open.insert(transfer, (context.collect(), arm));
    }

    /// It has ended with this throughput, 0 where it failed: its latency, ms, and its reward.
    pub fn learn(
        &mut self,
        transfer: u32,
        throughput_mbps: f64,
        subflows: &[SubflowInfo],
    ) -> Option<(Option<f64>, bool)> {
        let (context, arm) = self.open.remove(&transfer)?;
        let mut latency_ms = f64::NAN;
        for subflow in subflows.iter().filter(|s| s.tcp.rtt > 0) {
            let rtt_ms = f64::from(subflow.tcp.rtt) / 1e3;
            let on = path_of(subflow.local.ip());
            let Some(seen) = self.paths.iter().position(|path| on == Some(*path)) else {
                continue;
            };
            self.starter.note(seen, Reading::Rtt, rtt_ms);
            if seen == arm {
                latency_ms = rtt_ms;
            }
        }
        let reward = self
            .starter
            .learn(&context, arm, throughput_mbps, latency_ms);
        Some((Some(latency_ms).filter(|ms| ms.is_finite()), reward))
    }
}

/// What the scenario says of the radios.
fn told(scenario: &Scenario, group: &Group) -> Vec<Told> {
    let named = |name: &str| Reading::ALL.iter().copied().find(|r| r.name() == name);
    let mut all = Vec::new();
    for event in &scenario.events {
        let path = scenario.paths.get_index_of(&event.path);
        let Some(arm) = group.paths.iter().position(|p| Some(*p) == path) else {
            continue;
        };
        let from = |reading, value| Told {
            at: event.at,
            arm,
            reading,
            value,
        };
        match &event.change {
            Change::Signal(dbm) => all.push(from(Reading::Signal, f64::from(*dbm))),
            Change::Readings(readings) => {
                let known = readings.iter().filter_map(|(n, v)| Some((named(n)?, *v)));
                all.extend(known.map(|(reading, value)| from(reading, value)));
            }
            _ => {}
        }
    }
    all
}
