//! MPTCP for programs of user sessions, where the kernel takes no program that gives it to all: by environment.d(5) the
//! user managers that start from now on, and what they start, preload [`mp_kernel::preload`]'s shim.

use std::fs::{self, File};
use std::io::{Error as IoError, ErrorKind};
use std::path::Path;

use mp_kernel::preload;
use nix::fcntl::{Flock, FlockArg};

use crate::Error;

const ENVIRONMENT: &str = "/run/environment.d/90-multipilot.conf";
/// The shim works while it exists; locked by the daemon that is at work.
const SIGN: &str = "/run/multipilot/sessions";

/// Until it is dropped. Sessions that run keep the shim, which then leaves sockets as they are.
pub struct Sessions(#[allow(dead_code)] Flock<File>);

impl Sessions {
    pub fn begin() -> Result<Sessions, Error> {
        let shim = preload::install()?;
        let sign = claim().map_err(|e| failed(SIGN, &e))?;
        let Some(sign) = sign else {
            return Err(Error::Busy(
                "the daemon of another network namespace has this host's user sessions".into(),
            ));
        };
        let sessions = Sessions(sign);
        let text = format!(
            "# Of multipilot's daemon, which removes it when it ends.\n\
             LD_PRELOAD={}${{LD_PRELOAD:+:$LD_PRELOAD}}\n{}={SIGN}\n",
            shim.display(),
            preload::WHILE
        );
        let folder = Path::new(ENVIRONMENT).parent().expect("it has one");
        fs::create_dir_all(folder)
            .and_then(|()| mp_files::replace(Path::new(ENVIRONMENT), text.as_bytes()))
            .map_err(|e| failed(ENVIRONMENT, &e))?;
        Ok(sessions)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        remove();
    }
}

/// Removes what a daemon that was killed has left.
pub fn clear() {
    if Path::new(SIGN).exists() && claim().is_ok_and(|sign| sign.is_some()) {
        remove();
    }
}

/// `None` where a daemon that is at work has it.
fn claim() -> Result<Option<Flock<File>>, IoError> {
    let sign = File::options().append(true).create(true).open(SIGN)?;
    match Flock::lock(sign, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, e)) => Err(e.into()),
    }
}

/// Sessions that begin have the variables as long as the file names a shim that works.
fn remove() {
    for file in [ENVIRONMENT, SIGN] {
        match fs::remove_file(file) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                crate::log::line(
                    crate::log::Level::Warning,
                    "cannot be removed",
                    &[("file", &file), ("why", &e)],
                );
            }
            _ => {}
        }
    }
}

fn failed(file: &str, e: &IoError) -> Error {
    Error::Failed(format!("{file}: {e}"))
}
