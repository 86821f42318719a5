//! The bandit of the initial path: it keeps a choice ready for the next connection, and learns from what came of each. What it
//! has learnt is kept in a file, the outcomes of its connections in a folder beside it.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mp_kernel::initial_path::{
    Choice, Choices, Connections, Event, EventKind, Finished, Prefix, Start,
};
use mp_kernel::interfaces::{self, Interface};
use mp_policy::bandit::context::{self, Reading, Readings};
use mp_policy::bandit::starter::{self, Starter};
use mp_policy::bandit::{file, Decision, Policy, Settings};
use mp_record::experience::{Log, Outcome};
use mp_server::wire::Chooser;

use super::{Offer, Remote};
use crate::Error;

/// A choice is good for so long without us, and made good again so often.
const VALID: Duration = Duration::from_secs(10);
const BEAT: Duration = Duration::from_secs(2);
const SAVE: Duration = Duration::from_secs(5);
/// Decisions whose connections may still be under way; older ones are forgotten.
const OPEN: u64 = 4096;

/// The bandit of some interfaces, with what it has learnt.
pub struct Learner {
    arms: Vec<Interface>,
    starter: Starter,
    /// Who is asked first.
    remote: Option<Remote>,
    /// Arms that there are now: an interface may go down, or come to other addresses.
    there: Vec<bool>,
    /// What the radios said of each when the choice on offer was made.
    heard: Vec<Readings>,
    connections: Connections,
    open: HashMap<u64, Decided>,
    tag: u64,
    outcomes: u64,
    place: PathBuf,
    saved: Instant,
    changed: bool,
    began: Instant,
    log: Log,
    /// What is not in the log yet.
    unsaved: Vec<Outcome>,
    /// Whether the last choice could not be put in force.
    failing: bool,
    host: Box<dyn Host>,
}

/// For whom it learns.
pub trait Host: Send {
    /// What the radios and links say of an interface now.
    fn readings(&mut self, interface: &str) -> Readings;
    fn offers(&mut self, _offer: Offer) {}
    fn complains(&mut self, what: &str);
}

struct Decided {
    context: Vec<f64>,
    /// Of this host's own bandit; how likely it was is no number where another one chose.
    own: Decision,
    at: Duration,
    by: Chooser,
    /// `None`: the routing table's.
    arm: Option<usize>,
    remote: Option<mp_server::client::Choice>,
}

impl Learner {
    /// Over these interfaces, with what was learnt before of just these.
    pub fn open(
        arms: Vec<Interface>,
        folder: &Path,
        remote: Option<Remote>,
        host: Box<dyn Host>,
    ) -> Result<Learner, Error> {
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        let features = context::names(names.iter().copied());
        fs::create_dir_all(folder)
            .map_err(|e| Error::Failed(format!("{}: {e}", folder.display())))?;
        let place = folder.join(format!("bandit-{}.json", names.join("+")));
        let name = place.display().to_string();
        let known = match fs::read(&place) {
            Ok(bytes) => {
                Some(file::decode(&name, &bytes).map_err(|e| Error::Usage(e.to_string()))?)
            }
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(Error::Usage(format!("{name}: {e}"))),
        };
        // One that was written by a version that knew other features is of no use.
        let starter = match known.filter(|bandit| bandit.features() == features) {
            Some(bandit) => {
                let judge = fs::read(judgements(&place)).ok();
                let judge = judge.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                Starter::resume(bandit, judge.unwrap_or_default())
            }
            None => {
                let seed = u64::from(std::process::id());
                Starter::new(Settings::new(Policy::NAMED[0].1), &names, seed)
                    .map_err(|e| Error::Failed(e.to_string()))?
            }
        };
        Ok(Learner {
            there: vec![true; arms.len()],
            heard: vec![Readings::default(); arms.len()],
            arms,
            starter,
            remote,
            connections: Connections::default(),
            open: HashMap::new(),
            tag: 0,
            outcomes: 0,
            place,
            saved: Instant::now(),
            changed: false,
            began: Instant::now(),
            log: Log::new(&folder.join("experience")),
            unsaved: Vec::new(),
            failing: false,
            host,
        })
    }

