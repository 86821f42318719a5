//! What the server has learnt: a model shared by all locations, and one for each that has told enough.
//!
//! One thread teaches ([`Models::learn`]), in the order of the log; requests choose at the same time. A fit on all that is
//! remembered takes milliseconds and is made on a copy, so that no request waits for it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use mp_policy::bandit::context;
use mp_policy::bandit::reward::{Thresholds, NO_LATENCY};
use mp_policy::bandit::{Bandit, Invalid, Policy, Settings};

use crate::config::Config;
use crate::location_model::{encoded, LocationModel, TrainingSample};
use crate::store::LoggedOutcome;
use crate::tally::BATCH;
use crate::wire::{Answer, Chooser, Context};

/// Outcomes that the shared model learns from before locations begin their own from it: what they take over for good
/// is its scale of the features.
const SHARED_FIRST: u64 = 500;
/// The shared model is fitted after so many times the outcomes of a location's.
const SHARED_MORE: u32 = 5;
/// Nice value of a fit.
const POLITE: i32 = 15;
/// The shared model's name among the locations, which no location can have.
pub const SHARED: &str = "*";

pub struct Models {
    pub(crate) paths: Vec<String>,
    features: Vec<String>,
    settings: Settings,
    thresholds: Thresholds,
    refit: u32,
    seed: u64,
    most: usize,
    pub(crate) shared: Mutex<LocationModel>,
    locations: RwLock<HashMap<String, Arc<Mutex<LocationModel>>>>,
    /// Locations that were let in; their first outcomes may not be learnt from yet.
    known: Mutex<HashSet<String>>,
    /// Outcomes stored and not learnt from.
    behind: AtomicI64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in one request is no reason to refuse all others; the state is whole after every statement that can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Models {
    pub fn new(config: &Config) -> Result<Models, Invalid> {
        let policy = Policy::named(&config.policy).unwrap_or(Policy::NAMED[0].1);
        let settings = Settings {
            // Here it is called for, on a copy.
            refit_every: 0,
            memory: config.memory,
            ..Settings::new(policy)
        };
        let features = context::names(config.paths.iter().map(String::as_str));
        let thresholds = match (config.throughput_mbps, config.latency_ms) {
            (None, None) => Thresholds::default(),
            (throughput, latency) => Thresholds::Fixed {
                throughput_mbps: throughput.unwrap_or(0.0),
                latency_ms: latency.unwrap_or(NO_LATENCY),
            },
        };
        let blank = Bandit::new(
            settings,
            config.paths.clone(),
            features.clone(),
            config.seed,
        )?;
        Ok(Models {
            paths: config.paths.clone(),
            features,
            settings,
            thresholds,
            refit: config.refit,
            seed: config.seed,
            most: config.locations,
            shared: Mutex::new(LocationModel {
                own: Some(blank),
                ..LocationModel::new(thresholds)
            }),
            locations: RwLock::default(),
            known: Mutex::default(),
            behind: AtomicI64::new(0),
        })
    }

    /// A model that knows nothing.
    fn blank(&self, seed: u64) -> Bandit {
        Bandit::new(
            self.settings,
            self.paths.clone(),
            self.features.clone(),
            seed,
        )
        .expect("one was made of the same")
    }

    pub fn features(&self) -> &[String] {
        &self.features
    }

    pub fn behind(&self) -> i64 {
        self.behind.load(Ordering::Relaxed).max(0)
    }

    /// Outcomes have been stored (or learnt from, if negative).
    pub fn wait_for(&self, outcomes: i64) {
        self.behind.fetch_add(outcomes, Ordering::Relaxed);
    }

    /// Whether there is room for a location; then there stays some.
    pub fn admit(&self, location: &str) -> bool {
        let mut known = lock(&self.known);
        if known.contains(location) {
            return true;
        }
        known.len() < self.most && known.insert(location.to_owned())
    }

    pub(crate) fn find(&self, location: &str) -> Option<Arc<Mutex<LocationModel>>> {
        let locations = self
            .locations
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        locations.get(location).cloned()
    }

    fn find_or_make(&self, location: &str) -> Arc<Mutex<LocationModel>> {
        if let Some(model) = self.find(location) {
            return model;
        }
        let mut locations = self
            .locations
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let fresh = || Arc::new(Mutex::new(LocationModel::new(self.thresholds)));
        locations
            .entry(location.to_owned())
            .or_insert_with(fresh)
            .clone()
    }

    fn vector(&self, context: &Context) -> Vec<Option<f64>> {
        let value = |name: &String| context.get(name).copied().flatten();
        self.features.iter().map(value).collect()
    }

    /// Has the location's model choose among the paths marked, or the shared one where it has none yet.
    pub fn choose(&self, location: &str, context: &Context, open: &[bool]) -> Answer {
        let hole = |v: Option<f64>| v.unwrap_or(f64::NAN);
        let values: Vec<f64> = self.vector(context).into_iter().map(hole).collect();
        let model = self.find(location);
        if let Some(model) = &model {
            let mut model = lock(model);
            let outcomes = model.tally.outcomes;
            if let Some(own) = &mut model.own {
                return self.answer(own, outcomes, &values, open);
            }
        }
        let mut shared = lock(&self.shared);
        let bandit = shared.own.as_mut().expect("the shared model is there");
        self.answer(bandit, 0, &values, open)
    }

    fn answer(&self, bandit: &mut Bandit, outcomes: u64, values: &[f64], open: &[bool]) -> Answer {
        let decision = bandit.decide_among(values, open);
        let expected = bandit.predict(values);
        Answer {
            path: self.paths[decision.arm].clone(),
            explored: decision.explored,
            expected: self.paths.iter().cloned().zip(expected).collect(),
            outcomes,
        }
    }

    /// Learns from the log's next outcome. `replayed` ones were chosen by a server that is no more: its rounds count too.
    pub fn learn(&self, row: &LoggedOutcome, replayed: bool) {
        // A path that the configuration no longer has teaches nothing.
        let Some(path) = self.paths.iter().position(|p| *p == row.path) else {
            return;
        };
        let here = row.chosen_by == Chooser::Server.word();
        let handle = self.find_or_make(&row.location);
        let latency = row.latency_ms.unwrap_or(f64::INFINITY);
        let reward = lock(&handle).judge.judge(row.throughput_mbps, latency);
        let sample = TrainingSample {
            context: self.vector(&row.context),
            path,
            reward,
        };
        let values = sample.values();

        let mut shared = lock(&self.shared);
        let mut model = lock(&handle);
        let (expected_of_all, _) = take(&mut shared, None, &values, path, reward, replayed && here);
        shared
            .tally
            .add(self.paths.len(), path, expected_of_all, reward, here);
        model.remember(sample);
        let (expected, own) = take(
            &mut model,
            Some(expected_of_all),
            &values,
            path,
            reward,
            replayed && here,
        );
        model
            .tally
            .add(self.paths.len(), path, expected, reward, here);
        let count = model.tally.outcomes;
        let alarm = model
            .drift
            .add(self.paths.len(), path, expected, reward, count);
        let ripe = count >= u64::from(BATCH) && shared.tally.outcomes >= SHARED_FIRST;
        let seed = self.seed ^ (row.seq as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match (own, alarm) {
            // What was known before a sudden change misleads, the shared model's part of it included.
            (true, Some(since)) => model.begin(self.blank(seed), since),
            (false, _) if ripe => {
                let shared = shared.own.as_ref().expect("the shared model is there");
                model.begin(shared.child(seed), BATCH.into());
            }
            _ => {}
        }
        let fit = model.own.is_some() && model.since_fit >= self.refit;
        let fit_shared = shared.since_fit >= self.refit.saturating_mul(SHARED_MORE);
        drop((model, shared));
        if fit {
            refit(&handle);
        }
        if fit_shared {
            refit(&self.shared);
        }
    }

    /// Fits a location's model anew on all that it remembers, or all of them.
    pub fn refit(&self, location: Option<&str>) {
        for name in self.names() {
            if location.is_none_or(|l| l == name) {
                self.find(&name).iter().for_each(|model| refit(model));
            }
        }
        if location.is_none() {
            refit(&self.shared);
        }
    }

    pub fn names(&self) -> Vec<String> {
        let locations = self
            .locations
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<String> = locations.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// A location's model without its experience, for a device: how many outcomes are behind it, and the model.
    pub fn model(&self, location: &str) -> (u64, serde_json::Value) {
        let child = |bandit: &Bandit| encoded(&bandit.child(self.seed)).unwrap_or_default();
        if let Some(model) = self.find(location) {
            let model = lock(&model);
            if let Some(own) = &model.own {
                return (model.tally.outcomes, child(own));
            }
        }
        let shared = lock(&self.shared);
        (0, shared.own.as_ref().map(child).unwrap_or_default())
    }

    /// What a location's state is in the database.
    pub fn saved(&self, location: &str) -> Option<Vec<u8>> {
        let model = match location {
            SHARED => lock(&self.shared).clone(),
            _ => lock(&*self.find(location)?).clone(),
        };
        serde_json::to_vec(&model).ok()
    }

    /// Takes a state from the database; false where it is no state of this server's models.
    pub fn restore(&self, location: &str, state: &[u8]) -> bool {
        let Ok(model) = serde_json::from_slice::<LocationModel>(state) else {
            return false;
        };
        let fits = |b: &Bandit| b.arms() == self.paths && b.features() == self.features;
        if !model.own.as_ref().is_none_or(fits) {
            return false;
        }
        match location {
            SHARED if model.own.is_none() => return false,
            SHARED => *lock(&self.shared) = model,
            _ => {
                self.admit(location);
                *lock(&self.find_or_make(location)) = model;
            }
        }
        true
    }
}

/// Fitted where it takes no time from requests: milliseconds of computing, many times a second under load, on a machine of
/// few cores. The thread holds no lock, so that nobody waits for it who is to come first.
fn behind_requests(mut bandit: Bandit) -> Option<Bandit> {
    let fit = move || {
        // Not allowed to be polite: then it is not.
        let _ = rustix::process::setpriority_process(None, POLITE);
        bandit.refit();
        bandit
    };
    let thread = std::thread::Builder::new().name("fit".into());
    thread.spawn(fit).ok()?.join().ok()
}

/// What was expected of an outcome, before it is learnt from; and whether the location has a model of its own.
fn take(
    model: &mut LocationModel,
    otherwise: Option<f64>,
    values: &[f64],
    path: usize,
    reward: bool,
    decided: bool,
) -> (f64, bool) {
    let Some(own) = &mut model.own else {
        return (otherwise.unwrap_or(0.5), false);
    };
    let expected = own.predict(values)[path];
    if decided {
        own.decide(values);
    }
    own.update(values, path, reward);
    model.since_fit += 1;
    (expected, true)
}

/// On a copy: only the teaching thread changes what is remembered, and it waits, so that no outcome is missed meanwhile.
/// Rounds decided meanwhile are not counted, which are few.
fn refit(model: &Mutex<LocationModel>) {
    let copy = lock(model).own.clone();
    let Some(copy) = copy else { return };
    // Where no thread is to be had the next outcome asks for it again.
    let Some(fitted) = behind_requests(copy) else {
        return;
    };
    let mut model = lock(model);
    model.own = Some(fitted);
    model.since_fit = 0;
}
