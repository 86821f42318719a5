//! Which process holds which controller, in a way that survives kill -9.
//!
//! `/run/multipilot/controllers/NAME/` has a file for each holder, which the holder keeps locked with flock(2). The
//! kernel drops the lock with the process, whatever way it ends; a file without a lock is a dead holder's, and the next
//! call of anybody removes it. One lock over all of it makes every change atomic between processes.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::check::{Missing, ROOT};
use crate::error::{Context, Error};

/// Emptied by a reboot, as the kernel's own state is.
pub(crate) const DIR: &str = "/run/multipilot";

/// Nobody else changes the state while this lives.
pub(crate) struct Lock(#[allow(dead_code)] File);

pub(crate) fn lock() -> Result<Lock, Error> {
    lock_file("lock")
}

/// For mounting, so that two do not mount one over the other; may be taken inside of [`lock`].
pub(crate) fn lock_mounts() -> Result<Lock, Error> {
    lock_file("mounts.lock")
}

fn lock_file(name: &str) -> Result<Lock, Error> {
    made(fs::create_dir_all(DIR), DIR)?;
    let path = format!("{DIR}/{name}");
    let file = made(File::create(&path), &path)?;
    flock(&file, libc::LOCK_EX).context(&path)?;
    Ok(Lock(file))
}

/// A user who may not write there lacks more than the folder.
fn made<T>(result: io::Result<T>, what: &str) -> Result<T, Error> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(Missing(vec![ROOT]).into()),
        result => result.context(what),
    }
}

pub(crate) fn controllers() -> PathBuf {
    Path::new(DIR).join("controllers")
}

/// This process's claim on a controller.
#[derive(Debug)]
pub(crate) struct Holder {
    path: PathBuf,
    _locked: File,
}

impl Holder {
    pub fn new(folder: &Path, _lock: &Lock) -> Result<Holder, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(folder).context(folder.display())?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("holder-{}-{number}", std::process::id()));
        let file = File::create(&path).context(path.display())?;
        flock(&file, libc::LOCK_EX).context(path.display())?;
        Ok(Holder {
            path,
            _locked: file,
        })
    }

    pub fn leave(self, _lock: &Lock) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Live holders of a controller; removes what dead ones left.
pub(crate) fn holders(folder: &Path, _lock: &Lock) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("holder-"))
        .filter(|entry| {
            let Ok(file) = File::open(entry.path()) else {
                return false;
            };
            let dead = flock(&file, libc::LOCK_EX | libc::LOCK_NB).is_ok();
            if dead {
                let _ = fs::remove_file(entry.path());
            }
            !dead
        })
        .count()
}

/// Takes the lock on a file for as long as it is open, unless somebody has it.
pub(crate) fn try_flock(file: &File) -> io::Result<()> {
    flock(file, libc::LOCK_EX | libc::LOCK_NB)
}

/// As [`try_flock`], beside others that do the same.
pub(crate) fn try_flock_shared(file: &File) -> io::Result<()> {
    flock(file, libc::LOCK_SH | libc::LOCK_NB)
}

/// Gives it back before the file is closed.
pub(crate) fn unflock(file: &File) {
    let _ = flock(file, libc::LOCK_UN);
}

fn flock(file: &File, operation: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    match unsafe { libc::flock(file.as_raw_fd(), operation) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
