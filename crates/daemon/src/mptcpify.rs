//! Programs that ask for TCP get MPTCP, where the kernel lets us do that.

use std::fmt::Display;

use mp_kernel::{mptcpify as kernel, Error};

use crate::config;
use crate::log::{self, Level};
use crate::sessions::Sessions;

/// Ends with the daemon, however that ends.
pub struct Mptcpify {
    hook: Option<kernel::Mptcpify>,
    sessions: Option<Sessions>,
    /// Whether `sessions` is where more could be had.
    refused: bool,
    why: String,
}

impl Mptcpify {
    /// They do not get it.
    pub fn off(why: &str) -> Mptcpify {
        Mptcpify {
            hook: None,
            sessions: None,
            refused: false,
            why: why.into(),
        }
    }

    pub fn start(settings: &config::MptcpifyConfig) -> Mptcpify {
        if !settings.enabled {
            return Mptcpify::off("the configuration says so");
        }
        let refused = match kernel::Mptcpify::attach(settings.cgroup.as_deref()) {
            Ok(hook) => {
                return Mptcpify {
                    hook: Some(hook),
                    ..Mptcpify::off("")
                }
            }
            Err(e) => e,
        };
        let what = "programs that ask for TCP get TCP; multipilot run gives one MPTCP";
        match &refused {
            Error::Refused { detail, .. } => {
                let why = [("why", &refused as &dyn Display), ("libbpf", detail)];
                log::line(Level::Warning, what, &why);
            }
            _ => log::line(Level::Warning, what, &[("why", &refused)]),
        }
        let sessions = settings.sessions.then(Sessions::begin);
        let sessions = sessions.and_then(|begun| match begun {
            Ok(sessions) => {
                let what = "programs of user sessions that begin from now on get MPTCP";
                log::line(Level::Info, what, &[]);
                Some(sessions)
            }
            Err(e) => {
                let what = "programs of user sessions get TCP too";
                log::line(Level::Warning, what, &[("why", &e)]);
                None
            }
        });
        Mptcpify {
            sessions,
            refused: true,
            ..Mptcpify::off(&refused.to_string())
        }
    }

    /// Whether programs of user sessions get it; `None` where that is not asked: all get it, or none is to.
    pub fn sessions(&self) -> Option<bool> {
        self.refused.then_some(self.sessions.is_some())
    }

    pub fn is_on(&self) -> bool {
        self.hook.is_some()
    }

    /// Why it is not on; empty where it is.
    pub fn why(&self) -> &str {
        &self.why
    }
}
