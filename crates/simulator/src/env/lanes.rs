//! Many environments side by side, on several threads: what happens in one depends on its seed alone.

use mp_policy::actor::FEATURES;

use super::{Env, Question, Task};
use crate::Error;

struct Lane {
    env: Option<Env>,
    question: Option<Question>,
    asked: u32,
    episode: u64,
    /// In place of one drawn from the seed of all lanes.
    seed: Option<u64>,
}

/// What each lane has to say after a step: the question that is open now.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// [`FEATURES`] × history numbers a lane.
    pub observations: Vec<f32>,
    /// [`Question::reward`] of the interval that the agent's last action led to.
    pub rewards: Vec<f32>,
    /// Who asks: connection × 8 + slot.
    pub agents: Vec<i32>,
    /// 1: another episode has begun with this question; the step led nowhere.
    pub fresh: Vec<u8>,
    /// Seconds, rate (bytes/s), packets delivered and lost, elapsed (µs), round trip (µs), utility, best, path, 1 where an
    /// answer is awaited, the siblings' rates and what the path carries (bytes/s): by lane.
    pub facts: Vec<[f64; 12]>,
}

/// One [`Env`] a lane, each through one episode after another.
pub struct Lanes {
    task: Task,
    lanes: Vec<Lane>,
    seed: u64,
    history: usize,
    /// Questions an episode.
    steps: u32,
    /// Agents a connection.
    most: usize,
    watched: Vec<usize>,
}

/// Keeps the seeds of lanes and episodes apart.
fn mixed(seed: u64, lane: u64, episode: u64) -> u64 {
    let mut z = seed;
    for part in [lane, episode] {
        z = (z ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
    }
    z
}

impl Lanes {
    /// Every connection of the task's scenario under `ddpg-mpcc` is asked for, `most` subflows of each.
    pub fn new(
        task: Task,
        count: usize,
        seed: u64,
        history: usize,
        steps: u32,
        most: usize,
    ) -> Lanes {
        let lane = || Lane {
            env: None,
            question: None,
            asked: 0,
            episode: 0,
            seed: None,
        };
        Lanes {
            task,
            lanes: (0..count).map(|_| lane()).collect(),
            seed,
            history: history.max(1),
            steps: steps.max(1),
            most,
            watched: Vec::new(),
        }
    }

    /// See [`Env::watch`].
    pub fn watch(&mut self, connections: &[usize]) {
        self.watched = connections.to_vec();
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Numbers in an observation.
    pub fn width(&self) -> usize {
        FEATURES * self.history
    }

    /// Answers each lane's open question (none is open at first, and after [`Lanes::restart`]) and goes on to its next.
    pub fn step(&mut self, actions: &[f32], threads: usize) -> Result<Answers, Error> {
        let setting = Setting {
            task: &self.task,
            seed: self.seed,
            history: self.history,
            steps: self.steps,
            most: self.most,
            watched: &self.watched,
        };
        let advance = |first: usize, lanes: &mut [Lane]| -> Result<(), Error> {
            for (k, lane) in lanes.iter_mut().enumerate() {
                let index = first + k;
                let action = actions.get(index).copied().unwrap_or(0.0);
                lane.advance(&setting, index as u64, action)?;
            }
            Ok(())
        };
        let each = self.lanes.len().div_ceil(threads.max(1)).max(1);
        if threads <= 1 {
            advance(0, &mut self.lanes)?;
        } else {
            std::thread::scope(|scope| {
                let work: Vec<_> = self
                    .lanes
                    .chunks_mut(each)
                    .enumerate()
                    .map(|(i, lanes)| scope.spawn(move || advance(i * each, lanes)))
                    .collect();
                work.into_iter().try_for_each(|handle| match handle.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
            })?;
        }
        Ok(self.report())
    }

    /// Forgets all that is under way; episodes go on counting from `episode`.
    pub fn restart(&mut self, seed: u64, episode: u64) {
        self.seed = seed;
        for lane in &mut self.lanes {
            lane.env = None;
            lane.question = None;
            lane.episode = episode;
            lane.seed = None;
        }
    }

    /// As [`Lanes::restart`] from episode 0; each lane becomes the only lane of [`Lanes`] with its own seed.
    pub fn restart_each(&mut self, seeds: &[u64]) {
        self.restart(self.seed, 0);
        for (lane, seed) in self.lanes.iter_mut().zip(seeds) {
            lane.seed = Some(*seed);
        }
    }

    /// Episodes begun so far, over all lanes.
    pub fn episodes(&self) -> u64 {
        self.lanes.iter().map(|l| l.episode).sum()
    }

    fn report(&self) -> Answers {
        let mut answers = Answers::default();
        for lane in &self.lanes {
            let (Some(env), Some(q)) = (&lane.env, &lane.question) else {
                continue;
            };
            answers.observations.extend(env.observation(q.agent));
            answers.rewards.push(q.reward());
            answers.agents.push(env.name(q.agent) as i32);
            answers.fresh.push(u8::from(lane.asked == 1));
            let capacity = env.capacity(q.agent);
            answers.facts.push(q.facts(env.path(q.agent), capacity));
        }
        answers
    }
}

/// What all lanes have in common.
struct Setting<'a> {
    task: &'a Task,
    seed: u64,
    history: usize,
    steps: u32,
    most: usize,
    watched: &'a [usize],
}

impl Lane {
    fn advance(&mut self, all: &Setting<'_>, index: u64, action: f32) -> Result<(), Error> {
        if let (Some(env), Some(question)) = (&mut self.env, &self.question) {
            if question.asked {
                env.answer(question.agent, action);
            }
            if self.asked < all.steps {
                self.question = env.next_question();
                if self.question.is_some() {
                    self.asked += 1;
                    return Ok(());
                }
            }
        }
        // A scenario in which nobody ever asks would go on for ever.
        for _ in 0..100 {
            let (seed, index) = self.seed.map_or((all.seed, index), |own| (own, 0));
            let seed = mixed(seed, index, self.episode);
            self.episode += 1;
            let (scenario, start) = all.task.draw(seed);
            let mut env = Env::new(scenario, seed, all.history, start, all.most, |_| true)?;
            env.watch(all.watched);
            self.question = env.next_question();
            self.env = Some(env);
            self.asked = 1;
            if self.question.is_some() {
                return Ok(());
            }
        }
        Err(Error::Silent)
    }
}
