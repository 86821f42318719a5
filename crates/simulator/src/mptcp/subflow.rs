//! One subflow: both its ends, since a simulator sees both.

use crate::agenda::NEVER;
use crate::tcp::{Receiver, Sender};

/// How far an end is with the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Server: listens. Client: before the SYN.
    Idle,
    /// Client: SYN sent. Server: SYN received, SYN/ACK sent.
    Opening,
    /// Client: SYN/ACK received, and nothing since that shows the server has our third packet.
    Unconfirmed,
    Established,
    Closed,
}

/// A handshake timer of one end.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub at: u64,
    pub tries: u32,
    /// Time of the first try.
    pub first: u64,
}

impl Default for Attempt {
    fn default() -> Self {
        Attempt {
            at: NEVER,
            tries: 0,
            first: 0,
        }
    }
}

#[derive(Debug)]
pub struct Subflow {
    pub connection: u32,
    pub slot: usize,
    /// Index in the connection's list of paths.
    pub path: usize,
    /// First links of both directions: client to server, and back.
    pub up: u32,
    pub down: u32,
    /// Data goes from the server to the client.
    pub download: bool,
    /// Started by MP_JOIN.
    pub join: bool,
    /// Its sender of data knows it as backup; the client has set it so. Between the two lies MP_PRIO.
    pub backup: bool,
    pub client_backup: bool,
    /// Sending time of the SYN that the server answers, ns, and the round trip of the handshake at the client, µs; 0: unknown.
    pub syn_sent: u64,
    pub handshake_us: u32,
    /// Payload that had moved at the last poll of the path manager, bytes.
    pub polled_bytes: u64,
    pub sender: Sender,
    pub receiver: Receiver,
    pub client: Phase,
    pub server: Phase,
    pub client_attempt: Attempt,
    pub server_attempt: Attempt,
    /// Source in the agenda, and the time it is set to there. Deadlines move later without a change of the agenda.
    pub source: u32,
    pub scheduled: u64,
    /// Its data were sent again elsewhere (`subflow->stale`).
    pub stale: bool,
    /// Data-level timeouts without an ACK on this subflow, and the time of the last ACK seen then.
    pub stale_count: u32,
    pub stale_stamp: u64,
}

impl Subflow {
    /// When it wants to be called.
    #[inline]
    pub fn deadline(&self) -> u64 {
        self.sender
            .deadline()
            .min(self.receiver.deadline())
            .min(self.client_attempt.at)
            .min(self.server_attempt.at)
    }

    pub fn closed(&self) -> bool {
        self.client == Phase::Closed
    }

    /// The link of packets from the data receiver.
    #[inline]
    pub fn back(&self) -> u32 {
        if self.download {
            self.up
        } else {
            self.down
        }
    }
}
