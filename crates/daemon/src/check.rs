//! What keeps a daemon from starting, found out without changing anything.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

use mp_host::claim;
use mp_kernel::{check as kernel, controller};

use crate::config::{Config, ControllerConfig};
use crate::{control, federation, relay, Error};

/// Whether this process may manage the paths of its network namespace.
pub fn privilege() -> Result<(), Error> {
    match kernel::net_admin() {
        true => Ok(()),
        false => Err(Error::Missing(
            "this user may not manage the paths of this host: the daemon needs CAP_NET_ADMIN (run it with sudo)".into(),
        )),
    }
}

/// Whether a daemon with this configuration could start here. It asks for no privilege: [`privilege`] does.
pub fn check(file: &Path) -> Result<(), Error> {
    let config = Config::load(file)?;
    let here = |e: Error| at(file, e);
    if let Some(group) = &config.group {
        control::group_id(group).map_err(here)?;
    }
    if let Some(settings) = &config.federation {
        federation::check(settings).map_err(here)?;
    }
    match relay::RelaySettings::of(&config, &config.relay) {
        // The line is a secret of root's.
        Err(Error::Denied(_)) => {}
        settings => drop(settings.map_err(here)?),
    }
    mptcp()?;
    if let ControllerConfig::Named(name) = &config.controller {
        controller::check(name).map_err(|e| here(e.into()))?;
    }
    // A daemon that runs may be the one that this file is for.
    if UnixStream::connect(&config.socket).is_ok() {
        return Ok(());
    }
    if let Some(address) = config.metrics {
        let taken = |e| Error::Failed(format!("metrics.listen: cannot listen on {address}: {e}"));
        TcpListener::bind(address).map_err(|e| here(taken(e)))?;
    }
    Ok(claim::check_alone(config.userspace)?)
}

pub fn mptcp() -> Result<(), Error> {
    kernel::mptcp().map_err(|lack| Error::Missing(format!("this machine lacks {lack}")))
}

fn at(file: &Path, error: Error) -> Error {
    let line = format!("{}: {error}", file.display());
    match error {
        Error::Usage(_) => Error::Usage(line),
        Error::Missing(_) => Error::Missing(line),
        _ => Error::Failed(line),
    }
}
