//! What a learned controller (`controllers/ddpg_mpcc.h`) and whoever runs its network tell each other.

use crate::{Connection, Subflow};

/// The controller that a network steers.
pub const NAME: &str = "ddpg-mpcc";

/// Words of [`Subflow::state`], as in the headers; `tests/learned.rs` compares them with what the C compiler made.
pub mod word {
    pub const PHASE: usize = 0;
    pub const RATE: usize = 1;
    pub const OTHERS: usize = 3;
    pub const INTERVAL: usize = 4;
    pub const UTILITY: usize = 25;
    pub const SERIAL: usize = 31;
    pub const ANSWER: usize = 32;
    pub const DEADLINE: usize = 33;
    pub const MISSED: usize = 34;
    pub const RECORD: usize = 35;
}

/// [`word::PHASE`] while the network steers.
pub const FOLLOW: u64 = 3;
/// [`word::UTILITY`] counts in 2^-20.
pub const UTILITY_BITS: u32 = 20;

/// One monitor interval of one subflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Grows by one each; 0: none yet.
    pub serial: u64,
    /// An answer to this record becomes the rate; else it only shows that somebody is there.
    pub asked: bool,
    /// Bytes/s.
    pub rate: u64,
    /// Packets.
    pub delivered: u64,
    pub lost: u64,
    pub elapsed_us: u64,
    pub rtt_us: u64,
}

impl Record {
    #[inline]
    pub fn serial_of(subflow: &Subflow) -> u64 {
        subflow.state[word::SERIAL]
    }

    pub fn of(subflow: &Subflow) -> Record {
        let s = &subflow.state;
        Record {
            serial: s[word::SERIAL],
            asked: s[word::PHASE] == FOLLOW && s[word::DEADLINE] != 0,
            rate: s[word::RECORD],
            delivered: s[word::RECORD + 1],
            lost: s[word::RECORD + 2],
            elapsed_us: s[word::RECORD + 3],
            rtt_us: s[word::RECORD + 4],
        }
    }
}

/// Answers the latest record of a subflow: the rate to go to, bytes/s. It counts from the next acknowledgement on.
pub fn answer(connection: &mut Connection, slot: usize, rate: u64) {
    let subflow = &mut connection.subflows[slot];
    let serial = subflow.state[word::SERIAL];
    subflow.state[word::ANSWER] = serial << 32 | rate.min(u64::from(u32::MAX));
}

/// Utility of the interval that an agent was asked about last.
pub fn utility(subflow: &Subflow) -> f64 {
    subflow.state[word::UTILITY] as i64 as f64 / f64::from(1 << UTILITY_BITS)
}
