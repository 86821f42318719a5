//! The task that talks to the server: questions at once, reports and models in the background, so that no question waits for
//! a disk.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mp_policy::path_manager::Backoff;
use tokio::sync::mpsc;
use tokio::time::{timeout, Instant};

use super::http::{Link, No};
use super::own::{self, Own};
use super::{lock, MOST_WAITING};
use crate::api::Model;
use crate::wire::{Answer, Outcome, Question, Receipt, Report, MOST_OUTCOMES};

/// For a last report at the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Between two tries to report.
const RETRY: Backoff = Backoff {
    first_us: 500_000,
    most_us: 60_000_000,
};

pub enum Call {
    Ask {
        question: Question,
        answer: SyncSender<Result<String, No>>,
    },
    Report(Outcome),
    End,
}

pub async fn run(
    link: Link,
    refresh: Duration,
    mut calls: mpsc::UnboundedReceiver<Call>,
    own: Arc<Mutex<Own>>,
) {
    let (reports, waiting) = mpsc::channel(MOST_WAITING);
    let mut background = tokio::spawn(hand_in(link.clone(), refresh, waiting, own));
    while let Some(call) = calls.recv().await {
        match call {
            Call::Ask { question, answer } => {
                let link = link.clone();
                // Nobody listens any more after the deadline. It goes on all the same: the connection that it opens, which
                // takes several round trips with TLS, is there for the next question.
                tokio::spawn(async move {
                    let told = link.post::<_, Answer>("/v1/choose", &question).await;
                    let _ = answer.try_send(told.map(|a| a.path));
                });
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
async fn hand_in(
    link: Link,
    refresh: Duration,
    mut waiting: mpsc::Receiver<Outcome>,
    own: Arc<Mutex<Own>>,
) {
    let mut outcomes: VecDeque<Outcome> = VecDeque::new();
    let mut failures = 0;
    let mut next_look = Instant::now();
    loop {
        if outcomes.is_empty() {
            // New locations are looked up soon, known ones at their time.
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
            match link.post::<_, Receipt>("/v1/outcomes", &report).await {
                Ok(_) => {
                    outcomes.clear();
                    failures = 0;
                }
                // One bad outcome must not take the others along.
                Err(No::Refused) if outcomes.len() > 1 => single(&link, &mut outcomes).await,
                Err(No::Refused) => outcomes.clear(),
                Err(No::Later | No::Away) => {
                    tokio::time::sleep(Duration::from_micros(RETRY.time(failures))).await;
                    failures += 1;
                }
            }
        }
        let known = lock(&own).missing();
        let all = Instant::now() >= next_look;
        let wanted = if all { lock(&own).locations() } else { known };
        if all {
            next_look = Instant::now() + refresh;
        }
        for location in wanted {
            let path = format!("/v1/model/{location}");
            match link.get::<Model>(&path).await {
                Ok(model) => {
                    lock(&own).take(&location, &model.bandit);
                    own::save(&own);
                }
                Err(_) => break,
            }
        }
    }
}

async fn single(link: &Link, outcomes: &mut VecDeque<Outcome>) {
    while let Some(outcome) = outcomes.pop_front() {
        let report = Report {
            outcomes: vec![outcome.clone()],
        };
        let sent = link.post::<_, Receipt>("/v1/outcomes", &report).await;
        if let Err(No::Later | No::Away) = sent {
            outcomes.push_front(outcome);
            return;
        }
    }
}
