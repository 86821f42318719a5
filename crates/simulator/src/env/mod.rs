//! The simulator as an environment for learning: a learned controller asks, once a monitor interval, and whoever trains
//! one answers. What runs between two questions is the simulator itself, with the controller's own C code.
//!
//! An *agent* is one subflow. Agents ask in the order of their own clocks, as they do when deployed; [`Env::hold`] lets a
//! question wait, for those who want to answer all subflows of a connection together.

mod lanes;
mod price;
mod replay;
mod task;
mod together;

use std::sync::Arc;

use mp_controllers::learned::{self, word, Record};
use mp_policy::actor::{stepped, Observer};
use mp_policy::MAX_SUBFLOWS;
use mp_scenario::Scenario;

use crate::tcp::record_of;
use crate::time::{seconds, SECOND};
use crate::world::ask::{Place, Serials, Stop};
use crate::world::World;
use crate::Error;

pub use lanes::{Answers, Lanes};
use price::{capacities, slope, Price};
pub use replay::Replay;
pub use task::{Range, Task};
pub use together::{Shown, Together};

/// A world where nobody has asked for so long has no one left who could.
const PATIENCE: u64 = 10 * SECOND;

/// One question.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Index of the agent.
    pub agent: usize,
    /// It waits for an answer; else plain MPCC steers, and this is a report.
    pub asked: bool,
    pub time_s: f64,
    pub record: Record,
    /// U of the interval, in the controller's unit.
    pub utility: f64,
    /// x, in the unit of utility; α; and β L + γ dRTT/dT.
    pub x: f64,
    pub alpha: f64,
    pub cost: f64,
    /// U without loss and queues: X^α.
    pub gain: f64,
    /// U if all paths of the connection were full, without loss: an upper bound to scale by.
    pub best: f64,
    /// Rates of the siblings, as the controller knew them, bytes/s.
    pub others: u64,
}

impl Question {
    /// U / best, not cut off below. A round trip that falls earns nothing here: else it would pay to fill a queue within one
    /// interval and to drain it over many.
    pub fn reward(&self) -> f32 {
        (self.utility.min(self.gain) / self.best.max(1e-9)) as f32
    }

    /// See [`Answers::facts`].
    pub fn facts(&self, path: usize, capacity: f64) -> [f64; 12] {
        let r = &self.record;
        [
            self.time_s,
            r.rate as f64,
            r.delivered as f64,
            r.lost as f64,
            r.elapsed_us as f64,
            r.rtt_us as f64,
            self.utility,
            self.best,
            path as f64,
            f64::from(u8::from(self.asked)),
            self.others as f64,
            capacity,
        ]
    }
}

struct Agent {
    place: Place,
    observer: Observer,
    /// Not answered: plain MPCC steers.
    left_alone: bool,
    /// Round trip of its last record, and when that was, µs.
    last: Option<(u64, u64)>,
}

/// One simulation under way.
pub struct Env {
    world: World<'static>,
    serials: Serials,
    agents: Vec<Agent>,
    history: usize,
    /// Part of the utility of a full path that each subflow begins with; none: slow start.
    start: Vec<f64>,
    /// Agents beyond so many of a connection are left alone.
    most: usize,
    /// Connections that are left to plain MPCC and reported.
    watched: Vec<usize>,
    /// Payload that each path carries, bytes/s; 0: it varies.
    capacity: Vec<f64>,
}

