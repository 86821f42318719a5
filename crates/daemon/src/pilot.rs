//! Around the policy: this host's interfaces are its paths, what all connections together do on one is its subflow, and
//! what it asks for becomes the endpoints that the kernel should have. Time is passed in, as µs from any fixed origin.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use mp_kernel::diag::Subflow;
use mp_policy::awareness::{Awareness, Reason};
use mp_policy::path_manager::{
    Action, Event, Federated, Known, Manage, MptcpLa, Path, Probes, Role, Rule, State,
    Subflow as Slot, View,
};

use crate::config::{Config, Judge};
use crate::links::Interface;
use crate::radio::Radio;
use crate::traffic::{self, Traffic};
use crate::unheard::Unheard;

/// A connection of this age has had the time to open its subflows.
const GROWN_US: u64 = 3_000_000;

/// An endpoint that the kernel should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub address: IpAddr,
    pub interface: i32,
    pub backup: bool,
}

/// Addresses whose endpoints are to be made anew, so that the kernel opens subflows there.
#[derive(Debug, Clone, Default)]
pub struct Again {
    /// Where there is none.
    pub missing: Vec<IpAddr>,
    /// Where those that are there have died.
    pub stuck: Vec<IpAddr>,
    /// In backup, and a peer does not know it: to be told once more.
    pub unheard: Vec<IpAddr>,
}

impl Again {
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.stuck.is_empty() && self.unheard.is_empty()
    }
}

/// One interface.
#[derive(Debug, Clone)]
pub struct PathState {
    pub interface: Interface,
    pub rule: Rule,
    pub signal_dbm: Option<i32>,
    pub probes: Probes,
    /// Usable, and allowed.
    pub up: bool,
    /// Endpoints are there.
    pub open: bool,
    pub backup: bool,
    /// Changes between normal and backup so far.
    pub switches: u64,
    /// Since when no connection has a subflow here although some are old enough for it, or since the last try.
    missing: bool,
    tried_us: u64,
    /// Its subflows have died, and new ones are being tried.
    stuck: bool,
}

/// Who decides.
enum Mind {
    Aware(Box<Awareness>),
    MptcpLa(MptcpLa),
    /// One for all that this pilot sees.
    SuperArm(Federated),
}

impl Mind {
    fn new(config: &Config) -> Mind {
        match config.judge {
            Judge::Awareness => Mind::Aware(Box::new(Awareness::new(config.awareness))),
            Judge::MptcpLa(config) => Mind::MptcpLa(MptcpLa::new(config)),
            Judge::MsUcb | Judge::MsUcbFederated => Mind::SuperArm(Federated::default()),
        }
    }

    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        match self {
            Mind::Aware(awareness) => awareness.observe(event, view, actions),
            Mind::MptcpLa(manager) => manager.observe(event, view, actions),
            Mind::SuperArm(chooser) => chooser.observe(event, view, actions),
        }
    }

    fn told(&self) -> Option<Vec<Known>> {
        match self {
            Mind::Aware(awareness) => awareness.told(),
            Mind::MptcpLa(manager) => manager.told(),
            Mind::SuperArm(chooser) => chooser.told(),
        }
    }

    fn hear(&mut self, known: &[Known], now_us: u64) {
        match self {
            Mind::Aware(awareness) => awareness.hear(known, now_us),
            Mind::MptcpLa(manager) => manager.hear(known, now_us),
            Mind::SuperArm(chooser) => chooser.hear(known, now_us),
        }
    }

    fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        match self {
            Mind::Aware(awareness) => awareness.reasons(view),
            Mind::MptcpLa(manager) => {
                let backup = |path: usize| manager.is_backup(path).then_some(Reason::Loss);
                (0..view.paths.len()).map(backup).collect()
            }
            Mind::SuperArm(chooser) => {
                let spared = |path: usize| (!chooser.chose(path)).then_some(Reason::Unchosen);
                (0..view.paths.len()).map(spared).collect()
            }
        }
    }
}

/// What is known of the paths, by interface: a modem that is plugged in again comes under another number.
pub type Memory = HashMap<String, Known>;

/// What all of them know.
pub fn together(all: impl IntoIterator<Item = Memory>) -> Memory {
    let mut sum = Memory::new();
    for (interface, known) in all.into_iter().flatten() {
        sum.entry(interface).or_default().join(known);
    }
    sum
}

pub struct Pilot {
    mind: Mind,
    pub paths: Vec<PathState>,
    pub traffic: Traffic,
    looked_us: u64,
    /// Paths whose endpoints are to be made anew, and whether for a subflow that is stuck.
    again: Vec<(usize, bool)>,
    /// Peers that do not know which subflows are in backup, and the paths of those.
    unheard: (Unheard, Vec<usize>),
    /// Probes that the policy asked for at the last look, by path.
    asked: Vec<(usize, u32)>,
    started: bool,
}

impl Pilot {
    pub fn new(config: &Config) -> Pilot {
        Pilot {
            mind: Mind::new(config),
            paths: Vec::new(),
            traffic: Traffic::default(),
            looked_us: 0,
            again: Vec::new(),
            unheard: Default::default(),
            asked: Vec::new(),
            started: false,
        }
    }

