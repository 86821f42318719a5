//! The device's end of a relay, beside MPTCP: connected in the background, tried again until it is, and obedient to the
//! rules of the interfaces.

mod arms;
mod judge;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mp_kernel::controller;
use mp_policy::link::{Decision, Reason};
use mp_policy::path_manager::Backoff;
use mp_relay::capture::{self, Capture};
use mp_relay::control::Control;
use mp_relay::device::{self, Device};
use mp_relay::flow::Observer;
use mp_relay::links::{self, Rules};
use mp_relay::wire::Line;
use serde_json::{json, Value};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::config::{self, Leak};
use crate::log::{self, Priority};
use crate::Error;

use arms::Arms;
use judge::{why, Carried, LinkRules};
pub use report::{Interface, Status};

/// Before another try.
const RETRY: Backoff = Backoff {
    first_us: 1_000_000,
    most_us: 60_000_000,
};
/// Polling interval of the links: a limit is overrun by what they carry meanwhile.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Between two writes of what links have carried.
const SAVE_EVERY: Duration = Duration::from_secs(10);
const IDENTITY: &str = "relay-device.key";

/// What is to be: a relay's line, and how it is used.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    line: Line,
    relay: config::Relay,
    /// It was given by hand: whoever did so waits for the outcome.
    asked: bool,
}

