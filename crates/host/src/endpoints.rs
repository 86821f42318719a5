//! The in-kernel path manager's endpoints and limits, and the way back to how they were.
//!
//! What was changed stands in a file beside a lock that says who is at work; the next daemon goes on from there, however
//! the last one ended, and `down` goes the way back.

mod apply;
mod change;
mod controller;
mod left;
mod removed;
mod untrusted;

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use mp_kernel::controller::Controller;
use mp_kernel::diag::Subflow;
use mp_kernel::host::{self, daemon_stem};
use mp_kernel::pm::{Endpoint, Limits, PathManager};
use mp_policy::path_manager::removal::{self, Standing};
use nix::fcntl::Flock;
use removed::Removed;
use serde::{Deserialize, Serialize};
use untrusted::Taken;

use crate::adapter::Wanted;
use crate::claim;
use crate::Error;

pub use apply::Applied;
pub use change::{ChangeKind, EndpointChange};

/// Of the files beside which daemons lock their network namespace.
pub const FOLDER: &str = "/run/multipilot";

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
    /// New connections were the daemon's to manage, not the kernel's.
    #[serde(default)]
    userspace: bool,
}

/// Those of one network namespace, which no other process changes meanwhile.
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
    /// Whether a daemon has changed this network namespace and not undone it.
    pub fn left() -> Result<bool, Error> {
        Ok(notes()?.exists())
    }

    /// For the network namespace of the calling thread. Goes on from what a daemon before this one has changed.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process holds it, [`Error::Missing`] without CAP_NET_ADMIN or a writable [`FOLDER`].
    pub fn open() -> Result<Endpoints, Error> {
        fs::create_dir_all(FOLDER).map_err(|e| claim::refused(Path::new(FOLDER), &e))?;
        let file = notes()?;
        left::clear_up(Path::new(FOLDER));
        let lock = claim::lock(&file.with_extension("lock"))?;
        // Else what it has set would be taken for what was there before.
        host::settle()?;
        let manager = PathManager::new()?;
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
        // What the kernel does not take now is tried again.
        let _ = endpoints.pay(|_| true);
        endpoints.save()?;
        Ok(endpoints)
    }

    /// What others are owed: theirs that rest, `more`, and what the kernel has not taken back yet.
    fn owe<'a>(&mut self, more: impl Iterator<Item = &'a Endpoint>) {
        let deleted = self.removed.again().cloned().chain(more.cloned());
        let mut owed: Vec<Endpoint> = deleted.collect();
        let before = std::mem::take(&mut self.before.owed);
        for endpoint in before {
            if at(&owed, endpoint.address).is_none() {
                owed.push(endpoint);
            }
        }
        owed.retain(|e| !self.before.added.contains(&e.address));
        self.before.owed = owed;
    }

    /// As far as the kernel takes them; the first that it does not is the error.
    fn pay(&mut self, which: impl Fn(&Endpoint) -> bool) -> Result<(), Error> {
        let owed = std::mem::take(&mut self.before.owed).into_iter();
        let (due, mut left): (Vec<_>, Vec<_>) = owed.partition(which);
        let mut paid = Ok(());
        for endpoint in due {
            let added = self.add_back(&endpoint);
            if added.is_err() {
                left.push(endpoint);
            }
            paid = paid.and(added.map(drop));
        }
        self.before.owed = left;
        paid
    }

    /// Whether it was still away: somebody may have set it anew.
    fn add_back(&self, endpoint: &Endpoint) -> Result<bool, Error> {
        if at(&self.list()?, endpoint.address).is_some() {
            return Ok(false);
        }
        // Its number may be another's by now.
        let renumbered = Endpoint {
            id: 0,
            ..endpoint.clone()
        };
        let added = self.manager.add_endpoint(endpoint);
        added
            .or_else(|_| self.manager.add_endpoint(&renumbered))
            .map_err(|e| apply::refused(endpoint.address, e))?;
        Ok(true)
    }

    /// As it was before we changed its backup flag.
    fn as_before(&self, endpoint: &Endpoint) -> Endpoint {
        let mut before = endpoint.clone();
        let mut adopted = self.before.adopted.iter();
        if let Some((_, backup)) = adopted.find(|(a, _)| *a == endpoint.address) {
            before.flags.backup = *backup;
        }
        before
    }

    /// Addresses of the endpoints of others that were in backup before we changed anything.
    pub fn backups(&self) -> Result<Vec<IpAddr>, Error> {
        let ours = |e: &Endpoint| self.before.added.contains(&e.address);
        let all = self.list()?;
        let backups = all
            .iter()
            .filter(|e| !ours(e) && self.as_before(e).flags.backup);
        Ok(backups.map(|e| e.address).collect())
    }

    /// Those that are there now.
    pub fn list(&self) -> Result<Vec<Endpoint>, Error> {
        let all = self.manager.endpoints()?;
        Ok(all.into_iter().filter(|e| !e.flags.implicit).collect())
    }

    /// From now on new connections are the daemon's to manage; noted first, for whoever undoes it.
    pub fn manage_new(&mut self) -> Result<(), Error> {
        self.before.userspace = true;
        self.save()?;
        claim::manage_new(true)
    }

    /// Of one connection: further subflows, and announced addresses of the peer that it takes up; 0 to 8
    /// (`MPTCP_PM_ATTR_SUBFLOWS`, `MPTCP_PM_ATTR_RCV_ADD_ADDRS`).
    pub fn set_limits(&self, subflows: u32, add_addr_accepted: u32) -> Result<(), Error> {
        let limits = Limits {
            subflows,
            add_addr_accepted,
        };
        Ok(self.manager.set_limits(limits)?)
    }

    /// From what was asked for last, or from what was put off then.
    pub fn differ(&self, wanted: &[Wanted]) -> bool {
        self.applied != wanted || self.removed.is_due()
    }

    /// Goes the way back to how it was before the first daemon. Returns the endpoints that had to stay, because some
    /// connection has no other subflow that works; the next daemon knows them for its own.
    ///
    /// # Errors
    /// Also if the kernel does not take an endpoint back. All else is done then, and the next call tries it again.
    pub fn restore(mut self, subflows: &[Subflow]) -> Result<Vec<IpAddr>, Error> {
        self.leave_controller()?;
        let stay = removal::lifelines(&self.before.added, &standing(subflows));
        for endpoint in self.list()? {
            let ours = self.before.added.contains(&endpoint.address);
            if ours && !stay.contains(&endpoint.address) {
                self.manager.delete_endpoint(&endpoint)?;
            }
        }
        // Once there is room.
        let paid = self.pay(|_| true);
        for endpoint in self.list()? {
            let mut as_before = self.as_before(&endpoint);
            if self.before.added.contains(&endpoint.address) {
                as_before.flags.backup = false;
            }
            if as_before != endpoint {
                self.manager.set_endpoint_flags(&as_before)?;
            }
        }
        self.set_limits(self.before.subflows, self.before.add_addr_accepted)?;
        let given = self.give_back(|_| true)?;
        if self.before.userspace {
            claim::manage_new(false)?;
        }
        let all_back = paid.and(given.refused.map_or(Ok(()), Err));
        if stay.is_empty() && all_back.is_ok() {
            let _ = fs::remove_file(&self.file);
            let _ = fs::remove_file(self.file.with_extension("lock"));
        } else {
            self.before.added.clone_from(&stay);
            self.save()?;
        }
        drop(self.lock);
        all_back.map(|()| stay)
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

fn at(endpoints: &[Endpoint], address: IpAddr) -> Option<&Endpoint> {
    endpoints.iter().find(|e| e.address == address)
}

/// What daemons of this network namespace have changed.
fn notes() -> Result<PathBuf, Error> {
    let stem = daemon_stem(mp_kernel::choose::own_cookie()?);
    Ok(Path::new(FOLDER).join(format!("{stem}.json")))
}

/// As the policy has them.
fn standing(subflows: &[Subflow]) -> Vec<Standing<IpAddr>> {
    let standing = |s: &Subflow| Standing {
        connection: s.token,
        local: s.local.ip(),
        backup: s.backup,
        silent_ms: s.tcp.last_data_recv.min(s.tcp.last_ack_recv),
        rto_us: s.tcp.rto,
        backoff: s.tcp.backoff.into(),
    };
    subflows.iter().map(standing).collect()
}

/// Whether a connection has no subflow but at this address and at those that are gone.
fn indispensable(address: IpAddr, gone: &[IpAddr], subflows: &[Subflow]) -> bool {
    removal::indispensable(address, gone, &standing(subflows))
}

#[cfg(test)]
mod tests;