    /// A new configuration; what the policy knows of the paths stays unless it is to judge by other thresholds.
    pub fn reconfigure(&mut self, now_us: u64, old: &Config, new: &Config) {
        let anew = (old.judge, old.awareness) != (new.judge, new.awareness);
        if anew {
            self.mind = Mind::new(new);
        }
        let interfaces = self.paths.iter().map(|p| p.interface.clone()).collect();
        self.links(now_us, interfaces, new);
        if anew {
            self.tell(now_us, Event::Established);
        }
    }

    /// What the policy knows of each interface.
    pub fn told(&self) -> Memory {
        let name = |p: &PathState| p.interface.name.clone();
        let names = self.paths.iter().map(name);
        names.zip(self.mind.told().unwrap_or_default()).collect()
    }

    /// Before [`Pilot::start`]: begins with what others know.
    pub fn hear_of(&mut self, known: &Memory, now_us: u64) {
        let of = |p: &PathState| known.get(&p.interface.name).cloned();
        let known: Vec<Known> = (self.paths.iter())
            .map(|p| of(p).unwrap_or_default())
            .collect();
        self.mind.hear(&known, now_us);
    }

    /// Endpoints that are there when the daemon begins: taken over.
    pub fn take_over(&mut self, address: IpAddr, backup: bool) {
        let mut paths = self.paths.iter_mut();
        if let Some(path) = paths.find(|p| p.interface.addresses.contains(&address)) {
            path.open = true;
            path.backup = backup;
        }
    }

