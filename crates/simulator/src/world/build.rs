//! From a scenario to links and plans.

use std::borrow::Cow;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use mp_parameter::Refused;
use mp_record::Run;
use mp_scenario::{Protocol, Scenario, TransferDirection, Variant};
use rand_xoshiro::rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::airtime::Airtime;
use super::calendar::Todo;
use super::{end_of, Held, Source, World};
use crate::mptcp::Plan;
use crate::network::{Link, Network};
use crate::tcp::Kindred;
use crate::time::nanos;
use crate::Error;

/// Seed of the `index`-th stream of random numbers of a run: SplitMix64's finaliser keeps neighbours apart.
fn stream(seed: u64, index: u64) -> u64 {
    let mut z = seed ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl World<'static> {
    /// A world that keeps its scenario.
    pub(crate) fn own(
        scenario: Arc<Scenario>,
        variant: &Variant,
        seed: u64,
    ) -> Result<Self, Error> {
        let (scenario, airtime) = match scenario.tuned() {
            Cow::Borrowed(_) => (scenario, None),
            Cow::Owned(tuned) => {
                let airtime = Airtime::new(&scenario, &tuned);
                (Arc::new(tuned), airtime)
            }
        };
        let held = Held::Owned(scenario.clone());
        World::of(&scenario, held, airtime, variant, seed)
    }
}

impl<'a> World<'a> {
    pub(crate) fn build(
        scenario: &'a Scenario,
        variant: &Variant,
        seed: u64,
    ) -> Result<Self, Error> {
        match &scenario.radio {
            None => World::of(scenario, Held::Borrowed(scenario), None, variant, seed),
            Some(_) => World::own(Arc::new(scenario.clone()), variant, seed),
        }
    }

    /// Of the random choices of a subflow's controller.
    pub(super) fn subflow_seed(&self, index: u32) -> u64 {
        stream(stream(self.seed, u64::MAX - 3), u64::from(index))
    }

    fn of(
        scenario: &Scenario,
        held: Held<'a>,
        airtime: Option<Box<Airtime>>,
        variant: &Variant,
        seed: u64,
    ) -> Result<Self, Error> {
        let mut net = Network::default();
        let mut add = |direction, next| {
            let seed = stream(seed, net.links.len() as u64);
            net.add(Link::new(direction, next, seed))
        };
        let shared: Vec<(u32, u32)> = scenario
            .links
            .values()
            .map(|link| (add(&link.up, None), add(&link.down, None)))
            .collect();
        let mut path_links = Vec::new();
        for path in scenario.paths.values() {
            let onward = match &path.link {
                None => None,
                Some(name) => match scenario.links.get_index_of(name) {
                    Some(i) => Some(shared[i]),
                    None => return Err(Error::Unknown("link", name.clone())),
                },
            };
            let up = add(&path.up, onward.map(|l| l.0));
            let down = add(&path.down, onward.map(|l| l.1));
            path_links.push((up, down));
        }
        let plans = plans(scenario, variant)?;
        let (learner_of, learners) =
            super::initial_path::learners(scenario, variant, stream(seed, u64::MAX - 2))?;
        let calendar_source = net.agenda.others.add();
        let mut world = World {
            scenario: held,
            net,
            sources: vec![Source::Calendar],
            live: vec![0; plans.len()],
            plans,
            connections: Vec::new(),
            subflows: Vec::new(),
            path_links,
            remembered: Vec::new(),
            telling: Vec::new(),
            signals: HashMap::new(),
            readings: HashMap::new(),
            learner_of,
            learners,
            airtime,
            calendar: BinaryHeap::new(),
            calendar_source,
            entries: 0,
            ids: 0,
            end: end_of(scenario),
            seed,
            rng: Xoshiro256PlusPlus::seed_from_u64(stream(seed, u64::MAX - 1)),
            run: Run {
                elapsed_s: scenario.duration.as_secs_f64(),
                ..Run::default()
            },
        };
        for (i, connection) in scenario.connections.iter().enumerate() {
            let start = nanos(connection.start);
            match connection.arrivals {
                Some(_) => world.schedule(start, Todo::Arrival(i)),
                None => {
                    let same = |c: &&mp_scenario::Connection| c.start == connection.start;
                    let others = scenario.connections.iter().filter(same);
                    let first_alone = i == 0 && others.map(|c| c.count).sum::<u32>() == 1;
                    for _ in 0..connection.count {
                        // Hosts never start two connections at the very same time, nor always in the same order.
                        let offset = if first_alone {
                            0
                        } else {
                            world.uniform(0, crate::time::MILLISECOND)
                        };
                        let id = world.next_id();
                        world.schedule(start + offset, Todo::Start(i, id));
                    }
                }
            }
        }
        for (i, event) in scenario.events.iter().enumerate() {
            world.schedule(nanos(event.at), Todo::Change(i));
        }
        let interval = nanos(scenario.sample_interval);
        if interval > 0 {
            world.schedule(interval, Todo::Sample);
        }
        if let Some(at) = world.airtime.as_ref().and_then(|airtime| airtime.next()) {
            world.schedule(at, Todo::Airtime);
        }
        Ok(world)
    }

