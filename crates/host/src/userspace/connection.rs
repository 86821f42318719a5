//! One connection: what its adapter asks for, done to its subflows.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use mp_kernel::diag::Subflow;
use mp_kernel::pm::{Endpoint, Flags, PathManager};
use mp_policy::path_manager::removal::{self, Between};

use super::{interfaces, SubflowChange};
use crate::adapter::{Adapter, Memory, PathState, ProbeRequest, Wanted};
use crate::endpoints::ChangeKind;
use crate::PathSettings;

/// Addresses of one connection that are told apart at most.
const MOST_IDS: u8 = 24;

pub struct Connection {
    pub adapter: Adapter,
    remote: SocketAddr,
    /// What was asked for last, as far as it could be done.
    applied: Vec<Wanted>,
    /// Of each address used here: the kernel wants one for all time.
    ids: HashMap<IpAddr, u8>,
    /// Cookies of the subflows that were there when it was last brought in line.
    known: HashSet<u64>,
}

impl Connection {
    pub fn new(
        now_us: u64,
        host: &Adapter,
        settings: &PathSettings,
        subflows: &[Subflow],
        known: &Memory,
    ) -> Connection {
        let mut adapter = Adapter::new(settings);
        adapter.set_interfaces(now_us, interfaces(host), settings);
        for path in &mut adapter.paths {
            path.signal_dbm = same(path, &host.paths).and_then(|of| of.signal_dbm);
        }
        for subflow in subflows {
            adapter.take_over(subflow.local.ip(), subflow.backup);
        }
        let applied = adapter.wanted();
        adapter.import_state(known, now_us);
        adapter.start(now_us);
        Connection {
            adapter,
            remote: subflows[0].remote,
            applied,
            ids: HashMap::new(),
            known: subflows.iter().map(|s| s.cookie).collect(),
        }
    }

    /// What came of the host's probes is known to every connection.
    pub fn hear(&mut self, host: &[PathState]) {
        for path in &mut self.adapter.paths {
            path.probes = same(path, host).map_or(path.probes, |of| of.probes);
        }
    }

    /// The probes that its path manager asks for, over the host's paths.
    pub fn probe_requests(&mut self, host: &[PathState]) -> Vec<ProbeRequest> {
        let requests = self.adapter.probe_requests();
        let of_host = |request: ProbeRequest| {
            let index = self.adapter.paths[request.path].interface.index;
            let path = host.iter().position(|of| of.interface.index == index)?;
            Some(ProbeRequest { path, ..request })
        };
        requests.into_iter().filter_map(of_host).collect()
    }

    /// Brings the subflows in line. What cannot be done now is tried again at the next poll.
    pub fn apply(
        &mut self,
        manager: &PathManager,
        token: u32,
        subflows: &[Subflow],
        changes: &mut Vec<SubflowChange>,
    ) {
        let (wanted, again) = (self.adapter.wanted(), self.adapter.again());
        let cookies = subflows.iter().map(|s| s.cookie).collect();
        let known = std::mem::replace(&mut self.known, cookies);
        let new = |s: &Subflow| !known.contains(&s.cookie);
        if again.is_empty() && wanted == self.applied && !subflows.iter().any(new) {
            return;
        }
        let duplicates = removal::duplicates(&subflows.iter().map(between).collect::<Vec<_>>());
        let (duplicates, subflows): (Vec<_>, Vec<_>) =
            subflows.iter().zip(duplicates).partition(|(_, d)| *d);
        for (s, _) in duplicates {
            let _ = manager.destroy_subflow(token, s.local, s.remote);
        }
        let subflows: Vec<&Subflow> = subflows.into_iter().map(|(s, _)| s).collect();
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
        let (normal, backup): (Vec<&Wanted>, Vec<&Wanted>) = wanted.iter().partition(|w| !w.backup);
        for w in normal.into_iter().chain(backup) {
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
            let retry = again.retry.contains(&w.address);
            let differs = |b: &&Wanted| b.backup != w.backup || retry || at(w.address).any(late);
            if let Some(before) = before.filter(|b| there && differs(b)) {
                let set = |s: &&Subflow| {
                    manager
                        .set_subflow_backup(token, s.local, s.remote, w.backup)
                        .is_ok()
                };
                let refused = at(w.address).filter(|s| !set(s)).count();
                match refused == 0 {
                    true => changes.push(SubflowChange {
                        token,
                        address: w.address,
                        kind: match w.backup {
                            true if retry => ChangeKind::BackupRepeated,
                            true => ChangeKind::SetToBackup,
                            false if retry && before.backup == w.backup => {
                                ChangeKind::NormalRepeated
                            }
                            false => ChangeKind::SetToNormal,
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

/// The host's path over the same interface.
fn same<'a>(path: &PathState, host: &'a [PathState]) -> Option<&'a PathState> {
    host.iter()
        .find(|of| of.interface.index == path.interface.index)
}

/// As the policy has it.
fn between(s: &Subflow) -> Between<(IpAddr, SocketAddr)> {
    Between {
        ends: (s.local.ip(), s.remote),
        id: s.cookie,
        carried: s.tcp.bytes_received + s.tcp.bytes_acked,
    }
}
