//! What the daemon tells of itself; see `docs/reference/daemon.md` for the fields.

use std::collections::HashSet;
use std::fmt;

use mp_host::adapter::{Adapter, PathState};
use mp_host::initial_path::Offer;
use mp_host::sampler::SubflowSample;
use mp_host::userspace::Connections;
use mp_kernel::fallback::{Counts, Fallback};
use mp_policy::awareness::Reason;
use mp_policy::path_manager::Rule;
use serde::{Deserialize, Serialize};

use crate::relay;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DaemonStatus {
    pub schema: u32,
    pub version: String,
    pub pid: u32,
    pub uptime_s: f64,
    pub policy: String,
    /// As the kernel calls it; `None` where the system's is left.
    pub controller: Option<String>,
    /// Why pilot is not used where the configuration names no controller; empty where it is.
    #[serde(default)]
    pub controller_why: String,
    /// Whether programs that ask for TCP get MPTCP.
    #[serde(default)]
    pub mptcpify: bool,
    /// Why they do not; empty where they do.
    #[serde(default)]
    pub mptcpify_why: String,
    /// Whether programs of user sessions do that begin from now on; `None` where that is no question: all do, or none is to.
    #[serde(default)]
    pub mptcpify_sessions: Option<bool>,
    /// `kernel`, or `userspace`: each connection judges its paths by itself.
    pub path_manager: String,
    /// Of the next connection; `None` without a bandit.
    #[serde(default)]
    pub initial_path: Option<Offer>,
    /// MPTCP, now.
    pub connections: usize,
    /// Connections of programs that asked for MPTCP and are plain TCP, now.
    #[serde(default)]
    pub fallbacks: Vec<Fallback>,
    /// Connections since the daemon's start.
    #[serde(default)]
    pub since_start: Counts,
    /// Polls of the kernel's counters so far, and the smoothed duration of one.
    pub polls: u64,
    pub poll_ms: f64,
    /// `None` where there is none, nor is one to be.
    #[serde(default)]
    pub relay: Option<relay::RelayStatus>,
    pub paths: Vec<PathStatus>,
    pub subflows: Vec<SubflowStatus>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    pub interface: String,
    pub addresses: Vec<String>,
    pub up: bool,
    pub rule: String,
    pub priority: PathPriority,
    /// Why it is not normal; empty where it is.
    pub why: String,
    pub subflows: usize,
    pub rate_mbps: f64,
    pub srtt_ms: f64,
    pub min_rtt_ms: f64,
    pub loss: f64,
    pub signal_dbm: Option<i32>,
    pub switches: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// Whether a path carries data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathPriority {
    Normal,
    Backup,
    /// It has no subflows.
    Off,
}

impl fmt::Display for PathPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PathPriority::Normal => "normal",
            PathPriority::Backup => "backup",
            PathPriority::Off => "off",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubflowStatus {
    pub token: u32,
    pub interface: Option<String>,
    pub local: String,
    pub remote: String,
    pub backup: bool,
    /// Why its connection has it in backup; empty where the path's reason is all there is.
    pub why: String,
    pub rate_mbps: f64,
    pub rtt_ms: f64,
}

pub fn paths(adapter: &Adapter, now_us: u64) -> Vec<PathStatus> {
    let reasons = adapter.reasons(now_us);
    let of = |(i, p): (usize, &PathState)| {
        let traffic = adapter.sampler.paths.get(i).cloned().unwrap_or_default();
        let (priority, why) = match () {
            () if !unfit(p).is_empty() => (PathPriority::Off, unfit(p)),
            () if p.rule == Rule::Untrusted => (PathPriority::Off, "untrusted, as its rule says"),
            () if !p.up => (PathPriority::Off, "ignored, as the configuration says"),
            () if !p.is_open() => (
                PathPriority::Off,
                "no connection could open a subflow; tried again later",
            ),
            () if p.backup => (
                PathPriority::Backup,
                reasons[i].map_or("being changed", why),
            ),
            () => (PathPriority::Normal, ""),
        };
        PathStatus {
            interface: p.interface.name.clone(),
            addresses: p
                .interface
                .addresses
                .iter()
                .map(|a| a.to_string())
                .collect(),
            up: p.up,
            rule: rule(p.rule).into(),
            priority,
            why: why.into(),
            subflows: traffic.subflows,
            rate_mbps: traffic.rate * 8e-6,
            srtt_ms: ms(traffic.counters.srtt_us),
            min_rtt_ms: ms(traffic.counters.min_rtt_us),
            loss: traffic.loss,
            signal_dbm: p.signal_dbm,
            switches: p.switches,
            sent_bytes: traffic.sent_bytes,
            received_bytes: traffic.received_bytes,
        }
    };
    adapter.paths.iter().enumerate().map(of).collect()
}

/// Why an interface could not carry anything; empty where it could.
pub fn unfit(path: &PathState) -> &'static str {
    match () {
        () if !path.interface.up => "no link",
        () if path.interface.addresses.is_empty() => "no address",
        () => "",
    }
}

/// 0 before the first sample.
fn ms(us: Option<u32>) -> f64 {
    f64::from(us.unwrap_or(0)) / 1e3
}

pub fn subflows(
    adapter: &Adapter,
    connections: Option<&Connections>,
    now_us: u64,
) -> Vec<SubflowStatus> {
    let name = |path: usize| adapter.paths.get(path).map(|p| p.interface.name.clone());
    let own = |s: &SubflowSample| {
        let interface = adapter.paths.get(s.path?)?.interface.index;
        connections?.reason(now_us, s.subflow.token, interface)
    };
    let of = |s: &SubflowSample| SubflowStatus {
        token: s.subflow.token,
        interface: s.path.and_then(name),
        local: s.subflow.local.to_string(),
        remote: s.subflow.remote.to_string(),
        backup: s.subflow.backup,
        why: own(s).map_or("", why).into(),
        rate_mbps: s.rate * 8e-6,
        rtt_ms: f64::from(s.rtt_us) / 1e3,
    };
    adapter.sampler.subflows.iter().map(of).collect()
}

/// Connections that are MPTCP. A subflow alone may not show that its connection fell back.
pub fn connections(adapter: &Adapter, fallbacks: &[Fallback]) -> usize {
    let fell_back = |s: &SubflowSample| {
        let ends = (s.subflow.local, s.subflow.remote);
        fallbacks.iter().any(|f| (f.local, f.remote) == ends)
    };
    let live = adapter.sampler.subflows.iter().filter(|s| !fell_back(s));
    let tokens: HashSet<u32> = live.map(|s| s.subflow.token).collect();
    tokens.len()
}

/// A reason, for people.
pub fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::Loss => {
            "it loses packets, and the connection carried less than its best path alone"
        }
        Reason::SmallShare => {
            "it is slow or carries little, and the connection carried less than its best path alone"
        }
        Reason::Signal => "its radio signal is weak",
        Reason::Stalled => "nothing gets through",
        Reason::Metered => "metered, as its rule says, and another path works",
        Reason::Unchosen => "MS-UCB has others carry the data in this round",
    }
}

fn rule(rule: Rule) -> &'static str {
    match rule {
        Rule::None => "none",
        Rule::Preferred => "preferred",
        Rule::Metered => "metered",
        Rule::Untrusted => "untrusted",
    }
}
