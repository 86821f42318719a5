//! Monitor intervals of a run on the kernel, seen as those of an [`Env`](super::Env).

use std::sync::Arc;

use mp_controllers::learned;
use mp_policy::actor::{self, Observer};
use mp_record::Interval;
use mp_scenario::{Scenario, Variant};

use super::price::{capacities, slope, Price};
use super::Question;
use crate::world::World;
use crate::Error;

/// One subflow of a recorded run.
pub struct Replay {
    observer: Observer,
    price: Price,
    best: f64,
    path: usize,
    capacity: f64,
    last: Option<(u64, u64)>,
}

impl Replay {
    /// `connection` and `path` by their names in the scenario.
    pub fn new(
        scenario: Scenario,
        variant: &Variant,
        connection: &str,
        path: &str,
        history: usize,
    ) -> Result<Replay, Error> {
        let unknown = |kind, name: &str| Error::Unknown(kind, name.to_owned());
        let path_index = scenario.paths.get_index_of(path);
        let path_index = path_index.ok_or_else(|| unknown("path", path))?;
        let named = |c: &mp_scenario::Connection| c.name == connection;
        let index = scenario.connections.iter().position(named);
        let index = index.ok_or_else(|| unknown("connection", connection))?;
        let capacities = capacities(&scenario);
        let world = World::own(Arc::new(scenario), variant, 0)?;
        let plan = world.planned(index);
        let price = Price::of(plan);
        Ok(Replay {
            observer: Observer::new(history),
            price,
            best: price.best(plan, &capacities),
            path: path_index,
            capacity: capacities[path_index],
            last: None,
        })
    }

    /// The subflow's next interval: what the agent saw, and what the interval was worth.
    pub fn next(&mut self, interval: &Interval) -> (&[f32], Question) {
        let seen = actor::Record {
            rate: interval.rate,
            mss: interval.mss,
            delivered: interval.delivered,
            lost: interval.lost,
            elapsed_us: interval.elapsed_us,
            rtt_us: interval.rtt_us,
            min_rtt_us: interval.min_rtt_us,
        };
        let record = learned::Record {
            serial: interval.serial,
            asked: interval.answer.is_some(),
            rate: seen.rate,
            delivered: seen.delivered,
            lost: seen.lost,
            elapsed_us: seen.elapsed_us,
            rtt_us: seen.rtt_us,
        };
        // Packets that were sent before the run's clock began count from its beginning.
        let now_us = (interval.time_s.max(0.0) * 1e6).round() as u64;
        let slope = slope(&mut self.last, record.rtt_us, now_us);
        let (price, others) = (self.price, interval.others);
        let utility = price.utility(&record, others, slope);
        let question = Question {
            agent: 0,
            asked: record.asked,
            time_s: interval.time_s,
            record,
            utility,
            x: price.in_unit(record.rate),
            alpha: price.alpha,
            cost: price.cost(&record, others, utility),
            gain: price.gain(&record, others),
            best: self.best,
            others,
        };
        (self.observer.observe(&seen), question)
    }

    /// See [`Question::facts`].
    pub fn facts(&self, question: &Question) -> [f64; 12] {
        question.facts(self.path, self.capacity)
    }
}
