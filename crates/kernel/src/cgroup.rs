//! A cgroup (v2) of our own for one process tree, so that BPF programs can be attached to it and nothing else.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Context, Error};
use crate::{check, mounts};

const PREFIX: &str = "multipilot-";

/// Removed on drop, unless processes still live in it: then the next one to be made removes it.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Below the calling process's own, whose limits so go on to hold.
    pub fn new() -> Result<Group, Error> {
        check::check()?;
        let parent = own()?;
        collect(&parent);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        Group::at(path)
    }

    /// At this path, where there may be one: that of a service that starts again.
    pub fn at(path: PathBuf) -> Result<Group, Error> {
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).context(format!("cannot make the cgroup {}", path.display()))
            }
            _ => Ok(Group { path }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has `command` begin its life in the group; what it starts follows it there.
    pub fn adopt(&self, command: &mut Command) -> Result<(), Error> {
        let path = self.path.join("cgroup.procs");
        let door = File::options()
            .write(true)
            .open(&path)
            .context(path.display())?;
        let enter = move || {
            // SAFETY: one system call on an open descriptor, which is safe between fork and exec.
            match unsafe { libc::write(door.as_raw_fd(), c"0".as_ptr().cast(), 1) } {
                1 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: `enter` allocates nothing and takes no lock.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// That of every process.
pub fn root() -> Result<PathBuf, Error> {
    mounts::cgroup2()
}

/// Where the calling process is.
fn own() -> Result<PathBuf, Error> {
    let root = mounts::cgroup2()?;
    let text = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
    let inside = text.lines().find_map(|line| line.strip_prefix("0::/"));
    // Not to be seen from a container that has another part of the hierarchy mounted.
    let place = root.join(inside.unwrap_or_default());
    Ok(Some(place)
        .filter(|place| place.join("cgroup.procs").exists())
        .unwrap_or(root))
}

/// Removes what killed processes left; one that is not empty refuses.
fn collect(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        let maker = maker.and_then(|id| id.parse().ok());
        if maker.is_some_and(|id: u32| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_one_process_are_apart_and_those_of_dead_ones_go() {
        if let Err(lack) = check::check() {
            mp_testing::skip(lack);
            return;
        }
        let (one, other) = (Group::new().unwrap(), Group::new().unwrap());
        // No process has this number.
        let dead = one.path().with_file_name(format!("{PREFIX}{}-0", u32::MAX));
        fs::create_dir(&dead).unwrap();
        drop(one);
        assert!(other.path().exists());
        collect(dead.parent().unwrap());
        assert!(!dead.exists() && other.path().exists());
    }
}
