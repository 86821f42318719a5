//! The scoreboard: what is known of each segment from its assignment to its acknowledgement.
//!
//! A ring indexed by sequence number, so that every look-up is one masked index. It grows to the largest window and
//! never shrinks.

/// Flags of a segment (`TCPCB_*` of include/net/tcp.h).
pub const SACKED: u8 = 1;
pub const LOST: u8 = 2;
/// A retransmission is under way.
pub const RETRANS: u8 = 4;
pub const EVER_RETRANS: u8 = 8;
/// The short end of a burst: a packet like others, whose few bytes the segment before it has as well.
pub const SHORT: u8 = 16;

/// What RACK (RFC 8985) knows beside the scoreboard.
#[derive(Debug, Clone)]
pub struct Rack {
    /// Time of sending, ns, and end of the newest segment delivered.
    pub stamp: u64,
    pub end_seq: u64,
    /// RTT of that segment, µs.
    pub rtt_us: u32,
    /// The reordering window, in quarters of the minimum RTT; DSACKs widen it.
    pub steps: u32,
    /// Recoveries for which the wider window is kept.
    pub persist: u32,
    /// Time of the last widening, ns: what was sent by then tells of the round trip before it (`last_delivered`).
    pub widened_at: u64,
    pub dsack_seen: bool,
    /// Something newer was delivered since the last look.
    pub advanced: bool,
    /// No first transmission below is still to be judged.
    pub cursor: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            stamp: 0,
            end_seq: 0,
            rtt_us: 0,
            steps: 1,
            persist: 0,
            widened_at: 0,
            dsack_seen: false,
            advanced: false,
            cursor: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// Time of the last transmission, ns.
    pub sent: u64,
    /// Data sequence number above 8 bits of flags.
    word: u64,
}

impl Segment {
    #[inline]
    pub fn dseq(&self) -> u64 {
        self.word >> 8
    }

    #[inline]
    pub fn flags(&self) -> u8 {
        self.word as u8
    }

    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags() & flag != 0
    }

    #[inline]
    pub fn set(&mut self, flag: u8) {
        self.word |= u64::from(flag);
    }

    #[inline]
    pub fn clear(&mut self, flag: u8) {
        self.word &= !u64::from(flag);
    }
}

/// `tx` of `struct tcp_skb_cb`: the delivery state at the time of sending.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transmission {
    pub delivered: u64,
    /// ns; 0: already used for a sample.
    pub delivered_ns: u64,
    pub first_ns: u64,
    pub app_limited: bool,
}

#[derive(Debug)]
pub struct Board {
    slots: Vec<Segment>,
    /// Beside `slots`, only where rate samples are wanted.
    transmissions: Vec<Transmission>,
    mask: u64,
}

impl Board {
    pub fn new(samples: bool) -> Self {
        const START: usize = 64;
        Board {
            slots: vec![Segment::default(); START],
            transmissions: vec![Transmission::default(); if samples { START } else { 0 }],
            mask: START as u64 - 1,
        }
    }

    /// Makes room for `[una, end)`.
    #[inline]
    pub fn reserve(&mut self, una: u64, end: u64) {
        if end - una > self.mask {
            self.grow(una, end);
        }
    }

    #[cold]
    fn grow(&mut self, una: u64, end: u64) {
        let capacity = (end - una + 1).next_power_of_two();
        let mask = capacity - 1;
        let mut slots = vec![Segment::default(); capacity as usize];
        let mut transmissions = Vec::new();
        if !self.transmissions.is_empty() {
            transmissions = vec![Transmission::default(); capacity as usize];
        }
        for seq in una..(una + self.mask + 1).min(end) {
            slots[(seq & mask) as usize] = self.slots[(seq & self.mask) as usize];
            if let Some(t) = self.transmissions.get((seq & self.mask) as usize) {
                transmissions[(seq & mask) as usize] = *t;
            }
        }
        (self.slots, self.transmissions, self.mask) = (slots, transmissions, mask);
    }

    /// A segment that has not been sent yet.
    #[inline]
    pub fn assign(&mut self, seq: u64, dseq: u64) {
        self.slots[(seq & self.mask) as usize] = Segment {
            sent: 0,
            word: dseq << 8,
        };
    }

    #[inline]
    pub fn at(&self, seq: u64) -> &Segment {
        &self.slots[(seq & self.mask) as usize]
    }

    #[inline]
    pub fn at_mut(&mut self, seq: u64) -> &mut Segment {
        &mut self.slots[(seq & self.mask) as usize]
    }

    #[inline]
    pub fn transmission_mut(&mut self, seq: u64) -> Option<&mut Transmission> {
        self.transmissions.get_mut((seq & self.mask) as usize)
    }

    /// Gives the memory back when the subflow is over.
    pub fn release(&mut self) {
        *self = Board {
            slots: vec![Segment::default(); 1],
            transmissions: Vec::new(),
            mask: 0,
        };
    }
}