impl Env {
    /// The agents are the subflows of the scenario's connections under `ddpg-mpcc` for which `wanted` is true, by the
    /// connection's index; `most` of each. `start`: see [`Task::start`], one number a path.
    pub fn new(
        scenario: Scenario,
        seed: u64,
        history: usize,
        start: Vec<f64>,
        most: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Env, Error> {
        let variant = scenario.variants[0].clone();
        let capacity = capacities(&scenario);
        let mut world = World::own(Arc::new(scenario), &variant, seed)?;
        world.entrust(wanted);
        Ok(Env {
            world,
            serials: Serials::default(),
            agents: Vec::new(),
            history,
            start,
            most,
            watched: Vec::new(),
            capacity,
        })
    }

    /// Leaves these connections, in the order they start in, to plain MPCC; their intervals are reported, not asked about.
    pub fn watch(&mut self, connections: &[usize]) {
        self.watched = connections.to_vec();
    }

    /// Goes on to the next question; `None` at the end of the run, or where nobody asks any more.
    pub fn next_question(&mut self) -> Option<Question> {
        let limit = self.world.now().saturating_add(PATIENCE);
        self.next_question_before(limit)
    }

    fn next_question_before(&mut self, limit: u64) -> Option<Question> {
        loop {
            match self.world.until_asked(&mut self.serials, limit)? {
                Stop::Begun(subflow) => self.begin(subflow),
                Stop::Recorded(subflow) => {
                    if let Some(question) = self.note(subflow) {
                        return Some(question);
                    }
                }
            }
        }
    }

    fn begin(&mut self, subflow: u32) {
        let place = self.world.place(subflow);
        let same = |a: &Agent| (a.place.connection, a.place.slot) == (place.connection, place.slot);
        let agent = Agent {
            place,
            observer: Observer::new(self.history),
            left_alone: place.slot >= self.most || self.watched.contains(&place.connection),
            last: None,
        };
        let alone = agent.left_alone;
        match self.agents.iter().position(same) {
            Some(i) => self.agents[i] = agent,
            None => self.agents.push(agent),
        }
        let capacity = self.capacity.get(place.path).copied().unwrap_or(0.0);
        if let (Some(part), false, true) = (self.start.get(place.path), alone, capacity > 0.0) {
            let alpha = self.world.plan(place.connection).parameters.parameters[0] as f64 / 1000.0;
            let rate = capacity * libm::pow(*part, 1.0 / alpha);
            self.world.begin_at(place, rate as u64);
        }
    }

    fn note(&mut self, subflow: u32) -> Option<Question> {
        let place = self.world.place(subflow);
        let same = |a: &Agent| (a.place.connection, a.place.slot) == (place.connection, place.slot);
        let agent = self.agents.iter().position(same)?;
        let state = self.world.shared(place.connection).subflows[place.slot];
        let record = Record::of(&state);
        self.agents[agent].observer.observe(&record_of(&state));
        let watched = self.watched.contains(&place.connection) && place.slot < self.most;
        if self.agents[agent].left_alone && !watched {
            return None;
        }
        if !watched && !record.asked {
            // Shows that somebody is there.
            learned::answer(self.world.shared(place.connection), place.slot, record.rate);
            return None;
        }
        let others = state.state[word::OTHERS];
        let price = Price::of(self.world.plan(place.connection));
        let best = price.best(self.world.plan(place.connection), &self.capacity);
        let now_us = self.world.now() / 1000;
        let slope = slope(&mut self.agents[agent].last, record.rtt_us, now_us);
        // The controller keeps no utility of a single interval where it is watched.
        let utility = match watched {
            true => price.utility(&record, others, slope),
            false => learned::utility(&state),
        };
        Some(Question {
            agent,
            asked: !watched,
            time_s: seconds(self.world.now()),
            record,
            utility,
            x: price.in_unit(record.rate),
            alpha: price.alpha,
            cost: price.cost(&record, others, utility),
            gain: price.gain(&record, others),
            best,
            others,
        })
    }

    /// The last intervals of an agent, as [`Observer`] makes them.
    pub fn observation(&self, agent: usize) -> &[f32] {
        self.agents[agent].observer.latest()
    }

    /// Path of the scenario that an agent sends on.
    pub fn path(&self, agent: usize) -> usize {
        self.agents[agent].place.path
    }

    /// Payload that this path carries, bytes/s, as the episode began; 0 where a trace decides.
    pub fn capacity(&self, agent: usize) -> f64 {
        self.capacity.get(self.path(agent)).copied().unwrap_or(0.0)
    }

    /// Connections under way, and slot of an agent: a number that stays the same from episode to episode.
    pub fn name(&self, agent: usize) -> usize {
        let place = self.agents[agent].place;
        place.connection * MAX_SUBFLOWS + place.slot
    }

    pub fn agents(&self) -> usize {
        self.agents.iter().filter(|a| !a.left_alone).count()
    }

    /// Answers an agent's last question: a step of `action` times the largest, up or down.
    pub fn answer(&mut self, agent: usize, action: f32) {
        let place = self.agents[agent].place;
        let shared = self.world.shared(place.connection);
        let rate = shared.subflows[place.slot].state[word::RATE];
        learned::answer(shared, place.slot, stepped(rate, action));
    }

    /// Lets an agent's question wait, without a deadline.
    pub fn hold(&mut self, agent: usize) {
        let place = self.agents[agent].place;
        let state = &mut self.world.shared(place.connection).subflows[place.slot].state;
        state[word::DEADLINE] = u64::MAX;
    }

    /// The client asks for no data on the agent's path (MP_PRIO), or for data again.
    pub fn set_backup(&mut self, agent: usize, backup: bool) {
        let place = self.agents[agent].place;
        self.world.set_subflow_backup(place, backup);
    }

    /// The run's duration is over.
    pub fn over(&self) -> bool {
        self.world.over()
    }
}
