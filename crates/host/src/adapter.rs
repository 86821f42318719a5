//! Runs a path manager of [`mp_policy`] over this host: its interfaces are the paths, all connections together on one are the
//! subflow there, and what the path manager asks for becomes the endpoints that the kernel should have. Time is passed in, as
//! µs from any fixed origin.

mod state;

use std::net::IpAddr;
use std::time::Duration;

use mp_kernel::diag::Subflow;
use mp_policy::awareness::Reason;
use mp_policy::pace::Pace;
use mp_policy::path_manager::driver::Driver;
use mp_policy::path_manager::presence::{Presence, PresenceChange};
use mp_policy::path_manager::{Action, Event, Known, Manage, Path, Rule, Subflow as Slot, View};
use mp_policy::view::Activity;

use crate::links::Interface;
use crate::radio::Radio;
use crate::sampler::{Sampler, SubflowSample};
use crate::PathSettings;

pub use state::{together, Again, Memory, PathState, ProbeRequest, Wanted};

/// Subflows on a path are to be opened.
#[derive(Debug, Clone, Copy)]
struct Opening {
    path: usize,
    /// In place of some that have died.
    stuck: bool,
}

/// One path manager, with what it sees: all connections of the host, or one.
pub struct Adapter {
    driver: Driver,
    /// Interfaces that were ever seen: the list only grows.
    pub paths: Vec<PathState>,
    /// What the connections do on them.
    pub sampler: Sampler,
    openings: Vec<Opening>,
    /// Paths whose peers are to be told again whether they are in backup.
    retries: Vec<usize>,
    probes: Vec<ProbeRequest>,
    started: bool,
}

impl Adapter {
    /// Without paths yet: [`Adapter::set_interfaces`], [`Adapter::take_over`] and then [`Adapter::start`].
    pub fn new(settings: &PathSettings) -> Adapter {
        Adapter {
            driver: Driver::new(settings.policy.build(settings.awareness), 0),
            paths: Vec::new(),
            sampler: Sampler::default(),
            openings: Vec::new(),
            retries: Vec::new(),
            probes: Vec::new(),
            started: false,
        }
    }

    /// New settings; what the path manager knows of the paths stays unless another one is to judge, or by other thresholds.
    pub fn reconfigure(&mut self, now_us: u64, old: &PathSettings, new: &PathSettings) {
        let anew = !new.judge_as(old);
        if anew {
            self.driver.manager = new.policy.build(new.awareness);
        }
        let interfaces = self.paths.iter().map(|p| p.interface.clone()).collect();
        self.set_interfaces(now_us, interfaces, new);
        if anew {
            for path in &mut self.paths {
                path.presence.give_up();
            }
            self.observe(now_us, Event::Established);
        }
    }

    /// What the path manager knows of each interface, for connections after this one.
    pub fn export_state(&self) -> Memory {
        let name = |p: &PathState| p.interface.name.clone();
        let names = self.paths.iter().map(name);
        names
            .zip(self.driver.manager.export_state().unwrap_or_default())
            .collect()
    }

    /// Begins with what connections before this one knew; before [`Adapter::start`].
    pub fn import_state(&mut self, known: &Memory, now_us: u64) {
        let of = |p: &PathState| known.get(&p.interface.name).cloned();
        let known: Vec<Known> = (self.paths.iter())
            .map(|p| of(p).unwrap_or_default())
            .collect();
        self.driver.manager.import_state(&known, now_us);
    }

    /// An endpoint, or a subflow, that is there at the start.
    pub fn take_over(&mut self, address: IpAddr, backup: bool) {
        let mut paths = self.paths.iter_mut();
        if let Some(path) = paths.find(|p| p.interface.addresses.contains(&address)) {
            path.presence = Presence::taken_over();
            path.backup = backup;
        }
    }

