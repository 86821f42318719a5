//! The path manager `bandit` on the kernel: which path each connection of a client host starts on, learnt within the run.
//!
//! It knows what a device knows: what the scenario's events tell of its radios, and the round trips that its own sockets
//! have seen.

use std::collections::HashMap;
use std::time::Duration;

use mp_kernel::mptcp_info::SubflowInfo;
use mp_policy::bandit::context::{Reading, Readings};
use mp_policy::bandit::starter::Starter;
use mp_policy::bandit::Settings;
use mp_policy::path_manager;
use mp_record::Decision;
use mp_scenario::{Change, Scenario};

use crate::network::path_of;
use crate::plan::Group;

/// The learner of one client host.
#[derive(Debug, Clone)]
pub struct Starts {
    policy: &'static str,
    /// Indices in the scenario: the arms.
    paths: Vec<usize>,
    names: Vec<String>,
    starter: Starter,
    told: Vec<(Duration, usize, Reading, f64)>,
    /// By transfer: its context, and its arm.
    open: HashMap<u32, (Vec<f64>, usize)>,
}

impl Starts {
    /// `policy`: the path manager's name.
    pub fn new(scenario: &Scenario, group: &Group, policy: &'static str, seed: u64) -> Starts {
        let names: Vec<&str> = (group.paths.iter())
            .filter_map(|&path| Some(scenario.paths.get_index(path)?.0.as_str()))
            .collect();
        let starts_by = path_manager::find(policy).and_then(|entry| entry.starts_by());
        let settings = Settings::new(starts_by.expect("the plan has asked"));
        let starter = Starter::new(settings, &names, seed).expect("a group has a path");
        Starts {
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
        for (_, arm, reading, value) in self.told.iter().filter(|(at, ..)| *at <= now) {
            told[*arm].set(*reading, *value);
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

/// What the scenario says of the radios: when, of which arm, and what.
fn told(scenario: &Scenario, group: &Group) -> Vec<(Duration, usize, Reading, f64)> {
    let named = |name: &str| Reading::ALL.iter().copied().find(|r| r.name() == name);
    let mut all = Vec::new();
    for event in &scenario.events {
        let path = scenario.paths.get_index_of(&event.path);
        let Some(arm) = group.paths.iter().position(|p| Some(*p) == path) else {
            continue;
        };
        match &event.change {
            Change::Signal(dbm) => all.push((event.at, arm, Reading::Signal, f64::from(*dbm))),
            Change::Readings(readings) => {
                let known = readings.iter().filter_map(|(n, v)| Some((named(n)?, *v)));
                all.extend(known.map(|(reading, value)| (event.at, arm, reading, value)));
            }
            _ => {}
        }
    }
    all
}
