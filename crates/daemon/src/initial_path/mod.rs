//! The bandit of this host (`[bandit]`), on a thread of its own.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use mp_host::initial_path::{exempt_near, Host, Learner, Offer, Remote};
use mp_kernel::initial_path::{Attachment, Prefix};
use mp_kernel::interfaces::{self, Interface};
use mp_policy::bandit::context::Readings;
use mp_policy::initial_path;
use mp_policy::path_manager::Rule;
use mp_server::client;

use crate::config::{self, Config};
use crate::log::{self, Level};
use crate::Error;

/// Shared with the learner's thread.
#[derive(Default)]
struct Board {
    readings: HashMap<String, Readings>,
    offer: Option<Offer>,
}

#[derive(Clone, Default)]
struct Ours(Arc<Mutex<Board>>);

impl Ours {
    fn lock(&self) -> std::sync::MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Ours {
    fn readings(&mut self, interface: &str) -> Readings {
        let board = self.lock();
        board.readings.get(interface).copied().unwrap_or_default()
    }

    fn offers(&mut self, offer: Offer) {
        self.lock().offer = Some(offer);
    }

    fn complains(&mut self, what: &str) {
        log::line(Level::Warning, what, &[]);
    }
}

/// The bandit of this host, while it lives.
pub struct InitialPathBandit {
    board: Ours,
    arms: Vec<Interface>,
    /// Destinations that stay the routing table's.
    exempt: HashSet<Prefix>,
    // Dropping it ends the events, and with them the thread.
    attached: Option<Attachment>,
    /// Of the lost events, those that are in the log.
    logged: u64,
    thread: Option<JoinHandle<()>>,
}

impl InitialPathBandit {
    /// `None` while no interface leads anywhere.
    pub fn begin(
        config: &Config,
        settings: &config::BanditConfig,
    ) -> Result<Option<InitialPathBandit>, Error> {
        let arms = arms(config, &leading_out(interfaces::all()?));
        if arms.is_empty() {
            return Ok(None);
        }
        let token = |file: &PathBuf| {
            let text = std::fs::read_to_string(file);
            text.map_err(|e| Error::Usage(format!("bandit.token-file: {}: {e}", file.display())))
        };
        let remote = settings.server.as_ref().map(|server| {
            let token = token(&server.token_file)?;
            if server.address.is_exposed() {
                let what = format!(
                    "INSECURE: the token crosses the network to {} in clear text",
                    server.address
                );
                log::line(Level::Warning, &what, &[]);
            }
            let client = client::Settings {
                ca: server.ca.clone(),
                file: Some(settings.memory.join("server-models.json")),
                says: |what| log::line(Level::Warning, what, &[]),
                ..client::Settings::new(server.address.clone(), token.trim())
            };
            Remote::start(client, &server.location, server.paths.clone()).map_err(Error::from)
        });
        let board = Ours::default();
        let host = Box::new(board.clone());
        let mut learner = Learner::open(arms.clone(), &settings.memory, remote.transpose()?, host)?;
        let (send, events) = channel();
        let group = match &settings.cgroup {
            Some(group) => group.clone(),
            None => mp_kernel::cgroup::root()?,
        };
        let own = mp_kernel::choose::own_cookie()?;
        let attached = Attachment::attach(&group, move |event| {
            // Below the cgroup there may be containers with a network of their own.
            if event.netns_cookie == own {
                let _ = send.send(event);
            }
        })?;
        let choices = attached.choices().clone();
        let exempt: HashSet<Prefix> = interfaces::routed().into_iter().collect();
        exempt_near(&choices, exempt.iter().copied())?;
        learner.offer(&choices)?;
        let thread = std::thread::Builder::new()
            .name("initial-path".into())
            .spawn(move || learner.run(&choices, &events))
            .map_err(|e| Error::Failed(format!("cannot start a thread: {e}")))?;
        Ok(Some(InitialPathBandit {
            board,
            arms,
            exempt,
            attached: Some(attached),
            logged: 0,
            thread: Some(thread),
        }))
    }

