//! The device's end of a relay, beside MPTCP: connected in the background, tried again until it is, and obedient to the
//! rules of the interfaces.

mod bandit;
mod connect;
mod judge;
mod poll;
mod report;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mp_kernel::controller;
use mp_policy::link::Decision;
use mp_policy::path_manager::Backoff;
use mp_relay::capture::{self, Capture};
use mp_relay::device::Device;
use mp_relay::flow::Observer;
use mp_relay::links::{self, Rules};
use mp_relay::wire::Line;
use serde_json::{json, Value};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::config::{self, Leak};
use crate::log::{self, Level};
use crate::Error;

use bandit::LinkBandit;
use connect::connect;
use judge::{LinkRules, MonthlyBytes};
pub use report::{InterfaceState, RelayStatus};

/// Takes back rules of a process that has ended.
async fn clear() {
    if mp_relay::is_captured() {
        return;
    }
    if let Err(e) = capture::clear().await {
        log::line(Level::Error, &e.to_string(), &[]);
    }
}

/// Before another try.
const RETRY: Backoff = Backoff {
    first_us: 1_000_000,
    most_us: 60_000_000,
};

const BLOCKED: &str = "new connections are blocked (leak = \"block\") since an earlier process ended: multipilot up --relay LINE, or multipilot down";

/// What is to be: a relay's line, and how it is used.
#[derive(Debug, Clone, PartialEq)]
pub struct RelaySettings {
    line: Line,
    relay: config::RelayConfig,
    /// It was given by hand: whoever did so waits for the outcome.
    asked: bool,
}

impl RelaySettings {
    /// `None`: there is no relay. Everything that can be known to be wrong without connecting is.
    pub fn of(
        config: &config::Config,
        relay: &config::RelayConfig,
    ) -> Result<Option<RelaySettings>, Error> {
        let Some(line) = relay.line()? else {
            return Ok(None);
        };
        if config.bandit.is_some() {
            let line = "a relay takes no connection that bandit has bound to an interface: remove bandit, or relay.line-file";
            return Err(Error::Usage(line.into()));
        }
        if let Some(name) = &relay.controller {
            controller::check(name)?;
        }
        MonthlyBytes::open(&relay.state)?;
        Ok(Some(RelaySettings {
            line,
            relay: relay.clone(),
            asked: relay.line.is_some(),
        }))
    }
}

/// One that is connected.
pub struct Running {
    device: Arc<Device>,
    capture: Capture,
}

enum Stage {
    Off,
    Starting {
        task: JoinHandle<Result<Running, mp_relay::Error>>,
        /// Its end: there is no need any more.
        needed: oneshot::Sender<()>,
    },
    On(Box<Running>),
}

/// What has become of it.
pub enum RelayChange {
    Started(Result<Box<Running>, mp_relay::Error>),
    /// Somebody has removed the interface.
    Gone,
}

pub struct RelaySupervisor {
    settings: Option<RelaySettings>,
    stage: Stage,
    /// Tries in a row that have failed.
    failures: u32,
    failure: String,
    /// A process before this one has left connections cut off, and there is no relay for them.
    blocked: bool,
    judge: LinkRules,
    /// As they were logged.
    decisions: BTreeMap<String, Decision>,
    rules: watch::Sender<Rules>,
    /// Shows the open flows.
    observer: Arc<Observer>,
    /// The relay's addresses, as they were logged.
    addresses: Vec<IpAddr>,
    /// As it was warned of.
    refused_cgroups: Vec<capture::Refused>,
    /// Of the capture's count, what was logged.
    restored: u64,
    bandit: Option<LinkBandit>,
    carried: MonthlyBytes,
    polled: Instant,
    saved: Instant,
    /// Who asked for it, until it is known what became of it.
    answer: Option<oneshot::Sender<Value>>,
}

impl RelaySupervisor {
    /// Without a relay yet: [`RelaySupervisor::set`].
    pub fn new(config: &config::Config) -> RelaySupervisor {
        let judge = LinkRules::new(config, &config.relay.links, None);
        RelaySupervisor {
            settings: None,
            stage: Stage::Off,
            failures: 0,
            failure: String::new(),
            blocked: false,
            rules: watch::Sender::new(judge.rules()),
            judge,
            decisions: BTreeMap::new(),
            observer: Arc::default(),
            addresses: Vec::new(),
            refused_cgroups: Vec::new(),
            restored: 0,
            bandit: None,
            carried: MonthlyBytes::default(),
            polled: Instant::now(),
            saved: Instant::now(),
            answer: None,
        }
    }

    pub fn is_on(&self) -> bool {
        matches!(self.stage, Stage::On(_))
    }

    /// A daemon before this one may have left a block. One whose file wants none takes it back; one without a relay leaves it, for
    /// its user has asked for it, and says so.
    pub async fn find_block(&mut self, settings: Option<&RelaySettings>) {
        match settings {
            Some(settings) if settings.relay.leak == Leak::Direct => clear().await,
            None if capture::is_blocked().await => {
                self.blocked = true;
                log::line(Level::Warning, BLOCKED, &[]);
            }
            _ => {}
        }
    }

    /// From now on this one, or none. Others than before are disconnected first.
    pub async fn set(
        &mut self,
        config: &config::Config,
        new: Option<RelaySettings>,
    ) -> Result<(), Error> {
        let named = new.as_ref().map_or(&[][..], |s| &s.relay.links);
        let mut judge = LinkRules::new(config, named, Some(&self.judge));
        if new == self.settings {
            judge.observe(&self.carried);
            self.judge(judge);
            return Ok(());
        }
        // What fails leaves the one that is on.
        let carried = match &new {
            Some(settings) => Some(MonthlyBytes::open(&settings.relay.state)?),
            None => None,
        };
        let blocks = |s: &RelaySettings| s.relay.leak == Leak::Block;
        self.stop(new.as_ref().is_some_and(blocks)).await;
        if let Some(carried) = carried.filter(|c| !c.is_of_file(&self.carried)) {
            self.carried = carried;
        }
        self.carried.take(&[], &judge::month());
        judge.observe(&self.carried);
        self.judge(judge);
        self.blocked &= new.is_none();
        self.settings = new;
        (self.failures, self.failure) = (0, String::new());
        self.start(Duration::ZERO);
        Ok(())
    }

