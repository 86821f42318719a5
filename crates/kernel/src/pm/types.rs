//! What the path manager speaks of. Field names follow `include/uapi/linux/mptcp_pm.h`.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// `MPTCP_PM_ADDR_FLAG_*`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags {
    /// Announce the address to the peer (ADD_ADDR).
    pub signal: bool,
    /// Open a subflow from the address to the peer's initial address.
    pub subflow: bool,
    /// Not used while a normal subflow lives (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// Open a subflow from the address to each address of the peer.
    pub fullmesh: bool,
    /// Made by the kernel for a subflow that no endpoint covers; read only.
    pub implicit: bool,
    /// Bits of newer kernels, as they came.
    #[serde(default)]
    pub others: u32,
}

impl Flags {
    pub const SUBFLOW: Flags = Flags {
        subflow: true,
        ..Flags::NONE
    };
    pub const SIGNAL: Flags = Flags {
        signal: true,
        ..Flags::NONE
    };
    pub const NONE: Flags = Flags {
        signal: false,
        subflow: false,
        backup: false,
        fullmesh: false,
        implicit: false,
        others: 0,
    };

    pub(super) fn to_bits(self) -> u32 {
        u32::from(self.signal)
            | u32::from(self.subflow) << 1
            | u32::from(self.backup) << 2
            | u32::from(self.fullmesh) << 3
            | u32::from(self.implicit) << 4
            | self.others
    }

    pub(super) fn from_bits(bits: u32) -> Flags {
        Flags {
            signal: bits & 1 != 0,
            subflow: bits & 2 != 0,
            backup: bits & 4 != 0,
            fullmesh: bits & 8 != 0,
            implicit: bits & 16 != 0,
            others: bits & !31,
        }
    }
}

/// A local address that the in-kernel path manager works with, in all connections of the network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// 0: the kernel chooses (1..=255).
    pub id: u8,
    pub address: IpAddr,
    /// Only with `signal`: the peer is told to connect there.
    pub port: Option<u16>,
    pub flags: Flags,
    /// Interface that subflows from here are bound to.
    pub interface: Option<i32>,
}

impl Endpoint {
    pub fn new(address: IpAddr, flags: Flags) -> Endpoint {
        Endpoint {
            id: 0,
            address,
            port: None,
            flags,
            interface: None,
        }
    }
}

/// Per connection: extra subflows, and announced addresses that are accepted. The kernel's defaults are 2 and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub subflows: u32,
    pub add_addr_accepted: u32,
}

/// One event of the kernel's path manager (`enum mptcp_event_type`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    pub token: u32,
    pub local_id: u8,
    pub remote_id: u8,
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    pub backup: bool,
    /// errno of a subflow that closed in error, else 0.
    pub error: u8,
    pub server_side: bool,
    pub interface: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A connection came into being: first SYN answered, perhaps not yet confirmed.
    Created,
    /// The connection may open further subflows.
    Established,
    Closed,
    /// The peer announced an address.
    Announced,
    /// The peer withdrew an address.
    Removed,
    SubflowEstablished,
    SubflowClosed,
    /// MP_PRIO was received.
    SubflowPriority,
    ListenerCreated,
    ListenerClosed,
    Other(u8),
}

impl EventKind {
    pub(super) fn from_command(command: u8) -> EventKind {
        match command {
            1 => EventKind::Created,
            2 => EventKind::Established,
            3 => EventKind::Closed,
            6 => EventKind::Announced,
            7 => EventKind::Removed,
            10 => EventKind::SubflowEstablished,
            11 => EventKind::SubflowClosed,
            13 => EventKind::SubflowPriority,
            15 => EventKind::ListenerCreated,
            16 => EventKind::ListenerClosed,
            other => EventKind::Other(other),
        }
    }
}
