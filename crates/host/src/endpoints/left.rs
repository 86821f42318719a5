//! What daemons have left that were killed, in this network namespace or in others.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mp_kernel::controller;
use mp_kernel::host::daemon_stem;
use nix::fcntl::{Flock, FlockArg};

use super::{Before, FOLDER};
use crate::Error;

/// Cookie of the namespace that the kernel starts with.
const FIRST: u64 = 1;

/// Files of daemons, each with the cookie of its network namespace.
fn left(folder: &Path) -> Vec<(u64, PathBuf)> {
    let ours = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_prefix("daemon-")?;
        u64::from_str_radix(name.split_once('.')?.0, 16).ok()
    };
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|f| Some((ours(&f.path())?, f.path())))
        .collect()
}

/// Removes what daemons have left of network namespaces that are gone. The files of one that lives stay: the next daemon
/// there goes on from them.
pub(super) fn clear_up(folder: &Path) {
    let left = left(folder);
    if left.is_empty() {
        return;
    }
    let Some(mut live) = namespaces() else { return };
    live.insert(FIRST);
    for (cookie, path) in left.into_iter().filter(|(c, _)| !live.contains(c)) {
        // One that has come since then is locked.
        let lock = folder.join(format!("{}.lock", daemon_stem(cookie)));
        let free = match File::open(&lock) {
            Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok(),
            Err(e) => e.kind() == ErrorKind::NotFound,
        };
        if free {
            let kept = kept(&path);
            let _ = fs::remove_file(path);
            // Nobody is left to complain to.
            let _ = kept.map(|name| let_go(&name));
        }
    }
}

/// Ends what daemons have the kernel keep a controller for, unless one of another network namespace goes on with it.
pub(super) fn let_go(kernel_name: &str) -> Result<(), Error> {
    let mut notes = left(Path::new(FOLDER)).into_iter();
    if !notes.any(|(_, note)| kept(&note).as_deref() == Some(kernel_name)) {
        controller::unkeep(kernel_name)?;
    }
    Ok(())
}

/// What a daemon had the kernel keep, by its notes.
fn kept(note: &Path) -> Option<String> {
    let before: Before = serde_json::from_str(&fs::read_to_string(note).ok()?).ok()?;
    before.ours
}

/// Cookies of all network namespaces that have a process or a name; `None` where some cannot be seen.
fn namespaces() -> Option<HashSet<u64>> {
    let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes()[0].is_ascii_digit();
    let of_processes = entries("/proc")
        .filter(|e| is_process(&e.file_name()))
        .map(|e| e.path().join("ns/net"));
    let named = entries("/run/netns").map(|e| e.path());
    // Open, so that none of a later namespace gets their numbers.
    let mut seen: HashMap<u64, File> = HashMap::new();
    let mut cookies = HashSet::new();
    for place in of_processes.chain(named) {
        let namespace = match File::open(&place) {
            Ok(file) => file,
            // Not even root may look at some hosts' first process, but where it is is known: in the first namespace.
            Err(_) if place.starts_with("/proc/1") => continue,
            // It has ended, and its parent may not have heard of that yet.
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(_) if fs::symlink_metadata(&place).is_err() => continue,
            Err(_) => return None,
        };
        let Entry::Vacant(new) = seen.entry(namespace.metadata().ok()?.ino()) else {
            continue;
        };
        match mp_kernel::choose::namespace_cookie(new.insert(namespace).as_fd()) {
            Ok(cookie) => drop(cookies.insert(cookie)),
            // A name without a namespace mounted on it.
            Err(_) if place.starts_with("/run/netns") => {}
            Err(_) => return None,
        }
    }
    Some(cookies)
}
