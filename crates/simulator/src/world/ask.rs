//! A world that stops where a learned controller asks for a rate, so that the answer can come from outside.

use mp_controllers::learned::{word, Record, FOLLOW};

use super::World;
use crate::agenda::Actor;
use crate::mptcp::Plan;
use crate::network::{Kind, Packet};
use crate::tcp::Kindred;

/// What stopped the world; both carry the subflow's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A subflow under a learned controller has seen its first acknowledgement.
    Begun(u32),
    /// It has left a record.
    Recorded(u32),
}

/// Serial number that each subflow was last seen with.
#[derive(Debug, Default)]
pub(crate) struct Serials(Vec<u64>);

/// Under another controller, or not yet seen.
const OTHER: u64 = u64::MAX;
const FRESH: u64 = u64::MAX - 1;

/// Where a subflow is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub connection: usize,
    pub slot: usize,
    /// Of the scenario.
    pub path: usize,
}

impl World<'_> {
    /// Leaves the learned controllers of these connections of the scenario to whoever runs the world.
    pub(crate) fn entrust(&mut self, wanted: impl Fn(usize) -> bool) {
        for (i, plan) in self.plans.iter_mut().enumerate() {
            if let (Kindred::Shared(c), true) = (plan.controller, wanted(i)) {
                if c.name == crate::tcp::LEARNED {
                    plan.controller = Kindred::Asked(c);
                }
            }
        }
    }

    /// Goes on until there is something to say, at most until `limit`, ns.
    pub(crate) fn until_asked(&mut self, serials: &mut Serials, limit: u64) -> Option<Stop> {
        let limit = limit.min(self.end);
        let mut packet = Packet::NONE;
        loop {
            let (time, actor) = self.net.agenda.first();
            if time >= limit {
                self.net.now = self.net.now.max(limit);
                return None;
            }
            self.net.now = self.net.now.max(time);
            match actor {
                Actor::Other(source) => self.on_source(source),
                Actor::Link(link) => {
                    if self.net.advance(link, &mut packet) {
                        self.receive(&packet);
                        if packet.kind == Kind::Ack {
                            if let Some(stop) = self.look(packet.subflow, serials) {
                                return Some(stop);
                            }
                        }
                    }
                }
            }
        }
    }

    #[inline]
    fn look(&self, index: u32, serials: &mut Serials) -> Option<Stop> {
        while serials.0.len() <= index as usize {
            let plan = self.plan_of(serials.0.len());
            let asked = matches!(plan.controller, Kindred::Asked(_));
            serials.0.push(if asked { FRESH } else { OTHER });
        }
        let serial = &mut serials.0[index as usize];
        if *serial == OTHER {
            return None;
        }
        let s = &self.subflows[index as usize];
        let state = &self.connections[s.connection as usize].shared.subflows[s.slot];
        let now = Record::serial_of(state);
        if *serial == FRESH {
            if state.state[word::INTERVAL] == 0 {
                return None;
            }
            *serial = now;
            return Some(Stop::Begun(index));
        }
        if *serial == now || state.owner == 0 {
            return None;
        }
        *serial = now;
        Some(Stop::Recorded(index))
    }

    fn plan_of(&self, subflow: usize) -> &Plan {
        let connection = self.subflows[subflow].connection;
        &self.plans[self.connections[connection as usize].plan]
    }

    pub(crate) fn place(&self, subflow: u32) -> Place {
        let s = &self.subflows[subflow as usize];
        Place {
            connection: s.connection as usize,
            slot: s.slot,
            path: self.plan_of(subflow as usize).paths[s.path],
        }
    }

    pub(crate) fn plan(&self, connection: usize) -> &Plan {
        &self.plans[self.connections[connection].plan]
    }

    /// Of a connection of the scenario.
    pub(crate) fn planned(&self, connection: usize) -> &Plan {
        &self.plans[connection]
    }

    pub(crate) fn shared(&mut self, connection: usize) -> &mut mp_controllers::Connection {
        &mut self.connections[connection].shared
    }

    pub(crate) fn now(&self) -> u64 {
        self.net.now
    }

    pub(crate) fn over(&self) -> bool {
        self.net.now >= self.end
    }

    /// Has a subflow begin at this rate, bytes/s, and ask at once: no slow start.
    pub(crate) fn begin_at(&mut self, place: Place, rate: u64) {
        let subflow = &mut self.connections[place.connection].shared.subflows[place.slot];
        subflow.state[word::PHASE] = FOLLOW;
        subflow.state[word::RATE] = rate;
        // A new epoch begins with the next acknowledgement.
        subflow.state[word::INTERVAL] = 0;
    }

    /// The client asks for no data on this subflow, or again for data (MP_PRIO).
    pub(crate) fn set_subflow_backup(&mut self, place: Place, backup: bool) {
        let slots = &self.connections[place.connection].slots;
        if let Some(&index) = slots.get(place.slot) {
            self.prioritise(index, backup);
        }
    }
}
