//! One connection whose subflows are answered together: each step waits until every subflow in use has asked.

use mp_policy::actor::FEATURES;

use super::{Env, Question, Task};
use crate::time::SECOND;
use crate::Error;

/// A subflow that asks no more (its path is dead) is not waited for any longer.
const WAIT: u64 = 2 * SECOND;

/// A connection as one agent. Its paths are those of the task's scenario, in order.
pub struct Together {
    task: Task,
    history: usize,
    env: Env,
    open: Vec<Option<Question>>,
    in_backup: Vec<bool>,
}

/// What a step showed.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// [`FEATURES`] × history numbers a path, zeros before its first interval.
    pub observation: Vec<f32>,
    /// (Σ x)^α − max(β L + γ dRTT/dT) Σ x over the paths that asked, in the controller's unit.
    pub utility: f64,
    pub best: f64,
    pub time_s: f64,
    /// Bytes/s a path; 0 for one that did not ask.
    pub rates: Vec<f64>,
    pub over: bool,
}

impl Together {
    pub fn new(task: Task, seed: u64, history: usize) -> Result<Together, Error> {
        let mut together = Together {
            env: Together::begin(&task, seed, history)?,
            open: Vec::new(),
            in_backup: Vec::new(),
            task,
            history,
        };
        together.forget();
        Ok(together)
    }

    fn begin(task: &Task, seed: u64, history: usize) -> Result<Env, Error> {
        let (scenario, start) = task.draw(seed);
        // The first connection that is asked for; further ones, if any, are its competing flows under plain MPCC.
        let first = first_learned(&scenario);
        Env::new(scenario, seed, history.max(1), start, usize::MAX, |i| {
            Some(i) == first
        })
    }

    fn forget(&mut self) {
        let paths = self.task.scenario.paths.len();
        self.open = vec![None; paths];
        self.in_backup = vec![false; paths];
    }

    /// Paths of the scenario.
    pub fn paths(&self) -> usize {
        self.in_backup.len()
    }

    /// Begins another episode.
    pub fn reset(&mut self, seed: u64) -> Result<Shown, Error> {
        self.env = Together::begin(&self.task, seed, self.history)?;
        self.forget();
        self.gather();
        if self.open.iter().all(Option::is_none) {
            return Err(Error::Silent);
        }
        Ok(self.show())
    }

    /// One action a path; one in backup carries nothing. The last path in use is never set to backup.
    pub fn step(&mut self, actions: &[f32], backup: &[bool]) -> Shown {
        let backup = if backup.iter().all(|&p| p) {
            &[]
        } else {
            backup
        };
        for agent in 0..self.env.agents() {
            let path = self.env.path(agent);
            let wanted = backup.get(path).copied().unwrap_or(false);
            if wanted != self.in_backup[path] {
                self.in_backup[path] = wanted;
                self.env.set_backup(agent, wanted);
            }
            if self.open[path].take().is_some() {
                let action = actions.get(path).copied().unwrap_or(0.0);
                self.env.answer(agent, action);
            }
        }
        self.gather();
        self.show()
    }

    /// Waits for everybody's question.
    fn gather(&mut self) {
        let limit = self.env.world.now().saturating_add(WAIT);
        loop {
            let waiting = |path: usize| !self.in_backup[path] && self.open[path].is_none();
            if !(0..self.paths()).any(waiting) {
                return;
            }
            let Some(question) = self.env.next_question_before(limit) else {
                return;
            };
            self.env.hold(question.agent);
            let path = self.env.path(question.agent);
            self.open[path] = Some(question);
        }
    }

    fn show(&self) -> Shown {
        let width = FEATURES * self.history.max(1);
        let mut observation = vec![0.0; width * self.paths()];
        for agent in 0..self.env.agents() {
            let at = self.env.path(agent) * width;
            let latest = self.env.observation(agent);
            observation[at..at + latest.len()].copy_from_slice(latest);
        }
        let open = || self.open.iter().flatten();
        let x: f64 = open().map(|q| q.x).sum();
        let cost = open().map(|q| q.cost).fold(0.0, f64::max);
        let alpha = open().next().map_or(0.9, |q| q.alpha);
        Shown {
            observation,
            utility: libm::pow(x, alpha) - cost * x,
            best: open().next().map_or(1.0, |q| q.best),
            time_s: crate::time::seconds(self.env.world.now()),
            rates: self
                .open
                .iter()
                .map(|q| q.map_or(0.0, |q| q.record.rate as f64))
                .collect(),
            over: self.env.over() || open().next().is_none(),
        }
    }
}

fn first_learned(scenario: &mp_scenario::Scenario) -> Option<usize> {
    let of_variant = &scenario.variants[0].controller;
    scenario
        .connections
        .iter()
        .position(|c| c.controller.as_ref().unwrap_or(of_variant) == crate::tcp::LEARNED)
}
