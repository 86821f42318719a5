//! State that a connection leaves for the next one of the same host (warm start). The loss of a path shows within a second or
//! so, and most connections end before they have compensated for that second.

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
    /// The later report counts; of two reports within a second, that of the later change of state.
    pub fn is_newer_than(&self, other: &Memory) -> bool {
        let age = |of: &Memory| (of.path.known_us() / 1_000_000, of.path.since_us);
        age(self) > age(other)
    }
}

impl Awareness {
    pub(super) fn export(&self) -> Vec<Known> {
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

    pub(super) fn import(&mut self, known: &[Known], now_us: u64) {
        let paths = known.len().max(self.paths.len());
        self.paths.resize_with(paths, Path::default);
        for (path, known) in self.paths.iter_mut().zip(known) {
            let Known::Condition(memory) = known else {
                continue;
            };
            if memory.path.is_known(now_us) {
                *path = memory
                    .path
                    .carried_over(memory.polled_us, now_us, &self.config);
            }
        }
    }
}
