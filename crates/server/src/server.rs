//! From start to end: lock, database, learner, listener.

use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use nix::fcntl::{Flock, FlockArg};
use tokio::signal::unix::{signal, SignalKind};
use tokio::time::MissedTickBehavior;

use crate::api;
use crate::app_state::AppState;
use crate::config::{is_private, Config, TlsFiles};
use crate::guard::Guard;
use crate::learner::{self, Learner, LearnerCommand};
use crate::location_model::MODEL_FORMAT;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::store::{self, RetentionLimits, Store};
use crate::tls::Tls;
use crate::{http, log, private, Error};

/// Polling interval of the files of tokens and certificates: a token that is revoked is good for no longer.
const FOLLOW: Duration = Duration::from_secs(1);

/// Everything but the socket. Dropped, it has written what it was sent and what it learnt.
pub struct EdgeServer {
    app: Option<Arc<AppState>>,
    calls: SyncSender<LearnerCommand>,
    learner: Option<JoinHandle<()>>,
    _lock: Flock<File>,
}

impl EdgeServer {
    /// Opens the folder, and learns what its log has that its models have not.
    pub fn open(config: Config) -> Result<EdgeServer, Error> {
        let failed = |what: &str, e: &dyn std::fmt::Display| Error::Failed(format!("{what}: {e}"));
        let lock = claim(&config.data)?;
        let guard = Arc::new(Guard::new(config.token_file(), config.requests)?);
        let models = Models::new(&config).map_err(|e| Error::Usage(format!("policy: {e}")))?;
        let models = Arc::new(models);
        let (calls, called) = sync_channel(learner::WAITING);
        let (news, waited) = (calls.clone(), models.clone());
        let kept = RetentionLimits {
            bytes: config.database,
            days: config.days,
        };
        let store = Store::open(&config.database_file(), kept, move |stored| {
            // Here, and not by the request: its client may be gone.
            waited.wait_for(stored);
            learner::ring(&news);
        })?;
        let store = Arc::new(store);
        store.expire();
        let learner = Learner::start(models.clone(), store.clone(), settings(&config))?;
        let learner = std::thread::Builder::new()
            .name("learner".into())
            .spawn(move || learner.run(&called))
            .map_err(|e| failed("cannot start a thread", &e))?;
        let asked = calls.clone();
        let app = AppState {
            guard,
            metrics: Arc::new(Metrics::new(config.database, store.database_use())),
            store,
            models,
            refit: Box::new(move |location| {
                asked.try_send(LearnerCommand::Refit(location)).is_ok()
            }),
            started: Instant::now(),
            config,
        };
        Ok(EdgeServer {
            app: Some(Arc::new(app)),
            calls,
            learner: Some(learner),
            _lock: lock,
        })
    }

    fn app(&self) -> &Arc<AppState> {
        self.app.as_ref().expect("it is there until the end")
    }

    /// The API and the page; to be dropped before the service is.
    pub fn router(&self) -> Router {
        api::router(self.app().clone())
    }
}

impl Drop for EdgeServer {
    fn drop(&mut self) {
        // The learner holds the store; the store writes what waits before it goes.
        let _ = self.calls.send(LearnerCommand::End);
        if let Some(learner) = self.learner.take() {
            let _ = learner.join();
        }
        self.app = None;
    }
}

/// Copies the database to a file, also while a server runs. Returns the number of outcomes.
pub fn backup(config: &Config, to: &Path) -> Result<i64, Error> {
    store::backup(&config.database_file(), to)
}

/// Puts a backup in the database's place.
pub fn restore(config: &Config, from: &Path) -> Result<i64, Error> {
    let _lock = claim(&config.data)?;
    store::restore(from, &config.database_file())
}

/// Refuses what [`run`] would refuse of a configuration.
pub fn check(config: &Config) -> Result<(), Error> {
    config.check_exposure()?;
    // What systemd hands to a service is there only while that runs.
    let handed = |files: &TlsFiles| files.cert.starts_with("/run/credentials");
    let tls = config.tls.clone().filter(|files| !handed(files));
    tls.map(Tls::load).transpose().map(drop)
}

/// Serves until SIGINT or SIGTERM. `listening` is told the scheme and the address once requests are answered.
pub fn run(config: Config, listening: impl FnOnce(&str, SocketAddr)) -> Result<(), Error> {
    config.check_exposure()?;
    log::start(std::io::stderr);
    let tls = config.tls.clone().map(Tls::load).transpose()?;
    let service = EdgeServer::open(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::Failed(format!("cannot start: {e}")))?;
    let served = runtime.block_on(listen(&service, tls.map(Arc::new), listening));
    // Requests that still wait for the disk end here, and with them their hold of the store.
    drop(runtime);
    served
}