    pub(super) fn new_source(&mut self, source: Source) -> u32 {
        self.sources.push(source);
        self.net.agenda.others.add()
    }
}

fn refused(why: Refused<'_>) -> Error {
    Error::Parameter(why.to_string())
}

fn plans(scenario: &Scenario, variant: &Variant) -> Result<Vec<Plan>, Error> {
    scenario
        .connections
        .iter()
        .map(|c| {
            let name = c.controller.as_ref().unwrap_or(&variant.controller);
            let controller =
                Kindred::find(name).ok_or_else(|| Error::Unknown("controller", name.clone()))?;
            let mut parameters = mp_controllers::Connection::default();
            let mut target = None;
            if let Kindred::Shared(shared) = controller {
                parameters = shared.connection();
                target = shared.scheduled_parameter;
                // A competing flow that keeps its own controller keeps that one's defaults as well.
                if c.controller.is_none() {
                    for (key, value) in &variant.parameters {
                        let index = shared.check(key, *value).map_err(refused)?;
                        parameters.parameters[index] = *value;
                    }
                }
            }
            // Nobody answers.
            let controller = match controller {
                Kindred::Shared(shared) if c.controller.is_none() && !variant.agent => {
                    Kindred::Asked(shared)
                }
                other => other,
            };
            let name = c.scheduler.as_ref().unwrap_or(&variant.scheduler);
            let scheduler = mp_policy::scheduler::find(name)
                .ok_or_else(|| Error::Unknown("scheduler", name.clone()))?;
            if let Some(why) = variant.only_over_the_relay() {
                return Err(Error::Parameter(why));
            }
            let name = c.path_manager.as_ref().unwrap_or(&variant.path_manager);
            let manager = mp_policy::path_manager::find(name)
                .ok_or_else(|| Error::Unknown("path manager", name.clone()))?;
            let settings = match c.path_manager {
                Some(_) => Default::default(),
                None => variant.path_manager_parameters.clone(),
            };
            let settings = settings.iter().map(|(k, v)| (k.as_str(), *v));
            let fresh_manager = manager.build_with(settings).map_err(refused)?;
            let paths = c
                .paths
                .iter()
                .map(|p| {
                    scenario
                        .paths
                        .get_index_of(p)
                        .ok_or_else(|| Error::Unknown("path", p.clone()))
                })
                .collect::<Result<Vec<_>, _>>()?;
            if paths.is_empty() {
                return Err(Error::Unknown("path", String::new()));
            }
            let multipath = c.protocol == Protocol::Mptcp;
            let buffers = &scenario.buffers;
            Ok(Plan {
                name: c.name.clone(),
                multipath,
                download: c.direction == TransferDirection::Download,
                controller,
                parameters,
                target,
                scheduler,
                manager,
                fresh_manager,
                paths,
                mss: if multipath {
                    scenario.mss
                } else {
                    scenario.mss + super::transfer::DATA_SIGNAL
                },
                bytes: c.bytes,
                send_buffer: (buffers.send, buffers.autotune),
                receive_buffer: (buffers.receive, buffers.autotune),
            })
        })
        .collect()
}
