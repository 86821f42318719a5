//! A scenario brought to life: links, connections and the loop that drives them.

mod airtime;
pub(crate) mod ask;
mod build;
mod calendar;
mod federate;
mod feed;
mod handshake;
mod initial_path;
mod manage;
mod reinject;
mod report;
mod transfer;
mod watch;

use std::collections::{BinaryHeap, HashMap};

use mp_policy::bandit::context::Reading;
use mp_record::Run;
use mp_scenario::Scenario;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::agenda::Actor;
use crate::mptcp::{Connection, Plan, Subflow};
use crate::network::{Kind, Network, Packet};
use crate::observe::Observer;
use crate::tcp::Cx;
use crate::time::{nanos, MICROSECOND};
use crate::Error;
use calendar::Entry;

/// Who a source of the agenda is, beyond the links.
#[derive(Debug, Clone, Copy)]
enum Source {
    Subflow(u32),
    Connection(u32),
    Calendar,
}

/// The scenario of a world, which may outlive its maker's.
pub(crate) enum Held<'a> {
    Borrowed(&'a Scenario),
    Owned(std::sync::Arc<Scenario>),
}

impl std::ops::Deref for Held<'_> {
    type Target = Scenario;
    fn deref(&self) -> &Scenario {
        match self {
            Held::Borrowed(scenario) => scenario,
            Held::Owned(scenario) => scenario,
        }
    }
}

pub struct World<'a> {
    scenario: Held<'a>,
    pub(crate) net: Network,
    /// By their numbers in the agenda.
    sources: Vec<Source>,
    plans: Vec<Plan>,
    connections: Vec<Connection>,
    subflows: Vec<Subflow>,
    /// First links of each path: client to server, server to client.
    path_links: Vec<(u32, u32)>,
    /// dBm on each path of the scenario whose signal an event has told.
    signals: HashMap<usize, i32>,
    /// What else events have told of each path of the scenario.
    readings: HashMap<usize, Vec<(Reading, f64)>>,
    /// Of each plan, and the bandits that choose where its connections start.
    learner_of: Vec<Option<usize>>,
    learners: Vec<initial_path::Learner>,
    /// What connections that are over knew of the paths, and those that could tell more by now.
    remembered: Vec<federate::Remembered>,
    telling: Vec<u32>,
    /// Where the scenario has a radio.
    airtime: Option<Box<airtime::Airtime>>,
    calendar: BinaryHeap<Entry>,
    calendar_source: u32,
    entries: u64,
    /// Numbers of transfers given so far: in the order of the scenario, which need not be that of starting.
    ids: u32,
    /// Transfers of each plan that are under way.
    live: Vec<u32>,
    end: u64,
    seed: u64,
    rng: Xoshiro256PlusPlus,
    run: Run,
}

impl World<'_> {
    pub(crate) fn run(
        mut self,
        mut observer: Option<&mut dyn Observer>,
    ) -> Result<(Run, u64), Error> {
        self.net.tap = observer.is_some().then(Vec::new);
        let mut packet = Packet::NONE;
        loop {
            let (time, actor) = self.net.agenda.first();
            if time >= self.end {
                break;
            }
            self.net.now = self.net.now.max(time);
            match actor {
                Actor::Link(link) => {
                    if self.net.advance(link, &mut packet) {
                        if let Some(observer) = observer.as_deref_mut() {
                            self.show_arrival(&packet, observer);
                        }
                        self.receive(&packet);
                    }
                }
                Actor::Other(source) => self.on_source(source),
            }
            if let Some(observer) = observer.as_deref_mut() {
                self.show_departures(observer);
            }
        }
        self.net.now = self.end;
        self.check_idle()?;
        let packets = self.net.data_packets;
        Ok((self.finish(), packets))
    }

    #[inline]
    fn on_source(&mut self, source: u32) {
        match self.sources[source as usize] {
            Source::Subflow(i) => self.on_subflow_timer(i),
            Source::Connection(i) => self.on_connection_timer(i),
            Source::Calendar => self.on_calendar(),
        }
    }

    #[inline]
    fn receive(&mut self, packet: &Packet) {
        match packet.kind {
            Kind::Data => self.on_data(packet),
            Kind::Ack => self.on_ack(packet),
            _ => self.on_handshake(packet),
        }
    }

    fn on_subflow_timer(&mut self, index: u32) {
        let now = self.net.now;
        let subflow = &mut self.subflows[index as usize];
        let deadline = subflow.deadline();
        if deadline > now {
            // It has moved since it was set.
            subflow.scheduled = deadline.max(now + MICROSECOND);
            self.net
                .agenda
                .others
                .set(subflow.source, subflow.scheduled);
            return;
        }
        subflow.scheduled = u64::MAX;
        self.net.agenda.others.set(subflow.source, u64::MAX);
        if subflow.sender.deadline() <= now {
            let connection = &mut self.connections[subflow.connection as usize];
            let mut cx = cx(&mut self.net, connection);
            subflow.sender.on_timer(&mut cx);
            if subflow.sender.dead {
                self.close_subflow(index, true);
            } else {
                self.refresh(index);
                self.feed(self.subflows[index as usize].connection);
            }
        }
        let subflow = &mut self.subflows[index as usize];
        if subflow.receiver.on_timer(now) {
            self.acknowledge(index);
        }
        self.on_attempts(index);
        self.arm(index);
    }

    /// Sets a subflow's time in the agenda where it has become earlier. (Later ones are seen when it fires.)
    #[inline]
    fn arm(&mut self, index: u32) {
        let at = self.subflows[index as usize].deadline();
        self.arm_at(index, at);
    }

    /// The same where one deadline alone has changed, to `at`.
    #[inline]
    fn arm_at(&mut self, index: u32, at: u64) {
        let subflow = &mut self.subflows[index as usize];
        if at < subflow.scheduled {
            // Whatever goes wrong, time goes on.
            let at = at.max(self.net.now + MICROSECOND);
            subflow.scheduled = at;
            self.net.agenda.others.set(subflow.source, at);
        }
    }

    #[inline]
    fn arm_connection(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let at = connection.deadline();
        if at < connection.scheduled {
            let at = at.max(self.net.now + MICROSECOND);
            connection.scheduled = at;
            self.net.agenda.others.set(connection.source, at);
        }
    }

    fn on_connection_timer(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.scheduled = u64::MAX;
        self.net.agenda.others.set(connection.source, u64::MAX);
        let now = self.net.now;
        if connection.retransmit_at <= now {
            self.on_data_timeout(index);
        }
        if self.connections[index as usize].announce_at <= now {
            self.announce_again(index);
        }
        if self.connections[index as usize].wake_at <= now {
            self.connections[index as usize].wake_at = u64::MAX;
            self.manage(index, mp_policy::path_manager::Event::Timer);
        }
        self.arm_connection(index);
    }

    /// A transfer that waits for nothing can never end.
    fn check_idle(&self) -> Result<(), Error> {
        for connection in &self.connections {
            if connection.closed || connection.done() {
                continue;
            }
            let waits = connection.subflows.iter().any(|&i| {
                let s = &self.subflows[i as usize];
                s.scheduled != u64::MAX || s.sender.flow.packets_out() > 0 || s.closed()
            });
            if !waits && connection.scheduled == u64::MAX {
                return Err(Error::Idle {
                    connection: self.plans[connection.plan].name.clone(),
                    transfer: connection.id,
                    segment: connection.reassembly.next,
                });
            }
        }
        Ok(())
    }
}

