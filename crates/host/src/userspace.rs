//! Path management connection by connection (`path-manager = "userspace"`).
//!
//! Each connection that a program of this host opened has a [`Adapter`] of its own, and what that one asks for is done to
//! the connection's subflows alone. Connections that the in-kernel path manager has are left to it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mp_kernel::diag::Subflow;
use mp_kernel::pm::{Endpoint, Flags, PathManager};
use mp_policy::awareness::Reason;
use mp_policy::path_manager::Known;
use mp_policy::super_arm::Arm;

use crate::adapter::{together, Adapter, Memory, Wanted};
use crate::radio::Radio;
use crate::{Error, Judge, Settings};

/// Which path manager new connections get: 0 the kernel's, 1 a program's.
const KIND: &str = "/proc/sys/net/mptcp/pm_type";

/// New connections of this namespace are a program's to manage, or the kernel's. The others stay with theirs.
pub fn manage_new(ourselves: bool) -> Result<(), Error> {
    fs::write(KIND, if ourselves { "1" } else { "0" })
        .map_err(|e| Error::Failed(format!("{KIND}: {e}")))
}

/// Addresses of one connection that are told apart at most.
const MOST_IDS: u8 = 24;

/// What a link was worth to MS-UCB, by interface.
pub type Seen = HashMap<String, Arm>;

/// What connections see, shared with other hosts.
pub trait Share {
    /// What a new connection begins with on these interfaces; `own`: all that connections of this host have seen.
    fn known(&self, own: &Seen, interfaces: &[&str]) -> Seen;

    /// All that connections of this host have seen so far.
    fn tell(&mut self, own: &Seen);

    /// Whether it is time for [`Share::tell`].
    fn is_due(&self) -> bool;
}

/// What of a connection's subflows has changed.
pub struct Change {
    pub token: u32,
    pub address: IpAddr,
    pub what: &'static str,
}

pub struct Connections {
    manager: PathManager,
    ours: HashMap<u32, Connection>,
    /// The kernel's, and those that others opened: only who opens a connection opens its subflows.
    others: HashSet<u32>,
    /// What connections that are over knew of the paths.
    remembered: Memory,
    /// With other hosts.
    shared: Option<Box<dyn Share>>,
}

struct Connection {
    adapter: Adapter,
    remote: SocketAddr,
    /// What was asked for last, as far as it could be done.
    applied: Vec<Wanted>,
    /// Of each address used here: the kernel wants one for all time.
    ids: HashMap<IpAddr, u8>,
    /// Cookies of the subflows that were there when it was last brought in line.
    known: HashSet<u64>,
}

/// What the host's adapter has heard of the radios.
struct Heard(Vec<(String, i32)>);

impl Radio for Heard {
    fn signal_dbm(&mut self, interface: &str, _: Duration) -> Option<i32> {
        let known = self.0.iter().find(|(name, _)| name == interface);
        known.map(|(_, dbm)| *dbm)
    }
}

impl Connections {
    /// In the network namespace of the calling thread.
    pub fn new(shared: Option<Box<dyn Share>>) -> Result<Connections, Error> {
        Ok(Connections {
            manager: PathManager::new()?,
            ours: HashMap::new(),
            others: HashSet::new(),
            remembered: Memory::new(),
            shared,
        })
    }

