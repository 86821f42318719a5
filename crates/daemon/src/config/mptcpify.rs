//! `[mptcpify]`

use std::path::PathBuf;

use mp_scenario::document::Section;
use mp_scenario::Error;

pub(super) const KEYS: &[&str] = &["enabled", "cgroup", "sessions"];

/// Whether programs that ask for TCP get MPTCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MptcpifyConfig {
    pub enabled: bool,
    /// Only programs in this cgroup (v2), or below it; `None`: all of the network namespace.
    pub cgroup: Option<PathBuf>,
    /// Where the kernel refuses that: programs of user sessions that begin while the daemon is at work.
    pub sessions: bool,
}

impl Default for MptcpifyConfig {
    fn default() -> Self {
        MptcpifyConfig {
            enabled: true,
            cgroup: None,
            sessions: false,
        }
    }
}

impl MptcpifyConfig {
    pub(super) fn read(section: &Section<'_>) -> Result<MptcpifyConfig, Error> {
        let enabled = section.boolean_or("enabled", true)?;
        let (cgroup, sessions) = (section.get("cgroup"), section.get("sessions"));
        for field in [&cgroup, &sessions].into_iter().flatten() {
            if !enabled {
                return Err(field.error("has no meaning", "mptcpify.enabled = true beside it"));
            }
        }
        let cgroup = cgroup.map(|f| f.string()).transpose()?;
        Ok(MptcpifyConfig {
            enabled,
            cgroup: cgroup.map(PathBuf::from),
            sessions: section.boolean_or("sessions", false)?,
        })
    }
}
