//! What passes between device and relay, as bytes: pure encoding and decoding, without I/O. `docs/reference/relay.md` has
//! the layout.
//!
//! A path connection carries, in this order: the [`Knock`] in the clear; TLS 1.3; and inside it the proof, at most one
//! [`Opener`] from the device, and [`Frame`]s in both directions.

mod frame;
mod knock;
mod line;
mod opener;

pub use frame::{Frame, Header, Refusal, MOST_PAYLOAD};
pub use knock::{DatagramKnock, Knock, DATAGRAM_KNOCK_LENGTH, ID_LENGTH, KNOCK_LENGTH, MAC_LENGTH};
pub use line::{key_text, Line, LineError};
pub(crate) use opener::MOST_SCHEDULER;
pub use opener::{Opener, Target, MOST_OPENER};

use mp_policy::link::Priority;
use mp_policy::MAX_SUBFLOWS;

/// Bytes that no peer of this version sends: the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

const BACKUP: u8 = 0x80;
const PREFERRED: u8 = 0x40;
/// Of an [`Opener`] alone.
const RESUMES: u8 = 0x20;

/// A path's slot with its priority, which holds for both directions.
pub(crate) fn path_byte(slot: u8, priority: Priority) -> u8 {
    slot | match priority {
        Priority::Normal => 0,
        Priority::Backup => BACKUP,
        Priority::Preferred => PREFERRED,
    }
}

pub(crate) fn read_path(byte: u8) -> Option<(u8, Priority)> {
    let slot = byte & !(BACKUP | PREFERRED);
    let priority = match byte & (BACKUP | PREFERRED) {
        0 => Priority::Normal,
        BACKUP => Priority::Backup,
        PREFERRED => Priority::Preferred,
        _ => return None,
    };
    (usize::from(slot) < MAX_SUBFLOWS).then_some((slot, priority))
}

/// Reads from the front of a slice; `None` where it is too short.
pub(crate) struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}
