//! What an adapter knows of paths and asks for.

use std::collections::HashMap;
use std::net::IpAddr;

use mp_policy::link::Link;
use mp_policy::path_manager::presence::Presence;
use mp_policy::path_manager::{Known, Probes, Rule};

use crate::links::Interface;

/// An endpoint that the kernel should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub address: IpAddr,
    /// Its index (`ifindex`).
    pub interface: i32,
    pub backup: bool,
}

/// Addresses whose endpoints are to be made anew, so that the kernel opens subflows there.
#[derive(Debug, Clone, Default)]
pub struct Again {
    /// Where there is none.
    pub missing: Vec<IpAddr>,
    /// Where those that are there have died.
    pub stuck: Vec<IpAddr>,
    /// A peer does not know whether it is in backup: MP_PRIO is to be sent again.
    pub retry: Vec<IpAddr>,
}

impl Again {
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.stuck.is_empty() && self.retry.is_empty()
    }
}

/// One interface.
#[derive(Debug, Clone)]
pub struct PathState {
    pub interface: Interface,
    /// What the user says of it.
    pub rule: Rule,
    /// `None`: it has no known signal.
    pub signal_dbm: Option<i32>,
    /// What became of the echo requests.
    pub probes: Probes,
    /// Usable, and allowed.
    pub up: bool,
    pub backup: bool,
    /// Changes between normal and backup so far.
    pub switches: u64,
    pub(super) presence: Presence,
}

impl PathState {
    pub(super) fn new(interface: Interface) -> PathState {
        PathState {
            interface,
            rule: Rule::None,
            signal_dbm: None,
            probes: Probes::default(),
            up: false,
            backup: false,
            switches: 0,
            presence: Presence::default(),
        }
    }

    /// The path manager wants subflows here.
    pub fn is_open(&self) -> bool {
        self.presence.is_open()
    }

    /// It wants subflows here that are not in backup.
    pub fn is_normal(&self) -> bool {
        self.is_open() && !self.backup
    }

    /// A relay's link over the interface, which is open whatever the path manager wants.
    pub fn link(&self) -> Link {
        Link {
            rule: self.rule,
            unchosen: !self.is_normal(),
            ..Link::default()
        }
    }
}

/// Echo requests that the path manager wants sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Index into [`Adapter::paths`](super::Adapter::paths).
    pub path: usize,
    pub count: u32,
}

/// What is known of the paths, by interface: a modem that is plugged in again comes under another number.
pub type Memory = HashMap<String, Known>;

/// What all of them know, joined.
pub fn together(all: impl IntoIterator<Item = Memory>) -> Memory {
    let mut sum = Memory::new();
    for (interface, known) in all.into_iter().flatten() {
        sum.entry(interface).or_default().join(known);
    }
    sum
}
