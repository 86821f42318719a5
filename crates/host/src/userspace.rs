//! Path management connection by connection (`path-manager = "userspace"`).
//!
//! Each connection that a program of this host opened has an [`Adapter`] of its own, and what that one asks for is done to
//! the connection's subflows alone. Connections that the in-kernel path manager has are left to it.

mod connection;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mp_kernel::diag::Subflow;
use mp_kernel::pm::PathManager;
use mp_policy::awareness::Reason;
use mp_policy::path_manager::Known;
use mp_policy::super_arm::Arm;

use crate::adapter::{together, Adapter, Memory, PathState, ProbeRequest};
use crate::endpoints::ChangeKind;
use crate::radio::{Signal, SignalTrace};
use crate::{Error, PathSettings};
use connection::Connection;

/// What a link was worth to MS-UCB, by interface.
pub type LinkArms = HashMap<String, Arm>;

/// What connections see, shared with other hosts.
pub trait Share {
    /// What a new connection begins with on these interfaces; `own`: all that connections of this host have seen.
    fn known(&self, own: &LinkArms, interfaces: &[&str]) -> LinkArms;

    /// All that connections of this host have seen so far.
    fn tell(&mut self, own: &LinkArms);

    /// The same, and from now on what they see begins anew.
    fn settle(&mut self, own: &LinkArms);

    /// Whether it is time for [`Share::tell`].
    fn is_due(&self) -> bool;
}

/// What of a connection's subflows has changed.
pub struct SubflowChange {
    /// Of the connection.
    pub token: u32,
    /// The local one of the subflows.
    pub address: IpAddr,
    pub kind: ChangeKind,
}

/// All connections of a host that are managed here.
pub struct Connections {
    manager: PathManager,
    ours: HashMap<u32, Connection>,
    /// The kernel's, and those that others opened: only who opens a connection opens its subflows.
    others: HashSet<u32>,
    /// What connections that are over knew of the paths.
    remembered: Memory,
    /// Over the paths of the host's adapter.
    probes: Vec<ProbeRequest>,
    /// With other hosts.
    shared: Option<Box<dyn Share>>,
}

/// What the host's adapter has heard of the radios.
fn signals(host: &Adapter) -> SignalTrace {
    let signal = |p: &PathState| {
        Some(Signal {
            at: Duration::ZERO,
            interface: p.interface.name.clone(),
            dbm: p.signal_dbm?,
        })
    };
    SignalTrace(host.paths.iter().filter_map(signal).collect())
}

impl Connections {
    /// In the network namespace of the calling thread.
    pub fn new(shared: Option<Box<dyn Share>>) -> Result<Connections, Error> {
        Ok(Connections {
            manager: PathManager::new()?,
            ours: HashMap::new(),
            others: HashSet::new(),
            remembered: Memory::new(),
            probes: Vec::new(),
            shared,
        })
    }

    /// After a poll of the host's adapter: each connection's own.
    pub fn poll(
        &mut self,
        now_us: u64,
        host: &Adapter,
        settings: &PathSettings,
    ) -> Vec<SubflowChange> {
        let mut of: HashMap<u32, Vec<Subflow>> = HashMap::new();
        for seen in &host.sampler.subflows {
            let subflow = seen.subflow.clone();
            of.entry(subflow.token).or_default().push(subflow);
        }
        let over = |token: &u32| !of.contains_key(token);
        // At most polls none is.
        if self.ours.keys().any(over) {
            let gone = self.ours.extract_if(|token, _| over(token));
            let before = std::mem::take(&mut self.remembered);
            self.remembered = together(gone.map(|(_, c)| c.adapter.export_state()).chain([before]));
        }
        self.others.retain(|token| of.contains_key(token));
        let mut listening = None;
        let mut known = None;
        let mut signals = signals(host);
        let mut changes = Vec::new();
        for (token, subflows) in of {
            if self.others.contains(&token) {
                continue;
            }
            if !self.ours.contains_key(&token) {
                let ports = listening.get_or_insert_with(listening_ports);
                if !self.is_ours(token, &subflows, ports) {
                    self.others.insert(token);
                    continue;
                }
                let known = known.get_or_insert_with(|| self.known(host));
                let connection = Connection::new(now_us, host, settings, &subflows, known);
                self.ours.insert(token, connection);
            }
            let connection = self.ours.get_mut(&token).expect("just made");
            connection.hear(&host.paths);
            let adapter = &mut connection.adapter;
            adapter.poll(now_us, subflows.clone(), Some(&mut signals));
            self.probes.extend(connection.probe_requests(&host.paths));
            connection.apply(&self.manager, token, &subflows, &mut changes);
        }
        if self.shared.as_ref().is_some_and(|s| s.is_due()) {
            let seen = worth(&self.all());
            self.shared.as_mut().expect("just asked").tell(&seen);
        }
        changes
    }

