//! The device's own models: those that the server last gave out, and what the device has seen since.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;

use lru::LruCache;
use mp_policy::bandit::reward::Judge;
use mp_policy::bandit::{file, Bandit};
use serde_json::Value;

use crate::minds::lock;
use crate::place::encoded;
use crate::wire::{Context, Outcome};

/// Locations with a model at most; the one that was asked for longest ago goes first.
const MOST: NonZeroUsize = NonZeroUsize::new(8).unwrap();

pub struct Own {
    file: Option<PathBuf>,
    /// By location.
    places: LruCache<String, Place>,
}

/// Written without their lock: no question waits for a disk.
pub fn save(own: &Mutex<Own>) {
    let Some((path, text)) = lock(own).to_save() else {
        return;
    };
    // Without a place to keep them the device asks the server again.
    let _ = mp_files::replace(&path, &text);
}

#[derive(Default)]
struct Place {
    bandit: Option<Bandit>,
    judge: Judge,
}

fn values(bandit: &Bandit, context: &Context) -> Vec<f64> {
    let value = |name: &String| context.get(name).copied().flatten().unwrap_or(f64::NAN);
    bandit.features().iter().map(value).collect()
}

impl Own {
    /// A file that is not there, or is none of ours, holds no model: the server gives out new ones.
    pub fn load(file: Option<PathBuf>) -> Own {
        let text = file.as_ref().and_then(|f| std::fs::read(f).ok());
        let saved: Option<Vec<(String, Value)>> =
            text.and_then(|t| serde_json::from_slice(&t).ok());
        let mut own = Own {
            file,
            places: LruCache::new(MOST),
        };
        for (location, value) in saved.into_iter().flatten() {
            own.take(&location, &value);
        }
        own
    }

    /// The file, and what it is to hold.
    fn to_save(&self) -> Option<(PathBuf, Vec<u8>)> {
        let path = self.file.clone()?;
        let models: Vec<(&str, Value)> = self
            .in_order()
            .filter_map(|(location, p)| {
                Some((location.as_str(), encoded(p.bandit.as_ref()?).ok()?))
            })
            .collect();
        let text = serde_json::to_vec(&models).unwrap_or_default();
        Some((path, text))
    }

    fn place(&mut self, location: &str) -> &mut Place {
        self.places.get_or_insert_mut_ref(location, Place::default)
    }

    /// A location is asked for: its model will be looked up.
    pub fn note(&mut self, location: &str) {
        self.place(location);
    }

    /// In the order in which they were asked for last: whoever takes their models in this order leaves it as it is.
    fn in_order(&self) -> impl Iterator<Item = (&String, &Place)> {
        self.places.iter().rev()
    }

    /// Locations that were asked for.
    pub fn locations(&self) -> Vec<String> {
        self.in_order().map(|(name, _)| name.clone()).collect()
    }

    /// Those of them without a model.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.in_order().filter(|(_, p)| p.bandit.is_none());
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// Takes a model as the server gives it out.
    pub fn take(&mut self, location: &str, model: &Value) -> bool {
        let Ok(bandit) = file::decode(location, model.to_string().as_bytes()) else {
            return false;
        };
        self.place(location).bandit = Some(bandit);
        true
    }

    pub fn choose(
        &mut self,
        location: &str,
        context: &Context,
        paths: Option<&[String]>,
    ) -> Option<String> {
        let bandit = self.place(location).bandit.as_mut()?;
        let fits = |arm: &String| paths.is_none_or(|p| p.contains(arm));
        let open: Vec<bool> = bandit.arms().iter().map(fits).collect();
        if !open.contains(&true) {
            return None;
        }
        let arm = bandit.decide_among(&values(bandit, context), &open).arm;
        Some(bandit.arms()[arm].clone())
    }

    /// Learns from an outcome of this device, until the server's next model, which has learnt from it as well.
    pub fn learn(&mut self, outcome: &Outcome) {
        let place = self.place(&outcome.location);
        let latency = outcome.latency_ms.unwrap_or(f64::INFINITY);
        let reward = place.judge.judge(outcome.throughput_mbps, latency);
        if let Some(bandit) = &mut place.bandit {
            if let Some(arm) = bandit.arms().iter().position(|a| *a == outcome.path) {
                bandit.update(&values(bandit, &outcome.context), arm, reward);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_location_that_was_asked_for_longest_ago_makes_place() {
        let mut own = Own::load(None);
        let name = |number: usize| format!("place-{number}");
        for number in 0..MOST.get() {
            own.note(&name(number));
        }
        own.note(&name(0));
        // As after a refresh of all models.
        for location in own.locations() {
            own.note(&location);
        }
        own.note("another");
        let expected = (2..MOST.get()).chain([0]).map(name);
        let expected: Vec<_> = expected.chain(["another".to_owned()]).collect();
        assert_eq!(own.locations(), expected);
        assert_eq!(own.missing(), expected);
    }
}
