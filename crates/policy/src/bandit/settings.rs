//! Every hyperparameter, with the default that the project publishes.

use serde::{Deserialize, Serialize};

use super::Invalid;

/// What to do where a prediction is not good enough, or a round is given to learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Explore {
    /// Any arm alike.
    Random,
    /// The arm with the largest expected gradient, w = (1 − f̂)‖g(x, 0)‖ + f̂‖g(x, 1)‖ = 2 f̂ (1 − f̂)‖(x, 1)‖: the one
    /// whose prediction is nearest ½ (Alzadjali et al., algorithm 1).
    Active,
    /// w = f̂ (‖g(x, 0)‖² + ‖g(x, 1)‖²), which grows with f̂ (the library `contextualbandits` 0.3.30).
    ActiveSquared,
}

/// The bar that the best prediction has to reach for [`Policy::AdaptiveGreedy`] to follow it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Threshold {
    /// `start`·`decay`^t
    Fixed { start: f64, decay: f64 },
    /// The percentile (0..100, times `decay` each round) of the best predictions of the `window` rounds before, set anew each
    /// `window` rounds; `start` until then.
    Percentile {
        start: f64,
        window: u32,
        percentile: f64,
        decay: f64,
    },
}

/// How predictions become a choice. t counts rounds from 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Policy {
    /// The best arm, or with probability `epsilon`·`decay`^t any; from round `until` on always the best.
    EpsilonGreedy {
        epsilon: f64,
        decay: f64,
        until: Option<u64>,
    },
    /// The arm with the largest `percentile` (0..100) of the predictions of `samples` oracles, each trained on a bootstrap.
    BootstrappedUcb { samples: u32, percentile: f64 },
    /// The best arm where its prediction reaches the threshold, else `otherwise`.
    AdaptiveGreedy {
        threshold: Threshold,
        otherwise: Explore,
    },
    /// Any arm for `rounds` rounds, then the best.
    ExploreFirst { rounds: u64 },
    /// The best arm with probability `exploit`, else by `by`; 1 − `exploit` shrinks by `decay` each round.
    ActiveExplorer {
        exploit: f64,
        decay: f64,
        by: Explore,
    },
    /// Linear model with a confidence bound, θ·z + α √(zᵀA⁻¹z) (Li et al. 2010, disjoint).
    LinUcb { alpha: f64, ridge: f64 },
    /// Linear model drawn from its posterior, θ ~ N(A⁻¹b, v²A⁻¹) (Agrawal and Goyal 2013).
    Thompson { scale: f64, ridge: f64 },
}

impl Policy {
    /// Scores come from a linear model and not from the logistic oracle.
    pub(super) fn linear(&self) -> Option<f64> {
        match self {
            Policy::LinUcb { ridge, .. } | Policy::Thompson { ridge, .. } => Some(*ridge),
            _ => None,
        }
    }

    pub(super) fn bootstraps(&self) -> usize {
        match self {
            Policy::BootstrappedUcb { samples, .. } => *samples as usize,
            _ => 0,
        }
    }
}

/// Training of the logistic oracle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sgd {
    /// λ of the penalty λ/2 ‖w‖².
    pub lambda: f64,
    /// Passes over the rows in one refit, at most.
    pub epochs: u32,
    /// A pass that lowers the mean loss by less is one without progress …
    pub tolerance: f64,
    /// … and so many of them in a row end a refit.
    pub patience: u32,
    /// The rate of incremental steps does not fall below this, so that a model goes on following what changes.
    pub floor: f64,
}

impl Default for Sgd {
    fn default() -> Self {
        Sgd {
            lambda: 0.01,
            epochs: 20,
            tolerance: 1e-3,
            patience: 3,
            floor: 0.01,
        }
    }
}

/// A Beta(a, b) over an arm's rate of reward that speaks for it, by a draw from it each time, until the arm has seen
/// `outcomes` rewards and as many failures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    pub a: f64,
    pub b: f64,
    pub outcomes: u64,
}

impl Default for Prior {
    fn default() -> Self {
        Prior {
            a: 2.0,
            b: 4.0,
            outcomes: 2,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub policy: Policy,
    pub sgd: Sgd,
    pub prior: Prior,
    /// Rounds between refits on all that is remembered; 0: never by itself.
    pub refit_every: u32,
    /// Each outcome also moves the model at once.
    pub incremental: bool,
    /// Outcomes remembered for refits; the oldest go first, and with them what has changed since.
    pub memory: usize,
}

impl Settings {
    pub fn new(policy: Policy) -> Settings {
        Settings {
            policy,
            sgd: Sgd::default(),
            prior: Prior::default(),
            refit_every: 50,
            incremental: true,
            memory: 5_000,
        }
    }
}

impl Settings {
    /// Refuses what no bandit could work with.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        let within = |name, value: f64, low: f64, high: f64, expected| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(Invalid::Setting(name, value.to_string(), expected))
            }
        };
        let share = |name, value| within(name, value, 0.0, 1.0, "a number from 0 to 1");
        let percent = |name, value| within(name, value, 0.0, 100.0, "a number from 0 to 100");
        let positive = |name, value| within(name, value, 1e-9, 1e9, "a number above 0");
        match self.policy {
            Policy::EpsilonGreedy { epsilon, decay, .. } => {
                share("epsilon", epsilon)?;
                share("decay", decay)?;
            }
            Policy::BootstrappedUcb {
                samples,
                percentile,
            } => {
                within(
                    "samples",
                    f64::from(samples),
                    1.0,
                    1e3,
                    "a number from 1 to 1000",
                )?;
                percent("percentile", percentile)?;
            }
            Policy::AdaptiveGreedy { threshold, .. } => match threshold {
                Threshold::Fixed { start, decay } => {
                    share("start", start)?;
                    share("decay", decay)?;
                }
                Threshold::Percentile {
                    start,
                    percentile,
                    decay,
                    window,
                } => {
                    share("start", start)?;
                    percent("percentile", percentile)?;
                    share("decay", decay)?;
                    within(
                        "window",
                        f64::from(window),
                        1.0,
                        1e6,
                        "a number from 1 to 1000000",
                    )?;
                }
            },
            Policy::ExploreFirst { .. } => {}
            Policy::ActiveExplorer { exploit, decay, .. } => {
                share("exploit", exploit)?;
                share("decay", decay)?;
            }
            Policy::LinUcb { alpha: v, ridge } | Policy::Thompson { scale: v, ridge } => {
                within("the width of the bound", v, 0.0, 1e6, "a number from 0 on")?;
                positive("ridge", ridge)?;
            }
        }
        positive("lambda", self.sgd.lambda)?;
        within("floor", self.sgd.floor, 0.0, 1.0, "a number from 0 to 1")?;
        within(
            "tolerance",
            self.sgd.tolerance,
            0.0,
            1.0,
            "a number from 0 to 1",
        )?;
        positive("a of the prior", self.prior.a)?;
        positive("b of the prior", self.prior.b)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::new(Policy::NAMED[0].1)
    }
}