    /// Hears of the first try.
    pub fn answer(&mut self, answer: oneshot::Sender<Value>) {
        match self.is_on() {
            true => drop(answer.send(json!({"relay": "on"}))),
            false => self.answer = Some(answer),
        }
    }

    fn start(&mut self, pause: Duration) {
        let Some(settings) = self.settings.clone() else {
            return;
        };
        let (needed, no_more) = oneshot::channel::<()>();
        let (rules, observer) = (self.rules.subscribe(), self.observer.clone());
        let task = tokio::spawn(async move {
            let taken = settings.taken();
            let connecting = async {
                tokio::time::sleep(pause).await;
                connect(&settings, &taken, rules, observer).await
            };
            let device = tokio::select! {
                connected = connecting => connected?,
                _ = no_more => return Err(mp_relay::Error::Failed("given up".into())),
            };
            // Not given up in between: it would leave half of its rules.
            match Capture::start(device.clone(), &taken).await {
                Ok(capture) => Ok(Running { device, capture }),
                Err(e) => {
                    device.close();
                    Err(e)
                }
            }
        });
        self.stage = Stage::Starting { task, needed };
    }

    /// Until something has become of it.
    pub async fn changed(&mut self) -> RelayChange {
        match &mut self.stage {
            Stage::Off => pending().await,
            Stage::Starting { task, .. } => {
                let ended = task.await;
                let failed = |e| mp_relay::Error::Failed(format!("the relay's task: {e}"));
                let started = ended.map_err(failed).and_then(|started| started);
                RelayChange::Started(started.map(Box::new))
            }
            Stage::On(running) => {
                running.capture.gone().await;
                RelayChange::Gone
            }
        }
    }

    /// Takes in what [`RelaySupervisor::changed`] has said. Whether a relay that somebody asked for by hand could not be reached.
    pub async fn take_in(&mut self, change: RelayChange) -> bool {
        match change {
            RelayChange::Started(Ok(running)) => {
                let place = running.capture.report().relay;
                let links = running.device.links().join(", ");
                let fields: &[(&str, &dyn Display)] = &[("relay", &place), ("links", &links)];
                log::line(Level::Info, "connections go to the relay", fields);
                if let Some(why) = running.capture.translates() {
                    let fields: &[(&str, &dyn Display)] = &[("why", &why)];
                    log::line(Level::Info, "TCP goes through the TUN, at more CPU", fields);
                }
                let links = running.device.links();
                let links: Vec<&str> = links.iter().map(String::as_str).collect();
                if let Some(warning) = links::filtered(&links) {
                    log::line(Level::Warning, &warning, &[]);
                }
                if let Some(why) = running.device.unresolved() {
                    let message =
                        "the relay's name is not resolved: its addresses are those of before";
                    log::line(Level::Warning, message, &[("why", &why)]);
                }
                (self.failures, self.failure) = (0, String::new());
                self.addresses = running.device.relay();
                self.stage = Stage::On(running);
                self.refused_cgroups.clear();
                self.restored = 0;
                self.warn_of_cgroups();
                self.carried.begin();
                if let Some(answer) = self.answer.take() {
                    let _ = answer.send(json!({"relay": "on"}));
                }
                false
            }
            RelayChange::Started(Err(e)) => {
                let line = e.to_string();
                if line != self.failure {
                    log::line(Level::Error, "no relay", &[("why", &line)]);
                }
                self.failure = line;
                if let Some(answer) = self.answer.take() {
                    self.stage = Stage::Off;
                    self.settings = None;
                    let code = Error::from(e).exit_code();
                    let _ = answer.send(json!({"error": self.failure, "code": code}));
                    return true;
                }
                let pause = RETRY.time(self.failures);
                self.failures += 1;
                self.start(Duration::from_micros(pause));
                false
            }
            RelayChange::Gone => {
                self.failure = format!("somebody has removed {}", links::TUN);
                log::line(Level::Error, &self.failure, &[]);
                self.stop(true).await;
                self.start(Duration::from_micros(RETRY.first_us));
                false
            }
        }
    }

    /// `leave`: with `leak = "block"` connections stay cut off.
    pub async fn stop(&mut self, leave: bool) {
        let stage = std::mem::replace(&mut self.stage, Stage::Off);
        let running = match stage {
            Stage::Off => return self.clear_unless(leave).await,
            Stage::Starting { task, needed } => {
                drop(needed);
                let Ok(Ok(running)) = task.await else {
                    return self.clear_unless(leave).await;
                };
                running
            }
            Stage::On(running) => *running,
        };
        self.carried.take(&running.capture.links(), &judge::month());
        self.save();
        running.device.close();
        let ended = match leave {
            true => running.capture.leave().await,
            false => running.capture.stop().await,
        };
        match ended {
            Ok(()) => log::line(Level::Info, "connections go to no relay", &[]),
            Err(e) => log::line(Level::Error, &e.to_string(), &[]),
        }
    }

    /// What one before this one left, which was to leave connections cut off.
    async fn clear_unless(&mut self, leave: bool) {
        if !leave {
            self.blocked = false;
            clear().await;
        }
    }

    fn save(&mut self) {
        self.saved = Instant::now();
        self.carried.save();
    }
}
