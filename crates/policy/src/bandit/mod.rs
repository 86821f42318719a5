//! Contextual bandits: which of k paths a connection should start on, learnt from how connections went.
//!
//! A [`Bandit`] has one oracle an arm, f̂_a(x) ≈ P(reward | context x, arm a), and a [`Policy`] that turns predictions into a
//! choice and now and then gives a choice away to learn. [`Bandit::decide`] takes a context and names an arm;
//! [`Bandit::update`] tells later whether that was rewarded. The rest of this module makes contexts of what is known of
//! paths ([`context`]), rewards of what connections achieved ([`reward`]), and keeps a bandit on disk ([`file`]).
//!
//! Contexts are slices of numbers in the order of [`Bandit::features`]; NaN stands for a value that is missing, and so do
//! infinities and absurd magnitudes. Decisions depend on the seed and on the calls before, and on nothing else: the same
//! log gives the same decisions on every machine.
//!
//! Source: Alzadjali, Esposito, Deogun, "A Contextual Bi-armed Bandit Approach for MPTCP Path Management in Heterogeneous
//! LTE and WiFi Edge Networks", 2020; policies after Cortes, arXiv:1811.04383.

mod arm;
mod choose;
pub mod context;
mod draw;
pub mod file;
mod linear;
mod logistic;
pub mod reward;
mod settings;
mod standard;
pub mod starter;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub use settings::{Explore, Policy, Prior, Settings, Sgd, Threshold};

use arm::Arm;
use choose::{Memory, Mix};
use draw::Draw;
use logistic::Row;
use standard::Standard;

/// Draws that [`Bandit::probabilities`] averages over where scores are themselves drawn.
const DRAWS: u32 = 512;

/// What was decided, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Index of the arm.
    pub arm: usize,
    /// It was chosen in order to learn; otherwise for the best score.
    pub explored: bool,
    /// How likely this arm was, given the scores: what off-policy evaluation divides by.
    pub probability: f64,
    /// What each arm was ranked by.
    pub scores: Vec<f64>,
}

/// One outcome as it is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Outcome {
    #[serde(with = "file::holes")]
    context: Vec<f64>,
    arm: usize,
    reward: bool,
}

/// Why a bandit cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("a bandit needs at least one arm")]
    NoArms,
    #[error("{0} is {1}; expected {2}")]
    Setting(&'static str, String, &'static str),
}

/// A learner of which arm pays in which context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bandit {
    settings: Settings,
    arms: Vec<String>,
    features: Vec<String>,
    standard: Standard,
    /// The scale of the inputs is that of the model this one began from.
    #[serde(default)]
    fixed_scale: bool,
    memory: Memory,
    draw: Draw,
    models: Vec<Arm>,
    since_refit: u32,
    outcomes: VecDeque<Outcome>,
}

impl Bandit {
    /// `arms` and `features` are names, for people and to tell one saved model from another.
    pub fn new(
        settings: Settings,
        arms: impl IntoIterator<Item = impl Into<String>>,
        features: impl IntoIterator<Item = impl Into<String>>,
        seed: u64,
    ) -> Result<Bandit, Invalid> {
        settings.check()?;
        let arms: Vec<String> = arms.into_iter().map(Into::into).collect();
        let features: Vec<String> = features.into_iter().map(Into::into).collect();
        if arms.is_empty() {
            return Err(Invalid::NoArms);
        }
        let width = Standard::width(features.len());
        Ok(Bandit {
            models: arms
                .iter()
                .map(|_| Arm::new(width, &settings.policy))
                .collect(),
            standard: Standard::new(features.len()),
            fixed_scale: false,
            memory: Memory::default(),
            draw: Draw::new(seed),
            since_refit: 0,
            outcomes: VecDeque::new(),
            settings,
            arms,
            features,
        })
    }

