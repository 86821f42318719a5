//! Path managers: which subflows exist, and which of them are only backup.
//!
//! A world lists the [`Path`]s that a connection could use (pairs of a local and a remote address) and the
//! [`Subflow`]s it has, calls [`Manage::observe`] at each [`Event`], and carries out the [`Action`]s. An action that
//! fails comes back as [`Event::SubflowClosed`].

mod aware;
mod backup;
mod fullmesh;
mod known;
mod ms_ucb;
mod ndiffports;
mod probes;
mod single;
#[cfg(test)]
mod tests;

pub use aware::{LossAware, SignalAware};
pub use backup::Backup;
pub use fullmesh::Fullmesh;
pub use known::Known;
pub use ms_ucb::{Alone, Federated};
pub use ndiffports::Ndiffports;
pub use probes::{Probes, Probing};
pub use single::Single;

use crate::bandit::Policy;

/// A pair of addresses that a subflow could connect. Its index in the slice is its name; the list only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// Index of the local address in the world's own list.
    pub local: u8,
    /// Index of the remote address in the world's own list.
    pub remote: u8,
    /// Both addresses exist and the local interface is up.
    pub up: bool,
    /// The connection was opened over it.
    pub primary: bool,
    /// What the user says of its interface.
    pub rule: Rule,
    /// Received signal strength, dBm; `None` where the interface has none.
    pub signal_dbm: Option<i32>,
    pub probes: Probes,
}

/// What the user says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rule {
    #[default]
    None,
    /// Given up last, where paths are judged.
    Preferred,
    /// Carries data only while no other path does.
    Metered,
    /// Never used.
    Untrusted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Slot is free.
    #[default]
    Closed,
    /// SYN sent.
    Opening,
    Established,
}

/// A subflow slot. Its index in the slice is the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Subflow {
    pub state: State,
    /// Index of its path.
    pub path: usize,
    pub backup: bool,
    pub stats: Stats,
}

/// Counters of a subflow since it was established, of the data direction: from the sender's side where that is known
/// (telemetry), else as the receiver judges them from holes in the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets, retransmissions included.
    pub sent: u64,
    /// Packets marked lost.
    pub lost: u64,
    /// Payload bytes.
    pub delivered: u64,
    /// Packets that are on the way now: sent, and not acknowledged.
    pub unacked: u64,
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub srtt_us: u32,
    /// Lowest round-trip time, µs; 0 before the first sample.
    pub min_rtt_us: u32,
}

/// What a path manager sees of one connection.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub now_us: u64,
    pub paths: &'a [Path],
    pub subflows: &'a [Subflow],
    /// Payload bytes delivered in order so far, either way.
    pub bytes: u64,
    /// Time so far in which the peer's receive window alone kept the sender from sending (head-of-line blocking), µs.
    /// Exact in the simulator. Linux does not count it for MPTCP: `tcpi_rwnd_limited` of a subflow is about the subflow's own
    /// window, which has room while the connection's has none (`mptcp_check_allowed_size`, net/mptcp/protocol.c), so that it
    /// stays at 0 where head-of-line blocking costs most of the goodput.
    pub held_us: u64,
    /// Most payload that the receive buffer can hold when grown to its bound, bytes; `u64::MAX` where unknown.
    pub window_limit: u64,
    /// The congestion controller couples the subflows: what one loses slows down all of them.
    pub coupled: bool,
    /// This end opened the connection. Only that end opens further subflows: the other one mostly sits behind its NAT.
    pub client: bool,
}

impl View<'_> {
    /// Subflows on a path, open or opening.
    pub fn subflows_on(&self, path: usize) -> usize {
        self.subflows
            .iter()
            .filter(|s| s.state != State::Closed && s.path == path)
            .count()
    }
}

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
    /// ADD_ADDR of this local address.
    Announce {
        local: u8,
    },
    /// Asks for [`Event::Timer`]; a later one replaces it.
    Wake {
        at_us: u64,
    },
}

/// The path manager of one connection.
pub trait Manage {
    /// Appends what is to be done now. `view` already holds the event's effect.
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>);

    /// What this connection knows of each path, for those that use it after it; `None` where that is never asked for.
    fn told(&self) -> Option<Vec<Known>> {
        None
    }

    /// Takes over what others know of its paths, before it begins.
    fn hear(&mut self, _known: &[Known], _now_us: u64) {}
}

