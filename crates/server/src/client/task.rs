//! The task that talks to the server: questions at once, reports and models in the background, so that no question waits for
//! a disk.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{timeout, Instant};

use super::http::{HttpClient, RequestError};
use super::local_models::{self, LocalModels};
use super::{lock, MOST_WAITING};
use crate::api::Model;
use crate::wire::{Answer, Outcome, Question, Receipt, Report, MOST_OUTCOMES};

/// For a last report at the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Between two tries to report, growing.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

pub enum ClientCommand {
    Ask {
        question: Question,
        answer: SyncSender<Result<String, RequestError>>,
    },
    Report(Outcome),
    End,
}

pub async fn run(
    http: HttpClient,
    refresh: Duration,
    mut calls: mpsc::UnboundedReceiver<ClientCommand>,
    models: Arc<Mutex<LocalModels>>,
) {
    let (reports, waiting) = mpsc::channel(MOST_WAITING);
    let mut background = tokio::spawn(hand_in(http.clone(), refresh, waiting, models));
    while let Some(call) = calls.recv().await {
        match call {
            ClientCommand::Ask { question, answer } => {
                let http = http.clone();
                // Nobody listens any more after the deadline. It goes on all the same: the connection that it opens, which
                // takes several round trips with TLS, is there for the next question.
                tokio::spawn(async move {
                    let answered = http.post::<_, Answer>("/v1/choose", &question).await;
                    let _ = answer.try_send(answered.map(|a| a.path));
                });
            }
            ClientCommand::Report(outcome) => {
                let _ = reports.try_send(outcome);
            }
            ClientCommand::End => break,
        }
    }
    drop(reports);
    if timeout(FAREWELL, &mut background).await.is_err() {
        background.abort();
    }
}

/// Reports until the channel is closed and empty; fetches newer models every `refresh`.
async fn hand_in(
    http: HttpClient,
    refresh: Duration,
    mut waiting: mpsc::Receiver<Outcome>,
    models: Arc<Mutex<LocalModels>>,
) {
    let mut outcomes: VecDeque<Outcome> = VecDeque::new();
    let mut pause = RETRY.0;
    let mut next_fetch = Instant::now();
    loop {
        if outcomes.is_empty() {
            // Models of new locations are fetched soon, of known ones at their time.
            let soon = Instant::now() + refresh.min(Duration::from_secs(1));
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
            match http.post::<_, Receipt>("/v1/outcomes", &report).await {
                Ok(_) => {
                    outcomes.clear();
                    pause = RETRY.0;
                }
                // One bad outcome must not take the others along.
                Err(RequestError::Refused) if outcomes.len() > 1 => {
                    single(&http, &mut outcomes).await
                }
                Err(RequestError::Refused) => outcomes.clear(),
                Err(RequestError::Later | RequestError::Away) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY.1);
                }
            }
        }
        let known = lock(&models).missing();
        let all = Instant::now() >= next_fetch;
        let wanted = if all {
            lock(&models).locations()
        } else {
            known
        };
        if all {
            next_fetch = Instant::now() + refresh;
        }
        for location in wanted {
            let path = format!("/v1/model/{location}");
            match http.get::<Model>(&path).await {
                Ok(model) => {
                    lock(&models).take(&location, &model.bandit);
                    local_models::save(&models);
                }
                Err(_) => break,
            }
        }
    }
}

async fn single(http: &HttpClient, outcomes: &mut VecDeque<Outcome>) {
    while let Some(outcome) = outcomes.pop_front() {
        let report = Report {
            outcomes: vec![outcome.clone()],
        };
        let sent = http.post::<_, Receipt>("/v1/outcomes", &report).await;
        if let Err(RequestError::Later | RequestError::Away) = sent {
            outcomes.push_front(outcome);
            return;
        }
    }
}
