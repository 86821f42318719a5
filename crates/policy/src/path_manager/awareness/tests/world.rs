//! A connection over modelled paths, for all tests of path awareness.

use super::super::*;
use crate::path_manager::fixture::{carry_out, established, paths, view};
use crate::path_manager::{Path, Received, Role, Sent, Subflow};

pub const SECOND: u64 = 1_000_000;
pub const PACKET: u64 = 1_448;
/// When a SYN is repeated (tcp_syn_linear_timeouts, tcp_syn_retries).
const SYN_S: [u64; 10] = [1, 2, 3, 4, 5, 7, 11, 19, 35, 67];

/// What a path does while its subflow is normal.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// packets/s
    pub rate: u64,
    pub loss: f64,
    pub rtt_us: u32,
}

pub const CLEAN: Model = Model {
    rate: 1_000,
    loss: 0.0,
    rtt_us: 10_000,
};

/// A connection whose subflows deliver as their models say, and whose manager is asked when it wants to be.
pub struct World {
    pub manager: Awareness,
    pub now: u64,
    pub paths: Vec<Path>,
    pub models: Vec<Model>,
    pub subflows: Vec<Subflow>,
    pub bytes: u64,
    /// Losses not yet whole packets, by path.
    pub owed: Vec<f64>,
    pub wake: u64,
    /// Times, slots and new values of MP_PRIO.
    pub changes: Vec<(u64, usize, bool)>,
    pub opened: Vec<(u64, usize, bool)>,
    /// Slots whose SYN is repeated, and when they were opened.
    pub opening: Vec<(u64, usize)>,
    pub refuse: bool,
    /// Probes are answered as often as the path's loss allows.
    pub answers: bool,
    pub unanswered: Vec<f64>,
    /// From the second second on, a path that loses slows down the others to a tenth.
    pub coupled: bool,
    /// The data come to this end.
    pub receives: bool,
    pub began_us: Option<u64>,
    /// Dead-path detection finds the path dead.
    pub silent: Option<usize>,
}

impl World {
    pub fn new(config: Config, models: &[Model]) -> World {
        World {
            manager: Awareness::new(config),
            now: 0,
            paths: paths(models.len()),
            models: models.to_vec(),
            subflows: vec![established(0)],
            bytes: 0,
            owed: vec![0.0; models.len()],
            wake: u64::MAX,
            changes: Vec::new(),
            opened: Vec::new(),
            opening: Vec::new(),
            refuse: false,
            answers: false,
            unanswered: vec![0.0; models.len()],
            coupled: true,
            receives: false,
            began_us: None,
            silent: None,
        }
    }

    /// Subflows as this end sees them.
    pub fn seen(&self) -> Vec<Subflow> {
        let mut seen = self.subflows.clone();
        for s in seen.iter_mut().filter(|_| self.receives) {
            let arrived = s.counters.sent.take().unwrap_or_default();
            s.counters.received = Some(Received {
                packets: arrived.packets - arrived.lost,
                out_of_order: 7 * arrived.lost,
                bytes: arrived.bytes,
                silent: self.silent == Some(s.path),
            });
        }
        seen
    }

    pub fn view<'a>(&'a self, seen: &'a [Subflow]) -> View<'a> {
        View {
            role: match self.receives {
                true => Role::Receiver,
                false => Role::Sender,
            },
            bytes: self.bytes,
            began_us: self.began_us,
            ..view(self.now, &self.paths, seen)
        }
    }

    /// Established, with every path's subflow.
    pub fn started(config: Config, models: &[Model]) -> World {
        let mut world = World::new(config, models);
        world.on(Event::Established);
        world
    }

