//! What one connection has learnt of the paths, for the next one of the same host: that a path loses shows within a second or
//! so, which most connections do not last for long enough to earn back.

use super::state::Path;
use super::Awareness;
use crate::path_manager::Known;

/// Of one path.
#[derive(Debug, Clone)]
pub struct Memory {
    path: Path,
    polled_us: u64,
}

impl Memory {
    /// Of two that hear of the path at the same time, the one counts that changed its mind last.
    pub fn is_newer_than(&self, other: &Memory) -> bool {
        let age = |of: &Memory| (of.path.known_us() / 1_000_000, of.path.since_us);
        age(self) > age(other)
    }
}

impl Awareness {
    pub(super) fn remembered(&self) -> Vec<Known> {
        let Some(polled_us) = self.goodput.polled_us() else {
            return Vec::new();
        };
        let known = |path: &Path| match path.known_us() {
            0 => Known::Nothing,
            _ => Known::Condition(Box::new(Memory {
                path: path.clone(),
                polled_us,
            })),
        };
        self.paths.iter().map(known).collect()
    }

    pub(super) fn succeed(&mut self, known: &[Known], now_us: u64) {
        let paths = known.len().max(self.paths.len());
        self.paths.resize_with(paths, Path::default);
        for (path, known) in self.paths.iter_mut().zip(known) {
            let Known::Condition(memory) = known else {
                continue;
            };
            if memory.path.is_known(now_us) {
                *path = memory.path.succeed(memory.polled_us, now_us, &self.config);
            }
        }
    }
}
