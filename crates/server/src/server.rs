//! From start to end: lock, database, learner, listener.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use axum::Router;
use nix::fcntl::{Flock, FlockArg};
use tokio::signal::unix::{signal, SignalKind};

use crate::api::{self, Desk};
use crate::config::Config;
use crate::guard::Guard;
use crate::learner::{self, Call, Learner};
use crate::minds::Minds;
use crate::store::Store;
use crate::{http, say, Error};

/// Everything but the socket. Dropped, it has written what it was sent and what it learnt.
pub struct Service {
    desk: Option<Arc<Desk>>,
    calls: SyncSender<Call>,
    learner: Option<JoinHandle<()>>,
    _lock: Flock<File>,
}

impl Service {
    /// Opens the folder, and learns what its log has that its models have not.
    pub fn open(config: Config) -> Result<Service, Error> {
        let failed = |what: &str, e: &dyn std::fmt::Display| Error::Failed(format!("{what}: {e}"));
        let folder = config.data.display().to_string();
        std::fs::create_dir_all(&config.data).map_err(|e| failed(&folder, &e))?;
        let lock = claim(&config.data)?;
        let guard = Arc::new(Guard::new(config.token_file(), config.requests)?);
        let minds = Minds::new(&config).map_err(|e| Error::Usage(format!("policy: {e}")))?;
        let minds = Arc::new(minds);
        let (calls, called) = sync_channel(learner::WAITING);
        let news = calls.clone();
        let store = Store::open(&config.database_file(), config.database, move || {
            learner::ring(&news);
        })?;
        let store = Arc::new(store);
        let learner = Learner::start(minds.clone(), store.clone(), settings(&config))?;
        let learner = std::thread::Builder::new()
            .name("learner".into())
            .spawn(move || learner.run(&called))
            .map_err(|e| failed("cannot start a thread", &e))?;
        let asked = calls.clone();
        let desk = Desk {
            config,
            guard,
            store,
            minds,
            refit: Box::new(move |location| asked.try_send(Call::Refit(location)).is_ok()),
            started: Instant::now(),
        };
        Ok(Service {
            desk: Some(Arc::new(desk)),
            calls,
            learner: Some(learner),
            _lock: lock,
        })
    }

    fn desk(&self) -> &Arc<Desk> {
        self.desk.as_ref().expect("it is there until the end")
    }

    /// The API and the page; to be dropped before the service is.
    pub fn router(&self) -> Router {
        api::router(self.desk().clone())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The learner holds the store; the store writes what waits before it goes.
        let _ = self.calls.send(Call::End);
        if let Some(learner) = self.learner.take() {
            let _ = learner.join();
        }
        self.desk = None;
    }
}

/// Serves until SIGINT or SIGTERM. `listening` is told the address once requests are answered.
pub fn run(config: Config, listening: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let service = Service::open(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::Failed(format!("cannot start: {e}")))?;
    let served = runtime.block_on(listen(&service, listening));
    // Requests that still wait for the disk end here, and with them their hold of the store.
    drop(runtime);
    served
}

async fn listen(service: &Service, listening: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let desk = service.desk();
    let wanted = desk.config.listen;
    let failed = |e: String| Error::Failed(format!("cannot listen on {e}"));
    let listener = http::bind(wanted, "--listen").await.map_err(failed)?;
    let address = listener.local_addr();
    let address = address.map_err(|e| failed(format!("{wanted}: {e}")))?;
    let stop = stopped(desk.guard.clone())?;
    if desk.guard.holders() == 0 {
        say("nobody has a token yet: multipilot serve --new-token NAME makes one");
    }
    listening(address);
    let (connections, patience) = (desk.config.connections, desk.config.patience);
    http::serve(listener, service.router(), connections, patience, stop).await;
    Ok(())
}

/// What models depend on: with other settings they are learnt anew from the log.
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
        "{paths:?} {policy} refit {refit} memory {memory} seed {seed} reward {throughput_mbps:?} {latency_ms:?} of {}",
        env!("CARGO_PKG_VERSION")
    )
}

/// One server to a folder: two learners would not know of each other.
fn claim(folder: &Path) -> Result<Flock<File>, Error> {
    let file = folder.join("lock");
    let open = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file);
    let open = open.map_err(|e| Error::Failed(format!("{}: {e}", file.display())))?;
    Flock::lock(open, FlockArg::LockExclusiveNonblock).map_err(|(_, _)| {
        Error::Busy(format!(
            "another multipilot serve works in {}: end it, or give this one another folder (--data)",
            folder.display()
        ))
    })
}

/// Done on SIGINT or SIGTERM; SIGHUP reads the tokens again meanwhile.
fn stopped(guard: Arc<Guard>) -> Result<impl std::future::Future<Output = ()>, Error> {
    let catch =
        |kind| signal(kind).map_err(|e| Error::Failed(format!("cannot catch signals: {e}")));
    let (mut interrupt, mut terminate, mut hangup) = (
        catch(SignalKind::interrupt())?,
        catch(SignalKind::terminate())?,
        catch(SignalKind::hangup())?,
    );
    Ok(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => return,
                _ = hangup.recv() => match guard.reload() {
                    Ok(count) => say(&format!("{count} tokens read again")),
                    Err(e) => say(&format!("the tokens stay as they were: {e}")),
                },
            }
        }
    })
}
