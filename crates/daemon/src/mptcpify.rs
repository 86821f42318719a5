//! Programs that ask for TCP get MPTCP, where the kernel lets us do that.

use mp_kernel::mptcpify as kernel;

use crate::config;
use crate::log::{self, Priority};

/// Ends with the daemon, however that ends.
pub struct Mptcpify {
    hook: Option<kernel::Mptcpify>,
    why: String,
}

impl Mptcpify {
    /// They do not get it.
    pub fn off(why: &str) -> Mptcpify {
        Mptcpify {
            hook: None,
            why: why.into(),
        }
    }

    pub fn start(settings: &config::Mptcpify) -> Mptcpify {
        if !settings.enabled {
            return Mptcpify::off("the configuration says so");
        }
        match kernel::Mptcpify::attach(settings.cgroup.as_deref()) {
            Ok(hook) => Mptcpify {
                hook: Some(hook),
                why: String::new(),
            },
            Err(e) => {
                let why = e.to_string();
                log::line(
                    Priority::Warning,
                    "programs that ask for TCP get TCP; multipilot run gives one MPTCP",
                    &[("why", &why)],
                );
                Mptcpify { hook: None, why }
            }
        }
    }

    pub fn is_on(&self) -> bool {
        self.hook.is_some()
    }

    /// Why it is not on; empty where it is.
    pub fn why(&self) -> &str {
        &self.why
    }
}