    /// All interfaces as they are now.
    pub fn links(&mut self, now_us: u64, interfaces: Vec<Interface>, config: &Config) {
        for path in &mut self.paths {
            let same = |i: &&Interface| i.index == path.interface.index;
            if !interfaces.iter().any(|i| same(&i)) {
                (path.interface.up, path.interface.addresses) = (false, Vec::new());
            }
        }
        for interface in interfaces {
            if config.ignores(&interface.name) {
                continue;
            }
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
                None if interface.addresses.is_empty() => {}
                None => self.paths.push(PathState {
                    interface,
                    rule: Rule::None,
                    signal_dbm: None,
                    probes: Probes::default(),
                    up: false,
                    open: false,
                    backup: false,
                    switches: 0,
                    missing: false,
                    tried_us: 0,
                    stuck: false,
                }),
            }
        }
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            path.rule = config.rule(&path.interface.name);
            let ignored = config.ignores(&path.interface.name);
            let up = path.interface.up
                && !path.interface.addresses.is_empty()
                && path.rule != Rule::Untrusted
                && !ignored;
            if up == std::mem::replace(&mut path.up, up) || !self.started {
                continue;
            }
            self.tell(
                now_us,
                if up {
                    Event::PathUp(at)
                } else {
                    Event::PathDown(at)
                },
            );
        }
    }

    /// The interfaces and what is to be taken over are known: from now on the policy is asked.
    pub fn start(&mut self, now_us: u64) {
        self.started = true;
        self.looked_us = now_us;
        self.tell(now_us, Event::Established);
    }

    /// What the connections do now; and whether much has moved since the last look.
    pub fn look(
        &mut self,
        now_us: u64,
        subflows: Vec<Subflow>,
        radio: Option<&mut (dyn Radio + 'static)>,
    ) -> bool {
        let elapsed = now_us - std::mem::replace(&mut self.looked_us, now_us);
        let before = self.traffic.bytes;
        self.asked.clear();
        let paths = &self.paths;
        let path_of = |ip: IpAddr| {
            paths
                .iter()
                .position(|p| p.interface.addresses.contains(&ip))
        };
        self.traffic
            .look(now_us, elapsed, subflows, paths.len(), path_of);
        let spared = |path: usize| self.paths[path].backup;
        self.unheard.1 = (self.unheard.0).look(now_us, &self.traffic.subflows, spared);
        self.hear(now_us, radio);
        for at in 0..self.paths.len() {
            self.revive(now_us, at);
        }
        self.tell(now_us, Event::Timer);
        self.traffic.bytes - before > 10_000
    }

    /// Takes in the interfaces' signals; before [`Pilot::start`] too, so that a weak path taken over stays in backup.
    pub fn hear(&mut self, now_us: u64, radio: Option<&mut (dyn Radio + 'static)>) {
        let Some(radio) = radio else { return };
        for path in &mut self.paths {
            let since = Duration::from_micros(now_us);
            path.signal_dbm = radio.signal_dbm(&path.interface.name, since);
        }
    }

    /// Tells the policy of paths on which no connection has a subflow any more, and of those that have one again.
    fn revive(&mut self, now_us: u64, at: usize) {
        let path = &mut self.paths[at];
        // No handshake gets over a path that is dead.
        if (path.missing || path.stuck) && self.traffic.paths[at].fresh {
            (path.missing, path.stuck) = (false, false);
            self.tell(now_us, Event::SubflowEstablished(at));
        } else if path.open
            && path.up
            && now_us >= path.tried_us + GROWN_US
            && self.traffic.missing_on(at, now_us, GROWN_US)
        {
            (path.missing, path.open) = (true, false);
            let (slot, error) = (at, true);
            self.tell(
                now_us,
                Event::SubflowClosed {
                    slot,
                    path: at,
                    error,
                },
            );
        }
    }

    fn tell(&mut self, now_us: u64, event: Event) {
        let mut actions = Vec::new();
        let (paths, slots) = (self.path_views(), self.slots());
        let view = self.view(now_us, &paths, &slots);
        debug_assert_eq!(view.check(None), Ok(()));
        self.mind.observe(event, &view, &mut actions);
        let mut closed = Vec::new();
        for action in actions {
            match action {
                Action::Open { path, backup } => {
                    let state = &mut self.paths[path];
                    (state.open, state.tried_us) = (true, now_us);
                    state.backup = backup;
                    state.stuck = closed.contains(&path);
                    self.again.push((path, state.stuck));
                }
                Action::Close { slot } => {
                    self.paths[slot].open = false;
                    closed.push(slot);
                }
                Action::SetBackup { slot, backup } => {
                    let state = &mut self.paths[slot];
                    state.switches += u64::from(state.backup != backup);
                    state.backup = backup;
                }
                Action::Probe { path, count } => self.asked.push((path, count)),
                // The first is for servers; when to look again is the daemon's own affair.
                Action::Announce { .. } | Action::Wake { .. } => {}
            }
        }
    }

    fn path_views(&self) -> Vec<Path> {
        let path = |(i, p): (usize, &PathState)| Path {
            local: i as u8,
            remote: 0,
            up: p.up,
            primary: false,
            rule: p.rule,
            signal_dbm: p.signal_dbm,
            probes: p.probes,
        };
        self.paths.iter().enumerate().map(path).collect()
    }

    fn slots(&self) -> Vec<Slot> {
        let slot = |(i, p): (usize, &PathState)| Slot {
            state: match p.open {
                true if p.stuck => State::Opening,
                true => State::Established,
                false => State::Closed,
            },
            path: i,
            backup: p.backup,
            counters: self
                .traffic
                .paths
                .get(i)
                .map_or(Default::default(), |t| t.counters),
        };
        self.paths.iter().enumerate().map(slot).collect()
    }

    fn view<'a>(&self, now_us: u64, paths: &'a [Path], subflows: &'a [Slot]) -> View<'a> {
        let sends = self.traffic.mostly_sends();
        View {
            now_us,
            paths,
            subflows,
            role: match sends {
                true => Role::Sender,
                false => Role::Receiver,
            },
            connections: self.traffic.connections.len(),
            bytes: self.traffic.in_order,
            began_us: self.traffic.beginnings.oldest(now_us),
            client: true,
        }
    }

    /// What the policy sees at `now_us`.
    pub fn with_view<T>(&self, now_us: u64, take: impl FnOnce(&View<'_>) -> T) -> T {
        let (paths, slots) = (self.path_views(), self.slots());
        take(&self.view(now_us, &paths, &slots))
    }

    /// Why each path is in backup.
    pub fn reasons(&self, now_us: u64) -> Vec<Option<Reason>> {
        self.with_view(now_us, |view| self.mind.reasons(view))
    }

    /// The endpoints that the kernel should have: of each interface one address of each family, because the kernel
    /// takes eight in all.
    pub fn wanted(&self) -> Vec<Wanted> {
        let open = self.paths.iter().filter(|p| p.open && p.up);
        open.flat_map(|path| {
            let addresses = &path.interface.addresses;
            let first = |v4: bool| addresses.iter().find(move |a| a.is_ipv4() == v4);
            first(true)
                .into_iter()
                .chain(first(false))
                .map(|&address| Wanted {
                    address,
                    interface: path.interface.index,
                    backup: path.backup,
                })
        })
        .collect()
    }

    /// The probes that the policy wants, once.
    pub fn asked(&mut self) -> Vec<(usize, u32)> {
        std::mem::take(&mut self.asked)
    }

    /// Both ends of a subflow on the path.
    pub fn ends(&self, path: usize) -> Option<(IpAddr, IpAddr)> {
        let on = |s: &&traffic::Seen| s.path == Some(path);
        let subflow = &self.traffic.subflows.iter().find(on)?.subflow;
        Some((subflow.local.ip(), subflow.remote.ip()))
    }

    /// Addresses whose endpoints are to be made anew, once.
    pub fn again(&mut self) -> Again {
        let mut addresses = Again::default();
        for (at, stuck) in std::mem::take(&mut self.again) {
            let of = match stuck {
                true => &mut addresses.stuck,
                false => &mut addresses.missing,
            };
            of.extend(&self.paths[at].interface.addresses);
        }
        for at in std::mem::take(&mut self.unheard.1) {
            let of = &self.paths[at].interface.addresses;
            addresses.unheard.extend(of);
        }
        addresses
    }
}

#[cfg(test)]
pub(crate) mod tests;
