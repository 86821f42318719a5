//! The in-kernel path manager's endpoints and limits, and the way back to how they were.
//!
//! What was changed stands in a file beside a lock that says who is at work; the next daemon goes on from there, however
//! the last one ended, and `down` goes the way back.

mod removed;
mod untrusted;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use mp_kernel::controller::{self, Controller};
use mp_kernel::diag::Subflow;
use mp_kernel::pm::{Endpoint, Flags, Limits, PathManager};
use nix::fcntl::Flock;
use removed::Removed;
use serde::{Deserialize, Serialize};
use untrusted::Taken;

use crate::alone;
use crate::pilot::{Again, Wanted};
use crate::Error;

pub const FOLDER: &str = "/run/multipilot";
const CONTROLLER: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// How things were.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Before {
    subflows: u32,
    add_addr_accepted: u32,
    /// Endpoints of ours.
    added: Vec<IpAddr>,
    /// Endpoints of others, each with its backup flag.
    adopted: Vec<(IpAddr, bool)>,
    /// Those of them that are deleted, to be added again.
    #[serde(default)]
    owed: Vec<Endpoint>,
    /// Endpoints of others that were on interfaces that the user does not trust.
    #[serde(default)]
    taken: Vec<Taken>,
    /// Default congestion controller, where we have set another one.
    controller: Option<String>,
    /// Kernel name of that other one.
    ours: Option<String>,
}

pub struct Endpoints {
    manager: PathManager,
    before: Before,
    file: PathBuf,
    controller: Option<Controller>,
    /// What was asked for last.
    applied: Vec<Wanted>,
    removed: Removed,
    /// No daemon was at work here before.
    first: bool,
    lock: Flock<File>,
}