impl Settings {
    /// `None`: there is no relay. Everything that can be known to be wrong without connecting is.
    pub fn of(config: &config::Config, relay: &config::Relay) -> Result<Option<Settings>, Error> {
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
        Carried::open(&relay.state)?;
        Ok(Some(Settings {
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
pub enum Change {
    Started(Result<Box<Running>, mp_relay::Error>),
    /// Somebody has removed the interface.
    Gone,
}

pub struct Relay {
    settings: Option<Settings>,
    stage: Stage,
    /// Tries in a row that have failed.
    failures: u32,
    failure: String,
    judge: LinkRules,
    /// As it was told.
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
    arms: Option<Arms>,
    carried: Carried,
    polled: Instant,
    saved: Instant,
    /// Who asked for it, until it is known what became of it.
    answer: Option<oneshot::Sender<Value>>,
}

impl Relay {
    /// Without a relay yet: [`Relay::set`].
    pub fn new(config: &config::Config) -> Relay {
        let judge = LinkRules::new(config, &config.relay.links, None);
        Relay {
            settings: None,
            stage: Stage::Off,
            failures: 0,
            failure: String::new(),
            rules: watch::Sender::new(judge.rules()),
            judge,
            decisions: BTreeMap::new(),
            observer: Arc::default(),
            addresses: Vec::new(),
            refused_cgroups: Vec::new(),
            restored: 0,
            arms: None,
            carried: Carried::default(),
            polled: Instant::now(),
            saved: Instant::now(),
            answer: None,
        }
    }

    pub fn is_on(&self) -> bool {
        matches!(self.stage, Stage::On(_))
    }

    /// A daemon before this one may have left a block that this one's file no longer wants.
    pub async fn unblock(settings: Option<&Settings>) {
        let direct = settings.is_some_and(|s| s.relay.leak == Leak::Direct);
        if direct && !mp_relay::is_captured() {
            if let Err(e) = capture::clear().await {
                log::line(Priority::Error, &e.to_string(), &[]);
            }
        }
    }

    /// From now on this one, or none. Others than before are disconnected first.
    pub async fn set(
        &mut self,
        config: &config::Config,
        new: Option<Settings>,
    ) -> Result<(), Error> {
        let named = new.as_ref().map_or(&[][..], |s| &s.relay.links);
        let mut judge = LinkRules::new(config, named, Some(&self.judge));
        if new == self.settings {
            judge.observe(&self.carried);
            self.judge(judge);
            return Ok(());
        }
        let blocks = |s: &Settings| s.relay.leak == Leak::Block;
        self.stop(new.as_ref().is_some_and(blocks)).await;
        if let Some(settings) = &new {
            self.carried = Carried::open(&settings.relay.state)?;
            self.carried.take(&[], &judge::month());
        }
        judge.observe(&self.carried);
        self.judge(judge);
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
            let taken = capture::Settings {
                direct: settings.relay.direct.clone(),
                direct_users: settings.relay.direct_users.clone(),
                direct_cgroups: settings.relay.direct_cgroups.clone(),
                block: settings.relay.leak == Leak::Block,
                // Whoever asked by hand is told that it failed.
                insists: !settings.asked,
                direct_dns: settings.relay.direct_dns,
                lans: settings.relay.lans.clone(),
            };
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
    pub async fn changed(&mut self) -> Change {
        match &mut self.stage {
            Stage::Off => pending().await,
            Stage::Starting { task, .. } => {
                let ended = task.await;
                let failed = |e| mp_relay::Error::Failed(format!("the relay's task: {e}"));
                let started = ended.map_err(failed).and_then(|started| started);
                Change::Started(started.map(Box::new))
            }
            Stage::On(running) => {
                running.capture.gone().await;
                Change::Gone
            }
        }
    }

    /// Takes in what [`Relay::changed`] has said. Whether a relay that somebody asked for by hand could not be reached.
    pub async fn take_in(&mut self, change: Change) -> bool {
        match change {
            Change::Started(Ok(running)) => {
                let place = running.capture.report().relay;
                let links = running.device.links().join(", ");
                let fields: &[(&str, &dyn Display)] = &[("relay", &place), ("links", &links)];
                log::line(Priority::Info, "connections go to the relay", fields);
                if let Some(why) = running.capture.translates() {
                    let fields: &[(&str, &dyn Display)] = &[("why", &why)];
                    log::line(
                        Priority::Info,
                        "TCP goes through the TUN, at more CPU",
                        fields,
                    );
                }
                if let Some(why) = running.device.unresolved() {
                    let message =
                        "the relay's name is not resolved: its addresses are those of before";
                    log::line(Priority::Warning, message, &[("why", &why)]);
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
            Change::Started(Err(e)) => {
                let line = e.to_string();
                if line != self.failure {
                    log::line(Priority::Error, "no relay", &[("why", &line)]);
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
            Change::Gone => {
                self.failure = format!("somebody has removed {}", links::TUN);
                log::line(Priority::Error, &self.failure, &[]);
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
            Stage::Off => return,
            Stage::Starting { task, needed } => {
                drop(needed);
                let Ok(Ok(running)) = task.await else {
                    if !leave && !mp_relay::is_captured() {
                        // Of one before it, which was to leave connections cut off.
                        let _ = capture::clear().await;
                    }
                    return;
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
            Ok(()) => log::line(Priority::Info, "connections go to no relay", &[]),
            Err(e) => log::line(Priority::Error, &e.to_string(), &[]),
        }
    }

    /// Polls what the links have carried, and at the interfaces: the name of each, and whether its signal is weak.
    pub fn poll<'a>(&mut self, interfaces: impl Iterator<Item = (&'a str, bool)>) {
        if self.polled.elapsed() < POLL_EVERY {
            return;
        }
        self.polled = Instant::now();
        if let Stage::On(running) = &self.stage {
            self.carried.take(&running.capture.links(), &judge::month());
            if self.saved.elapsed() >= SAVE_EVERY {
                self.save();
            }
            self.tell_of_moves();
            self.warn_of_cgroups();
            self.warn_of_removals();
        }
        let mut weak = BTreeSet::new();
        for (name, is_weak) in interfaces {
            let known = self.decisions.entry(name.to_owned());
            known.or_insert_with(|| self.judge.decide(name));
            if is_weak {
                weak.insert(name.to_owned());
            }
        }
        let mut judge = self.judge.clone();
        judge.set_weak(weak);
        judge.observe(&self.carried);
        self.judge(judge);
    }

    fn tell_of_moves(&mut self) {
        let Stage::On(running) = &self.stage else {
            return;
        };
        let addresses = running.device.relay();
        if addresses != self.addresses {
            let all: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
            let fields: &[(&str, &dyn Display)] = &[("addresses", &all.join(", "))];
            log::line(Priority::Info, "the relay was found elsewhere", fields);
            self.addresses = addresses;
        }
    }

    /// Once for each change: a service that starts again has a new cgroup.
    fn warn_of_cgroups(&mut self) {
        let Stage::On(running) = &self.stage else {
            return;
        };
        let refused = running.capture.refused_cgroups();
        if refused == self.refused_cgroups {
            return;
        }
        if let Some(warning) = capture::Refused::warning(&refused) {
            log::line(Priority::Warning, &warning, &[]);
        }
        self.refused_cgroups = refused;
    }

    fn warn_of_removals(&mut self) {
        let Stage::On(running) = &self.stage else {
            return;
        };
        let restored = running.capture.restored();
        if restored != self.restored {
            self.restored = restored;
            log::line(Priority::Warning, capture::RESTORED, &[]);
        }
    }

    /// From now on the links are used as this one says.
    fn judge(&mut self, new: LinkRules) {
        if new == self.judge {
            return;
        }
        self.judge = new;
        self.rules.send_replace(self.judge.rules());
        for (link, known) in &mut self.decisions {
            let decision = self.judge.decide(link);
            if decision == *known {
                continue;
            }
            // A bandit's choice, several times a second.
            let priority = match (known.reason, decision.reason) {
                (None, Some(Reason::Unchosen)) | (Some(Reason::Unchosen), None) => Priority::Debug,
                _ => Priority::Info,
            };
            *known = decision;
            if matches!(self.stage, Stage::On(_)) {
                let is = report::state(decision.priority);
                let why = decision.reason.map_or("", why);
                let fields: &[(&str, &dyn Display)] = &[("link", link), ("is", &is), ("why", &why)];
                log::line(priority, "link of the relay", fields);
            }
        }
    }

    fn save(&mut self) {
        self.saved = Instant::now();
        self.carried.save();
    }
}

async fn connect(
    settings: &Settings,
    taken: &capture::Settings,
    rules: watch::Receiver<Rules>,
    observer: Arc<Observer>,
) -> Result<Arc<Device>, mp_relay::Error> {
    let relay = &settings.relay;
    let identity = relay.state.join(IDENTITY);
    let device = device::Settings {
        line: settings.line.clone(),
        scheduler: mp_relay::scheduler(&relay.scheduler),
        links: relay.links.clone(),
        transport: relay.carrier,
        controller: Control::choose(relay.controller.as_deref())?,
        mark: Some(capture::MARK),
        hold: relay.hold,
        observer: Some(observer),
        rules: Some(rules),
    };
    match relay.leak {
        // Nothing is to get out until the relay answers.
        Leak::Block if !settings.asked => {
            let device = Device::open(device, &identity).await?;
            if device.unresolved().is_some() {
                // The relay may be elsewhere now: if it does not answer, its name is asked for again.
                capture::block(&device, taken).await?;
                device.answered().await?;
            }
            Ok(device)
        }
        _ => Device::connect(device, &identity).await,
    }
}
