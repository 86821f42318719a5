//! Programs whose connections stay direct: those of users, by routing rules, and those in cgroups, whose sockets get the mark of
//! path connections.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use mp_kernel::cgroup;
use mp_kernel::mark::Marked;
use nix::unistd;

use super::MARK;
use crate::lock;
use crate::Error;

/// By number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User(pub u32);

impl FromStr for User {
    type Err = String;

    fn from_str(text: &str) -> Result<User, String> {
        if let Ok(number) = text.parse() {
            return Ok(User(number));
        }
        match unistd::User::from_name(text) {
            Ok(Some(user)) => Ok(User(user.uid.as_raw())),
            Ok(None) => Err(format!("there is no user {text}: give a name or a number")),
            Err(e) => Err(format!("user {text}: {e}")),
        }
    }
}

/// A cgroup (v2) as /proc/PID/cgroup has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup(PathBuf);

impl FromStr for Cgroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Cgroup, String> {
        let path = Path::new(text);
        let parts = || path.strip_prefix("/").ok()?.to_str();
        let is_plain = |parts: &str| {
            !parts.is_empty()
                && parts
                    .split('/')
                    .all(|part| !["", ".", ".."].contains(&part))
        };
        match parts() {
            Some(parts) if is_plain(parts) => Ok(Cgroup(parts.into())),
            _ => Err(format!(
                "{text}: expected a cgroup below the root, such as /system.slice/backup.service"
            )),
        }
    }
}

impl std::fmt::Display for Cgroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}", self.0.display())
    }
}

/// The cgroups whose sockets get the mark, and how far that is. A service that starts again has a new cgroup of the same name.
#[derive(Debug, Clone, Default)]
pub struct Cgroups(Arc<Mutex<Vec<Watched>>>);

#[derive(Debug)]
struct Watched {
    cgroup: Cgroup,
    place: PathBuf,
    /// With the inode.
    marked: Option<(u64, Marked)>,
}

impl Cgroups {
    /// An error: the kernel marks no sockets for us.
    pub fn watch(cgroups: &[Cgroup]) -> Result<Cgroups, Error> {
        if cgroups.is_empty() {
            return Ok(Cgroups::default());
        }
        let root = cgroup::root()?;
        let watched = cgroups.iter().map(|cgroup| Watched {
            place: root.join(&cgroup.0),
            cgroup: cgroup.clone(),
            marked: None,
        });
        let all = Cgroups(Arc::new(Mutex::new(watched.collect())));
        all.update()?;
        Ok(all)
    }

    /// Marks what has appeared since.
    pub fn update(&self) -> Result<(), Error> {
        for watched in lock(&self.0).iter_mut() {
            let inode = match fs::metadata(&watched.place) {
                Ok(found) => found.ino(),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    watched.marked = None;
                    continue;
                }
                Err(e) => return Err(Error::failed(watched.place.display(), e)),
            };
            if watched.marked.as_ref().is_none_or(|(of, _)| *of != inode) {
                watched.marked = None;
                match Marked::attach(&watched.place, MARK) {
                    Ok(marked) => watched.marked = Some((inode, marked)),
                    // It has gone again.
                    Err(_) if !watched.place.exists() => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }

    /// Those that do not exist now.
    pub fn absent(&self) -> Vec<String> {
        let all = lock(&self.0);
        let absent = all.iter().filter(|watched| watched.marked.is_none());
        absent.map(|watched| watched.cgroup.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        assert_eq!("1001".parse(), Ok(User(1001)));
        assert_eq!("root".parse(), Ok(User(0)));
        let why = "no such user!".parse::<User>().unwrap_err();
        assert!(why.starts_with("there is no user no such user!"), "{why}");
    }

    #[test]
    fn cgroups_are_below_the_root() {
        let shown = |text: &str| text.parse::<Cgroup>().map(|cgroup| cgroup.to_string());
        assert_eq!(
            shown("/system.slice/x.service"),
            Ok("/system.slice/x.service".into())
        );
        for wrong in ["", "/", "x.service", "/a/../b", "/a//b", "/a/./b"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