async fn listen(
    service: &EdgeServer,
    tls: Option<Arc<Tls>>,
    listening: impl FnOnce(&str, SocketAddr),
) -> Result<(), Error> {
    let app = service.app();
    let wanted = app.config.listen;
    let failed = |e: String| Error::Failed(format!("cannot listen on {e}"));
    let listener = http::bind(wanted, "--listen").await.map_err(failed)?;
    let address = listener.local_addr();
    let address = address.map_err(|e| failed(format!("{wanted}: {e}")))?;
    let stop = stopped(app.guard.clone(), tls.clone())?;
    if app.guard.holders() == 0 {
        tracing::warn!("nobody has a token yet: multipilot serve --new-token NAME makes one");
    }
    let scheme = match &tls {
        Some(_) => "https",
        None => "http",
    };
    if tls.is_none() && !is_private(&address) {
        tracing::warn!("INSECURE: {address} takes tokens and outcomes in clear text, which anybody in between can read");
    }
    listening(scheme, address);
    let terms = http::HttpSettings {
        router: service.router(),
        tls,
        connections: app.config.connections,
        patience: app.config.patience,
        counts: app.metrics.http.clone(),
    };
    http::serve(listener, terms, stop).await;
    Ok(())
}

/// What models depend on: with other settings they are learnt anew from the log, as far as that still goes back.
fn settings(config: &Config) -> String {
    let Config {
        paths,
        policy,
        refit,
        memory,
        seed,
        throughput_mbps,
        latency_ms,
        ..
    } = config;
    format!(
        "{paths:?} {policy} refit {refit} memory {memory} seed {seed} reward {throughput_mbps:?} {latency_ms:?} \
         format {MODEL_FORMAT}"
    )
}

/// One server to a folder: two learners would not know of each other.
fn claim(folder: &Path) -> Result<Flock<File>, Error> {
    private::folder(folder)?;
    let path = folder.join("lock");
    let open = private::file(&path, OpenOptions::new().write(true))?;
    mp_files::belong_to_folder(&open, &path)
        .map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?;
    Flock::lock(open, FlockArg::LockExclusiveNonblock).map_err(|(_, _)| {
        Error::Busy(format!(
            "another multipilot serve works in {}: end it, or give this one another folder (--data)",
            folder.display()
        ))
    })
}

/// Done on SIGINT or SIGTERM. Meanwhile tokens and certificate are read again when their files change, and on SIGHUP.
fn stopped(
    guard: Arc<Guard>,
    tls: Option<Arc<Tls>>,
) -> Result<impl std::future::Future<Output = ()>, Error> {
    let catch =
        |kind| signal(kind).map_err(|e| Error::Failed(format!("cannot catch signals: {e}")));
    let (mut interrupt, mut terminate, mut hangup) = (
        catch(SignalKind::interrupt())?,
        catch(SignalKind::terminate())?,
        catch(SignalKind::hangup())?,
    );
    Ok(async move {
        let mut poll = tokio::time::interval(FOLLOW);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut tokens, mut certificate) = (Reading::default(), Reading::default());
        loop {
            let asked = tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => return,
                _ = hangup.recv() => true,
                _ = poll.tick() => false,
            };
            if tokens.is_due(guard.changed() || asked) {
                match tokens.outcome(guard.reload()) {
                    Ok(count) => tracing::info!("{count} tokens read again"),
                    Err(Some(e)) => tracing::error!("the tokens stay as they were: {e}"),
                    Err(None) => {}
                }
            }
            let Some(tls) = &tls else { continue };
            if certificate.is_due(tls.changed() || asked) {
                match certificate.outcome(tls.reload()) {
                    Ok(()) => tracing::info!("certificate read again"),
                    Err(Some(e)) => tracing::error!("the certificate stays as it was: {e}"),
                    Err(None) => {}
                }
            }
        }
    })
}

/// What could not be read is tried at every poll, since it does not change again: a token that is revoked is not to stay good.
#[derive(Default)]
struct Reading {
    failed: Option<String>,
}

impl Reading {
    fn is_due(&self, changed: bool) -> bool {
        changed || self.failed.is_some()
    }

    /// Of an error what is to be logged: nothing while it stays the same.
    fn outcome<T>(&mut self, read: Result<T, Error>) -> Result<T, Option<String>> {
        match read {
            Ok(value) => {
                self.failed = None;
                Ok(value)
            }
            Err(e) => {
                let why = e.to_string();
                let known = self.failed.replace(why.clone());
                Err(Some(why).filter(|why| known.as_ref() != Some(why)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_is_tried_again_and_logged_once() {
        let mut reading = Reading::default();
        assert!(!reading.is_due(false));
        assert!(reading.is_due(true));
        let failed = |why: &str| Err::<(), _>(Error::Failed(why.into()));
        assert_eq!(reading.outcome(failed("a")), Err(Some("a".into())));
        assert!(reading.is_due(false));
        assert_eq!(reading.outcome(failed("a")), Err(None));
        assert_eq!(reading.outcome(failed("b")), Err(Some("b".into())));
        assert_eq!(reading.outcome(Ok(1)), Ok(1));
        assert!(!reading.is_due(false));
    }
}
