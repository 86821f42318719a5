//! What travels over links.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Data,
    Ack,
    Syn,
    SynAck,
    /// Third packet of the handshake; on the first subflow of a download it carries the request.
    Third,
    /// Fourth packet of an MP_JOIN handshake (RFC 8684 section 3.2).
    Fourth,
    /// MP_PRIO; `seq` is 1 for backup.
    Priority,
    /// ADD_ADDR; `seq` is the index of the connection's path whose remote address it announces.
    AddAddr,
    AddAddrEcho,
}

pub mod flag {
    /// Lost on the way: occupies queues up to where it is lost.
    pub const LOST: u8 = 1;
    /// ECN-capable transport.
    pub const ECT: u8 = 2;
    /// Congestion experienced.
    pub const CE: u8 = 4;
    /// ECN echo.
    pub const ECE: u8 = 8;
    /// Congestion window reduced.
    pub const CWR: u8 = 16;
    /// The segment has been sent before.
    pub const RETRANSMISSION: u8 = 32;
    /// MP_CAPABLE or MP_JOIN is in the SYN (else: plain TCP).
    pub const MULTIPATH: u8 = 64;
    /// The backup bit of MP_JOIN.
    pub const BACKUP: u8 = 128;
}

/// No selective acknowledgement goes with the packet.
pub const NO_SACK: u32 = u32::MAX;

/// One packet, or a train of full segments that travel as one.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    pub subflow: u32,
    pub kind: Kind,
    pub flags: u8,
    /// Segments in the train, 1 to 64.
    pub count: u8,
    /// Bytes at IP level, of the whole train.
    pub size: u32,
    /// Index into [`super::Sacks`].
    pub sack: u32,
    /// Data: subflow sequence number, segments. ACK: next segment expected.
    pub seq: u64,
    /// Data: data sequence number, segments. ACK: data-level acknowledgement.
    pub dseq: u64,
    /// Time of sending, ns; an ACK echoes the time of the segment that it answers (RFC 7323 TSecr).
    pub stamp: u64,
    /// Data: bit `i` set where segment `i` of the train survives. ACK: [`Packet::ack_extra`].
    pub extra: u64,
}

impl Packet {
    /// What an ACK says besides: the data-level receive window in segments, and the forward one-way delay in ms.
    pub fn ack_extra(window: u64, delay_ms: u64) -> u64 {
        window.min(u64::from(u32::MAX)) << 32 | delay_ms.min(u64::from(u32::MAX))
    }

    #[inline]
    pub fn window(&self) -> u64 {
        self.extra >> 32
    }

    #[inline]
    pub fn delay_ms(&self) -> u64 {
        self.extra & u64::from(u32::MAX)
    }

    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