macro_rules! path_managers {
    ($($variant:ident: $kind:ty, $name:literal, $summary:literal, $source:literal;)*) => {
        /// The built-in path managers.
        #[derive(Debug, Clone)]
        pub enum PathManager {
            $(#[doc = $summary] $variant($kind),)*
        }

        impl Manage for PathManager {
            fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
                match self {
                    $(Self::$variant(m) => m.observe(event, view, actions),)*
                }
            }

            fn told(&self) -> Option<Vec<Known>> {
                match self {
                    $(Self::$variant(m) => m.told(),)*
                }
            }

            fn hear(&mut self, known: &[Known], now_us: u64) {
                match self {
                    $(Self::$variant(m) => m.hear(known, now_us),)*
                }
            }
        }

        static ALL: &[Entry] = &[
            $(Entry {
                name: $name,
                summary: $summary,
                source: $source,
                build: || PathManager::$variant(<$kind>::default()),
            },)*
        ];
    };
}

path_managers! {
    Fullmesh: Fullmesh, "fullmesh", "A subflow on every path",
        "Linux net/mptcp/pm_kernel.c, endpoints with the flags subflow and fullmesh";
    Ndiffports: Ndiffports, "ndiffports", "Two subflows on the primary path, from different ports",
        "Raiciu et al., \"Improving datacenter performance and robustness with multipath TCP\", SIGCOMM 2011";
    Backup: Backup, "backup", "A subflow on every path, all but the primary as backup",
        "RFC 8684 section 3.3.8; Paasch et al., \"Exploring mobile/WiFi handover with Multipath TCP\", CellNet 2012";
    LossAware: LossAware, "loss-aware", "Fullmesh that spares lossy, stalled and obstructive paths (MPTCP-LA)",
        "Loss thresholds with MP_PRIO, RFC 8684 section 3.3.8; contribution rule: this project";
    SignalAware: SignalAware, "signal-aware", "Fullmesh that spares paths of a weak radio signal (MPTCP-MA)",
        "Signal thresholds with MP_PRIO, RFC 8684 section 3.3.8";
    Bandit: Fullmesh, "bandit", "Fullmesh that learns which path to start connections on",
        "Alzadjali et al., \"A contextual bi-armed bandit approach for MPTCP path management\" (active explorer)";
    BanditEpsilonGreedy: Fullmesh, "bandit-epsilon-greedy", "The same, exploring at random",
        "Alzadjali et al. (epsilon-greedy)";
    BanditUcb: Fullmesh, "bandit-bootstrapped-ucb", "The same, by an upper bound from bootstraps",
        "Alzadjali et al. (bootstrapped UCB)";
    BanditAdaptive: Fullmesh, "bandit-adaptive-greedy", "The same, exploring where the best prediction is low",
        "Alzadjali et al. (adaptive greedy)";
    BanditExploreFirst: Fullmesh, "bandit-explore-first", "The same, exploring first",
        "Alzadjali et al. (explore first)";
    BanditActive: Fullmesh, "bandit-adaptive-active-greedy", "The same, learning where the best prediction is low",
        "Alzadjali et al. (adaptive active greedy)";
    BanditLinUcb: Fullmesh, "bandit-lin-ucb", "The same, by a linear model's upper bound",
        "Li et al., WWW 2010";
    BanditThompson: Fullmesh, "bandit-thompson", "The same, by draws from a linear model's posterior",
        "Agrawal and Goyal, ICML 2013";
    MsUcb: Alone, "ms-ucb", "A subflow on every path, of which a bandit has at most three carry data",
        "Paper drones, algorithm 2; Gai, Krishnamachari, Jain, IEEE/ACM ToN 2012 (LLR)";
    MsUcbFederated: Federated, "ms-ucb-federated", "The same, beginning with what the connections before have seen (simulator, daemon)",
        "Paper drones, federated MS-UCB";
    Single: Single, "single", "No further subflow: MPTCP on its first path alone", "RFC 8684 section 3.1";
}

/// A path manager by its name.
#[derive(Debug)]
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    /// Paper, RFC section, or kernel file.
    pub source: &'static str,
    build: fn() -> PathManager,
}

impl Entry {
    /// A fresh instance for one connection.
    pub fn build(&self) -> PathManager {
        (self.build)()
    }

    /// How the path that a connection starts on is learnt; `None` where it is the first.
    pub fn starts_by(&self) -> Option<Policy> {
        let rest = self.name.strip_prefix("bandit")?;
        match rest.strip_prefix('-') {
            None => Some(Policy::NAMED[0].1),
            Some(policy) => Policy::named(policy),
        }
    }
}

/// Every built-in path manager.
pub fn all() -> &'static [Entry] {
    ALL
}

pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.name == name)
}
