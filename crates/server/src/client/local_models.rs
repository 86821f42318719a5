//! The device's own models: those that the server last gave out, and what the device has seen since.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Mutex;

use mp_policy::bandit::reward::Judge;
use mp_policy::bandit::{file, Bandit};
use serde_json::Value;

use crate::location_model::encoded;
use crate::models::lock;
use crate::wire::{Context, Outcome};

/// Locations with a model at most; the one that was asked for longest ago goes first.
const MOST: usize = 8;

pub struct LocalModels {
    file: Option<PathBuf>,
    /// Asked for last comes last.
    entries: VecDeque<Entry>,
}

/// Written without their lock: no question waits for a disk.
pub fn save(models: &Mutex<LocalModels>) {
    let Some((path, text)) = lock(models).to_save() else {
        return;
    };
    // Without a place to keep them the device asks the server again.
    let _ = mp_files::replace(&path, &text);
}

struct Entry {
    location: String,
    bandit: Option<Bandit>,
    judge: Judge,
}

fn values(bandit: &Bandit, context: &Context) -> Vec<f64> {
    let value = |name: &String| context.get(name).copied().flatten().unwrap_or(f64::NAN);
    bandit.features().iter().map(value).collect()
}

impl LocalModels {
    /// A file that is not there, or is none of ours, holds no model: the server gives out new ones.
    pub fn load(file: Option<PathBuf>) -> LocalModels {
        let text = file.as_ref().and_then(|f| std::fs::read(f).ok());
        let saved: Option<Vec<(String, Value)>> =
            text.and_then(|t| serde_json::from_slice(&t).ok());
        let mut models = LocalModels {
            file,
            entries: VecDeque::new(),
        };
        for (location, value) in saved.into_iter().flatten() {
            models.take(&location, &value);
        }
        models
    }

    /// The file, and what it is to hold.
    fn to_save(&self) -> Option<(PathBuf, Vec<u8>)> {
        let path = self.file.clone()?;
        let models: Vec<(&str, Value)> = self
            .entries
            .iter()
            .filter_map(|p| Some((p.location.as_str(), encoded(p.bandit.as_ref()?).ok()?)))
            .collect();
        let text = serde_json::to_vec(&models).unwrap_or_default();
        Some((path, text))
    }

    fn entry(&mut self, location: &str) -> &mut Entry {
        let found = self.entries.iter().position(|p| p.location == location);
        let entry = found.and_then(|at| self.entries.remove(at));
        let entry = entry.unwrap_or_else(|| Entry {
            location: location.to_owned(),
            bandit: None,
            judge: Judge::default(),
        });
        if self.entries.len() == MOST {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
        self.entries.back_mut().expect("one was pushed")
    }

    /// A location is asked for: its model will be looked up.
    pub fn note(&mut self, location: &str) {
        self.entry(location);
    }

    /// Locations that were asked for.
    pub fn locations(&self) -> Vec<String> {
        self.entries.iter().map(|p| p.location.clone()).collect()
    }

    /// Those of them without a model.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.entries.iter().filter(|p| p.bandit.is_none());
        missing.map(|p| p.location.clone()).collect()
    }

    /// Takes a model as the server gives it out.
    pub fn take(&mut self, location: &str, model: &Value) -> bool {
        let Ok(bandit) = file::decode(location, model.to_string().as_bytes()) else {
            return false;
        };
        self.entry(location).bandit = Some(bandit);
        true
    }

    pub fn choose(
        &mut self,
        location: &str,
        context: &Context,
        paths: Option<&[String]>,
    ) -> Option<String> {
        let bandit = self.entry(location).bandit.as_mut()?;
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
        let entry = self.entry(&outcome.location);
        let latency = outcome.latency_ms.unwrap_or(f64::INFINITY);
        let reward = entry.judge.judge(outcome.throughput_mbps, latency);
        if let Some(bandit) = &mut entry.bandit {
            if let Some(arm) = bandit.arms().iter().position(|a| *a == outcome.path) {
                bandit.update(&values(bandit, &outcome.context), arm, reward);
            }
        }
    }
}
