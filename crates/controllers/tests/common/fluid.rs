//! Paths of fluid under a rate-based controller, in steps of 1 ms.

use std::collections::VecDeque;

use mp_controllers::{Connection, Controller, Subflow};

use super::{connection, controller, subflow};

/// A path of fluid. What is sent at the pacing rate waits in the queue, is served in order, and comes back a round trip
/// after that, less what was lost.
pub struct Path {
    pub rtt_ms: usize,
    /// Bytes/ms; what is above queues up to `buffer` bytes, the rest is lost.
    capacity: f64,
    buffer: f64,
    /// Part lost at random: here evenly.
    pub loss: f64,
    queue: VecDeque<Parcel>,
    queued: f64,
    flight: VecDeque<Parcel>,
    delivered: f64,
    lost: f64,
}

/// What was sent within 1 ms.
#[derive(Clone, Copy, Default)]
struct Parcel {
    kept: f64,
    lost: f64,
    /// In the queue.
    wait_ms: f64,
}

/// Bytes; small, so that counters in packets are nearly a fluid's.
pub const MSS: u64 = 1;

impl Path {
    pub fn new(rtt_ms: usize, capacity_mbps: f64, buffer_ms: f64, loss: f64) -> Self {
        let capacity = capacity_mbps * 125.0;
        Self {
            rtt_ms,
            capacity,
            buffer: capacity * buffer_ms,
            loss,
            queue: VecDeque::new(),
            queued: 0.0,
            flight: vec![Parcel::default(); rtt_ms].into(),
            delivered: 0.0,
            lost: 0.0,
        }
    }

    fn step(&mut self, subflow: &mut Subflow) {
        let sent = subflow.pacing_rate as f64 / 1000.0;
        let arriving = sent * (1.0 - self.loss);
        let kept = arriving.min(self.buffer + self.capacity - self.queued);
        let wait_ms = self.queued / self.capacity;
        self.queue.push_back(Parcel {
            kept,
            lost: sent - kept,
            wait_ms,
        });
        self.queued += kept;

        let mut room = self.capacity;
        let mut served = Parcel::default();
        while let Some(first) = self.queue.front_mut() {
            let part = first.kept.min(room);
            room -= part;
            first.kept -= part;
            self.queued -= part;
            served = Parcel {
                kept: served.kept + part,
                lost: served.lost + first.lost,
                wait_ms: first.wait_ms,
            };
            first.lost = 0.0;
            if first.kept > 0.0 {
                break;
            }
            self.queue.pop_front();
        }
        self.flight.push_back(served);

        let back = self.flight.pop_front().unwrap();
        self.delivered += back.kept;
        self.lost += back.lost;
        subflow.delivered = (self.delivered / MSS as f64) as u64;
        subflow.lost = (self.lost / MSS as f64) as u64;
        subflow.rtt_us = ((self.rtt_ms as f64 + back.wait_ms) * 1000.0) as u64;
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