    pub fn on(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut actions = Vec::new();
            let seen = self.seen();
            let mut manager = self.manager.clone();
            manager.observe(event, &self.view(&seen), &mut actions);
            self.manager = manager;
            for action in actions {
                match action {
                    Action::Open { path, backup } => {
                        self.opened.push((self.now, path, backup));
                        let slot = self.subflows.len();
                        if self.refuse {
                            events.push(Event::SubflowClosed {
                                slot,
                                path,
                                error: true,
                            });
                        } else {
                            // Over a dead path no handshake gets through.
                            let dead = self.models[path].loss >= 1.0;
                            let state = if dead {
                                State::Opening
                            } else {
                                State::Established
                            };
                            self.subflows.push(Subflow {
                                state,
                                path,
                                backup,
                                ..Subflow::default()
                            });
                            match dead {
                                true => self.opening.push((self.now, slot)),
                                false => events.push(Event::SubflowEstablished(slot)),
                            }
                        }
                    }
                    Action::Close { slot } => {
                        carry_out(action, &mut self.subflows);
                        let path = self.subflows[slot].path;
                        events.push(Event::SubflowClosed {
                            slot,
                            path,
                            error: false,
                        });
                    }
                    Action::SetBackup { slot, backup } => {
                        self.changes.push((self.now, slot, backup));
                        carry_out(action, &mut self.subflows);
                    }
                    Action::Wake { at_us } => self.wake = at_us,
                    Action::Probe { path, count } => self.probe(path, count),
                }
            }
        }
    }

    pub fn probe(&mut self, path: usize, count: u32) {
        let loss = self.models[path].loss;
        if !self.answers {
            return;
        }
        for _ in 0..count {
            self.unanswered[path] += loss;
            if loss >= 1.0 {
                continue; // known once one is answered again
            }
            let lost = self.unanswered[path].floor();
            self.unanswered[path] -= lost;
            let probes = &mut self.paths[path].probes;
            probes.lost += lost as u64;
            probes.answered += u64::from(lost == 0.0);
        }
    }

    /// Repeats SYNs when Linux does, and establishes the subflows of those that get through.
    fn handshake(&mut self) {
        for (at, slot) in self.opening.clone() {
            let opening = self.subflows[slot].state == State::Opening;
            let alive = self.models[self.subflows[slot].path].loss < 1.0;
            let due = SYN_S.iter().any(|s| at + s * SECOND == self.now);
            if opening && alive && due {
                self.subflows[slot].state = State::Established;
                self.on(Event::SubflowEstablished(slot));
            }
        }
    }

    pub fn run(&mut self, seconds: f64) {
        let step = 10_000;
        let end = self.now + (seconds * 1e6) as u64;
        while self.now < end {
            self.now += step;
            let loses = |path: usize| self.models[path].loss >= 0.002;
            let normal = self.normal();
            let slowed = self.coupled && self.now > SECOND && normal.iter().any(|&p| loses(p));
            for s in self
                .subflows
                .iter_mut()
                .filter(|s| s.state == State::Established && !s.backup)
            {
                let model = self.models[s.path];
                let tenth = slowed && model.loss < 0.002;
                let sent = model.rate * step / SECOND / if tenth { 10 } else { 1 };
                self.owed[s.path] += sent as f64 * model.loss;
                let lost = self.owed[s.path] as u64;
                self.owed[s.path] -= lost as f64;
                let counted = s.counters.sent.get_or_insert_default();
                counted.packets += sent;
                counted.lost += lost;
                counted.bytes += (sent - lost.min(sent)) * PACKET;
                counted.in_flight = u64::from(model.rate > 0);
                s.counters.srtt_us = Some(model.rtt_us);
                let lowest = s.counters.min_rtt_us.unwrap_or(u32::MAX);
                s.counters.min_rtt_us = Some(lowest.min(model.rtt_us));
                self.bytes += (sent - lost.min(sent)) * PACKET;
            }
            self.handshake();
            if self.now >= self.wake {
                self.on(Event::Timer);
            }
        }
    }

    /// Counters of the subflow in a slot.
    pub fn sent(&mut self, slot: usize) -> &mut Sent {
        self.subflows[slot].counters.sent.get_or_insert_default()
    }

    pub fn normal(&self) -> Vec<usize> {
        let on = |s: &&Subflow| s.state == State::Established && !s.backup;
        self.subflows.iter().filter(on).map(|s| s.path).collect()
    }

    pub fn reasons(&self) -> Vec<Option<Reason>> {
        self.manager.reasons(&self.view(&self.seen()))
    }
}

pub fn lossy(loss: f64) -> Model {
    Model {
        loss,
        rate: 300,
        ..CLEAN
    }
}
