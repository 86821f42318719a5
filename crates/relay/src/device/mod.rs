//! The device's end: one connection a link to the relay for each flow, taken from a pool of ready ones.

mod feed;
mod place;
mod pool;
mod woken;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mp_policy::link::Priority;
use mp_policy::scheduler::Entry;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::control::Control;
use crate::datagram::device as datagram;
use crate::flow::{Answer, Event, Flow, Hears, Meters, Observer, Outcome, Side};
use crate::keys::{self, Identity, Secret};
use crate::links::{self, Choose, Link, Links, Rules};
use crate::lock;
use crate::socket::Transport;
use crate::wire::{Line, Opener, Refusal, Target};
use crate::Error;

use place::Name;
pub use place::Place;
use pool::Pool;

/// Of a flow, waiting for it.
const EVENTS: usize = 16;
/// The first connection of all is waited for so long.
const PATIENCE: Duration = Duration::from_secs(8);
/// Flows wait so long for a link: about as long as Linux' TCP goes on without an answer (tcp_retries2).
pub const HOLD: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Clone)]
pub struct Settings {
    pub line: Line,
    /// Of both directions.
    pub scheduler: &'static Entry,
    /// Interfaces by name; empty: those with a default route.
    pub links: Vec<String>,
    /// Of the streams.
    pub transport: Transport,
    /// Of the path connections' uploads.
    pub controller: Control,
    /// Of the path connections (SO_MARK), so that routing rules can tell them from those of programs.
    pub mark: Option<u32>,
    /// Flows that no link carries end after so long, in which the host was awake.
    pub hold: Duration,
    /// Shows the open flows.
    pub observer: Option<Arc<Observer>>,
    /// What the user says of links; `None`: all are used alike.
    pub rules: Option<watch::Receiver<Rules>>,
}

/// A relay that answers, and the links to it.
pub struct Device {
    settings: Settings,
    session: [u8; 16],
    flows: AtomicU64,
    links: watch::Receiver<Links>,
    /// Of the streams.
    paths: watch::Receiver<Links>,
    relay: watch::Receiver<Place>,
    tls: Arc<rustls::ClientConfig>,
    pool: Arc<Pool>,
    meters: Arc<Meters>,
    /// Changes when this host has slept.
    woken: watch::Sender<()>,
    /// Flows whose bytes may not all be with the relay.
    unsaid: TaskTracker,
    /// They fill the pool.
    tasks: Mutex<JoinSet<()>>,
}

/// One link, as `status` shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkReport {
    pub link: String,
    /// Connections to the relay that wait for a flow.
    pub ready: usize,
    /// Of streams, without headers.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// `preferred`, `normal` or `backup`; `off`: the user's rules exclude it; `dead`: nothing gets through.
    pub state: String,
    /// Why it is as it is; empty for a normal one.
    pub why: String,
    /// TCP and UDP payload over this link, streams and datagrams, both ways together.
    pub carried_bytes: u64,
    /// The same in this month, by all daemons of this host; `None` without a daemon.
    pub month_bytes: Option<u64>,
    /// What it may carry in a month.
    pub limit_bytes: Option<u64>,
}

fn name(links: &watch::Receiver<Links>, slot: usize) -> String {
    let links = links.borrow();
    let link = links.get(slot).and_then(Option::as_ref);
    link.map_or_else(|| "a link that is down".into(), |link| link.name.clone())
}

/// [`LinkReport::state`] of a link that works.
pub fn state(priority: Priority) -> &'static str {
    match priority {
        Priority::Preferred => "preferred",
        Priority::Normal => "normal",
        Priority::Backup => "backup",
    }
}

impl Device {
    /// Waits until the relay has taken this device over at least one link. `identity` is made where there is none; beside it
    /// is what its name was resolved to.
    pub async fn connect(settings: Settings, identity: &Path) -> Result<Arc<Device>, Error> {
        let device = Device::open(settings, identity).await?;
        let settings = &device.settings;
        let known = |name: &String| nix::net::if_::if_nametoindex(name.as_str()).is_ok();
        if let Some(missing) = settings.links.iter().find(|name| !known(name)) {
            return Err(Error::Usage(format!(
                "--link {missing}: there is no such interface"
            )));
        }
        if settings.links.is_empty() && device.links().is_empty() {
            return Err(Error::Missing(
                match settings.rules {
                    None => "no interface has a default route: name those to be used with --link",
                    Some(_) => "no interface that the rules admit has a default route",
                }
                .into(),
            ));
        }
        device.answered().await?;
        Ok(device)
    }