    /// A bandit that begins with what this one knows, has no experience of its own, and is held near its origin by the
    /// oracle's penalty until it has: one place among many that share a model. It explores as much as this one does by now.
    pub fn child(&self, seed: u64) -> Bandit {
        Bandit {
            settings: self.settings,
            arms: self.arms.clone(),
            features: self.features.clone(),
            standard: self.standard.clone(),
            fixed_scale: true,
            memory: self.memory.clone(),
            draw: Draw::new(seed),
            models: self.models.iter().map(Arm::child).collect(),
            since_refit: 0,
            outcomes: VecDeque::new(),
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn arms(&self) -> &[String] {
        &self.arms
    }

    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Decisions taken so far, those of the bandit that this one is a child of included.
    pub fn rounds(&self) -> u64 {
        self.memory.rounds
    }

    /// Rewards and failures seen of an arm.
    pub fn counts(&self, arm: usize) -> (u64, u64) {
        self.models
            .get(arm)
            .map_or((0, 0), |m| (m.rewards, m.failures))
    }

    fn inputs(&self, context: &[f64]) -> Vec<f64> {
        let mut inputs = Vec::with_capacity(Standard::width(self.features.len()));
        self.standard.inputs(context, &mut inputs);
        inputs
    }

    /// Chooses an arm. A context shorter than the features lacks the last ones; what is beyond them is not looked at.
    pub fn decide(&mut self, context: &[f64]) -> Decision {
        self.decide_among(context, &[])
    }

    /// Chooses among the arms marked `true`; an arm without a mark is available. With none marked, any may come.
    pub fn decide_among(&mut self, context: &[f64], available: &[bool]) -> Decision {
        let inputs = self.inputs(context);
        let scores = score(&self.models, &inputs, &self.settings, &mut self.draw);
        let mix = self.mix(&scores, &inputs, available);
        let (arm, explored) = mix.pick(&mut self.draw);
        self.memory
            .advance(&self.settings.policy, &scores, available);
        Decision {
            arm,
            explored,
            probability: mix.probabilities()[arm],
            scores,
        }
    }

    fn mix(&self, scores: &[f64], inputs: &[f64], available: &[bool]) -> Mix {
        choose::mix(
            &self.settings.policy,
            &self.memory,
            scores,
            inputs,
            available,
        )
    }

    /// P(reward | context) of each arm, as the oracles have it now.
    pub fn predict(&self, context: &[f64]) -> Vec<f64> {
        let inputs = self.inputs(context);
        let linear = self.settings.policy.linear().is_some();
        self.models
            .iter()
            .map(|m| match linear {
                true => m.linear_mean(&inputs).clamp(0.0, 1.0),
                false => m.expected(&inputs, &self.settings.prior),
            })
            .collect()
    }

    /// How likely [`Bandit::decide_among`] would choose each arm now: exact where scores are fixed, else the mean over 512
    /// draws of them. Changes nothing.
    pub fn probabilities(&self, context: &[f64], available: &[bool]) -> Vec<f64> {
        let inputs = self.inputs(context);
        let policy = &self.settings.policy;
        let drawn = matches!(policy, Policy::Thompson { .. })
            || (policy.linear().is_none()
                && !self.models.iter().all(|m| m.speaks(&self.settings.prior)));
        let mut draw = self.draw.clone();
        let rounds = if drawn { DRAWS } else { 1 };
        let mut sum = vec![0.0; self.arms.len()];
        for _ in 0..rounds {
            let scores = score(&self.models, &inputs, &self.settings, &mut draw);
            let mix = self.mix(&scores, &inputs, available);
            for (s, p) in sum.iter_mut().zip(mix.probabilities()) {
                *s += p / f64::from(rounds);
            }
        }
        sum
    }

    /// The arm with the best prediction among those available, without a thought for learning. Changes nothing.
    pub fn best(&self, context: &[f64], available: &[bool]) -> usize {
        let shares = choose::best(&self.predict(context), available);
        shares.iter().position(|s| *s > 0.0).unwrap_or(0)
    }

    /// Whether a connection that started on `arm` in this context was rewarded. An arm that does not exist is ignored.
    pub fn update(&mut self, context: &[f64], arm: usize, reward: bool) {
        if arm >= self.models.len() {
            return;
        }
        if !self.fixed_scale {
            self.standard.observe(context);
        }
        self.models[arm].count(reward);
        if self.settings.incremental {
            let inputs = self.inputs(context);
            let row = Row {
                inputs: &inputs,
                reward,
            };
            self.models[arm].step(&row, &self.settings.sgd, &mut self.draw);
        }
        if self.settings.memory == 0 {
            return;
        }
        while self.outcomes.len() >= self.settings.memory {
            self.outcomes.pop_front();
        }
        let width = self.features.len();
        let mut kept: Vec<f64> = context.iter().copied().take(width).collect();
        kept.resize(width, f64::NAN);
        self.outcomes.push_back(Outcome {
            context: kept,
            arm,
            reward,
        });
        self.since_refit += 1;
        let every = self.settings.refit_every;
        if every > 0 && self.since_refit >= every {
            self.refit();
        }
    }

    /// Trains all oracles anew on what is remembered.
    pub fn refit(&mut self) {
        self.since_refit = 0;
        if !self.fixed_scale && !self.outcomes.is_empty() {
            let mut standard = Standard::new(self.features.len());
            self.outcomes
                .iter()
                .for_each(|o| standard.observe(&o.context));
            self.standard = standard;
        }
        let inputs: Vec<Vec<f64>> = self
            .outcomes
            .iter()
            .map(|o| self.inputs(&o.context))
            .collect();
        for (arm, model) in self.models.iter_mut().enumerate() {
            let rows: Vec<Row<'_>> = self
                .outcomes
                .iter()
                .zip(&inputs)
                .filter(|(o, _)| o.arm == arm)
                .map(|(o, inputs)| Row {
                    inputs,
                    reward: o.reward,
                })
                .collect();
            model.fit(&rows, &self.settings, &mut self.draw);
        }
    }

    /// All parts fit each other: what a file has to prove before it is used.
    fn coherent(&self) -> bool {
        let width = Standard::width(self.features.len());
        !self.arms.is_empty()
            && self.settings.check().is_ok()
            && self.models.len() == self.arms.len()
            && self.standard.features() == self.features.len()
            && self.standard.finite()
            && self
                .models
                .iter()
                .all(|m| m.fits(width, &self.settings.policy))
            && self
                .outcomes
                .iter()
                .all(|o| o.arm < self.arms.len() && o.context.len() == self.features.len())
    }
}

fn score(models: &[Arm], inputs: &[f64], settings: &Settings, draw: &mut Draw) -> Vec<f64> {
    models
        .iter()
        .map(|m| m.score(inputs, settings, draw))
        .collect()
}