    /// Until the events end.
    pub fn run(&mut self, choices: &Choices, events: &Receiver<Event>) {
        let mut beat = Instant::now();
        loop {
            let event = match events.recv_timeout(BEAT) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.save(),
            };
            let used = event.is_some_and(|event| self.see(&event));
            let stale = beat.elapsed() >= BEAT;
            let moved = stale && (self.look_around() | self.signals_moved());
            // Only a decision that was used, or that cannot be used any more, is followed by another.
            let offered = match used || moved {
                true => self.offer(choices),
                false if stale => self.renew(choices),
                false => continue,
            };
            beat = Instant::now();
            self.tell_of(offered);
            if self.changed && self.saved.elapsed() >= SAVE {
                self.save();
            }
        }
    }

    /// A choice that the kernel does not take is complained of once, and tried again with the next beat. What is there expires;
    /// connections then start as the routing table has it.
    fn tell_of(&mut self, offered: Result<(), mp_kernel::Error>) {
        let failed = std::mem::replace(&mut self.failing, offered.is_err());
        if let (Err(why), false) = (offered, failed) {
            self.host
                .complains(&format!("the bandit's choice is not in force: {why}"));
        }
    }

    /// A choice for the next connection.
    pub fn offer(&mut self, choices: &Choices) -> Result<(), mp_kernel::Error> {
        self.decide();
        self.renew(choices)
    }

    /// The same, for who puts it into force himself; `None`: none, the routing table's.
    pub fn decide(&mut self) -> Option<&Interface> {
        self.heard = self.listen();
        let (own, context) = self.starter.decide(&self.heard, &self.there);
        let expected = || {
            let scores = self.arms.iter().zip(&own.scores);
            let each: Vec<String> = scores.map(|(a, s)| format!("{} {s:.2}", a.name)).collect();
            each.join(", ")
        };
        let mut why = match own.explored {
            true => "in order to learn".to_owned(),
            false => format!("it does best by what was learnt: {}", expected()),
        };
        let mut decided = Decided {
            context,
            at: self.began.elapsed(),
            by: Chooser::Device,
            arm: Some(own.arm),
            own,
            remote: None,
        };
        if let Some(remote) = &self.remote {
            let choice = remote.choose(&self.arms, &self.there, &decided.context);
            let arm = choice
                .path
                .as_deref()
                .and_then(|path| remote.arm(&self.arms, path));
            let mut ours = false;
            match (choice.chosen_by, arm) {
                (Chooser::Server, Some(arm)) => {
                    (decided.arm, decided.by) = (Some(arm), Chooser::Server);
                    why = "the server says so".into();
                }
                (_, Some(arm)) => {
                    decided.arm = Some(arm);
                    why = "the server is away; by the model that it gave out last".into();
                }
                (_, None) if !starter::may_choose_alone(self.outcomes) => {
                    (decided.arm, decided.by) = (None, Chooser::Stock);
                    why = "the server is away, and too little was learnt here so far".into();
                }
                _ => (ours, why) = (true, format!("the server is away; {why}")),
            }
            if !ours {
                (decided.own.explored, decided.own.probability) = (false, f64::NAN);
            }
            decided.remote = Some(mp_server::client::Choice {
                chosen_by: decided.by,
                ..choice
            });
        }
        let (arm, by) = (decided.arm, decided.by);
        self.tag += 1;
        self.open.insert(self.tag, decided);
        if let Some(old) = self.tag.checked_sub(OPEN) {
            self.open.remove(&old);
        }
        self.host.offers(Offer {
            interface: arm.map(|arm| self.arms[arm].name.clone()),
            by: by.word().into(),
            why,
            decisions: self.tag,
            outcomes: self.outcomes,
            events_lost: 0,
        });
        arm.map(|arm| &self.arms[arm])
    }

    fn renew(&self, choices: &Choices) -> Result<(), mp_kernel::Error> {
        let Some(decided) = self.open.get(&self.tag) else {
            return Ok(());
        };
        let choice = Choice {
            tag: self.tag,
            valid: Some(VALID),
            ..decided
                .arm
                .map(|arm| self.arms[arm].choice())
                .unwrap_or_default()
        };
        choices.set(Prefix::ALL, &choice)
    }

    fn listen(&mut self) -> Vec<Readings> {
        let of = |arm: &Interface| self.host.readings(&arm.name);
        self.arms.iter().map(of).collect()
    }

    /// Whether a signal is no longer what it was when the choice on offer was made.
    fn signals_moved(&mut self) -> bool {
        let now = self.listen();
        starter::signals_moved(&self.heard, &now)
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

    /// Whether the choice on offer has been taken, or could not be: its link has no way of that address family.
    fn see(&mut self, event: &Event) -> bool {
        if event.kind == EventKind::Down && event.srtt_us > 0 {
            if let Some(arm) = self.arm_of(event.local.0) {
                let rtt_ms = f64::from(event.srtt_us) / 1e3;
                self.starter.note(arm, Reading::Rtt, rtt_ms);
            }
        }
        if let Some(finished) = self.connections.observe(event) {
            self.learn(&finished);
        }
        let ends = |start| counts(start) || start == Start::Refused;
        matches!(event.kind, EventKind::Started(start, tag) if tag == self.tag && ends(start))
    }

    fn learn(&mut self, finished: &Finished) {
        if !counts(finished.start) {
            return;
        }
        let Some(decided) = self.open.get(&finished.tag) else {
            return;
        };
        // Where the routing table chose, its choice shows in the address.
        let from = || self.arm_of(finished.from?);
        let Some(arm) = decided.arm.or_else(from) else {
            return;
        };
        let (mbps, ms) = match outcome(finished) {
            Some(outcome) => outcome,
            None if finished.handshake_us.is_none() => (f64::NAN, f64::NAN),
            // Opened and closed: it says nothing of the path.
            None => return,
        };
        let reward = self.starter.learn(&decided.context, arm, mbps, ms);
        self.unsaved.push(Outcome {
            ended_ms: now_ms(),
            chosen_by: decided.by.word().into(),
            decision: self.told(finished.tag, decided, arm, (mbps, ms), reward),
        });
        if let (Some(remote), Some(choice)) = (&self.remote, &decided.remote) {
            remote.report(choice, &self.arms[arm].name, finished, mbps, ms);
        }
        self.outcomes += 1;
        self.changed = true;
    }

    /// A decision as it is recorded.
    fn told(
        &self,
        tag: u64,
        decided: &Decided,
        arm: usize,
        (mbps, ms): (f64, f64),
        reward: bool,
    ) -> mp_record::Decision {
        let known = |v: &f64| v.is_finite().then_some(*v);
        let bandit = &self.starter.bandit;
        let named = |names: &[String], values: &[f64]| {
            let values = values.iter().map(known);
            names.iter().cloned().zip(values).collect()
        };
        mp_record::Decision {
            transfer: tag as u32,
            time_s: decided.at.as_secs_f64(),
            policy: Policy::NAMED[0].0.into(),
            arm: bandit.arms()[arm].clone(),
            explored: decided.own.explored,
            probability: decided.own.probability,
            features: named(bandit.features(), &decided.context),
            scores: named(bandit.arms(), &decided.own.scores),
            // As an edge server is told: a connection that failed carried nothing.
            throughput_mbps: Some(known(&mbps).unwrap_or(0.0)),
            latency_ms: known(&ms),
            reward: Some(reward),
        }
    }

    fn arm_of(&self, address: IpAddr) -> Option<usize> {
        self.arms
            .iter()
            .position(|arm| arm.addresses.contains(&address))
    }

    fn save(&mut self) {
        (self.saved, self.changed) = (Instant::now(), false);
        let judge = serde_json::to_vec(&self.starter.judge).unwrap_or_default();
        let saved = mp_files::replace_durably(&self.place, &file::encode(&self.starter.bandit))
            .and_then(|()| mp_files::replace(&judgements(&self.place), &judge));
        if let Err(why) = saved {
            let place = self.place.display();
            self.host
                .complains(&format!("what was learnt is not kept: {place}: {why}"));
        }
        let unsaved = std::mem::take(&mut self.unsaved);
        if let Err(why) = self.log.append(&unsaved) {
            self.host.complains(&format!(
                "the outcomes of {} connections are lost: {why}",
                unsaved.len()
            ));
        }
    }
}

/// Started as it was decided: on the path chosen, or by the routing table where that was the decision.
fn counts(start: Start) -> bool {
    matches!(start, Start::Chosen | Start::Stock)
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

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_millis() as i64)
}

fn judgements(place: &Path) -> PathBuf {
    place.with_extension("judge.json")
}
