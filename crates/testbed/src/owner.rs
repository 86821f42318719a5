//! Who owns which namespaces, in a way that survives kill −9.
//!
//! Each run has a file `/run/multipilot/testbed/ID` that it keeps locked with flock(2), and namespaces called
//! `multipilot-ID-…`. The kernel drops the lock with the process, however it ends: namespaces whose file is not locked are
//! remains, and the next run removes them.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::mount::{umount2, MntFlags};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::Error;

const CLAIMS: &str = "/run/multipilot/testbed";
/// Where ip-netns(8) has them too.
const NAMESPACES: &str = "/var/run/netns";
const PREFIX: &str = "multipilot-";

/// A run's claim on its names; dropped after everything that bears them.
pub struct Owner {
    id: String,
    path: PathBuf,
    _locked: Flock<File>,
}

impl Owner {
    /// Removes the remains of dead runs first.
    pub fn new() -> Result<Owner, Error> {
        let failed = |e: io::Error| Error::System {
            what: format!("cannot claim a run in {CLAIMS}"),
            source: e,
        };
        fs::create_dir_all(CLAIMS).map_err(failed)?;
        let guard = guard().map_err(failed)?;
        collect(&guard).map_err(failed)?;
        let id = format!("{:08x}", RandomState::new().build_hasher().finish() as u32);
        let path = Path::new(CLAIMS).join(&id);
        let locked = lock(
            File::create_new(&path).map_err(failed)?,
            FlockArg::LockExclusiveNonblock,
        )
        .map_err(failed)?;
        // For people who wonder whose it is; the lock is what counts.
        fs::write(&path, std::process::id().to_string()).map_err(failed)?;
        Ok(Owner {
            id,
            path,
            _locked: locked,
        })
    }

    pub fn name(&self, what: &str) -> String {
        format!("{PREFIX}{}-{what}", self.id)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // What is left of it is collected by the next run.
        let _ = fs::remove_file(&self.path);
    }
}

/// While it lives, no other process claims or collects.
struct Guard(#[allow(dead_code)] Flock<File>);

fn guard() -> io::Result<Guard> {
    let file = File::create(Path::new(CLAIMS).with_extension("lock"))?;
    lock(file, FlockArg::LockExclusive).map(Guard)
}

fn lock(file: File, how: FlockArg) -> io::Result<Flock<File>> {
    Flock::lock(file, how).map_err(|(_, e)| e.into())
}

/// Names of the namespaces that belong to dead runs.
fn remains() -> io::Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(NAMESPACES) else {
        return Ok(Vec::new());
    };
    let mut dead = Vec::new();
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        let Some(id) = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
        else {
            continue;
        };
        if !lives(id)? {
            dead.push(name);
        }
    }
    Ok(dead)
}

fn lives(id: &str) -> io::Result<bool> {
    match File::open(Path::new(CLAIMS).join(id)) {
        Ok(file) => Ok(lock(file, FlockArg::LockExclusiveNonblock).is_err()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn collect(_guard: &Guard) -> io::Result<()> {
    for name in remains()? {
        let path = Path::new(NAMESPACES).join(name);
        kill_in(&path)?;
        // A file that is no mount point: its run was killed before it mounted the namespace.
        let _ = umount2(&path, MntFlags::MNT_DETACH);
        remove(&path)?;
    }
    for entry in fs::read_dir(CLAIMS)? {
        let entry = entry?;
        if let Some(id) = entry.file_name().to_str() {
            if !lives(id)? {
                remove(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// What programs of a killed run had started, and would hold its namespace.
fn kill_in(namespace: &Path) -> io::Result<()> {
    let inode = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    let dead = inode(namespace);
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let pid = process.file_name().to_str().and_then(|s| s.parse().ok());
        if let (Some(pid), true) = (pid, inode(&process.path().join("ns/net")) == dead) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    Ok(())
}

/// A run that ends removes its own files, and waits for nobody who collects.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