impl Endpoints {
    /// For the network namespace of the calling thread.
    pub fn open() -> Result<Endpoints, Error> {
        let failed = |e: &dyn std::fmt::Display| Error::Failed(format!("{FOLDER}: {e}"));
        fs::create_dir_all(FOLDER).map_err(|e| failed(&e))?;
        let cookie = mp_kernel::choose::own_cookie()?;
        alone::clear_up(Path::new(FOLDER));
        let lock = alone::lock(&Path::new(FOLDER).join(format!("daemon-{cookie:x}.lock")))?;
        let manager = PathManager::new()?;
        let file = Path::new(FOLDER).join(format!("daemon-{cookie:x}.json"));
        let saved = fs::read_to_string(&file)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok());
        let first = saved.is_none();
        let before = match saved {
            Some(before) => before,
            None => {
                let limits = manager.limits()?;
                Before {
                    subflows: limits.subflows,
                    add_addr_accepted: limits.add_addr_accepted,
                    ..Before::default()
                }
            }
        };
        let mut endpoints = Endpoints {
            manager,
            before,
            file,
            controller: None,
            applied: Vec::new(),
            removed: Removed::default(),
            first,
            lock,
        };
        endpoints.pay()?;
        endpoints.save()?;
        Ok(endpoints)
    }

    /// What others are owed: theirs that rest, and `more`.
    fn owe<'a>(&'a mut self, more: impl Iterator<Item = &'a Endpoint>) {
        let of_others = |e: &&Endpoint| !self.before.added.contains(&e.address);
        let deleted = self.removed.again().chain(more);
        let owed = deleted.filter(of_others).cloned().collect();
        self.before.owed = owed;
    }

    fn pay(&mut self) -> Result<(), Error> {
        for endpoint in std::mem::take(&mut self.before.owed) {
            self.add_back(&endpoint)?;
        }
        Ok(())
    }

    /// Whether it was still away: somebody may have set it anew.
    fn add_back(&self, endpoint: &Endpoint) -> Result<bool, Error> {
        if self.list()?.iter().any(|e| e.address == endpoint.address) {
            return Ok(false);
        }
        self.manager.add_endpoint(endpoint)?;
        Ok(true)
    }

    /// Those that are there now.
    pub fn list(&self) -> Result<Vec<Endpoint>, Error> {
        let all = self.manager.endpoints()?;
        Ok(all.into_iter().filter(|e| !e.flags.implicit).collect())
    }

    pub fn set_limits(&self, subflows: u32, add_addr_accepted: u32) -> Result<(), Error> {
        let limits = Limits {
            subflows,
            add_addr_accepted,
        };
        Ok(self.manager.set_limits(limits)?)
    }

    /// Makes the kernel's endpoints what they should be; those at the addresses of `again` anew, and those of `stuck` even
    /// if a subflow is there, which has died but does not know it yet. What was deleted is added no sooner than the peer
    /// knows ([`Removed`]): [`Endpoints::differ`] says when to call again. Returns what it did.
    /// Endpoints of others are changed in nothing but their backup flag, and deleted for good only by
    /// [`Endpoints::keep_off`].
    /// None goes that a connection of `subflows` cannot do without: the kernel closes the subflows of an endpoint with it.
    pub fn apply(
        &mut self,
        wanted: &[Wanted],
        again: &Again,
        subflows: &[Subflow],
    ) -> Result<Vec<String>, Error> {
        let there = self.list()?;
        // Those in use need no second opening.
        let used = |a: &IpAddr| subflows.iter().any(|s| s.local.ip() == *a);
        let dispensable = |a: &IpAddr| !indispensable(*a, &[], subflows);
        let missing = again.missing.iter().filter(|a| !used(a));
        let stuck = again.stuck.iter().filter(|a| dispensable(a));
        let again: Vec<IpAddr> = missing.chain(stuck).copied().collect();
        let mut gone = Vec::new();
        let at = |address: IpAddr| there.iter().find(|e| e.address == address);
        let mut done = Vec::new();
        for endpoint in &there {
            let ours = self.before.added.contains(&endpoint.address);
            let unwanted = ours && !wanted.iter().any(|w| w.address == endpoint.address);
            if unwanted && !indispensable(endpoint.address, &gone, subflows) {
                self.manager.delete_endpoint(endpoint)?;
                self.removed.note(endpoint.clone(), false, subflows);
                gone.push(endpoint.address);
                self.before.added.retain(|a| *a != endpoint.address);
                done.push(format!("{} no longer used", endpoint.address));
            }
        }
        let rested: Vec<Endpoint> = self.removed.rested();
        let away: Vec<&Endpoint> = self.removed.again().chain(&rested).collect();
        for w in wanted {
            let known = self.before.adopted.iter().any(|(a, _)| *a == w.address);
            match at(w.address) {
                Some(e) if !known && !self.before.added.contains(&w.address) => {
                    self.before.adopted.push((w.address, e.flags.backup));
                }
                None if !self.before.added.contains(&w.address)
                    && !away.iter().any(|e| e.address == w.address) =>
                {
                    self.before.added.push(w.address);
                }
                _ => {}
            }
        }
        let to_go = there.iter().filter(|e| again.contains(&e.address));
        self.owe(to_go.chain(&rested));
        // First the way back, then the changes.
        self.save()?;
        for w in wanted {
            let fresh = Endpoint {
                interface: Some(w.interface),
                ..Endpoint::new(
                    w.address,
                    Flags {
                        backup: w.backup,
                        ..Flags::SUBFLOW
                    },
                )
            };
            match at(w.address) {
                Some(old) if again.contains(&w.address) => {
                    self.manager.delete_endpoint(old)?;
                    self.removed.note(old.clone(), true, subflows);
                }
                Some(_) => {}
                None if self.removed.rests(w.address) => {}
                None => {
                    let back = rested.iter().find(|e| e.address == w.address);
                    let mut endpoint = back.cloned().unwrap_or(fresh);
                    endpoint.flags.backup = w.backup;
                    self.manager.add_endpoint(&endpoint)?;
                    let how = back.map_or("used", |_| "opened again");
                    done.push(format!("{} {how}", w.address));
                }
            }
        }
        if !rested.is_empty() && !self.before.owed.is_empty() {
            // Others get theirs back, wanted or not.
            self.before.owed.retain(|e| rested.contains(e));
            self.pay()?;
            self.owe([].iter());
            self.save()?;
        }
        // First the promotions: never a moment without a normal endpoint.
        for backup in [false, true] {
            for w in wanted.iter().filter(|w| w.backup == backup) {
                let Some(old) = at(w.address).filter(|e| e.flags.backup != backup) else {
                    continue;
                };
                if !again.contains(&w.address) {
                    let mut changed = old.clone();
                    changed.flags.backup = backup;
                    self.manager.set_endpoint_flags(&changed)?;
                    let to = if backup { "backup" } else { "normal" };
                    done.push(format!("{} set to {to}", w.address));
                }
            }
        }
        self.applied = wanted.to_vec();
        Ok(done)
    }

    /// From what was asked for last, or from what was put off then.
    pub fn differ(&self, wanted: &[Wanted]) -> bool {
        self.applied != wanted || self.removed.is_due()
    }

    /// The congestion controller of new sockets, with settings of its own; `None` goes back to the one from before.
    pub fn choose(&mut self, name: Option<&str>, settings: &[(String, u64)]) -> Result<(), Error> {
        let failed = |e: std::io::Error| Error::Failed(format!("{CONTROLLER}: {e}"));
        let Some(name) = name else {
            if let Some(before) = &self.before.controller {
                fs::write(CONTROLLER, before).map_err(failed)?;
            }
            (self.before.controller, self.before.ours) = (None, None);
            if let Some(controller) = self.controller.take() {
                controller.unkeep()?;
            }
            return self.save();
        };
        let settings: Vec<(&str, u64)> = settings.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let controller = controller::acquire(name, &settings)?;
        // It outlives the daemon, as the endpoints do.
        let ours_alone = controller.keep()?;
        let before = (self.before.controller.clone(), self.before.ours.clone());
        if let Err(e) = self.make_default(controller.kernel_name()) {
            (self.before.controller, self.before.ours) = before;
            // What went wrong first is the better message.
            let _ = self.save();
            if ours_alone {
                let _ = controller.unkeep();
            }
            return Err(e);
        }
        if let Some(old) = self.controller.replace(controller) {
            if self.controller.as_ref().map(|c| c.kernel_name()) != Some(old.kernel_name()) {
                old.unkeep()?;
            }
        }
        Ok(())
    }

    /// First the way back, then the change.
    fn make_default(&mut self, kernel_name: &str) -> Result<(), Error> {
        let failed = |e: std::io::Error| Error::Failed(format!("{CONTROLLER}: {e}"));
        let now = fs::read_to_string(CONTROLLER).map_err(failed)?;
        if self.before.controller.is_none() && now.trim() != kernel_name {
            self.before.controller = Some(now.trim().to_owned());
        }
        self.before.ours = Some(kernel_name.to_owned());
        self.save()?;
        let namespace = File::open("/proc/thread-self/ns/net").map_err(failed)?;
        Ok(mp_kernel::choose::for_namespace(
            namespace.as_fd(),
            kernel_name,
        )?)
    }

    /// The name by which the kernel knows the controller that was chosen.
    pub fn controller(&self) -> Option<&str> {
        self.controller.as_ref().map(|c| c.kernel_name())
    }

    /// Goes the way back to how it was before the first daemon. Returns the endpoints that had to stay, because some
    /// connection has no other subflow that works; the next daemon knows them for its own.
    pub fn restore(mut self, subflows: &[Subflow]) -> Result<Vec<IpAddr>, Error> {
        self.choose(None, &[])?;
        self.pay()?;
        let stay = lifelines(&self.before.added, subflows);
        for endpoint in self.list()? {
            let address = endpoint.address;
            let mut as_before = endpoint.clone();
            if self.before.added.contains(&address) {
                if !stay.contains(&address) {
                    self.manager.delete_endpoint(&endpoint)?;
                    continue;
                }
                as_before.flags.backup = false;
            } else if let Some((_, backup)) = self.before.adopted.iter().find(|a| a.0 == address) {
                as_before.flags.backup = *backup;
            }
            if as_before != endpoint {
                self.manager.set_endpoint_flags(&as_before)?;
            }
        }
        self.set_limits(self.before.subflows, self.before.add_addr_accepted)?;
        self.give_back(|_| true)?;
        if stay.is_empty() {
            let _ = fs::remove_file(&self.file);
            let _ = fs::remove_file(self.file.with_extension("lock"));
        } else {
            self.before.added.clone_from(&stay);
            self.save()?;
        }
        drop(self.lock);
        Ok(stay)
    }

    /// The daemon cannot start: the first one leaves nothing, a later one leaves what its forerunner did.
    pub fn withdraw(self) {
        if self.first {
            // What went wrong before is the better message.
            let _ = self.restore(&[]);
        }
    }

    /// As a whole or not at all.
    fn save(&self) -> Result<(), Error> {
        let text = serde_json::to_string(&self.before).expect("plain data");
        mp_files::replace(&self.file, text.as_bytes())
            .map_err(|e| Error::Failed(format!("{}: {e}", self.file.display())))
    }
}