    /// After a look of the host's adapter: each connection's own.
    pub fn look(&mut self, now_us: u64, host: &Adapter, settings: &Settings) -> Vec<Change> {
        let mut of: HashMap<u32, Vec<Subflow>> = HashMap::new();
        for seen in &host.traffic.subflows {
            let subflow = seen.subflow.clone();
            of.entry(subflow.token).or_default().push(subflow);
        }
        let over = |token: &u32| !of.contains_key(token);
        // At most looks none is.
        if self.ours.keys().any(over) {
            let gone = self.ours.extract_if(|token, _| over(token));
            let before = std::mem::take(&mut self.remembered);
            self.remembered = together(gone.map(|(_, c)| c.adapter.told()).chain([before]));
        }
        self.others.retain(|token| of.contains_key(token));
        let mut listening = None;
        let mut known = None;
        let signal =
            |p: &crate::adapter::PathState| Some((p.interface.name.clone(), p.signal_dbm?));
        let mut heard = Heard(host.paths.iter().filter_map(signal).collect());
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
                let known = known.get_or_insert_with(|| self.known(host, settings));
                let connection = Connection::new(now_us, host, settings, &subflows, known);
                self.ours.insert(token, connection);
            }
            let connection = self.ours.get_mut(&token).expect("just made");
            connection
                .adapter
                .look(now_us, subflows.clone(), Some(&mut heard));
            connection.apply(&self.manager, token, &subflows, &mut changes);
        }
        if self.shared.as_ref().is_some_and(|s| s.is_due()) {
            let seen = worth(&self.all());
            self.shared.as_mut().expect("just asked").tell(&seen);
        }
        changes
    }

    /// What all connections know, those that are over included.
    fn all(&self) -> Memory {
        let live = self.ours.values().map(|c| c.adapter.told());
        together(live.chain([self.remembered.clone()]))
    }

    /// What a new connection begins with.
    fn known(&self, host: &Adapter, settings: &Settings) -> Memory {
        match (settings.judge, &self.shared) {
            (Judge::MsUcb, _) => Memory::new(),
            (Judge::MsUcbFederated, Some(shared)) => {
                let names: Vec<&str> = (host.paths.iter())
                    .map(|p| p.interface.name.as_str())
                    .collect();
                let known = shared.known(&worth(&self.all()), &names);
                let worth = |(name, arm)| (name, Known::Worth(arm));
                known.into_iter().map(worth).collect()
            }
            _ => self.all(),
        }
    }

    /// Interfaces have changed; the next look acts on it.
    pub fn links(&mut self, now_us: u64, host: &Adapter, settings: &Settings) {
        for connection in self.ours.values_mut() {
            connection.adapter.links(now_us, interfaces(host), settings);
        }
        // A path that comes back is another one; what a link is worth goes by its name.
        let up = |name: &str| (host.paths.iter()).any(|p| p.up && p.interface.name == name);
        self.remembered
            .retain(|name, known| known.travels() || up(name));
    }

    pub fn reconfigure(&mut self, now_us: u64, old: &Settings, new: &Settings) {
        for connection in self.ours.values_mut() {
            connection.adapter.reconfigure(now_us, old, new);
        }
        if (old.judge, old.awareness) != (new.judge, new.awareness) {
            self.remembered.clear();
        }
    }

    /// Why a connection spares an interface.
    pub fn reason(&self, now_us: u64, token: u32, interface: i32) -> Option<Reason> {
        let adapter = &self.ours.get(&token)?.adapter;
        let at = |p: &crate::adapter::PathState| p.interface.index == interface;
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

impl Connection {
    fn new(
        now_us: u64,
        host: &Adapter,
        settings: &Settings,
        subflows: &[Subflow],
        known: &Memory,
    ) -> Connection {
        let mut adapter = Adapter::new(settings);
        adapter.links(now_us, interfaces(host), settings);
        for (path, of) in adapter.paths.iter_mut().zip(&host.paths) {
            path.signal_dbm = of.signal_dbm;
        }
        for subflow in subflows {
            adapter.take_over(subflow.local.ip(), subflow.backup);
        }
        let applied = adapter.wanted();
        adapter.hear_of(known, now_us);
        adapter.start(now_us);
        Connection {
            adapter,
            remote: subflows[0].remote,
            applied,
            ids: HashMap::new(),
            known: subflows.iter().map(|s| s.cookie).collect(),
        }
    }

    /// Brings the subflows in line. What cannot be done now is tried again at the next look.
    fn apply(
        &mut self,
        manager: &PathManager,
        token: u32,
        subflows: &[Subflow],
        changes: &mut Vec<Change>,
    ) {
        let (wanted, again) = (self.adapter.wanted(), self.adapter.again());
        let cookies = subflows.iter().map(|s| s.cookie).collect();
        let known = std::mem::replace(&mut self.known, cookies);
        let new = |s: &Subflow| !known.contains(&s.cookie);
        if again.is_empty() && wanted == self.applied && !subflows.iter().any(new) {
            return;
        }
        let (doubles, subflows): (Vec<&Subflow>, Vec<&Subflow>) =
            subflows.iter().partition(|s| is_double(s, subflows));
        for s in doubles {
            let _ = manager.destroy_subflow(token, s.local, s.remote);
        }
        let at = |address: IpAddr| {
            let here = move |s: &&&Subflow| s.local.ip() == address;
            subflows.iter().filter(here)
        };
        let mut gone: Vec<IpAddr> = Vec::new();
        let mut close = |address: IpAddr| {
            let elsewhere = |s: &&Subflow| s.local.ip() != address && !gone.contains(&s.local.ip());
            // The last one stays, dead or alive: with it the connection would go.
            if !subflows.iter().any(elsewhere) {
                return false;
            }
            for s in at(address) {
                let _ = manager.destroy_subflow(token, s.local, s.remote);
            }
            gone.push(address);
            true
        };
        let applied = std::mem::take(&mut self.applied);
        for old in &applied {
            if !wanted.iter().any(|w| w.address == old.address)
                && at(old.address).next().is_some()
                && !close(old.address)
            {
                self.applied.push(*old);
            }
        }
        for stuck in &again.stuck {
            if at(*stuck).next().is_some() {
                close(*stuck);
            }
        }
        // First the promotions: never a moment without a normal subflow.
        let (normal, spared): (Vec<&Wanted>, Vec<&Wanted>) = wanted.iter().partition(|w| !w.backup);
        for w in normal.into_iter().chain(spared) {
            let before = applied.iter().find(|a| a.address == w.address);
            let there = at(w.address).next().is_some() && !gone.contains(&w.address);
            let asked = again.missing.contains(&w.address) || again.stuck.contains(&w.address);
            if !there && (asked || before.is_none()) && !self.open(manager, token, w) {
                continue;
            }
            let mut done = *w;
            // One whose handshake took long has what was asked for when it began.
            let late = |s: &&Subflow| new(s) && s.backup != w.backup;
            // The kernel tells the peer each time that it is asked.
            let unheard = w.backup && again.unheard.contains(&w.address);
            let differs = |b: &&Wanted| b.backup != w.backup || unheard || at(w.address).any(late);
            if let Some(before) = before.filter(|b| there && differs(b)) {
                let set = |s: &&Subflow| {
                    manager
                        .set_subflow_backup(token, s.local, s.remote, w.backup)
                        .is_ok()
                };
                let refused = at(w.address).filter(|s| !set(s)).count();
                match refused == 0 {
                    true => changes.push(Change {
                        token,
                        address: w.address,
                        what: match w.backup {
                            true if unheard => "in backup, told again",
                            true => "set to backup",
                            false => "set to normal",
                        },
                    }),
                    false => done.backup = before.backup,
                }
            }
            self.applied.push(done);
        }
        let place = |of: &Wanted| wanted.iter().position(|w| w.address == of.address);
        self.applied
            .sort_by_key(|of| place(of).unwrap_or(usize::MAX));
    }

    /// Not yet, where the connection is too young for it. Any other refusal is no news: the adapter misses the subflow and
    /// asks again, with growing patience.
    fn open(&mut self, manager: &PathManager, token: u32, wanted: &Wanted) -> bool {
        if wanted.address.is_ipv4() != self.remote.is_ipv4() {
            return true;
        }
        let mut local = Endpoint {
            id: self.ids.get(&wanted.address).copied().unwrap_or(1),
            interface: Some(wanted.interface),
            ..Endpoint::new(
                wanted.address,
                Flags {
                    backup: wanted.backup,
                    ..Flags::NONE
                },
            )
        };
        let mut asked = manager.create_subflow(token, &local, self.remote);
        // The kernel keeps numbers of addresses that only a daemon before this one knew.
        let taken = |asked: &Result<(), mp_kernel::pm::Error>| {
            let errno = asked.as_ref().err().and_then(|e| e.errno());
            errno == Some(nix::libc::EINVAL)
        };
        while taken(&asked) && local.id < MOST_IDS {
            local.id += 1;
            asked = manager.create_subflow(token, &local, self.remote);
        }
        if asked.is_ok() {
            self.ids.insert(wanted.address, local.id);
        }
        !asked.is_err_and(|e| e.errno() == Some(nix::libc::ENOTCONN))
    }
}

/// Whether the connection has another subflow between the same addresses, which has carried more. A handshake that goes
/// unanswered is out of sight and its path is tried again: once the path is back, all of them may come through.
fn is_double(subflow: &Subflow, all: &[Subflow]) -> bool {
    let ends = |s: &Subflow| (s.local.ip(), s.remote);
    let carried = |s: &Subflow| (s.tcp.bytes_received + s.tcp.bytes_acked, s.cookie);
    let mut others = all.iter().filter(|s| ends(s) == ends(subflow));
    others.any(|s| carried(s) > carried(subflow))
}

/// What is told to other hosts.
fn worth(known: &Memory) -> Seen {
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
