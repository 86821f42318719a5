//! The bandit as path manager of a program: it keeps a choice ready for the next connection, and learns from what came of
//! each. What it has learnt is kept for the next run.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mp_kernel::interfaces::{self, Interface};
use mp_kernel::primary::{Choice, Choices, Connections, Event, Finished, Prefix, Start, What};
use mp_policy::bandit::context::{self, Reading};
use mp_policy::bandit::starter::Starter;
use mp_policy::bandit::{file, Policy, Settings};

use super::primary::{by_shim, Chooser};
use crate::outcome::{Failure, Outcome};

/// A choice is good for so long without us, and made good again so often.
const VALID: Duration = Duration::from_secs(10);
const BEAT: Duration = Duration::from_secs(2);
const SAVE: Duration = Duration::from_secs(5);
/// Connections that end with the program have so long to be seen.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Decisions whose connections may still be under way; older ones are forgotten.
const OPEN: u64 = 4096;

/// Learns while it lives; dropping it saves what it knows.
#[derive(Debug)]
pub struct Learning {
    thread: Option<JoinHandle<()>>,
    // Dropping it ends the events, and with them the thread.
    chooser: Option<Chooser>,
}

/// Puts `command` in the bandit's hands.
pub fn start(command: &mut Command) -> Outcome<Learning> {
    let all = interfaces::all()?;
    let mut arms: Vec<Interface> = all.iter().filter(|i| i.leads_out()).cloned().collect();
    if arms.is_empty() {
        // A network without a way out: any interface may be the one.
        arms.clone_from(&all);
    }
    if arms.is_empty() {
        return Err(Failure::Unable(
            "this host has no interface that is up and has an address".into(),
        ));
    }
    let mut learner = Learner::open(arms)?;
    match Chooser::over(command, &all) {
        Ok(mut chooser) => {
            let choices = chooser.primary.choices().clone();
            let events = chooser.take_events();
            learner.offer(&choices)?;
            let thread = std::thread::spawn(move || learner.run(&choices, &events));
            Ok(Learning {
                thread: Some(thread),
                chooser: Some(chooser),
            })
        }
        Err(why) => {
            // Without word of what comes of connections there is nothing to learn from.
            let arm = learner.decide();
            let why = format!("{why}: nothing is learnt from this run");
            by_shim(command, &learner.arms[arm], &why);
            Ok(Learning {
                thread: None,
                chooser: None,
            })
        }
    }
}

