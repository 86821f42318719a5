//! Conditions drawn anew for each episode.

use std::time::Duration;

use mp_scenario::{Change, Direction, Event, Loss, QueueLimit, Rate, Scenario};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

impl Range {
    fn at(self, uniform: f64) -> f64 {
        self.low + (self.high - self.low) * uniform
    }

    /// Uniform in the logarithm.
    fn log_at(self, uniform: f64) -> f64 {
        libm::exp(libm::log(self.low) + libm::log(self.high / self.low) * uniform)
    }
}

/// A scenario, and what varies in it. Whatever is `None` stays as the scenario has it; the rest is drawn for each path
/// (and each shared link) by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub scenario: Scenario,
    /// Mbit/s, uniform in the logarithm.
    pub rate_mbps: Option<Range>,
    /// ms, both ways together.
    pub rtt_ms: Option<Range>,
    /// Bandwidth-delay products, uniform in the logarithm.
    pub queue_bdp: Option<Range>,
    /// Probability, of a `lossy` path; the others have none.
    pub loss: Option<Range>,
    /// Share of lossy paths.
    pub lossy: f64,
    /// Packets are late by up to so many ms, in both directions.
    pub jitter_ms: Option<Range>,
    /// Seconds between changes of a path's rate to another one of `rate_mbps`.
    pub change_s: Option<Range>,
    /// Each subflow begins at a rate whose utility is such a part of a full path's, in place of slow start.
    pub start: Option<Range>,
}

const PACKET: f64 = 1500.0;

impl Task {
    pub fn new(scenario: Scenario) -> Task {
        Task {
            scenario,
            rate_mbps: None,
            rtt_ms: None,
            queue_bdp: None,
            loss: None,
            lossy: 0.5,
            jitter_ms: None,
            change_s: None,
            start: None,
        }
    }

    /// The scenario of one episode, and for each path where it begins.
    pub fn draw(&self, seed: u64) -> (Scenario, Vec<f64>) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut scenario = self.scenario.clone();
        // Samples of the whole run would pile up, and nobody reads them here.
        scenario.sample_interval = Duration::ZERO;
        let span = scenario.duration.as_secs_f64();
        let mut events = Vec::new();
        let places = scenario.links.iter_mut().chain(scenario.paths.iter_mut());
        for (name, path) in places {
            let draws: [f64; 5] = std::array::from_fn(|_| uniform());
            let [rate, rtt, queue, lossy, loss] = draws;
            for way in [&mut path.down, &mut path.up] {
                self.vary(way, rate, rtt, queue);
            }
            if let Some(range) = self.loss {
                path.down.loss = if lossy < 1.0 - self.lossy || range.high <= 0.0 {
                    Loss::None
                } else {
                    Loss::Bernoulli(range.at(loss))
                };
            }
            if let (Some(every), Some(rates)) = (self.change_s, self.rate_mbps) {
                let mut at = every.at(uniform());
                while at < span.min(3600.0) {
                    events.push(Event {
                        at: Duration::from_secs_f64(at),
                        path: name.clone(),
                        change: Change::Rate((rates.log_at(uniform()) * 1e6) as u64),
                    });
                    at += every.at(uniform()).max(0.01);
                }
            }
        }
        scenario.events.extend(events);
        scenario.events.sort_by_key(|e| e.at);
        let start = match self.start {
            Some(range) => scenario.paths.iter().map(|_| range.at(uniform())).collect(),
            None => Vec::new(),
        };
        // Last: the other conditions of a seed stay what they are without it.
        if let Some(range) = self.jitter_ms {
            for path in scenario.paths.values_mut() {
                let most = Duration::from_secs_f64(range.at(uniform()) / 1e3);
                for way in [&mut path.down, &mut path.up] {
                    way.jitter = Some((Duration::ZERO, most)).filter(|_| !most.is_zero());
                }
            }
        }
        (scenario, start)
    }

    fn vary(&self, way: &mut Direction, rate: f64, rtt: f64, queue: f64) {
        if matches!(way.rate, Rate::Unlimited) {
            return;
        }
        if let Some(range) = self.rate_mbps {
            way.rate = Rate::Constant((range.log_at(rate) * 1e6) as u64);
        }
        if let Some(range) = self.rtt_ms {
            way.delay = Duration::from_secs_f64(range.at(rtt) / 2e3);
        }
        if let (Some(range), Rate::Constant(bits)) = (self.queue_bdp, &way.rate) {
            let product = *bits as f64 / 8.0 * way.delay.as_secs_f64() * 2.0 / PACKET;
            let packets = (range.log_at(queue) * product).max(5.0);
            way.queue.limit = QueueLimit::Packets(packets as u64);
        }
    }
}
