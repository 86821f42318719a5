//! What outlives a connection.

use super::awareness::Memory;
use crate::super_arm::Arm;

/// What a connection knows of one of its paths, for those that use it after it.
#[derive(Debug, Clone, Default)]
pub enum Known {
    #[default]
    Nothing,
    /// To MS-UCB. Means add up, those of other hosts too.
    Worth(Arm),
    /// To path awareness. The latest counts, and only on its own host.
    Condition(Box<Memory>),
}

impl Known {
    /// What another connection knows of the same path joins it.
    pub fn join(&mut self, other: Known) {
        match (&mut *self, other) {
            (Known::Nothing, other) => *self = other,
            (Known::Worth(own), Known::Worth(arm)) => own.join(arm),
            (Known::Condition(own), Known::Condition(memory)) if memory.is_newer_than(own) => {
                *own = memory;
            }
            _ => {}
        }
    }

    /// What it is worth to MS-UCB.
    pub fn worth(&self) -> Arm {
        match self {
            Known::Worth(arm) => *arm,
            _ => Arm::default(),
        }
    }

    /// Whether it is told to other hosts.
    pub fn travels(&self) -> bool {
        matches!(self, Known::Worth(_))
    }
}
