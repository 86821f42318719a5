//! Watching a run packet by packet.

use crate::network::{Packet, Sack};

/// One packet at an interface of the client host: as it leaves, or as it arrives.
#[derive(Debug, Clone, Copy)]
pub struct Passing<'a> {
    /// [`mp_record::Transfer::id`] of its connection.
    pub transfer: u32,
    /// Slot of the subflow within its connection; 0 opened it.
    pub slot: u8,
    /// Index of the path in the scenario.
    pub path: u32,
    pub from_client: bool,
    /// The client receives the transfer's data (else it sends them).
    pub download: bool,
    /// Bytes of payload in a full segment, and of headers at IP level around it.
    pub mss: u32,
    pub overhead: u32,
    pub packet: &'a Packet,
    pub sack: Option<&'a Sack>,
}

/// Told of each packet. The simulator is compiled for each observer, so that [`Silent`] costs nothing.
pub trait Observer {
    /// Whether [`Observer::packet`] does anything.
    const ACTIVE: bool = true;

    fn packet(&mut self, now_ns: u64, passing: &Passing<'_>);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    const ACTIVE: bool = false;

    fn packet(&mut self, _: u64, _: &Passing<'_>) {}
}
