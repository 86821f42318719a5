//! What happens at times known beforehand: starts and ends of transfers, changes to the network, samples.

use std::cmp::Ordering;

use mp_policy::bandit::context::Reading;
use mp_scenario::Change;
use rand_xoshiro::rand_core::RngCore;

use super::{Source, World};
use crate::mptcp::Connection;
use crate::network::{Kind, Packet, NO_SACK};
use crate::time::{nanos, SECOND};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Todo {
    /// One connection of a `[[connections]]` entry, and its number as a transfer.
    Start(usize, u32),
    /// The next one of a Poisson process.
    Arrival(usize),
    /// An open-ended transfer ends.
    Stop(u32),
    /// An entry of the scenario's events.
    Change(usize),
    Sample,
    /// An interval of the radio begins.
    Airtime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    at: u64,
    /// Order of scheduling decides between equal times.
    number: u64,
    todo: Todo,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl World<'_> {
    pub(super) fn schedule(&mut self, at: u64, todo: Todo) {
        self.calendar.push(Entry {
            at,
            number: self.entries,
            todo,
        });
        self.entries += 1;
        self.rearm_calendar();
    }

    fn rearm_calendar(&mut self) {
        let at = self.calendar.peek().map_or(u64::MAX, |e| e.at);
        self.net.agenda.others.set(self.calendar_source, at);
    }

    pub(super) fn on_calendar(&mut self) {
        if let Some(entry) = self.calendar.pop() {
            self.rearm_calendar();
            match entry.todo {
                Todo::Start(plan, id) => self.start(plan, id),
                Todo::Arrival(plan) => self.arrive(plan),
                Todo::Stop(connection) => self.stop(connection),
                Todo::Change(event) => self.change(event),
                Todo::Airtime => self.plan_airtime(),
                Todo::Sample => {
                    self.sample();
                    let interval = nanos(self.scenario.sample_interval);
                    self.schedule(self.net.now + interval, Todo::Sample);
                }
            }
        }
    }

    /// Uniform in `low..=high`.
    pub(super) fn uniform(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high - low) + 1;
        low + ((u128::from(self.rng.next_u64()) * span) >> 64) as u64
    }

    fn arrive(&mut self, plan: usize) {
        let entry = &self.scenario.connections[plan];
        let (rate, most) = (entry.arrivals.unwrap_or(0.0), entry.count);
        if self.live[plan] < most {
            let id = self.next_id();
            self.start(plan, id);
        }
        if rate > 0.0 {
            // libm: the same logarithm on every machine.
            let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            let wait = -libm::log(uniform) / rate;
            let at = self.net.now + (wait * SECOND as f64) as u64;
            if at < self.end {
                self.schedule(at, Todo::Arrival(plan));
            }
        }
    }

    /// The number of a transfer.
    pub(super) fn next_id(&mut self) -> u32 {
        self.ids += 1;
        self.ids - 1
    }

    fn start(&mut self, plan: usize, id: u32) {
        let index = self.connections.len() as u32;
        let source = self.new_source(Source::Connection(index));
        let now = self.net.now;
        let initial = self.choose_initial_path(plan, id);
        let plan_of = &self.plans[plan];
        let connection = Connection::new(plan_of, plan, id, source, now, initial);
        self.connections.push(connection);
        let paths = &self.plans[plan].paths;
        for (own, path) in paths.iter().enumerate() {
            let known = &mut self.connections[index as usize].paths[own];
            known.rule = self.scenario.paths[*path].rule;
            known.signal_dbm = self.signals.get(path).copied();
        }
        self.live[plan] += 1;
        if let Some((low, high)) = self.scenario.connections[plan].lasting {
            let lasts = self.uniform(nanos(low), nanos(high));
            self.schedule(now + lasts, Todo::Stop(index));
        }
        self.open(index, 0, initial, false);
    }

    fn stop(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if connection.closed {
            return;
        }
        if !connection.multipath {
            if let Some(&i) = connection.slots.first() {
                connection.next = self.subflows[i as usize].sender.flow.snd_nxt;
            }
        }
        connection.stop();
        if connection.done() {
            self.complete(index);
        }
    }

    fn change(&mut self, event: usize) {
        let event = self.scenario.events[event].clone();
        let links = match self.scenario.paths.get_index_of(&event.path) {
            Some(i) => self.path_links[i],
            None => match self.scenario.links.get_index_of(&event.path) {
                Some(i) => (2 * i as u32, 2 * i as u32 + 1),
                None => return,
            },
        };
        if let Change::Backup(backup) = event.change {
            if let Some(path) = self.scenario.paths.get_index_of(&event.path) {
                self.set_backup(path, backup);
            }
            return;
        }
        if let Change::Signal(dbm) = event.change {
            if let Some(path) = self.scenario.paths.get_index_of(&event.path) {
                self.set_signal(path, dbm);
            }
            return;
        }
        if let Change::Readings(told) = &event.change {
            if let Some(path) = self.scenario.paths.get_index_of(&event.path) {
                self.set_readings(path, told);
            }
            return;
        }
        let now = self.net.now;
        for index in [links.0, links.1] {
            let carries_data = self.carries_data(index);
            let link = &mut self.net.links[index as usize];
            match &event.change {
                Change::Down => link.set_down(true),
                Change::Up => link.set_down(false),
                Change::Rate(bits) => link.set_rate(now, *bits),
                Change::Delay(delay) => link.set_delay(now, nanos(*delay)),
                Change::Loss(loss) if carries_data => link.set_loss(loss),
                Change::Loss(_) | Change::Backup(_) | Change::Signal(_) | Change::Readings(_) => {}
            }
            self.net.rearm(index);
            match (&mut self.airtime, &event.change) {
                (None, _) => {}
                (Some(_), Change::Loss(_)) if !carries_data => {}
                (Some(airtime), change) => airtime.forget(index, change),
            }
        }
    }

    /// Whether data of any connection of the scenario go over a link.
    fn carries_data(&self, link: u32) -> bool {
        self.plans.iter().any(|plan| {
            plan.paths.iter().any(|&path| {
                let (up, down) = self.path_links[path];
                let first = if plan.download { down } else { up };
                first == link || self.net.links[first as usize].next == Some(link)
            })
        })
    }

    fn set_readings(&mut self, path: usize, told: &[(String, f64)]) {
        let known = self.readings.entry(path).or_default();
        for (name, value) in told {
            let Some(&reading) = Reading::ALL.iter().find(|r| r.name() == name) else {
                continue;
            };
            known.retain(|(r, _)| *r != reading);
            known.push((reading, *value));
        }
    }

    /// What the clients' radios receive on a path; connections to come know it too.
    fn set_signal(&mut self, path: usize, dbm: i32) {
        self.signals.insert(path, dbm);
        for connection in &mut self.connections {
            let paths = &self.plans[connection.plan].paths;
            if let Some(own) = paths.iter().position(|&p| p == path) {
                connection.paths[own].signal_dbm = Some(dbm);
            }
        }
    }

    /// The clients set, or clear, backup on a path: at once for what they send, after MP_PRIO for what they get.
    fn set_backup(&mut self, path: usize, backup: bool) {
        for index in 0..self.subflows.len() {
            let s = &self.subflows[index];
            let connection = &self.connections[s.connection as usize];
            let plan = &self.plans[connection.plan];
            if s.closed() || !connection.multipath || plan.paths[s.path] != path {
                continue;
            }
            self.prioritise(index as u32, backup);
        }
    }

    pub(super) fn prioritise(&mut self, index: u32, backup: bool) {
        let s = &mut self.subflows[index as usize];
        s.client_backup = backup;
        let link = s.up;
        if !s.download {
            self.apply_backup(index, backup);
        }
        let packet = Packet {
            subflow: index,
            kind: Kind::Priority,
            flags: 0,
            count: 1,
            spread: 0,
            size: super::transfer::ACK_HEADER + 4,
            more: NO_SACK,
            seq: u64::from(backup),
            dseq: 0,
            stamp: self.net.now,
            extra: 1,
        };
        self.net.send(link, &packet);
    }
}
