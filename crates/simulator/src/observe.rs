//! Watching a run packet by packet.

use crate::network::{Packet, Sack};

/// One packet at an interface of the client host: as it leaves, or as it arrives.
#[derive(Debug, Clone, Copy)]
pub struct Passing<'a> {
    pub now_ns: u64,
    /// [`mp_record::Transfer::id`] of its connection.
    pub transfer: u32,
    /// The subflow joined with MP_JOIN: it is not the one that opened the connection.
    pub join: bool,
    /// Index in the scenario of the subflow's path.
    pub path: u32,
    /// Index in the scenario of the path whose address an ADD_ADDR announces; else that of the subflow.
    pub announced: u32,
    pub from_client: bool,
    /// The client receives the transfer's data (else it sends them).
    pub download: bool,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    pub packet: &'a Packet,
    pub sack: Option<&'a Sack>,
}

/// Told of each packet of a run.
pub trait Observer {
    fn packet(&mut self, passing: &Passing<'_>);

    /// Told of each data packet as it leaves its sender, be it the client or the server, before anything else of it.
    fn sent(&mut self, _packet: &Packet) {}
}
