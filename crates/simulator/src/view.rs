//! What a path manager sees of a simulated connection: the adapter from the simulator's own counters, as functions of those
//! alone.

use mp_policy::view::{Activity, Counters, Received, Sent, Subflow};

/// What the client's end of a subflow has counted.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub data: Data,
    /// Bytes of payload in a segment.
    pub mss: u32,
    /// µs; 0 before the first sample
    pub srtt_us: u32,
    /// µs; 0 or all ones before the first sample
    pub min_rtt_us: u32,
}

/// The half of a subflow that has the data.
#[derive(Debug, Clone, Copy)]
pub enum Data {
    /// An upload.
    Sent(Sent),
    /// A download, in segments.
    Arrived {
        /// In order, and held behind a hole.
        new: u64,
        /// Duplicates included.
        all: u64,
        out_of_order: u64,
    },
}

impl End {
    pub fn counters(&self) -> Counters {
        let known = |us: u32| Some(us).filter(|&us| us > 0 && us < u32::MAX);
        let (sent, received) = match self.data {
            Data::Sent(sent) => (Some(sent), None),
            Data::Arrived {
                new,
                all,
                out_of_order,
            } => {
                let received = Received {
                    packets: all,
                    out_of_order,
                    bytes: new * u64::from(self.mss),
                    silent: false,
                };
                (None, Some(received))
            }
        };
        Counters {
            sent,
            received,
            srtt_us: known(self.srtt_us),
            min_rtt_us: known(self.min_rtt_us),
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
        rtt_us: slot.counters.srtt_us.unwrap_or(0),
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
