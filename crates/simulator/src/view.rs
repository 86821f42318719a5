//! What a path manager sees of a simulated connection: the adapter from the simulator's own counters, as functions of those
//! alone.

use mp_policy::view::{Activity, Counters, Received, Sent, Subflow};

/// Both halves of a subflow, as its two ends count them.
#[derive(Debug, Clone, Copy)]
pub struct Halves {
    /// The client has the receiving half.
    pub download: bool,
    /// Bytes of payload in a segment.
    pub mss: u32,
    /// Round trip of the handshake at the client, µs; 0 before it.
    pub handshake_us: u32,
    pub sending: Sending,
    pub receiving: Receiving,
}

#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// Segments, retransmissions included.
    pub packets: u64,
    pub lost: u64,
    /// Acknowledged.
    pub bytes: u64,
    /// Segments.
    pub in_flight: u64,
    /// µs; 0 before the first sample
    pub srtt_us: u32,
    /// µs; all ones before the first sample
    pub min_rtt_us: u32,
}

/// In segments.
#[derive(Debug, Clone, Copy)]
pub struct Receiving {
    pub in_order: u64,
    /// Behind a hole.
    pub held: u64,
    /// Duplicates included.
    pub arrived: u64,
    pub out_of_order: u64,
    /// Round-trip time of the data (`tcpi_rcv_rtt`), µs; 0 before the first sample.
    pub rtt_us: u32,
}

impl Halves {
    /// What the client can know.
    pub fn counters(&self) -> Counters {
        let known = |us: u32| Some(us).filter(|&us| us > 0 && us < u32::MAX);
        match self.download {
            true => {
                let r = &self.receiving;
                Counters {
                    sent: None,
                    received: Some(Received {
                        packets: r.arrived,
                        out_of_order: r.out_of_order,
                        bytes: (r.in_order + r.held) * u64::from(self.mss),
                        silent: false,
                    }),
                    srtt_us: known(r.rtt_us).or(known(self.handshake_us)),
                    // It sends nothing else that would be acknowledged.
                    min_rtt_us: known(self.handshake_us),
                }
            }
            false => {
                let s = &self.sending;
                Counters {
                    sent: Some(Sent {
                        packets: s.packets,
                        lost: s.lost,
                        bytes: s.bytes,
                        in_flight: s.in_flight,
                    }),
                    received: None,
                    srtt_us: known(s.srtt_us),
                    min_rtt_us: known(s.min_rtt_us),
                }
            }
        }
    }
}

/// What a slot's subflow did since the poll at which it had moved `before` bytes.
pub fn activity(id: u64, slot: &Subflow, before: u64) -> Activity {
    let received = slot.counters.received.unwrap_or_default();
    let moved = slot.counters.bytes().saturating_sub(before);
    Activity {
        // One policy judges one connection.
        connection: 0,
        id,
        path: Some(slot.path),
        backup: slot.backup,
        arrived: match slot.counters.received {
            Some(_) => moved,
            None => 0,
        },
        moved,
        packets: received.packets as u32,
        rtt_us: slot.counters.srtt_us,
    }
}

/// What a poll concludes of each slot's path at a receiver.
pub fn mark_silent(slots: &mut [Subflow], silent: &[bool]) {
    for (slot, silent) in slots.iter_mut().zip(silent) {
        if let Some(received) = &mut slot.counters.received {
            received.silent = *silent;
        }
    }
}
