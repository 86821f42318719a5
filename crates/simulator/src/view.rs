//! What a path manager sees of a simulated connection: the adapter from the simulator's own counters, as functions of those
//! alone.

use mp_policy::estimate::{Arrival, Silence};
use mp_policy::view::{Counters, Received, Sent, Subflow};

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

/// Dead-path detection at a receiver.
#[derive(Debug, Default)]
pub struct Hearing {
    silence: Silence,
    last_us: u64,
    /// Payload at the poll before, by slot.
    bytes: [u64; mp_policy::MAX_SUBFLOWS],
}

impl Hearing {
    pub fn new(now_us: u64) -> Self {
        Hearing {
            last_us: now_us,
            ..Hearing::default()
        }
    }

    /// Once a poll: marks the subflows that are silent. `id` tells the subflows that have been in a slot apart.
    pub fn poll(&mut self, now_us: u64, slots: &mut [Subflow], id: impl Fn(usize) -> u64) {
        let elapsed_us = now_us - std::mem::replace(&mut self.last_us, now_us);
        let arrival = |(slot, s): (usize, &Subflow)| {
            let bytes = s.counters.bytes();
            let before = std::mem::replace(&mut self.bytes[slot], bytes);
            Arrival {
                connection: 0,
                id: id(slot),
                backup: s.backup,
                bytes: bytes.saturating_sub(before),
                rtt_us: s.counters.srtt_us.unwrap_or(0),
            }
        };
        let arrivals: Vec<Arrival> = slots.iter().enumerate().map(arrival).collect();
        let silent = self.silence.poll(now_us, elapsed_us, &arrivals);
        for (s, silent) in slots.iter_mut().zip(silent) {
            if let Some(received) = &mut s.counters.received {
                received.silent = silent;
            }
        }
    }
}
