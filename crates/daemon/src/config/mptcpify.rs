//! `[mptcpify]`

use std::path::PathBuf;

use mp_scenario::document::Section;
use mp_scenario::Error;

pub(super) const KEYS: &[&str] = &["enabled", "cgroup"];

/// Whether programs that ask for TCP get MPTCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mptcpify {
    pub enabled: bool,
    /// Only programs in this cgroup (v2), or below it; `None`: all of the network namespace.
    pub cgroup: Option<PathBuf>,
}

impl Default for Mptcpify {
    fn default() -> Self {
        Mptcpify {
            enabled: true,
            cgroup: None,
        }
    }
}

impl Mptcpify {
    pub(super) fn read(section: &Section<'_>) -> Result<Mptcpify, Error> {
        let enabled = section.boolean_or("enabled", true)?;
        let field = section.get("cgroup");
        if let Some(field) = field.as_ref().filter(|_| !enabled) {
            return Err(field.error("has no meaning", "mptcpify.enabled = true beside it"));
        }
        let cgroup = field.map(|f| f.string()).transpose()?;
        Ok(Mptcpify {
            enabled,
            cgroup: cgroup.map(PathBuf::from),
        })
    }
}