    /// The probes that the path managers asked for in the last poll, once, for the host to send.
    pub fn probe_requests(&mut self) -> Vec<ProbeRequest> {
        std::mem::take(&mut self.probes)
    }

    /// What all connections know, those that are over included.
    fn all(&self) -> Memory {
        let live = self.ours.values().map(|c| c.adapter.export_state());
        together(live.chain([self.remembered.clone()]))
    }

    /// What a new connection begins with.
    fn known(&self, host: &Adapter) -> Memory {
        match &self.shared {
            Some(shared) => {
                let names: Vec<&str> = (host.paths.iter())
                    .map(|p| p.interface.name.as_str())
                    .collect();
                let known = shared.known(&worth(&self.all()), &names);
                let worth = |(name, arm)| (name, Known::Worth(arm));
                known.into_iter().map(worth).collect()
            }
            None => self.all(),
        }
    }

    /// Interfaces have changed; the next poll acts on it.
    pub fn set_interfaces(&mut self, now_us: u64, host: &Adapter, settings: &PathSettings) {
        for connection in self.ours.values_mut() {
            connection
                .adapter
                .set_interfaces(now_us, interfaces(host), settings);
        }
        // A path that comes back is another one; what a link is worth goes by its name.
        let up = |name: &str| (host.paths.iter()).any(|p| p.up && p.interface.name == name);
        self.remembered
            .retain(|name, known| known.travels() || up(name));
    }

    /// New settings; see [`Adapter::reconfigure`].
    pub fn reconfigure(&mut self, now_us: u64, old: &PathSettings, new: &PathSettings) {
        if !new.judge_as(old) {
            let seen = worth(&self.all());
            self.remembered.clear();
            if let Some(shared) = &mut self.shared {
                shared.settle(&seen);
            }
        }
        for connection in self.ours.values_mut() {
            connection.adapter.reconfigure(now_us, old, new);
        }
    }

    /// Why a connection has an interface in backup.
    pub fn reason(&self, now_us: u64, token: u32, interface: i32) -> Option<Reason> {
        let adapter = &self.ours.get(&token)?.adapter;
        let at = |p: &PathState| p.interface.index == interface;
        let path = adapter.paths.iter().position(at)?;
        *adapter.reasons(now_us).get(path)?
    }

    /// Whether it is managed here, and no endpoint of the kernel's concerns it.
    pub fn has(&self, token: u32) -> bool {
        self.ours.contains_key(&token)
    }

    /// Whether it is a program's to manage, and opened here.
    fn is_ours(&self, token: u32, subflows: &[Subflow], listening: &HashSet<u16>) -> bool {
        let Some(first) = subflows.first() else {
            return false;
        };
        if subflows.iter().any(|s| listening.contains(&s.local.port())) {
            return false;
        }
        // There is no such subflow. Of a connection that is the kernel's it says not even that.
        let nowhere = match first.local {
            SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 1)),
            SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], 1)),
        };
        let asked = self.manager.destroy_subflow(token, nowhere, first.remote);
        asked.is_err_and(|e| e.errno() == Some(nix::libc::ESRCH))
    }
}

/// What is told to other hosts.
fn worth(known: &Memory) -> LinkArms {
    let travels = known.iter().filter(|(_, known)| known.travels());
    travels
        .map(|(name, known)| (name.clone(), known.worth()))
        .collect()
}

fn interfaces(host: &Adapter) -> Vec<crate::links::Interface> {
    host.paths.iter().map(|p| p.interface.clone()).collect()
}

/// Local ports on which somebody waits for connections.
fn listening_ports() -> HashSet<u16> {
    const LISTEN: &str = "0A";
    let files = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
    let tables: String = files.iter().flat_map(fs::read_to_string).collect();
    let port = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        let port = local.rsplit(':').next()?;
        (state == LISTEN)
            .then(|| u16::from_str_radix(port, 16).ok())
            .flatten()
    };
    tables.lines().filter_map(port).collect()
}

#[cfg(test)]
mod tests;
