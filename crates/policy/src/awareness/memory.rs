//! What one connection has learned of the paths, for the next one of the same host. That a path loses shows within a second or
//! so, which most connections do not last for long enough to earn back.

use super::judge::Judge;
use super::Awareness;
use crate::path_manager::Known;

/// A path of which nothing was heard for so long is a new one, µs.
pub(super) const MEMORY_US: u64 = 600_000_000;
/// A path that was given more than it carries is taken to be full for so long, µs.
const PRESSED_US: u64 = 1_000_000;

/// Of one path.
#[derive(Debug, Clone)]
pub struct Memory {
    judge: Judge,
    looked_us: u64,
    peace_us: u64,
    acquittals: u32,
}

impl Memory {
    /// Of two that hear of the path at the same time, the one counts that changed its mind last.
    pub fn is_newer_than(&self, other: &Memory) -> bool {
        let age = |of: &Memory| (of.judge.known_us() / 1_000_000, of.judge.changed_us());
        age(self) > age(other)
    }
}

impl Awareness {
    pub(super) fn remembered(&self) -> Vec<Known> {
        let Some(last) = self.last else {
            return Vec::new();
        };
        let known = |judge: &Judge| match judge.known_us() {
            0 => Known::Nothing,
            _ => Known::Condition(Box::new(Memory {
                judge: judge.clone(),
                looked_us: last.now_us,
                peace_us: self.peace_us,
                acquittals: self.acquittals,
            })),
        };
        self.paths.iter().map(known).collect()
    }

    pub(super) fn succeed(&mut self, known: &[Known], now_us: u64) {
        let paths = known.len().max(self.paths.len());
        self.paths.resize_with(paths, Judge::default);
        for (judge, known) in self.paths.iter_mut().zip(known) {
            let Known::Condition(memory) = known else {
                continue;
            };
            if now_us >= memory.judge.known_us() + MEMORY_US {
                continue;
            }
            *judge = memory.judge.succeed(memory.looked_us, now_us, &self.config);
            let gap = now_us.saturating_sub(memory.looked_us);
            self.peace_us = self.peace_us.max(memory.peace_us + gap);
            self.acquittals = self.acquittals.max(memory.acquittals);
        }
    }

    /// What another connection carried with a path that it then parked is a claim on this one only while this one sends all
    /// that its paths carry: not while it finds its rate, nor where its application has less to send.
    pub(super) fn hold_inherited(&mut self, now_us: u64) {
        if self.normal.iter().any(|&p| self.paths[p].pressed(now_us)) {
            self.pressed_us = now_us;
        }
        if self.pressed_us > 0 && now_us < self.pressed_us + PRESSED_US {
            return;
        }
        for judge in &mut self.paths {
            if let Some(parked) = judge.parked.as_mut().filter(|p| p.inherited) {
                parked.missed = parked.missed.anew(now_us);
            }
        }
    }
}
