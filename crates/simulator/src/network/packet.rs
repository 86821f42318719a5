//! What travels over links.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Data,
    Ack,
    Syn,
    /// `seq` is the time at which the SYN that it answers was sent, ns.
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
    /// An echo request, and its answer; `seq` numbers them.
    Probe,
    ProbeEcho,
}

pub mod flag {
    /// The short end of a burst ([`crate::mptcp::FRAGMENT`]).
    pub const SHORT: u8 = 1;
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
    /// Data: the last segment of several that were sent as one (PSH).
    pub const PUSH: u8 = 64;
    /// The backup bit of MP_JOIN.
    pub const BACKUP: u8 = 128;
}

/// No selective acknowledgement goes with the packet.
pub const NO_SACK: u32 = u32::MAX;

/// One packet, or a train of full segments that travel as one.
///
/// Laid out so that copies are of whole words: packets are most of what a run moves in memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Packet {
    /// Data: subflow sequence number, segments. ACK: next segment expected.
    pub seq: u64,
    /// Data: data sequence number, segments. ACK: data-level acknowledgement.
    pub dseq: u64,
    /// Time of sending, ns; an ACK echoes the time of the segment that it answers (RFC 7323 TSecr).
    pub stamp: u64,
    /// Data: bit `i` set where segment `i` of the train survives. ACK: [`Packet::ack_extra`].
    pub extra: u64,
    pub subflow: u32,
    /// ACK: [`Packet::sack`]. Data: [`Packet::echo_ms`].
    pub more: u32,
    /// Bytes at IP level, of the whole train.
    pub size: u32,
    pub kind: Kind,
    pub flags: u8,
    /// Segments in the train, 1 to 64.
    pub count: u8,
    /// How long before its last burst pacing let a train's first one go, in units of [`SPREAD`]; 0: it is one burst.
    pub spread: u8,
}

/// ns, so that a train spans 8.4 ms at most.
pub const SPREAD: u64 = 1 << 15;

impl Packet {
    /// A place for one.
    pub const NONE: Packet = Packet {
        seq: 0,
        dseq: 0,
        stamp: 0,
        extra: 0,
        subflow: 0,
        more: NO_SACK,
        size: 0,
        kind: Kind::Ack,
        flags: 0,
        count: 1,
        spread: 0,
    };

    /// What an ACK says besides: the data-level receive window in segments, and the forward one-way delay in ms.
    pub fn ack_extra(window: u64, delay_ms: u64) -> u64 {
        window.min(u64::from(u32::MAX)) << 32 | delay_ms.min(u64::from(u32::MAX))
    }

    /// Segments of a train that are still in it.
    #[inline]
    pub fn segments(&self) -> u32 {
        if self.count == 1 {
            1
        } else {
            self.extra.count_ones()
        }
    }

    /// Takes segments out of a train; those in `keep` stay.
    pub fn thin(&mut self, keep: u64) {
        let before = self.extra.count_ones();
        self.extra &= keep;
        self.size = self.size / before.max(1) * self.extra.count_ones();
    }

    /// The surviving runs of a train, as trains of their own.
    pub fn runs(&self, mut each: impl FnMut(&Packet)) {
        let size = self.size / self.segments().max(1);
        let (mut mask, mut at) = (self.extra, 0);
        while mask != 0 {
            at += mask.trailing_zeros();
            mask = self.extra >> at;
            let run = mask.trailing_ones();
            each(&Packet {
                seq: self.seq + u64::from(at),
                dseq: self.dseq + u64::from(at),
                count: run as u8,
                size: size * run,
                extra: u64::MAX >> (64 - run),
                ..*self
            });
            at += run;
            mask = self.extra.checked_shr(at).unwrap_or(0);
        }
    }

    /// Index into [`super::Sacks`] of what an ACK reports.
    #[inline]
    pub fn sack(&self) -> u32 {
        match self.kind {
            Kind::Ack => self.more,
            _ => NO_SACK,
        }
    }

    /// Data: when the latest ACK that their sender has was sent, ms (RFC 7323 TSecr); 0: none since the handshake. Linux takes no
    /// sample of what the first data echo either, because an ACK of the server has echoed it before.
    #[inline]
    pub fn echo_ms(&self) -> u32 {
        self.more
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
