//! The loop.

mod extras;
mod links;
mod poll;
mod relayed;
mod reload;
mod report;
mod settle;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mp_host::adapter::Adapter;
use mp_host::claim::{self, check_alone};
use mp_host::endpoints::Endpoints;
use mp_host::events::{self, BURST};
use mp_host::links::Links;
use mp_host::probe::Prober;
use mp_host::radio::Radios;
use mp_host::userspace::{Connections, Share};
use mp_kernel::diag::Diag;
use mp_kernel::fallback::Counts;
use scopeguard::{guard, ScopeGuard};
use serde_json::{json, Value};
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

use crate::check;
use crate::config::{Config, RelayOverride};
use crate::control::{ControlSocket, PendingRequest, Request};
use crate::federation::SharedStatistics;
use crate::initial_path::InitialPathBandit;
use crate::log::{self, Level};
use crate::metrics::MetricsServer;
use crate::mptcpify::Mptcpify;
use crate::relay::{RelaySettings, RelaySupervisor};
use crate::sessions;
use crate::Error;
use settle::{load, settle, Settled};

/// For those that asked something last to take their answer.
const FAREWELL: Duration = Duration::from_secs(2);
/// Between two comparisons of the kernel's endpoints with what they should be: others may change them.
const REVIEW: Duration = Duration::from_secs(5);

/// Runs in the network namespace of the calling thread until it is told to end. `file` is read again on SIGHUP.
pub fn run(file: Option<PathBuf>, socket: Option<PathBuf>) -> Result<(), Error> {
    let config = load(file.as_deref(), socket.as_deref())?;
    check::mptcp()?;
    check::privilege()?;
    let userspace = config.userspace;
    check_alone(userspace)?;
    mp_kernel::memory::keep_small();
    // The relay's data plane has threads of its own: this loop waits for none of it.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::Failed(format!("cannot start a runtime: {e}")))?;
    let ended = runtime.block_on(async {
        let mut daemon = Daemon::start(config, file, socket).await?;
        let end = daemon.work().await;
        // With `leak = "block"` connections stay cut off, whatever went wrong, until somebody says otherwise.
        daemon.relay.stop(!matches!(end, Ok(End::Restore(_)))).await;
        if userspace {
            // Connections that begin from now on are not to wait for a daemon.
            claim::manage_new(false)?;
        }
        end.map(|end| (end, daemon))
    });
    let (end, daemon) = ended?;
    let Daemon {
        endpoints,
        config,
        connections,
        mut diag,
        mut calls,
        sender,
        _control: control,
        _metrics: metrics,
        ..
    } = daemon;
    // Whoever asked for the end may start another as soon as it is told.
    drop((control, metrics, sender));
    match end {
        End::Leave => {
            log::line(
                Level::Info,
                "ending; endpoints and connections stay as they are",
                &[("socket", &config.socket.display())],
            );
            Ok(())
        }
        End::Restore(answer) => {
            let restored = diag
                .subflows()
                .map_err(Error::from)
                .and_then(|mut subflows| {
                    subflows.retain(|s| !connections.as_ref().is_some_and(|c| c.has(s.token)));
                    Ok(endpoints.restore(&subflows)?)
                });
            for address in restored.iter().flatten() {
                log::line(
                    Level::Warning,
                    "endpoint stays: a connection has no other subflow",
                    &[("address", address)],
                );
            }
            let answered = match &restored {
                Ok(stay) => {
                    log::line(Level::Info, "ending", &[("endpoints_left", &stay.len())]);
                    json!({"down": true, "endpoints_in_use": stay, "pid": std::process::id()})
                }
                Err(e) => json!({"error": e.to_string()}),
            };
            let _ = answer.send(answered);
            // Whoever asked hangs up once it has the answer.
            let hung_up = async { while calls.recv().await.is_some() {} };
            let _ = runtime.block_on(async { timeout(FAREWELL, hung_up).await });
            restored.map(drop)
        }
    }
}

/// Goes the way back for a daemon that is gone without having done so; `None` where nothing is left of one. Returns the
/// endpoints that connections still need.
pub fn undo() -> Result<Option<Vec<IpAddr>>, Error> {
    if !Endpoints::left()? {
        return Ok(None);
    }
    check::privilege()?;
    sessions::clear();
    let endpoints = Endpoints::open()?;
    let subflows = Diag::new()?.subflows()?;
    Ok(Some(endpoints.restore(&subflows)?))
}

enum End {
    /// SIGTERM: all stays in force, for the next daemon to take over.
    Leave,
    /// `down`
    Restore(tokio::sync::oneshot::Sender<Value>),
}

/// What can go wrong while the rest works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Links,
    Subflows,
    Endpoints,
    Relay,
    InitialPath,
    Tunnel,
}

struct Daemon {
    file: Option<PathBuf>,
    socket: Option<PathBuf>,
    config: Config,
    started: Instant,
    /// Connections before that.
    counted: Counts,
    endpoints: Endpoints,
    /// Why the system's congestion controller is left where pilot was to be tried; else empty.
    refused: String,
    mptcpify: Mptcpify,
    relay: RelaySupervisor,
    /// The relay that was asked for in place of the configuration's.
    asked: Option<RelayOverride>,
    links: Links,
    news: mpsc::Receiver<()>,
    diag: Diag,
    prober: Prober,
    adapter: Adapter,
    /// With the userspace path manager.
    connections: Option<Connections>,
    /// With `[bandit]`.
    initial_path: Option<InitialPathBandit>,
    /// When it may be started next, after a failure.
    initial_path_at: Instant,
    radio: Radios,
    calls: mpsc::Receiver<PendingRequest>,
    sender: mpsc::Sender<PendingRequest>,
    _control: ControlSocket,
    _metrics: Option<MetricsServer>,
    polls: u64,
    review_at: Instant,
    troubles: BTreeMap<Part, String>,
}

