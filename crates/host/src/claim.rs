//! Who manages the paths of this network namespace: another daemon, or another path manager.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use crate::Error;

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

/// Which path manager new connections get: 0 the kernel's, 1 a program's.
const KIND: &str = "/proc/sys/net/mptcp/pm_type";

/// New connections of this namespace are a program's to manage, or the kernel's. The others stay with theirs.
pub fn manage_new(ourselves: bool) -> Result<(), Error> {
    let kind = if ourselves { "1" } else { "0" };
    // Where /proc/sys is read-only, what needs no change is no error.
    if fs::read_to_string(KIND).is_ok_and(|now| now.trim() == kind) {
        return Ok(());
    }
    fs::write(KIND, kind).map_err(|e| Error::Failed(format!("{KIND}: {e}")))
}

/// Refuses to work where somebody else manages the paths.
pub fn check_alone(userspace: bool) -> Result<(), Error> {
    let kind = fs::read_to_string(KIND).unwrap_or_default();
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
