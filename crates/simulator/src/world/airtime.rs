//! The airtime of a radio's access points follows which links are in use.
//!
//! A link is in use while a subflow on it is not in backup, or packets wait in its queue. An access point plans at the start
//! of each of the radio's intervals for the links in use, as the service periods of an 802.11ad beacon interval are planned.
//! A link that comes into use takes its share at once; one that goes out of use keeps it to the end of the interval. In the
//! first interval all links count as in use.
//!
//! A link out of use keeps the rate and delay that it would have if all were in use. Handshakes, acknowledgements and
//! changes of priority over it take no airtime.

use std::sync::Arc;

use mp_links::{Capacity, Loss, Schedule};
use mp_scenario::{Air, Change, Scenario, Step};

use super::calendar::Todo;
use super::World;
use crate::network::{Network, Replan};
use crate::time::nanos;

/// One direction of a link of the radio.
struct Way {
    /// In the network.
    index: u32,
    /// What it has if all links are in use; `None` after an event has set another value.
    capacity: Option<Schedule<Capacity>>,
    delays: Option<Schedule<u64>>,
    losses: Option<Schedule<Loss>>,
}

struct RadioLink {
    ways: Vec<Way>,
    /// The access point that can send to it in this interval.
    ap: Option<usize>,
    in_use: bool,
    current: Step,
}

pub(super) struct Airtime {
    air: Arc<Air>,
    /// By number in the radio.
    links: Vec<RadioLink>,
    /// Links of the radio on each path of the scenario.
    of_path: Vec<Vec<usize>>,
    step: usize,
}

impl Airtime {
    /// `tuned` is the scenario with what the radio makes of its paths.
    pub fn new(scenario: &Scenario, tuned: &Scenario) -> Option<Box<Self>> {
        let air = scenario.radio.clone()?;
        let link = |number| {
            let (ap, current) = air.sample(0, number);
            RadioLink {
                ways: Vec::new(),
                ap,
                in_use: true,
                current,
            }
        };
        let mut links: Vec<RadioLink> = (0..air.links()).map(link).collect();
        let stated = (scenario.links.values()).chain(scenario.paths.values());
        let known = (tuned.links.values()).chain(tuned.paths.values());
        // In the order of the network: shared links first, uplink before downlink.
        let mut on_air: Vec<Vec<usize>> = Vec::new();
        for (i, (path, known)) in stated.zip(known).enumerate() {
            let mut numbers = Vec::new();
            for (way, known, side) in [(&path.up, &known.up, 0), (&path.down, &known.down, 1)] {
                if let Some(link) = way.radio_link() {
                    let number = air.number(link);
                    links[number].ways.push(Way {
                        index: 2 * i as u32 + side,
                        capacity: Some(known.capacity()),
                        delays: Some(known.delays()),
                        losses: Some(known.losses()),
                    });
                    numbers.push(number);
                }
            }
            on_air.push(numbers);
        }
        let of_path = (scenario.paths.values().enumerate()).map(|(i, path)| {
            let shared = (path.link.as_ref()).and_then(|name| scenario.links.get_index_of(name));
            let own = scenario.links.len() + i;
            let mut numbers: Vec<usize> = (shared.into_iter().chain([own]))
                .flat_map(|i| on_air[i].iter().copied())
                .collect();
            numbers.dedup();
            numbers
        });
        Some(Box::new(Airtime {
            of_path: of_path.collect(),
            links,
            step: 0,
            air,
        }))
    }

    /// Start of the next interval, ns.
    pub fn next(&self) -> Option<u64> {
        let next = self.step + 1;
        (next < self.air.steps()).then(|| nanos(self.air.at(next)))
    }

    /// What an event sets no longer follows the radio.
    pub fn forget(&mut self, index: u32, change: &Change) {
        let ways = self.links.iter_mut().flat_map(|link| &mut link.ways);
        for way in ways.filter(|way| way.index == index) {
            match change {
                Change::Rate(_) => way.capacity = None,
                Change::Delay(_) => way.delays = None,
                Change::Loss(_) => way.losses = None,
                _ => {}
            }
        }
    }

    /// Divides the airtime of an access point among its links in use, until the end of the interval.
    fn share(&mut self, ap: usize, net: &mut Network) {
        let of_ap = |link: &&RadioLink| link.ap == Some(ap);
        let (step, links) = (self.step, &self.links);
        let shares: Vec<(usize, Step)> = match links.iter().filter(of_ap).all(|link| link.in_use) {
            true => (links.iter().enumerate())
                .filter(|(_, link)| link.ap == Some(ap))
                .map(|(number, _)| (number, self.air.sample(step, number).1))
                .collect(),
            false => (self.air).shared(step, ap, |number| links[number].in_use),
        };
        let end = nanos(self.air.at(step + 1));
        for (number, share) in shares {
            self.links[number].set(share, end, net);
        }
    }
}

impl RadioLink {
    /// `share` holds until `end`, then again what it has if all links are in use.
    fn set(&mut self, share: Step, end: u64, net: &mut Network) {
        let before = std::mem::replace(&mut self.current, share);
        if before == share {
            return;
        }
        for way in &self.ways {
            let loss = share.loss.filter(|_| share.loss != before.loss);
            let delay = share.delay.unwrap_or_default();
            let capacity = Capacity::Constant(share.rate);
            let replan = Replan {
                capacity: (way.capacity.as_ref()).map(|all| all.resumed_at(end, capacity)),
                delays: (way.delays.as_ref()).map(|all| all.resumed_at(end, nanos(delay))),
                losses: (way.losses.as_ref().zip(loss))
                    .map(|(all, p)| all.resumed_at(end, Loss::bernoulli(p))),
            };
            net.links[way.index as usize].replan(net.now, replan);
            net.rearm(way.index);
        }
    }
}

impl World<'_> {
    /// An interval of the radio begins.
    pub(super) fn plan_airtime(&mut self) {
        let Some(mut airtime) = self.airtime.take() else {
            return;
        };
        airtime.step += 1;
        for (number, link) in airtime.links.iter_mut().enumerate() {
            (link.ap, link.current) = airtime.air.sample(airtime.step, number);
            let waits = |way: &Way| self.net.links[way.index as usize].is_busy(self.net.now);
            link.in_use = link.ways.iter().any(waits);
        }
        for s in &self.subflows {
            if !s.closed() && !s.backup {
                for &number in &airtime.of_path[self.path_of(s)] {
                    airtime.links[number].in_use = true;
                }
            }
        }
        for ap in 0..airtime.air.radio().aps.len() {
            airtime.share(ap, &mut self.net);
        }
        if let Some(at) = airtime.next() {
            self.schedule(at, Todo::Airtime);
        }
        self.airtime = Some(airtime);
    }

    /// A subflow that is not in backup comes up, or is restored.
    pub(super) fn take_airtime(&mut self, index: u32) {
        let Some(mut airtime) = self.airtime.take() else {
            return;
        };
        let path = self.path_of(&self.subflows[index as usize]);
        for i in 0..airtime.of_path[path].len() {
            let link = &mut airtime.links[airtime.of_path[path][i]];
            if !std::mem::replace(&mut link.in_use, true) {
                if let Some(ap) = link.ap {
                    airtime.share(ap, &mut self.net);
                }
            }
        }
        self.airtime = Some(airtime);
    }

    /// Path of the scenario.
    fn path_of(&self, s: &crate::mptcp::Subflow) -> usize {
        self.plans[self.connections[s.connection as usize].plan].paths[s.path]
    }
}
