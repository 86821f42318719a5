//! The thread that talks to the server: questions on one connection, reports and models on another, so that no question
//! waits for a disk.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{handshake, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{timeout, Instant};

use super::own::Own;
use super::{lock, Settings, MOST_WAITING};
use crate::api::Model;
use crate::wire::{Answer, Outcome, Question, Receipt, Report, MOST_OUTCOMES};

/// For reports and models, for which nobody waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// For a last report at the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Between two tries to report, growing.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
const LONGEST_ANSWER: usize = 16 << 20;

pub enum Call {
    Ask {
        question: Question,
        answer: SyncSender<Result<String, No>>,
    },
    Report(Outcome),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum No {
    /// The server does not want this request, now or ever.
    Refused,
    /// It may want it later.
    Later,
    /// It was not reached.
    Away,
}

pub async fn run(
    settings: Settings,
    mut calls: mpsc::UnboundedReceiver<Call>,
    own: Arc<Mutex<Own>>,
) {
    let mut asking = Link::new(&settings);
    let (reports, waiting) = mpsc::channel(MOST_WAITING);
    let mut background = tokio::spawn(hand_in(settings.clone(), waiting, own));
    while let Some(call) = calls.recv().await {
        match call {
            Call::Ask { question, answer } => {
                let asked = asking.post::<_, Answer>("/v1/choose", &question);
                // Nobody listens any more after the deadline, and the next question is not to wait for this one.
                let told = timeout(settings.deadline, asked)
                    .await
                    .unwrap_or(Err(No::Away));
                let _ = answer.try_send(told.map(|a| a.path));
            }
            Call::Report(outcome) => {
                let _ = reports.try_send(outcome);
            }
            Call::End => break,
        }
    }
    drop(reports);
    if timeout(FAREWELL, &mut background).await.is_err() {
        background.abort();
    }
}

/// Reports until the channel is closed and empty; looks for newer models now and then.
async fn hand_in(settings: Settings, mut waiting: mpsc::Receiver<Outcome>, own: Arc<Mutex<Own>>) {
    let mut link = Link::new(&settings);
    let mut outcomes: VecDeque<Outcome> = VecDeque::new();
    let mut pause = RETRY.0;
    let mut next_look = Instant::now();
    loop {
        if outcomes.is_empty() {
            // New locations are looked up soon, known ones at their time.
            let soon = Instant::now() + settings.refresh.min(Duration::from_secs(1));
            tokio::select! {
                outcome = waiting.recv() => match outcome {
                    Some(outcome) => outcomes.push_back(outcome),
                    None => return,
                },
                () = tokio::time::sleep_until(soon) => {}
            }
        }
        while outcomes.len() < MOST_OUTCOMES {
            match waiting.try_recv() {
                Ok(outcome) => outcomes.push_back(outcome),
                Err(_) => break,
            }
        }
        if !outcomes.is_empty() {
            let report = Report {
                outcomes: outcomes.iter().cloned().collect(),
            };
            let sent = link.post::<_, Receipt>("/v1/outcomes", &report);
            match timeout(PATIENCE, sent).await.unwrap_or(Err(No::Away)) {
                Ok(_) => {
                    outcomes.clear();
                    pause = RETRY.0;
                }
                // One bad outcome must not take the others along.
                Err(No::Refused) if outcomes.len() > 1 => single(&mut link, &mut outcomes).await,
                Err(No::Refused) => outcomes.clear(),
                Err(No::Later | No::Away) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY.1);
                }
            }
        }
        let known = lock(&own).missing();
        let all = Instant::now() >= next_look;
        let wanted = if all { lock(&own).locations() } else { known };
        if all {
            next_look = Instant::now() + settings.refresh;
        }
        for location in wanted {
            let path = format!("/v1/model/{location}");
            let model = timeout(
                PATIENCE,
                link.send::<Model>(Method::GET, &path, Bytes::new()),
            )
            .await;
            match model {
                Ok(Ok(model)) => {
                    let mut own = lock(&own);
                    own.take(&location, &model.bandit);
                    own.save();
                }
                _ => break,
            }
        }
    }
}

async fn single(link: &mut Link, outcomes: &mut VecDeque<Outcome>) {
    while let Some(outcome) = outcomes.pop_front() {
        let report = Report {
            outcomes: vec![outcome.clone()],
        };
        let sent = link.post::<_, Receipt>("/v1/outcomes", &report);
        if let Err(No::Later | No::Away) = timeout(PATIENCE, sent).await.unwrap_or(Err(No::Away)) {
            outcomes.push_front(outcome);
            return;
        }
    }
}

/// One connection to the server, made anew where it broke.
struct Link {
    server: std::net::SocketAddr,
    token: String,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Link {
    fn new(settings: &Settings) -> Link {
        Link {
            server: settings.server,
            token: format!("Bearer {}", settings.token),
            sender: None,
        }
    }

    async fn post<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &Q,
    ) -> Result<A, No> {
        let body = serde_json::to_vec(body).map_err(|_| No::Refused)?;
        self.send(Method::POST, path, body.into()).await
    }

    /// A connection that the server closed while it was idle is found out by its first request; that one is sent again.
    async fn send<A: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<A, No> {
        let fresh = self.sender.is_none();
        let first = self.try_send(&method, path, body.clone()).await;
        match first {
            Err(No::Away) if !fresh => self.try_send(&method, path, body).await,
            first => first,
        }
    }

    async fn try_send<A: DeserializeOwned>(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<A, No> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.server.to_string())
            .header(AUTHORIZATION, &self.token)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|_| No::Refused)?;
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => self.connect().await.ok_or(No::Away)?,
        };
        sender.ready().await.map_err(|_| No::Away)?;
        let response = sender.send_request(request).await.map_err(|_| No::Away)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER);
        let body = body.collect().await.map_err(|_| No::Away)?.to_bytes();
        self.sender = Some(sender);
        match status {
            StatusCode::OK => serde_json::from_slice(&body).map_err(|_| No::Later),
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY => Err(No::Refused),
            _ => Err(No::Later),
        }
    }

    async fn connect(&self) -> Option<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.server).await.ok()?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }
}