/// What a sender needs of its connection.
#[inline]
fn cx<'a>(net: &'a mut Network, connection: &'a mut Connection) -> Cx<'a> {
    Cx {
        net,
        tail: connection.last(),
        limit: connection.limit(),
        waiting: connection.waits_for_a_window(),
        shared: &mut connection.shared,
    }
}

fn end_of(scenario: &Scenario) -> u64 {
    nanos(scenario.duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Scenario {
        let none = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let folder = std::path::Path::new("");
        let overrides = mp_scenario::Overrides::default();
        let read = mp_scenario::parse("test.toml", text, folder, &none, &overrides);
        read.expect("a scenario").cells.remove(0).scenario
    }

    /// Of the data it receives, as Linux has it, and not those that the server measures.
    #[test]
    fn a_client_measures_the_round_trips_of_a_download_by_itself() {
        let text = r#"
            paths.a = { rate = "10Mbit", delay = "10ms", queue = "20p" }
            paths.b = { rate = "10Mbit", delay = "40ms", queue = "20p" }
            connections = [{ direction = "download" }]
        "#;
        let scenario = scenario(text);
        let mut world = World::build(&scenario, &scenario.variants[0], 1).expect("a world");
        world.until_asked(&mut ask::Serials::default(), 5 * crate::time::SECOND);
        assert_eq!(world.subflows.len(), 2);
        for (s, path_us) in world.subflows.iter().zip([20_000, 80_000]) {
            let counters = manage::halves(s, 1420).counters();
            let least = counters.min_rtt_us.expect("the handshake's");
            assert!((path_us..path_us + 1_000).contains(&least), "{least}");
            // Its clock ticks in milliseconds, and it takes the lowest sample at once: never above the server's by more than a
            // tick, and by a quarter below it at most.
            let (own, servers) = (counters.srtt_us.expect("data came"), s.sender.flow.srtt_us);
            assert_ne!(own, servers);
            assert!(own <= servers + 1_000, "{own}, {servers}");
            assert!(own + 1_000 >= servers - servers / 4, "{own}, {servers}");
        }
    }

    #[test]
    fn a_transfer_that_nobody_would_wake_is_an_error_that_names_it() {
        let text =
            "[paths.a]\nrate = \"10Mbit\"\ndelay = \"10ms\"\n[[connections]]\nname = \"film\"\n";
        let scenario = scenario(text);
        let mut world = World::build(&scenario, &scenario.variants[0], 1).expect("a world");
        world.until_asked(&mut ask::Serials::default(), crate::time::SECOND);
        assert_eq!(world.check_idle(), Ok(()));
        // The fault: all that is under way and every timer are forgotten.
        world.connections[0].scheduled = u64::MAX;
        for s in &mut world.subflows {
            s.scheduled = u64::MAX;
            s.sender.flow.snd_una = s.sender.flow.snd_nxt;
        }
        let error = world.check_idle().expect_err("it would wait for ever");
        assert!(matches!(&error, Error::Idle { connection, .. } if connection == "film"));
        assert!(error.to_string().contains("\"film\""), "{error}");
    }
}
