//! The one timer of a sender: retransmission (RFC 6298), tail loss probe (RFC 8985 section 7) or RACK's reordering
//! wait, whichever is due.

use crate::agenda::NEVER;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    #[default]
    None,
    Retransmit,
    Probe,
    Reorder,
}

#[derive(Debug, Clone)]
pub struct Timer {
    pub kind: Kind,
    pub at: u64,
    /// Exponent of the back-off.
    pub backoff: u32,
}

impl Default for Timer {
    fn default() -> Self {
        Timer {
            kind: Kind::None,
            at: NEVER,
            backoff: 0,
        }
    }
}

impl Timer {
    #[inline]
    pub fn set(&mut self, kind: Kind, at: u64) {
        self.kind = kind;
        self.at = at;
    }

    #[inline]
    pub fn clear(&mut self) {
        self.set(Kind::None, NEVER);
    }
}
