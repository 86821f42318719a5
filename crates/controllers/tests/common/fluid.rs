//! Paths of fluid under a rate-based controller, in steps of 1 ms.

use std::collections::VecDeque;

use mp_controllers::{Connection, Controller, Subflow};

use super::{connection, controller, subflow};

/// A path of fluid: what is sent at the pacing rate comes back a round trip later, less what is lost. Steps of 1 ms.
pub struct Path {
    pub rtt_ms: usize,
    /// Bytes/s; what is above queues up to `buffer` bytes, the rest is lost.
    capacity: f64,
    buffer: f64,
    /// Part lost at random: here evenly.
    pub loss: f64,
    queue: f64,
    flight: VecDeque<(f64, f64)>,
    delivered: f64,
    lost: f64,
}

/// Bytes; small, so that counters in packets are nearly a fluid's.
pub const MSS: u64 = 1;

impl Path {
    pub fn new(rtt_ms: usize, capacity_mbps: f64, buffer_ms: f64, loss: f64) -> Self {
        let capacity = capacity_mbps * 125_000.0;
        let flight = vec![(0.0, 0.0); rtt_ms].into();
        Self {
            rtt_ms,
            capacity,
            buffer: capacity * buffer_ms / 1000.0,
            loss,
            queue: 0.0,
            flight,
            delivered: 0.0,
            lost: 0.0,
        }
    }

    pub fn step(&mut self, subflow: &mut Subflow) {
        let sent = subflow.pacing_rate as f64 / 1000.0;
        let random = sent * self.loss;
        self.queue += sent - random;
        let through = self.queue.min(self.capacity / 1000.0);
        self.queue -= through;
        let dropped = (self.queue - self.buffer).max(0.0);
        self.queue -= dropped;
        self.flight.push_back((through, random + dropped));
        let (delivered, lost) = self.flight.pop_front().unwrap();
        self.delivered += delivered;
        self.lost += lost;
        subflow.delivered = (self.delivered / MSS as f64) as u64;
        subflow.lost = (self.lost / MSS as f64) as u64;
        subflow.rtt_us =
            ((self.rtt_ms as f64 + self.queue / self.capacity * 1000.0) * 1000.0) as u64;
        subflow.srtt_us = subflow.rtt_us;
    }
}

pub struct World {
    pub controller: &'static Controller,
    pub connection: Connection,
    pub paths: Vec<Path>,
    pub now_ms: u64,
}

impl World {
    pub fn new(name: &str, paths: Vec<Path>) -> Self {
        let controller = controller(name);
        let subflows: Vec<_> = paths
            .iter()
            .map(|path| Subflow {
                mss: MSS,
                ..subflow(10, path.rtt_ms as u64 * 1000)
            })
            .collect();
        Self {
            controller,
            connection: connection(controller, &subflows),
            paths,
            now_ms: 1,
        }
    }

    pub fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            for (slot, path) in self.paths.iter_mut().enumerate() {
                path.step(&mut self.connection.subflows[slot]);
                self.controller
                    .on_rtt(&mut self.connection, slot, self.now_ms * 1000);
                self.controller
                    .on_interval(&mut self.connection, slot, self.now_ms * 1000);
            }
            self.now_ms += 1;
        }
    }

    pub fn mbps(&self, slot: usize) -> f64 {
        self.connection.subflows[slot].pacing_rate as f64 / 125_000.0
    }

    /// Over `ms`, what each path delivers in Mbit/s.
    pub fn goodput(&mut self, ms: u64) -> Vec<f64> {
        let before: Vec<f64> = self.paths.iter().map(|path| path.delivered).collect();
        self.run(ms);
        self.paths
            .iter()
            .zip(before)
            .map(|(path, before)| (path.delivered - before) / ms as f64 / 125.0)
            .collect()
    }

    /// Mean sending rate over `ms`, Mbit/s.
    pub fn mean_rate(&mut self, ms: u64) -> f64 {
        (0..ms)
            .map(|_| {
                self.run(1);
                self.mbps(0)
            })
            .sum::<f64>()
            / ms as f64
    }
}
