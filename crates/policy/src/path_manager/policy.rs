//! The path managers that run on a host, by what its user can choose.

use super::ms_ucb::Alone;
use super::{mptcp_la, Federated, MptcpLa, PathManager};
use crate::awareness::{self, Awareness};

/// Who decides which paths carry data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathPolicy {
    /// Path awareness with settings of the user's.
    Awareness,
    /// The rule of paper loss-aware, section 4.
    MptcpLa(mptcp_la::Config),
    /// A bandit over super-arms of at most three paths.
    MsUcb,
    /// One for each connection, which begins with the outcomes of those before it.
    MsUcbFederated,
}

impl PathPolicy {
    /// What a registered path manager goes by, with the settings of path awareness; `None`: it does not judge paths.
    pub fn of(manager: &PathManager) -> Option<(PathPolicy, awareness::Config)> {
        // Of all this the others have but the interval.
        let rules = awareness::Config::rules();
        match manager {
            PathManager::LossAware(aware) | PathManager::SignalAware(aware) => {
                Some((PathPolicy::Awareness, aware.config()))
            }
            PathManager::MptcpLa(manager) => Some((PathPolicy::MptcpLa(manager.config()), rules)),
            PathManager::MsUcb(_) => Some((PathPolicy::MsUcb, rules)),
            PathManager::MsUcbFederated(_) => Some((PathPolicy::MsUcbFederated, rules)),
            PathManager::Fullmesh(_)
            | PathManager::Backup(_)
            | PathManager::Ndiffports(_)
            | PathManager::Single(_) => None,
        }
    }

    /// A fresh instance; `awareness`: the settings of [`PathPolicy::Awareness`].
    pub fn build(self, awareness: awareness::Config) -> PathManager {
        match self {
            PathPolicy::Awareness => PathManager::LossAware(Awareness::new(awareness)),
            PathPolicy::MptcpLa(config) => PathManager::MptcpLa(MptcpLa::new(config)),
            PathPolicy::MsUcb => PathManager::MsUcb(Alone::default()),
            PathPolicy::MsUcbFederated => PathManager::MsUcbFederated(Federated::default()),
        }
    }
}