impl Daemon {
    async fn start(
        mut config: Config,
        file: Option<PathBuf>,
        socket: Option<PathBuf>,
    ) -> Result<Daemon, Error> {
        // Before anything is changed.
        let shared = config
            .federation
            .as_ref()
            .map(SharedStatistics::open)
            .transpose()?;
        let shared = shared.map(|s| Box::new(s) as Box<dyn Share>);
        let mut relay = RelaySupervisor::new(&config);
        let relayed = RelaySettings::of(&config, &config.relay)?;
        // Dropped, it takes back what a daemon that does not start has set.
        let mut endpoints = guard(Endpoints::open()?, Endpoints::withdraw);
        sessions::clear();
        let (sender, calls) = mpsc::channel(16);
        let Settled {
            control,
            metrics,
            refused,
        } = settle(&config, &mut endpoints, &sender).await?;
        let links = Links::new()?;
        let (started, now) = (Instant::now(), 0);
        let interfaces = links.list().await?;
        config
            .paths
            .keep_backups(&interfaces, &endpoints.backups()?);
        let mut adapter = Adapter::new(&config.paths);
        adapter.set_interfaces(now, interfaces, &config.paths);
        for endpoint in endpoints.list()? {
            adapter.take_over(endpoint.address, endpoint.flags.backup);
        }
        let mut radio = Radios::new(config.radio_file.clone());
        adapter.read_signals(now, Some(&mut radio));
        adapter.start(now);
        adapter.again();
        let connections = match config.userspace {
            true => Some(Connections::new(shared)?),
            false => None,
        };
        let (news, diag) = (events::watch()?, Diag::new()?);
        if config.userspace {
            // Last of all, and only now that their events are heard.
            endpoints.manage_new()?;
        }
        // Last: a daemon that does not start turns no program's socket.
        let mptcpify = Mptcpify::start(&config.mptcpify);
        relay.find_block(relayed.as_ref()).await;
        relay.set(&config, relayed).await?;
        let mut daemon = Daemon {
            connections,
            initial_path: None,
            initial_path_at: started,
            radio,
            file,
            socket,
            started,
            counted: Counts::read().unwrap_or_default(),
            endpoints: ScopeGuard::into_inner(endpoints),
            refused,
            mptcpify,
            relay,
            asked: None,
            links,
            news,
            diag,
            prober: Prober::default(),
            adapter,
            calls,
            sender,
            _control: control,
            _metrics: metrics,
            polls: 0,
            review_at: started + REVIEW,
            troubles: BTreeMap::new(),
            config,
        };
        log::line(
            Level::Info,
            "at work",
            &[
                ("socket", &daemon.config.socket.display()),
                ("policy", &daemon.config.policy),
                ("paths", &daemon.adapter.paths.len()),
            ],
        );
        daemon.apply();
        daemon.keep_initial_path();
        Ok(daemon)
    }

    async fn work(&mut self) -> Result<End, Error> {
        let failed = |e: std::io::Error| Error::Failed(format!("cannot catch signals: {e}"));
        let mut term = signal(SignalKind::terminate()).map_err(failed)?;
        let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hup = signal(SignalKind::hangup()).map_err(failed)?;
        let mut poll_at = Instant::now();
        loop {
            tokio::select! {
                _ = term.recv() => return Ok(End::Leave),
                _ = int.recv() => return Ok(End::Leave),
                _ = hup.recv() => {
                    self.reload().await;
                    poll_at = Instant::now();
                }
                call = self.calls.recv() => match call {
                    Some((Request::Status, answer)) => {
                        let _ = answer.send(json!(self.status()));
                    }
                    Some((Request::Reload, answer)) => {
                        let _ = answer.send(self.reload().await);
                        poll_at = Instant::now();
                    }
                    Some((Request::Relay(asked), answer)) => self.relay_asked(*asked, answer).await,
                    Some((Request::Down, answer)) => return Ok(End::Restore(answer)),
                    None => unreachable!("the daemon has a sender itself"),
                },
                change = self.relay.changed() => self.relay_changed(change).await,
                whole = self.links.changed() => {
                    let changed = self.links_changed(whole).await;
                    self.trouble(Part::Links, changed.err().map(|e| e.to_string()));
                    poll_at = Instant::now();
                }
                // A new connection will soon move data.
                Some(()) = self.news.recv() => {
                    let now_us = self.now_us();
                    if self.adapter.pace().begins(now_us) {
                        poll_at = poll_at.min(Instant::now() + BURST);
                    }
                }
                () = sleep_until(poll_at.into()) => {
                    self.poll();
                    poll_at = Instant::now() + self.pause();
                }
            }
        }
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Says what goes wrong with a part once, not in every poll, and again when it comes back.
    fn trouble(&mut self, with: Part, what: Option<String>) {
        let Some(what) = what else {
            self.troubles.remove(&with);
            return;
        };
        if self.troubles.get(&with) != Some(&what) {
            let level = match with {
                Part::Tunnel => Level::Warning,
                _ => Level::Error,
            };
            log::line(level, &what, &[]);
            self.troubles.insert(with, what);
        }
    }
}