    /// Destinations that the routing table has now: those of containers, of a VPN.
    pub fn keep_exempt(&mut self) -> Result<(), Error> {
        let Some(attached) = &self.attached else {
            return Ok(());
        };
        let routed: HashSet<Prefix> = interfaces::routed().into_iter().collect();
        if routed == self.exempt {
            return Ok(());
        }
        let choices = attached.choices();
        for gone in self.exempt.difference(&routed) {
            choices.forget(*gone);
        }
        // All of them: one that is exempt always may have been among the others.
        exempt_near(choices, routed.iter().copied())?;
        self.exempt = routed;
        Ok(())
    }

    /// Whether the host has the interfaces that it had then, under the same rules.
    pub fn fits(&self, config: &Config) -> bool {
        let Ok(all) = interfaces::all() else {
            return true;
        };
        let out = leading_out(all);
        fits(&self.arms, &arms(config, &out), &out)
    }

    /// What the radios and links say of each interface now.
    pub fn set_readings(&self, readings: impl Iterator<Item = (String, Readings)>) {
        self.board.lock().readings = readings.collect();
    }

    pub fn offer(&self) -> Option<Offer> {
        let offer = self.board.lock().offer.clone()?;
        Some(Offer {
            events_lost: self.events_lost(),
            ..offer
        })
    }

    fn events_lost(&self) -> u64 {
        self.attached.as_ref().map_or(0, Attachment::events_lost)
    }

    /// Tells the log of events that were lost since the last call.
    pub fn warn_of_lost_events(&mut self) {
        let lost = self.events_lost();
        let new = lost - std::mem::replace(&mut self.logged, lost);
        if new > 0 {
            let what = "events of connections lost, they came too fast: the bandit learns nothing of those connections";
            log::line(Level::Warning, what, &[("events", &new)]);
        }
    }
}

impl Drop for InitialPathBandit {
    fn drop(&mut self) {
        drop(self.attached.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether arms of before do for those of now. One that leads out no more is not missed, unless none is left.
fn fits(then: &[Interface], now: &[Interface], out: &[Interface]) -> bool {
    let among = |all: &[Interface], one: &Interface| all.iter().any(|i| i.name == one.name);
    let stays = |i: &Interface| among(now, i) || !among(out, i);
    !now.is_empty() && now.iter().all(|i| among(then, i)) && then.iter().all(stays)
}

fn leading_out(all: Vec<Interface>) -> Vec<Interface> {
    all.into_iter().filter(Interface::leads_out).collect()
}

/// Interfaces that connections may start on, of those that lead out.
fn arms(config: &Config, out: &[Interface]) -> Vec<Interface> {
    let known = |i: &&Interface| !config.paths.ignores(&i.name);
    let out: Vec<&Interface> = out.iter().filter(known).collect();
    let rules: Vec<Rule> = out.iter().map(|i| config.paths.rule(&i.name)).collect();
    let candidates = initial_path::candidates(&rules).into_iter();
    candidates.map(|at| out[at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_rule_ends_a_bandit_and_a_link_that_is_away_does_not() {
        let on = |name: &&str| Interface {
            name: (*name).into(),
            index: 1,
            addresses: Vec::new(),
            networks: Vec::new(),
        };
        let fits = |then: &[&str], now: &[&str], out: &[&str]| {
            let all = [then, now, out].map(|all| all.iter().map(on).collect::<Vec<_>>());
            super::fits(&all[0], &all[1], &all[2])
        };
        let both = ["wlan0", "wwan0"];
        assert!(fits(&both, &both, &both));
        assert!(fits(&both, &["wlan0"], &["wlan0"]), "wwan0 is away");
        assert!(!fits(&both, &["wlan0"], &both), "wwan0 is metered now");
        assert!(!fits(&["wlan0"], &both, &both), "wwan0 is new");
        assert!(!fits(&both, &[], &[]), "the routing table may know a way");
    }
}
