//! Path management of this host's own interfaces, for as long as somebody wants it.
//!
//! The first to ask sets the in-kernel path manager's endpoints and limits and writes down how to undo it; the last to
//! leave undoes it, and where that one was killed, the next call of anybody does.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::check;
use crate::choose;
use crate::error::{Context, Error};
use crate::interfaces::{self, Interface};
use crate::pm::{Endpoint, Flags, Limits, PathManager};
use crate::state::{self, Holder, Lock};

/// The kernel's own bounds (`MPTCP_SUBFLOWS_MAX`, `MPTCP_PM_ADDR_MAX`).
const MOST: u32 = 8;

/// What a connection does with this host's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    /// A subflow from one address of each family and interface to every address of the peer.
    Fullmesh,
    /// As fullmesh, but only the address of the default route is used while it works.
    Backup,
    /// One subflow, as TCP has it.
    Single,
}

/// Keeps the choice in force.
pub struct Chosen {
    holder: Option<Holder>,
}

/// Chooses for new connections of this network namespace. Others that hold another choice are in the way: an error.
pub fn choose(paths: Paths) -> Result<Chosen, Error> {
    check::check()?;
    if is_managed()? {
        return Err(Error::Failed(
            "a multipilot daemon manages the paths of this host: leave --path-manager out, or end it with multipilot down".into(),
        ));
    }
    let folder = folder()?;
    let lock = state::lock()?;
    let alone = state::holders(&folder, &lock) == 0;
    if alone {
        undo(&folder)?;
    }
    let holder = Holder::new(&folder, &lock)?;
    let about = folder.join("choice");
    if alone {
        fs::write(&about, format!("{paths:?}")).context(about.display())?;
        if let Err(error) = establish(paths, &folder) {
            holder.leave(&lock);
            undo(&folder)?;
            return Err(error);
        }
    } else if fs::read_to_string(&about).context(about.display())? != format!("{paths:?}") {
        holder.leave(&lock);
        return Err(Error::Failed(
            "another multipilot runs on this host with another path manager: wait for its end"
                .into(),
        ));
    }
    Ok(Chosen {
        holder: Some(holder),
    })
}

/// For whoever is to manage the paths of this network namespace for long: undoes what a killed one has left.
///
/// # Errors
/// [`Error::Failed`] while one is at work.
pub fn settle() -> Result<(), Error> {
    let folder = folder()?;
    let lock = state::lock()?;
    if state::holders(&folder, &lock) > 0 {
        return Err(Error::Failed(
            "a multipilot run --path-manager manages the paths of this host: wait for its end"
                .into(),
        ));
    }
    undo(&folder)
}

/// What the files of the daemon of a network namespace are called, but for their endings. It holds a lock on `.lock`.
pub fn daemon_stem(cookie: u64) -> String {
    format!("daemon-{cookie:x}")
}

/// Whether a daemon does so in this network namespace.
fn is_managed() -> Result<bool, Error> {
    let stem = daemon_stem(choose::own_cookie()?);
    let lock = PathBuf::from(state::DIR).join(format!("{stem}.lock"));
    Ok(fs::File::open(lock).is_ok_and(|lock| state::try_flock_shared(&lock).is_err()))
}

impl Drop for Chosen {
    fn drop(&mut self) {
        let (Ok(folder), Ok(lock), Some(holder)) = (folder(), state::lock(), self.holder.take())
        else {
            return;
        };
        leave(holder, &folder, &lock);
    }
}

fn leave(holder: Holder, folder: &Path, lock: &Lock) {
    holder.leave(lock);
    if state::holders(folder, lock) == 0 {
        let _ = undo(folder);
    }
}

fn establish(paths: Paths, folder: &Path) -> Result<(), Error> {
    let manager = PathManager::new().context("choosing paths")?;
    let (limits, there) = (
        manager.limits().context("choosing paths")?,
        manager.endpoints().context("choosing paths")?,
    );
    let addresses = addresses()?;
    // The kernel takes no more; those that lead out are first.
    let room = (MOST as usize).saturating_sub(there.len());
    let fresh: Vec<_> = addresses
        .iter()
        .filter(|(address, _)| there.iter().all(|e| e.address != *address))
        .take(room)
        .collect();
    // First the way back, then the changes.
    let mut way_back = format!("{} {}", limits.subflows, limits.add_addr_accepted);
    for (address, interface) in &fresh {
        way_back += &format!("\n{address} {interface}");
    }
    fs::write(folder.join("undo"), way_back).context(folder.display())?;
    let most = if paths == Paths::Single { 0 } else { MOST };
    manager
        .set_limits(Limits {
            subflows: most,
            add_addr_accepted: most,
        })
        .context("choosing paths")?;
    if paths == Paths::Single {
        return Ok(());
    }
    let default = default_interface();
    for (address, interface) in fresh {
        let backup = paths == Paths::Backup && Some(*interface) != default;
        let flags = Flags {
            subflow: true,
            fullmesh: true,
            backup,
            ..Flags::NONE
        };
        let endpoint = Endpoint {
            interface: Some(*interface),
            ..Endpoint::new(*address, flags)
        };
        manager
            .add_endpoint(&endpoint)
            .context(format!("path of {address}"))?;
    }
    Ok(())
}

/// Goes the way back that [`establish`] wrote down.
fn undo(folder: &Path) -> Result<(), Error> {
    let Ok(way_back) = fs::read_to_string(folder.join("undo")) else {
        return Ok(());
    };
    let manager = PathManager::new().context("undoing the choice of paths")?;
    let mut lines = way_back.lines();
    let limits: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split(' ')
        .flat_map(str::parse)
        .collect();
    if let [subflows, add_addr_accepted] = limits[..] {
        manager
            .set_limits(Limits {
                subflows,
                add_addr_accepted,
            })
            .context("undoing the choice of paths")?;
    }
    let ours: Vec<IpAddr> = lines
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect();
    for endpoint in manager.endpoints().context("undoing the choice of paths")? {
        if ours.contains(&endpoint.address) {
            manager
                .delete_endpoint(&endpoint)
                .context(format!("path of {}", endpoint.address))?;
        }
    }
    fs::remove_dir_all(folder).context(folder.display())
}

/// One per network namespace.
fn folder() -> Result<PathBuf, Error> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").context("/proc/thread-self/ns/net")?;
    Ok(PathBuf::from(state::DIR).join(format!("paths-{}", namespace.ino())))
}

/// Of each interface that is up a global address of each family, with the interface's index; first those of interfaces that
/// lead to the Internet.
fn addresses() -> Result<Vec<(IpAddr, i32)>, Error> {
    let mut interfaces = interfaces::all()?;
    interfaces.sort_by_key(|interface| !interface.leads_out());
    let of = |interface: &Interface| {
        let index = interface.index as i32;
        let each = [
            interface.v4().map(IpAddr::V4),
            interface.v6().map(IpAddr::V6),
        ];
        each.into_iter()
            .flatten()
            .map(move |address| (address, index))
    };
    Ok(interfaces.iter().flat_map(of).collect())
}

/// Index of the interface that the IPv4 default route of the least metric leaves through.
fn default_interface() -> Option<i32> {
    let routes = fs::read_to_string("/proc/thread-self/net/route").ok()?;
    let defaults = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_default = *fields.get(1)? == "00000000" && *fields.get(7)? == "00000000";
        is_default.then_some((
            fields.get(6)?.parse::<u32>().ok()?,
            (*fields.first()?).to_owned(),
        ))
    });
    let (_, name) = defaults.min()?;
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: a terminated string.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) } as i32).filter(|index| *index != 0)
}
