//! Path managers: which subflows exist, and which of them are only backup.
//!
//! A world lists the [`Path`]s that a connection could use (pairs of a local and a remote address) and the
//! [`Subflow`]s it has, calls [`Manage::observe`] at each [`Event`], and carries out the [`Action`]s. An action that
//! fails comes back as [`Event::SubflowClosed`].

pub mod awareness;
mod backoff;
mod backup;
pub mod driver;
#[cfg(test)]
mod fixture;
mod fullmesh;
mod known;
pub mod mptcp_la;
mod ms_ucb;
mod ndiffports;
mod policy;
pub mod presence;
mod probes;
pub mod removal;
pub mod retry;
mod single;
#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use backup::Backup;
pub use fullmesh::Fullmesh;
pub use known::Known;
pub use mptcp_la::MptcpLa;
pub use ms_ucb::{Alone, Federated};
pub use ndiffports::Ndiffports;
pub use policy::PathPolicy;
pub use probes::Probing;
pub use single::Single;

use mp_parameter::{Parameter, Refused};

use crate::awareness::{Awareness, Config, Reason};
use crate::registry::{self, World};
pub use crate::view::{
    Counters, Moved, Path, Probes, Received, Role, Rule, Sent, State, Subflow, View,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The first subflow is up and MPTCP was agreed on: further ones may join from now on.
    Established,
    /// A path came up, or joined the list (a new interface, an ADD_ADDR of the peer).
    PathUp(usize),
    PathDown(usize),
    SubflowEstablished(usize),
    /// The subflow in this slot ended; `path` is the one it was on. `error`: refused, reset or timed out.
    SubflowClosed {
        slot: usize,
        path: usize,
        error: bool,
    },
    /// The time asked for by [`Action::Wake`] has come.
    Timer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Open {
        path: usize,
        backup: bool,
    },
    Close {
        slot: usize,
    },
    /// MP_PRIO, both for what this end sends and what it asks of the peer.
    SetBackup {
        slot: usize,
        backup: bool,
    },
    /// Small packets over a path, which the other end answers (ICMP echo); a world that has none does nothing.
    Probe {
        path: usize,
        count: u32,
    },
    /// Asks for [`Event::Timer`]; a later one replaces it.
    Wake {
        at_us: u64,
    },
}

/// The path manager of one connection.
pub trait Manage {
    const PARAMETERS: &'static [Parameter] = &[];

    /// Changes one of [`Manage::PARAMETERS`].
    fn set(&mut self, parameter: &str, _value: u64) {
        unreachable!("no parameter {parameter}")
    }

    /// Appends what is to be done now. `view` already holds the event's effect.
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>);

    /// What this connection knows of each path, for those that use it after it; `None` where that is never asked for.
    fn export_state(&self) -> Option<Vec<Known>> {
        None
    }

    /// Takes over what others know of its paths, before it begins.
    fn import_state(&mut self, _known: &[Known], _now_us: u64) {}

    /// Why each path of the view is in backup; `None` where it is not, or nothing is said.
    fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        vec![None; view.paths.len()]
    }
}

macro_rules! path_managers {
    (@build $kind:ty) => { <$kind>::default() };
    (@build $kind:ty, $build:expr) => { $build };
    ($($variant:ident: $kind:ty $(= $build:expr)?, $name:literal, [$($world:ident),*], $summary:literal, $source:literal;)*) => {
        /// The built-in path managers.
        #[derive(Debug, Clone)]
        pub enum PathManager {
            $(#[doc = $summary] $variant($kind),)*
        }

        impl Manage for PathManager {
            fn set(&mut self, parameter: &str, value: u64) {
                match self {
                    $(Self::$variant(m) => m.set(parameter, value),)*
                }
            }

            fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
                match self {
                    $(Self::$variant(m) => m.observe(event, view, actions),)*
                }
            }

            fn export_state(&self) -> Option<Vec<Known>> {
                match self {
                    $(Self::$variant(m) => m.export_state(),)*
                }
            }

            fn import_state(&mut self, known: &[Known], now_us: u64) {
                match self {
                    $(Self::$variant(m) => m.import_state(known, now_us),)*
                }
            }

            fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
                match self {
                    $(Self::$variant(m) => m.reasons(view),)*
                }
            }
        }

        static ALL: &[Entry] = &[
            $(Entry {
                name: $name,
                summary: $summary,
                source: $source,
                parameters: <$kind as Manage>::PARAMETERS,
                worlds: &[$(World::$world),*],
                build: || PathManager::$variant(path_managers!(@build $kind $(, $build)?)),
            },)*
        ];
    };
}

path_managers! {
    Fullmesh: Fullmesh, "fullmesh", [Sim, Kernel, Run, Relay], "A subflow on every path",
        "Linux net/mptcp/pm_kernel.c, endpoints with the flags subflow and fullmesh";
    Ndiffports: Ndiffports, "ndiffports", [Sim, Kernel], "Two subflows on the initial path, from different ports",
        "Raiciu et al., \"Improving datacenter performance and robustness with multipath TCP\", SIGCOMM 2011";
    Backup: Backup, "backup", [Sim, Kernel, Run], "A subflow on every path, all but the initial one as backup",
        "RFC 8684 section 3.3.8; Paasch et al., \"Exploring mobile/WiFi handover with Multipath TCP\", CellNet 2012";
    LossAware: Awareness = Awareness::new(Config::loss_aware()), "loss-aware", [Sim, Kernel, Daemon], "Fullmesh that sets lossy, stalled, slow and small paths to backup",
        "Loss thresholds with MP_PRIO, RFC 8684 section 3.3.8; rules for slow and small paths: this project";
    SignalAware: Awareness = Awareness::new(Config::signal_aware()), "signal-aware", [Sim, Kernel, Daemon], "Fullmesh that sets paths of a weak radio signal to backup (MPTCP-MA)",
        "Signal thresholds with MP_PRIO, RFC 8684 section 3.3.8";
    MptcpLa: MptcpLa, "mptcp-la", [Sim, Kernel], "Fullmesh that sets a path to backup while it loses a share γ or more of N packets",
        "Paper loss-aware, section 4: MPTCP-LA by its own rule";
    MsUcb: Alone, "ms-ucb", [Sim, Kernel, Daemon, Relay], "A subflow on every path, of which a bandit has at most three carry data",
        "Paper drones, algorithm 2; Gai, Krishnamachari, Jain, IEEE/ACM ToN 2012 (LLR)";
    MsUcbFederated: Federated, "ms-ucb-federated", [Sim, Daemon], "The same, beginning with what the connections before have seen",
        "Paper drones, federated MS-UCB";
    Single: Single, "single", [Sim, Kernel, Run, Relay], "No further subflow: MPTCP on its first path alone", "RFC 8684 section 3.1";
}

/// A path manager by its name.
pub type Entry = registry::Entry<PathManager>;

impl Entry {
    /// A fresh instance with these parameters.
    pub fn build_with<'a>(
        &self,
        parameters: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<PathManager, Refused<'a>> {
        let mut manager = self.build();
        for (name, value) in parameters {
            self.check(name, value)?;
            manager.set(name, value);
        }
        Ok(manager)
    }
}

/// Every built-in path manager.
pub fn all() -> &'static [Entry] {
    ALL
}

pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.name == name)
}