    /// All interfaces as they are now.
    pub fn set_interfaces(
        &mut self,
        now_us: u64,
        interfaces: Vec<Interface>,
        settings: &PathSettings,
    ) {
        for path in &mut self.paths {
            let same = |i: &&Interface| i.index == path.interface.index;
            if !interfaces.iter().any(|i| same(&i)) {
                (path.interface.up, path.interface.addresses) = (false, Vec::new());
            }
        }
        for interface in interfaces {
            let by_index = |p: &PathState| p.interface.index == interface.index;
            // A modem that is plugged in again comes under its old name, or may.
            let by_name = |p: &PathState| p.interface.name == interface.name && !p.interface.up;
            let known = self
                .paths
                .iter()
                .position(by_index)
                .or_else(|| self.paths.iter().position(by_name));
            match known {
                Some(at) => self.paths[at].interface = interface,
                None if interface.addresses.is_empty() || settings.ignores(&interface.name) => {}
                None => self.paths.push(PathState::new(interface)),
            }
        }
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            path.rule = settings.rule(&path.interface.name);
            let ignored = settings.ignores(&path.interface.name);
            let up = path.interface.up
                && !path.interface.addresses.is_empty()
                && path.rule != Rule::Untrusted
                && !ignored;
            if up == std::mem::replace(&mut path.up, up) || !self.started {
                continue;
            }
            let event = match up {
                true => Event::PathUp(at),
                false => Event::PathDown(at),
            };
            self.observe(now_us, event);
        }
    }

    /// The interfaces and what is to be taken over are known: from now on the path manager is asked.
    pub fn start(&mut self, now_us: u64) {
        self.started = true;
        self.driver.start(now_us);
        self.observe(now_us, Event::Established);
    }

    /// When it is to be polled.
    pub fn pace(&mut self) -> &mut Pace {
        &mut self.driver.pace
    }

    /// Takes in what the connections do now.
    pub fn poll(
        &mut self,
        now_us: u64,
        subflows: Vec<Subflow>,
        radio: Option<&mut (dyn Radio + 'static)>,
    ) {
        let elapsed_us = self.driver.elapsed_us(now_us);
        self.probes.clear();
        let (driver, paths, retries) = (&mut self.driver, &self.paths, &mut self.retries);
        let path_of = |ip: IpAddr| {
            paths
                .iter()
                .position(|p| p.interface.addresses.contains(&ip))
        };
        let silent = |activities: &[Activity]| {
            let polled = driver.poll(now_us, activities, |path| paths[path].backup);
            *retries = polled.retry;
            polled.silent
        };
        (self.sampler).poll(now_us, elapsed_us, subflows, paths.len(), path_of, silent);
        self.read_signals(now_us, radio);
        for at in 0..self.paths.len() {
            self.check_presence(now_us, at);
        }
        self.observe(now_us, Event::Timer);
    }

    /// Takes in the interfaces' signals; before [`Adapter::start`] too, so that a weak path taken over stays in backup.
    pub fn read_signals(&mut self, now_us: u64, radio: Option<&mut (dyn Radio + 'static)>) {
        let Some(radio) = radio else { return };
        for path in &mut self.paths {
            let since = Duration::from_micros(now_us);
            path.signal_dbm = radio.signal_dbm(&path.interface.name, since);
        }
    }

    /// Paths on which no connection has a subflow any more, and those that have one again.
    fn check_presence(&mut self, now_us: u64, at: usize) {
        let path = &mut self.paths[at];
        let fresh = self.sampler.paths[at].fresh;
        let connections = self.sampler.present_on(at);
        let event = match path.presence.poll(now_us, path.up, fresh, connections) {
            Some(PresenceChange::Established) => Event::SubflowEstablished(at),
            Some(PresenceChange::Missing) => Event::SubflowClosed {
                slot: at,
                path: at,
                error: true,
            },
            None => return,
        };
        self.observe(now_us, event);
    }

    fn observe(&mut self, now_us: u64, event: Event) {
        let (paths, slots) = (self.path_views(), self.slots());
        let view = self.view(now_us, &paths, &slots);
        let mut closed = Vec::new();
        for action in self.driver.observe(event, &view) {
            match action {
                Action::Open { path, backup } => {
                    let stuck = closed.contains(&path);
                    self.paths[path].presence.open(now_us, stuck);
                    self.paths[path].backup = backup;
                    self.openings.push(Opening { path, stuck });
                }
                Action::Close { slot } => {
                    self.paths[slot].presence.close();
                    closed.push(slot);
                }
                Action::SetBackup { slot, backup } => {
                    let state = &mut self.paths[slot];
                    state.switches += u64::from(state.backup != backup);
                    state.backup = backup;
                }
                Action::Probe { path, count } => self.probes.push(ProbeRequest { path, count }),
                // When to poll again is the caller's own affair.
                Action::Wake { .. } => {}
            }
        }
    }

    fn path_views(&self) -> Vec<Path> {
        let path = |p: &PathState| Path {
            up: p.up,
            initial: None,
            rule: p.rule,
            signal_dbm: p.signal_dbm,
            probes: p.probes,
        };
        self.paths.iter().map(path).collect()
    }

    fn slots(&self) -> Vec<Slot> {
        let slot = |(i, p): (usize, &PathState)| Slot {
            state: p.presence.state(),
            path: i,
            backup: p.backup,
            counters: self
                .sampler
                .paths
                .get(i)
                .map_or(Default::default(), |t| t.counters),
        };
        self.paths.iter().enumerate().map(slot).collect()
    }

    fn view<'a>(&self, now_us: u64, paths: &'a [Path], subflows: &'a [Slot]) -> View<'a> {
        View {
            now_us,
            paths,
            subflows,
            role: self.sampler.role(),
            bytes: self.sampler.in_order,
            began_us: self.driver.began_us(now_us),
        }
    }

    /// What the policy sees at `now_us`.
    pub fn with_view<T>(&self, now_us: u64, take: impl FnOnce(&View<'_>) -> T) -> T {
        let (paths, slots) = (self.path_views(), self.slots());
        take(&self.view(now_us, &paths, &slots))
    }

    /// Why each path is in backup.
    pub fn reasons(&self, now_us: u64) -> Vec<Option<Reason>> {
        self.with_view(now_us, |view| self.driver.manager.reasons(view))
    }

    /// The endpoints that the kernel should have: of each interface one address of each family, because the kernel
    /// takes eight in all. An address that two interfaces have, as behind two routers of one make, is the first one's.
    pub fn wanted(&self) -> Vec<Wanted> {
        let mut all: Vec<Wanted> = Vec::new();
        for path in self.paths.iter().filter(|p| p.is_open() && p.up) {
            let addresses = &path.interface.addresses;
            let first = |v4: bool| addresses.iter().find(move |a| a.is_ipv4() == v4);
            for &address in first(true).into_iter().chain(first(false)) {
                if all.iter().all(|w| w.address != address) {
                    all.push(Wanted {
                        address,
                        interface: path.interface.index,
                        backup: path.backup,
                    });
                }
            }
        }
        all
    }

    /// A path manager of one connection asks for probes too: they tell all of them the same.
    pub fn ask_for_probes(&mut self, request: ProbeRequest) {
        match self.probes.iter_mut().find(|p| p.path == request.path) {
            Some(asked) => asked.count = asked.count.max(request.count),
            None => self.probes.push(request),
        }
    }

    /// The probes that the path manager asked for in the last poll, once.
    pub fn probe_requests(&mut self) -> Vec<ProbeRequest> {
        std::mem::take(&mut self.probes)
    }

    /// Both ends of a subflow on the path.
    pub fn ends(&self, path: usize) -> Option<(IpAddr, IpAddr)> {
        let on = |s: &&SubflowSample| s.path == Some(path);
        let subflow = &self.sampler.subflows.iter().find(on)?.subflow;
        Some((subflow.local.ip(), subflow.remote.ip()))
    }

    /// Addresses whose endpoints are to be made anew, once.
    pub fn again(&mut self) -> Again {
        let mut addresses = Again::default();
        for Opening { path, stuck } in std::mem::take(&mut self.openings) {
            let of = match stuck {
                true => &mut addresses.stuck,
                false => &mut addresses.missing,
            };
            of.extend(&self.paths[path].interface.addresses);
        }
        for at in std::mem::take(&mut self.retries) {
            let of = &self.paths[at].interface.addresses;
            addresses.retry.extend(of);
        }
        addresses
    }
}

#[cfg(test)]
pub(crate) mod tests;