/// Whether a connection has no subflow but at this address and at those that are gone.
fn indispensable(address: IpAddr, gone: &[IpAddr], subflows: &[Subflow]) -> bool {
    let elsewhere = |token: u32| {
        subflows.iter().any(|s| {
            let local = s.local.ip();
            s.token == token && local != address && !gone.contains(&local)
        })
    };
    let mut here = subflows.iter().filter(|s| s.local.ip() == address);
    here.any(|s| !elsewhere(s.token))
}

/// Addresses of `ours` that have to stay so that every connection keeps a subflow that works. That one is established says
/// little: its link may have come back without a route, and the kernel asks nothing of a subflow that is not its turn. So
/// it counts when something last arrived.
fn lifelines(ours: &[IpAddr], subflows: &[Subflow]) -> Vec<IpAddr> {
    /// What arrived as lately as that is as good as the latest, ms: about a bad round trip.
    const LATELY: u32 = 1_000;
    let silence = |s: &Subflow| s.tcp.last_data_recv.min(s.tcp.last_ack_recv);
    let mut connections: BTreeMap<u32, Vec<&Subflow>> = BTreeMap::new();
    for subflow in subflows {
        connections.entry(subflow.token).or_default().push(subflow);
    }
    let mut stay: Vec<IpAddr> = Vec::new();
    for mut of in connections.into_values() {
        let least = of.iter().map(|s| silence(s)).min().unwrap_or(0);
        of.retain(|s| silence(s) <= least.saturating_add(LATELY));
        let without_us = |s: &&Subflow| {
            let local = s.local.ip();
            !ours.contains(&local) || stay.contains(&local)
        };
        if !of.iter().any(without_us) {
            let best = of.iter().min_by_key(|s| (s.backup, silence(s)));
            stay.extend(best.map(|s| s.local.ip()));
        }
    }
    stay
}

#[cfg(test)]
mod tests;