impl Drop for Learning {
    fn drop(&mut self) {
        if self.thread.is_some() {
            std::thread::sleep(LAST_WORDS);
        }
        drop(self.chooser.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Learner {
    arms: Vec<Interface>,
    starter: Starter,
    /// Arms that there are now: an interface may go down, or come to other addresses.
    there: Vec<bool>,
    connections: Connections,
    /// Decisions by tag: the context, and the arm.
    open: HashMap<u64, (Vec<f64>, usize)>,
    tag: u64,
    place: PathBuf,
    saved: Instant,
    changed: bool,
}

impl Learner {
    fn open(arms: Vec<Interface>) -> Outcome<Learner> {
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        let features = context::names(names.iter().copied());
        let place = folder()?.join(format!("bandit-{}.json", names.join("+")));
        let fresh = || {
            let seed = u64::from(std::process::id());
            Starter::new(Settings::new(Policy::NAMED[0].1), &names, seed)
                .map_err(|e| Failure::Run(e.to_string()))
        };
        let known = match place.exists() {
            true => Some(file::load(&place).map_err(|e| Failure::Usage(e.to_string()))?),
            false => None,
        };
        // One that was written by a version that knew other features is of no use.
        let starter = match known.filter(|bandit| bandit.features() == features) {
            Some(bandit) => {
                let judge = fs::read(judgements(&place)).ok();
                let judge = judge.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                Starter::resume(bandit, judge.unwrap_or_default())
            }
            None => fresh()?,
        };
        Ok(Learner {
            there: vec![true; arms.len()],
            arms,
            starter,
            connections: Connections::default(),
            open: HashMap::new(),
            tag: 0,
            place,
            saved: Instant::now(),
            changed: false,
        })
    }

    fn run(&mut self, choices: &Choices, events: &Receiver<Event>) {
        let mut beat = Instant::now();
        loop {
            let event = match events.recv_timeout(BEAT) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.save(),
            };
            let used = event.is_some_and(|event| self.see(&event));
            let stale = beat.elapsed() >= BEAT;
            let moved = stale && self.look_around();
            // Only a decision that was used, or that cannot be used any more, is followed by another.
            let offered = match used || moved {
                true => self.offer(choices),
                false if stale => self.renew(choices),
                false => continue,
            };
            beat = Instant::now();
            if offered.is_err() {
                // What is there expires; connections start as the routing table has it.
                return self.save();
            }
            if self.changed && self.saved.elapsed() >= SAVE {
                self.save();
            }
        }
    }

    /// Whether an arm has come, gone or changed.
    fn look_around(&mut self) -> bool {
        let Ok(all) = interfaces::all() else {
            return false;
        };
        let before = (self.there.clone(), self.arms.clone());
        for (arm, there) in self.arms.iter_mut().zip(&mut self.there) {
            let now = all.iter().find(|i| i.name == arm.name);
            *there = now.is_some();
            if let Some(now) = now {
                arm.clone_from(now);
            }
        }
        before != (self.there.clone(), self.arms.clone())
    }

    /// Whether the choice on offer has been taken.
    fn see(&mut self, event: &Event) -> bool {
        if event.what == What::Down && event.srtt_us > 0 {
            if let Some(arm) = self.arm_of(event.local.0) {
                let rtt_ms = f64::from(event.srtt_us) / 1e3;
                self.starter.note(arm, Reading::Rtt, rtt_ms);
            }
        }
        if let Some(finished) = self.connections.observe(event) {
            self.learn(&finished);
        }
        matches!(event.what, What::Started(Start::Chosen, tag) if tag == self.tag)
    }

    fn learn(&mut self, finished: &Finished) {
        if finished.start != Start::Chosen {
            return;
        }
        let Some((context, arm)) = self.open.get(&finished.tag) else {
            return;
        };
        let (mbps, ms) = match outcome(finished) {
            Some(outcome) => outcome,
            None if finished.handshake_us.is_none() => (f64::NAN, f64::NAN),
            // Opened and closed: it says nothing of the path.
            None => return,
        };
        self.starter.learn(context, *arm, mbps, ms);
        self.changed = true;
    }

    fn decide(&mut self) -> usize {
        let (decision, context) = self.starter.decide(&[], &self.there);
        let arm = decision.arm;
        self.tag += 1;
        self.open.insert(self.tag, (context, arm));
        if let Some(old) = self.tag.checked_sub(OPEN) {
            self.open.remove(&old);
        }
        arm
    }

    fn offer(&mut self, choices: &Choices) -> Result<(), mp_kernel::Error> {
        self.decide();
        self.renew(choices)
    }

    fn renew(&self, choices: &Choices) -> Result<(), mp_kernel::Error> {
        let Some((_, arm)) = self.open.get(&self.tag) else {
            return Ok(());
        };
        let choice = Choice {
            tag: self.tag,
            valid: Some(VALID),
            ..self.arms[*arm].choice()
        };
        choices.set(Prefix::ALL, &choice)
    }

    fn arm_of(&self, address: IpAddr) -> Option<usize> {
        self.arms
            .iter()
            .position(|arm| arm.addresses.contains(&address))
    }

    fn save(&mut self) {
        (self.saved, self.changed) = (Instant::now(), false);
        let judge = serde_json::to_vec(&self.starter.judge).unwrap_or_default();
        let saved = file::save(&self.starter.bandit, &self.place)
            .map_err(|e| e.to_string())
            .and_then(|()| fs::write(judgements(&self.place), judge).map_err(|e| e.to_string()));
        if let Err(why) = saved {
            super::say(0, &format!("what was learnt is not kept: {why}"));
        }
    }
}

/// Throughput (Mbit/s) and latency (ms) of a connection that carried something.
fn outcome(finished: &Finished) -> Option<(f64, f64)> {
    let seconds = (finished.ended_ns - finished.started_ns) as f64 / 1e9;
    let latency_us = match finished.srtt_us {
        0 => finished.handshake_us? as f64,
        srtt => f64::from(srtt),
    };
    let carried = finished.bytes > 0 && seconds > 0.0;
    carried.then(|| (finished.bytes as f64 * 8e-6 / seconds, latency_us / 1e3))
}

fn judgements(place: &Path) -> PathBuf {
    place.with_extension("judge.json")
}

/// As the XDG base directory specification has it.
fn folder() -> Outcome<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    let folder = state
        .ok_or_else(|| {
            Failure::Usage(
                "neither XDG_STATE_HOME nor HOME says where the bandit's memory is".into(),
            )
        })?
        .join("multipilot");
    fs::create_dir_all(&folder).map_err(|e| Failure::Run(format!("{}: {e}", folder.display())))?;
    Ok(folder)
}
