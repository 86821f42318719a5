//! Brings a flow its connections: one over each link that is up, another where one has ended.

use std::sync::Arc;
use std::time::Duration;

use mp_policy::link::Priority;
use mp_policy::MAX_SUBFLOWS;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::carrier::Carrier;
use crate::flow::Event;
use crate::links::{Link, Links};
use crate::wire::Opener;

use super::pool::Pool;

/// A flow that is over before costs a backup link nothing.
const BACKUP_AFTER: Duration = Duration::from_secs(2);
/// Before a connection is replaced, doubling with each that ends.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

#[derive(Clone, Default, PartialEq)]
enum Stage {
    #[default]
    Idle,
    /// One is waited for, over this link.
    Waiting(Link),
    Joined(Link),
}

pub async fn run(
    pool: Arc<Pool>,
    mut links: watch::Receiver<Links>,
    opener: Opener,
    events: mpsc::Sender<Event>,
    mut losses: mpsc::UnboundedReceiver<usize>,
) {
    let mut stages: [Stage; MAX_SUBFLOWS] = Default::default();
    let mut pauses = [Duration::ZERO; MAX_SUBFLOWS];
    let mut coming: JoinSet<(usize, Carrier)> = JoinSet::new();
    let mut fixed = false;
    loop {
        let now = links.borrow_and_update().clone();
        let some_normal = now.iter().flatten().any(|l| l.priority != Priority::Backup);
        for (slot, link) in now.iter().enumerate() {
            match (&stages[slot], link) {
                // With another address its connections are as dead as without the link; with another priority they are
                // replaced, since the relay learns it from the opener.
                (Stage::Joined(old), new) if Some(old) != new.as_ref() => {
                    stages[slot] = Stage::Idle;
                    if events.send(Event::Down(slot)).await.is_err() {
                        return;
                    }
                }
                _ => {}
            }
            if let (Stage::Idle, Some(link)) = (&stages[slot], link) {
                stages[slot] = Stage::Waiting(link.clone());
                let waits = link.priority == Priority::Backup && some_normal;
                let least = if waits { BACKUP_AFTER } else { Duration::ZERO };
                let (pool, pause) = (pool.clone(), pauses[slot].max(least));
                coming.spawn(async move {
                    // The timer's resolution is 1 ms: not even a sleep of 0 is free.
                    if !pause.is_zero() {
                        sleep(pause).await;
                    }
                    (slot, pool.take(slot).await)
                });
            }
        }
        tokio::select! {
            Some(Ok((slot, mut carrier))) = coming.join_next() => {
                let link = now[slot].clone().filter(|link| stages[slot] == Stage::Waiting(link.clone()));
                let Some(link) = link else {
                    stages[slot] = Stage::Idle;
                    continue;
                };
                let (path, priority) = (slot as u8, link.priority);
                carrier.put_bytes(&Opener { path, priority, ..opener.clone() }.encode());
                if events.send(Event::Join(slot, carrier, priority)).await.is_err() {
                    return;
                }
                stages[slot] = Stage::Joined(link);
            }
            Some(slot) = losses.recv() => {
                stages[slot] = Stage::Idle;
                pauses[slot] = (2 * pauses[slot]).clamp(PAUSE.0, PAUSE.1);
            }
            changed = links.changed(), if !fixed => fixed = changed.is_err(),
            () = events.closed() => return,
        }
    }
}
