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
use serde::{Deserialize, Serialize};

use super::MARK;
use crate::lock;

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
    state: State,
}

#[derive(Debug)]
enum State {
    Absent,
    Marked {
        inode: u64,
        _until_dropped: Marked,
    },
    /// Its programs go to the relay.
    Refused(String),
}

/// A cgroup whose sockets cannot be marked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub cgroup: String,
    pub why: String,
}

impl Refused {
    /// What, where, how to fix it, in one line; [`None`] if there are none.
    pub fn warning(all: &[Refused]) -> Option<String> {
        let first = all.first()?;
        let names: Vec<&str> = all.iter().map(|refused| refused.cgroup.as_str()).collect();
        Some(format!(
            "programs in {} go to the relay and not directly: {}; marking needs root with CAP_BPF and a kernel with cgroup v2 and CONFIG_CGROUP_BPF; a user's programs (direct-user) stay direct without it",
            names.join(", "),
            first.why
        ))
    }
}

impl Cgroups {
    pub fn watch(cgroups: &[Cgroup]) -> Cgroups {
        let watched = cgroups.iter().map(|cgroup| Watched {
            cgroup: cgroup.clone(),
            state: State::Absent,
        });
        let all = Cgroups(Arc::new(Mutex::new(watched.collect())));
        all.update();
        all
    }

    /// Marks what has appeared since, and tries again what was refused.
    pub fn update(&self) {
        let mut all = lock(&self.0);
        if all.is_empty() {
            return;
        }
        let root = cgroup::root().map_err(|e| e.to_string());
        for watched in all.iter_mut() {
            let updated = match &root {
                Ok(root) => watched.update(&root.join(&watched.cgroup.0)),
                Err(why) => Err(why.clone()),
            };
            if let Err(why) = updated {
                watched.state = State::Refused(why);
            }
        }
    }

    /// Those that do not exist now.
    pub fn absent(&self) -> Vec<String> {
        let all = lock(&self.0);
        let absent = all.iter().filter(|w| matches!(w.state, State::Absent));
        absent.map(|watched| watched.cgroup.to_string()).collect()
    }

    /// Those whose sockets the kernel does not let us mark.
    pub fn refused(&self) -> Vec<Refused> {
        let all = lock(&self.0);
        let refused = all.iter().filter_map(|watched| match &watched.state {
            State::Refused(why) => Some(Refused {
                cgroup: watched.cgroup.to_string(),
                why: why.clone(),
            }),
            _ => None,
        });
        refused.collect()
    }
}

impl Watched {
    /// An error says why its sockets cannot be marked.
    fn update(&mut self, place: &Path) -> Result<(), String> {
        let inode = match fs::metadata(place) {
            Ok(found) => found.ino(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.state = State::Absent;
                return Ok(());
            }
            Err(e) => return Err(format!("{}: {e}", place.display())),
        };
        if matches!(self.state, State::Marked { inode: of, .. } if of == inode) {
            return Ok(());
        }
        self.state = match Marked::attach(place, MARK) {
            Ok(marked) => State::Marked {
                inode,
                _until_dropped: marked,
            },
            // It has gone again.
            Err(_) if !place.exists() => State::Absent,
            Err(e) => return Err(e.to_string()),
        };
        Ok(())
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
    fn a_warning_is_one_line_with_every_cgroup() {
        assert_eq!(Refused::warning(&[]), None);
        let refused = |cgroup: &str| Refused {
            cgroup: cgroup.into(),
            why: "not permitted".into(),
        };
        let line = Refused::warning(&[refused("/a"), refused("/b")]).unwrap();
        assert!(
            line.starts_with("programs in /a, /b go to the relay"),
            "{line}"
        );
        assert!(
            line.contains("not permitted") && !line.contains('\n'),
            "{line}"
        );
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