    /// Until the relay has taken this device over a link, as [`Device::connect`] does.
    pub async fn answered(&self) -> Result<(), Error> {
        let line = &self.settings.line;
        let place = format!("{}:{}", line.host, line.port);
        let why = match timeout(PATIENCE, self.pool.first()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(line)) => line,
            Err(_) => self.last_failure().unwrap_or_else(|| "no answer".into()),
        };
        let of_before = match self.unresolved() {
            Some(why) => format!(" at the addresses of before: its name is not resolved ({why})"),
            None => String::new(),
        };
        Err(Error::Failed(format!("relay {place}: {why}{of_before}")))
    }

    /// Where the line's relay is, as far as that is known without asking a resolver.
    pub fn known(line: &Line, identity: &Path) -> Vec<IpAddr> {
        Name::of_line(line, identity).known()
    }

    /// As [`Device::connect`], without waiting for the relay, nor for links that it is to use.
    pub async fn open(settings: Settings, identity: &Path) -> Result<Arc<Device>, Error> {
        let name = Name::of_line(&settings.line, identity);
        let identity = Identity::open(identity)?;
        let place = name.find().await?;
        let here = place.addresses.iter().any(|a| a.ip().is_loopback());
        let choose = match settings.links.as_slice() {
            [] if here => Choose::Routes,
            [] => Choose::LeadingOut,
            names => Choose::Named(names.to_vec()),
        };
        let links = links::watch(choose, settings.rules.clone())?;
        let paths = match settings.transport {
            Transport::Tcp => links.clone(),
            Transport::Mptcp => {
                let missing = |e| {
                    Error::Missing(format!("carrier mptcp: this kernel has no MPTCP, or it is off (sysctl net.mptcp.enabled): {e}"))
                };
                settings.transport.check().map_err(missing)?;
                links::mptcp()
            }
        };
        let tls = identity.client(&settings.line.key);
        let meters = Arc::<Meters>::default();
        let mut tasks = JoinSet::new();
        let woken = watch::Sender::new(());
        tasks.spawn(woken::watch(woken.clone()));
        let (place, relay) = watch::channel(place);
        let filled = pool::Settings {
            relay: relay.clone(),
            transport: settings.transport,
            mark: settings.mark,
            tls: tls.clone(),
            secret: Secret::derive(&settings.line.secret),
            controller: settings.controller.clone(),
            links: paths.clone(),
            woken: woken.subscribe(),
            meters: meters.clone(),
        };
        let pool = Pool::start(filled, &mut tasks);
        // Connections to where it was are over: as after a sleep, nobody can say so.
        tasks.spawn(place::follow(name, place, pool.clone(), woken.clone()));
        Ok(Arc::new(Device {
            settings,
            session: keys::random(),
            flows: AtomicU64::new(0),
            links,
            paths,
            relay,
            tls,
            pool,
            meters,
            woken,
            unsaid: TaskTracker::new(),
            tasks: Mutex::new(tasks),
        }))
    }

    /// Carries the application's connection to the target until both ends are done. `answer` is asked what the application
    /// is told first.
    pub async fn carry(
        self: Arc<Self>,
        application: TcpStream,
        target: Target,
        answer: Answer,
    ) -> Outcome {
        let (events, news) = mpsc::channel(EVENTS);
        self.flow(
            Some(application),
            target,
            Hears::Application(answer),
            events,
            news,
        )
        .await
    }

    /// Connects to the target first: `verdict` hears of it, and then `application` is to bring the connection. With `over`
    /// it is broken off.
    pub async fn carry_later(
        self: Arc<Self>,
        target: Target,
        verdict: oneshot::Sender<Result<(), Refusal>>,
        application: impl Future<Output = Option<TcpStream>> + Send + 'static,
        over: impl Future<Output = ()>,
    ) -> Outcome {
        let (events, news) = mpsc::channel(EVENTS);
        let (bring, withdraw) = (events.clone(), events.downgrade());
        let bringing = tokio::spawn(async move {
            let _ = bring.send(Event::Application(application.await)).await;
        });
        let hears = Hears::Other(verdict);
        let mut flow = pin!(self.flow(None, target, hears, events, news));
        let outcome = tokio::select! {
            outcome = &mut flow => outcome,
            () = over => {
                if let Some(withdraw) = withdraw.upgrade() {
                    let _ = withdraw.send(Event::Application(None)).await;
                }
                flow.await
            }
        };
        // It may have yet to tell the application.
        let _ = bringing.await;
        outcome
    }

    async fn flow(
        self: Arc<Self>,
        application: Option<TcpStream>,
        target: Target,
        hears: Hears,
        events: mpsc::Sender<Event>,
        news: mpsc::Receiver<Event>,
    ) -> Outcome {
        let opener = Opener {
            session: self.session,
            flow: self.flows.fetch_add(1, Ordering::Relaxed),
            path: 0,
            priority: Priority::Normal,
            resumes: false,
            scheduler: self.settings.scheduler.name.to_owned(),
            target,
        };
        let (lost, losses) = mpsc::unbounded_channel();
        let side = Side::Device {
            hears,
            lost,
            meters: self.meters.clone(),
            opener: opener.clone(),
            unsaid: self.unsaid.token(),
        };
        let flow = Flow::new(
            application,
            self.settings.scheduler,
            side,
            self.settings.hold,
            self.settings.controller.group(),
            self.settings.observer.clone(),
        );
        tokio::spawn(feed::run(
            self.pool.clone(),
            self.paths.clone(),
            self.woken.subscribe(),
            opener,
            events,
            losses,
        ));
        flow.run(news).await
    }

    /// The relay's addresses, as they are known now.
    pub fn relay(&self) -> Vec<IpAddr> {
        let place = self.relay.borrow();
        place.addresses.iter().map(SocketAddr::ip).collect()
    }

    /// Tells of other addresses.
    pub fn place(&self) -> watch::Receiver<Place> {
        self.relay.clone()
    }

    /// Why these are the addresses of before: the relay may have others now.
    pub fn unresolved(&self) -> Option<String> {
        self.relay.borrow().unresolved.clone()
    }

    /// For the datagram lane beside the streams.
    pub fn datagrams(&self) -> datagram::Settings {
        datagram::Settings {
            relay: self.relay.clone(),
            secret: Secret::derive(&self.settings.line.secret),
            tls: self.tls.clone(),
            session: self.session,
            scheduler: self.settings.scheduler,
            links: self.links.clone(),
            woken: self.woken.clone(),
            mark: self.settings.mark,
        }
    }

    /// Names of the links that are up.
    pub fn links(&self) -> Vec<String> {
        self.links
            .borrow()
            .iter()
            .flatten()
            .map(|link| link.name.clone())
            .collect()
    }

    /// Of the link that has this slot, or had it.
    pub fn link_name(&self, slot: usize) -> String {
        name(&self.links, slot)
    }

    /// Of the link that streams take by this slot.
    pub fn path_name(&self, slot: usize) -> String {
        name(&self.paths, slot)
    }

    /// The links that are up. `answers`: whether the datagram lane works over one, by its slot, if it ever did;
    /// `datagrams`: bytes that it has carried there.
    pub fn report(
        &self,
        answers: impl Fn(usize) -> Option<bool>,
        datagrams: impl Fn(usize) -> u64,
    ) -> Vec<LinkReport> {
        let mptcp = self.settings.transport == Transport::Mptcp;
        let links = self.links.borrow().clone();
        let up = links.into_iter().enumerate();
        let mut all: Vec<LinkReport> = up
            .filter_map(|(slot, link)| {
                let streams = (!mptcp).then_some(slot);
                let datagrams = (answers(slot), datagrams(slot));
                Some(self.link(&link?, streams, datagrams))
            })
            .collect();
        // The kernel does not say which link has carried which bytes of these.
        let paths = self.paths.borrow().clone();
        let mptcp = paths[0].as_ref().filter(|_| mptcp);
        all.extend(mptcp.map(|path| self.link(path, Some(0), (None, 0))));
        all
    }

    /// `streams`: the slot of those that it carries; `datagrams`: whether their lane works over it, and its bytes.
    fn link(
        &self,
        link: &Link,
        streams: Option<usize>,
        datagrams: (Option<bool>, u64),
    ) -> LinkReport {
        let slot = streams.unwrap_or(0);
        let (ready, failure) = (self.pool.ready(slot), self.pool.failure(slot));
        let works = datagrams.0.unwrap_or(ready > 0 || failure.is_none());
        let state = match works {
            true => state(link.priority),
            false => "dead",
        };
        let why = match works {
            true => String::new(),
            false => failure.unwrap_or_else(|| "nothing gets through".into()),
        };
        let counted = streams.map(|slot| self.pool.counted(slot, &link.name));
        let [sent_bytes, received_bytes, carried_bytes] = counted.unwrap_or_default();
        LinkReport {
            link: link.name.clone(),
            ready: streams.map_or(0, |_| ready),
            sent_bytes,
            received_bytes,
            state: state.into(),
            why,
            carried_bytes: carried_bytes + datagrams.1,
            month_bytes: None,
            limit_bytes: None,
        }
    }

    /// Until the relay has all that programs have sent on connections that they have closed. With one that stays open, until
    /// nothing has moved for `patience`: then it is false.
    pub async fn settled(&self, patience: Duration) -> bool {
        self.unsaid.close();
        let mut moved = self.meters.moved();
        loop {
            if timeout(patience, self.unsaid.wait()).await.is_ok() {
                return true;
            }
            let now = self.meters.moved();
            if std::mem::replace(&mut moved, now) == now {
                return false;
            }
        }
    }

    /// Opens no connection any more; flows that are open go on.
    pub fn close(&self) {
        lock(&self.tasks).abort_all();
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How often path connections of flows have brought something of the relay.
    pub fn heard(&self) -> u64 {
        self.meters.heard.load(Ordering::Relaxed)
    }

    /// Whether the relay answers over any link now, to a new connection.
    pub async fn reaches(&self) -> bool {
        self.pool.reaches().await
    }

    /// Whether the relay does not take this device: [`Device::last_failure`] says why.
    pub fn is_refused(&self) -> bool {
        self.pool.is_refused()
    }

    /// Why a connection to the relay failed last.
    pub fn last_failure(&self) -> Option<String> {
        self.pool.last_failure()
    }
}
