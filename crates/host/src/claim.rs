//! Who manages the paths of this network namespace: another daemon, another path manager; and what killed ones have left.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::endpoints::controller;
use crate::Error;

/// Cookie of the namespace that the kernel starts with.
const FIRST: u64 = 1;

/// Held for as long as the daemon is at work.
pub(crate) fn lock(path: &Path) -> Result<Flock<File>, Error> {
    let failed = |e: &std::io::Error| refused(path, e);
    let open = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    match Flock::lock(
        open.map_err(|e| failed(&e))?,
        FlockArg::LockExclusiveNonblock,
    ) {
        Ok(lock) => {
            // For the message below.
            fs::write(path, std::process::id().to_string()).map_err(|e| failed(&e))?;
            Ok(lock)
        }
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
            let pid = fs::read_to_string(path).unwrap_or_default();
            Err(Error::Busy(format!(
                "another multipilot daemon (process {pid}) is at work in this network namespace: multipilot down, with its --socket, ends it"
            )))
        }
        Err((_, e)) => Err(failed(&e.into())),
    }
}

/// Why a file below [`FOLDER`](crate::endpoints::FOLDER), or a log, cannot be opened.
pub fn refused(path: &Path, error: &std::io::Error) -> Error {
    let line = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Error::Missing(format!("{line}: the daemon needs root (run it with sudo)"))
        }
        _ => Error::Failed(line),
    }
}

/// Refuses to work where somebody else manages the paths.
pub fn check_alone(userspace: bool) -> Result<(), Error> {
    let kind = fs::read_to_string("/proc/sys/net/mptcp/pm_type").unwrap_or_default();
    if kind.trim() == "1" && !userspace {
        return Err(Error::Busy(
            "net.mptcp.pm_type is 1 (userspace): some program manages each connection itself, or did; end it, and sysctl -w net.mptcp.pm_type=0 (or have the daemon do it: path-manager = \"userspace\")".into(),
        ));
    }
    let own = fs::read_link("/proc/thread-self/ns/net").ok();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry.path();
        let comm = fs::read_to_string(process.join("comm")).unwrap_or_default();
        if comm.trim() == "mptcpd" && fs::read_link(process.join("ns/net")).ok() == own {
            let pid = entry.file_name();
            return Err(Error::Busy(format!(
                "mptcpd (process {}) manages the paths of this network namespace: systemctl disable --now mptcp, or leave multipilot's daemon off",
                pid.to_string_lossy()
            )));
        }
    }
    Ok(())
}

/// Files of daemons, each with the cookie of its network namespace.
pub(crate) fn left(folder: &Path) -> Vec<(u64, PathBuf)> {
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
pub(crate) fn clear_up(folder: &Path) {
    let left = left(folder);
    if left.is_empty() {
        return;
    }
    let Some(mut live) = namespaces() else { return };
    live.insert(FIRST);
    for (cookie, path) in left.into_iter().filter(|(c, _)| !live.contains(c)) {
        // One that has come since then is locked.
        let lock = folder.join(format!("daemon-{cookie:x}.lock"));
        let free = match File::open(&lock) {
            Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok(),
            Err(e) => e.kind() == ErrorKind::NotFound,
        };
        if free {
            let kept = controller::kept(&path);
            let _ = fs::remove_file(path);
            // Nobody is left to complain to.
            let _ = kept.map(|name| controller::let_go(&name));
        }
    }
}

/// Cookies of all network namespaces that have a process or a name; `None` where some cannot be seen.
fn namespaces() -> Option<HashSet<u64>> {
    let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes()[0].is_ascii_digit();
    let of_processes = entries("/proc")
        .filter(|e| is_process(&e.file_name()))
        .map(|e| e.path().join("ns/net"));
    let named = entries("/run/netns").map(|e| e.path());
    let (mut seen, mut cookies) = (HashSet::new(), HashSet::new());
    for place in of_processes.chain(named) {
        let namespace = match File::open(&place) {
            Ok(file) => file,
            // Not even root may look at some hosts' first process, but where it is is known: in the first namespace.
            Err(_) if place.starts_with("/proc/1") => continue,
            Err(e) if e.kind() == ErrorKind::PermissionDenied => return None,
            // It has ended in between.
            Err(_) => continue,
        };
        if seen.insert(namespace.metadata().ok()?.ino()) {
            match mp_kernel::choose::namespace_cookie(namespace.as_fd()) {
                Ok(cookie) => drop(cookies.insert(cookie)),
                // A name without a namespace mounted on it.
                Err(_) if place.starts_with("/run/netns") => {}
                Err(_) => return None,
            }
        }
    }
    Some(cookies)
}
