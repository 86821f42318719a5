//! The device's side: ask the server with a deadline, else one's own model, else leave it to the system.
//!
//! ```no_run
//! # use mp_server::client::{Client, Origin, Settings};
//! # use mp_server::wire::Context;
//! let client = Client::start(Settings::new("https://edge.example:9463".parse::<Origin>()?, "TOKEN"))?;
//! let context = Context::from([("wifi.rtt_ms".into(), Some(12.0))]);
//! let choice = client.choose("cafe", &context, None); // within 5 ms, whatever the server does
//! // … the connection starts on choice.path, and when it has ended:
//! client.report(choice.outcome("connection-1", 24.0, Some(31.0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod http;
mod local_models;
mod origin;
mod task;

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::models::lock;
use crate::wire::{Chooser, Context, Outcome, Question};
use crate::Error;
use http::{HttpClient, RequestError};
use local_models::LocalModels;
pub use origin::Origin;
use task::ClientCommand;

/// After a question without an answer, so long the server is not waited for.
const AWAY: Duration = Duration::from_secs(1);
/// Outcomes kept for a server that is away; beyond, new ones are dropped.
const MOST_WAITING: usize = 10_000;

#[derive(Debug, Clone)]
pub struct Settings {
    pub server: Origin,
    /// The certificates that the server's has to be signed by, PEM; `None`: those that this system trusts.
    pub ca: Option<PathBuf>,
    pub token: String,
    /// A choice takes no longer, but for the time of a decision of one's own (µs).
    pub deadline: Duration,
    /// Where one's own models outlive the process.
    pub file: Option<PathBuf>,
    /// Polling interval for newer models.
    pub refresh: Duration,
    /// Told in one line why the server cannot be used, and when it can be again.
    pub says: fn(&str),
}

impl Settings {
    pub fn new(server: impl Into<Origin>, token: impl Into<String>) -> Settings {
        Settings {
            server: server.into(),
            ca: None,
            token: token.into(),
            deadline: Duration::from_millis(5),
            file: None,
            refresh: Duration::from_secs(60),
            says: |_| {},
        }
    }
}

/// Where a connection is to start, and who says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// `None`: as the system would have it.
    pub path: Option<String>,
    pub chosen_by: Chooser,
    pub location: String,
    pub context: Context,
}

impl Choice {
    /// What came of it, where it started on the path chosen. A path that the system chose is to be filled in.
    pub fn outcome(
        &self,
        id: impl Into<String>,
        throughput_mbps: f64,
        latency_ms: Option<f64>,
    ) -> Outcome {
        Outcome {
            id: id.into(),
            location: self.location.clone(),
            path: self.path.clone().unwrap_or_default(),
            context: self.context.clone(),
            chosen_by: self.chosen_by,
            throughput_mbps,
            latency_ms,
        }
    }
}

/// Talks to the server from a thread of its own. Dropped, it makes one last try to hand in what waits.
pub struct Client {
    deadline: Duration,
    calls: mpsc::UnboundedSender<ClientCommand>,
    /// The server did not answer at this time.
    away: Mutex<Option<Instant>>,
    models: Arc<Mutex<LocalModels>>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    pub fn start(settings: Settings) -> Result<Client, Error> {
        let models = Arc::new(Mutex::new(LocalModels::load(settings.file.clone())));
        let (calls, called) = mpsc::unbounded_channel();
        let (deadline, refresh, shared) = (settings.deadline, settings.refresh, models.clone());
        let http = HttpClient::new(settings)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::Failed(format!("cannot start the server's client: {e}")))?;
        let thread = std::thread::Builder::new()
            .name("server-client".into())
            .spawn(move || runtime.block_on(task::run(http, refresh, called, shared)))
            .map_err(|e| Error::Failed(format!("cannot start the server's client: {e}")))?;
        Ok(Client {
            deadline,
            calls,
            away: Mutex::new(None),
            models,
            thread: Some(thread),
        })
    }

    /// Chooses among `paths`, or all that the server knows of.
    pub fn choose(&self, location: &str, context: &Context, paths: Option<&[String]>) -> Choice {
        let choice = |path, chosen_by| Choice {
            path,
            chosen_by,
            location: location.to_owned(),
            context: context.clone(),
        };
        lock(&self.models).note(location);
        if !self.is_away() {
            let question = Question {
                location: location.to_owned(),
                context: context.clone(),
                paths: paths.map(<[String]>::to_vec),
            };
            let (answer, answered) = sync_channel(1);
            let asked = self
                .calls
                .send(ClientCommand::Ask { question, answer })
                .is_ok();
            match answered.recv_timeout(self.deadline) {
                Ok(Ok(path)) if asked => return choice(Some(path), Chooser::Server),
                // It is there, and says no: to this question, not to all.
                Ok(Err(RequestError::Refused)) => {}
                _ => *lock(&self.away) = Some(Instant::now()),
            }
        }
        match lock(&self.models).choose(location, context, paths) {
            Some(path) => choice(Some(path), Chooser::Device),
            None => choice(None, Chooser::Stock),
        }
    }

    fn is_away(&self) -> bool {
        lock(&self.away).is_some_and(|since| since.elapsed() < AWAY)
    }

    /// Hands in what came of a connection: now, or when the server is back. Its `id` must be one that this device never
    /// used before.
    pub fn report(&self, outcome: Outcome) {
        lock(&self.models).learn(&outcome);
        let _ = self.calls.send(ClientCommand::Report(outcome));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.calls.send(ClientCommand::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        local_models::save(&self.models);
    }
}
