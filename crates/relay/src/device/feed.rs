//! Brings a flow its connections: one over each link that is up, another where one has ended or is silent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mp_policy::link::Priority;
use mp_policy::MAX_SUBFLOWS;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::carrier::Carrier;
use crate::flow::{Event, Loss};
use crate::links::{Link, Links};
use crate::wire::Opener;

use super::pool::Pool;

/// A flow that is over before costs a backup link nothing.
const BACKUP_AFTER: Duration = Duration::from_secs(2);
/// Before a connection is replaced, doubling with each that ends within the second of them.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

#[derive(Default, PartialEq)]
enum Stage {
    #[default]
    Idle,
    /// One is waited for, over this link.
    Waiting(Link),
    Joined(Link),
    /// As joined, but it is silent: one is waited for that takes its place.
    Replacing(Link),
}

struct Slot {
    stage: Stage,
    joined: Instant,
    pause: Duration,
}

impl Slot {
    /// Its connection has ended by itself.
    fn lose(&mut self) {
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::Joined(_) => Stage::Idle,
            Stage::Replacing(link) => Stage::Waiting(link),
            stage => stage,
        };
        self.pause = pause_after(self.pause, self.joined.elapsed());
    }

    /// With another address a link's connections are as dead as without the link; with another priority they are
    /// replaced, since the relay learns it from the opener. Whether the flow's one is to go.
    fn follow(&mut self, new: Option<&Link>) -> bool {
        match &self.stage {
            Stage::Joined(old) if Some(old) != new => self.stage = Stage::Idle,
            Stage::Replacing(old) if Some(old) != new => self.stage = Stage::Waiting(old.clone()),
            _ => return false,
        }
        true
    }

    /// One that was waited for is there; the link that it is for.
    fn take_in(&mut self, now: Option<&Link>) -> Option<Link> {
        let (Stage::Waiting(link) | Stage::Replacing(link)) = &self.stage else {
            return None;
        };
        let link = link.clone();
        if now != Some(&link) {
            self.stage = Stage::Idle;
            return None;
        }
        (self.stage, self.joined) = (Stage::Joined(link.clone()), Instant::now());
        Some(link)
    }
}

fn pause_after(before: Duration, lived: Duration) -> Duration {
    match lived > PAUSE.1 {
        true => PAUSE.0,
        false => (2 * before).clamp(PAUSE.0, PAUSE.1),
    }
}

type Coming = JoinSet<(usize, Carrier)>;

fn bring(coming: &mut Coming, pool: &Arc<Pool>, slot: usize, pause: Duration) {
    let pool = pool.clone();
    coming.spawn(async move {
        // The timer's resolution is 1 ms: not even a sleep of 0 is free.
        if !pause.is_zero() {
            sleep(pause).await;
        }
        (slot, pool.take(slot).await)
    });
}

pub async fn run(
    pool: Arc<Pool>,
    mut links: watch::Receiver<Links>,
    opener: Opener,
    events: mpsc::Sender<Event>,
    mut losses: mpsc::UnboundedReceiver<Loss>,
) {
    let mut slots: [Slot; MAX_SUBFLOWS] = std::array::from_fn(|_| Slot {
        stage: Stage::Idle,
        joined: Instant::now(),
        pause: Duration::ZERO,
    });
    let mut coming = Coming::new();
    let mut fixed = false;
    loop {
        let now = links.borrow_and_update().clone();
        let some_normal = now.iter().flatten().any(|l| l.priority != Priority::Backup);
        for (index, link) in now.iter().enumerate() {
            let slot = &mut slots[index];
            if slot.follow(link.as_ref()) && events.send(Event::Down(index)).await.is_err() {
                return;
            }
            if let (Stage::Idle, Some(link)) = (&slot.stage, link) {
                let waits = link.priority == Priority::Backup && some_normal;
                let least = if waits { BACKUP_AFTER } else { Duration::ZERO };
                slot.stage = Stage::Waiting(link.clone());
                bring(&mut coming, &pool, index, slot.pause.max(least));
            }
        }
        tokio::select! {
            Some(Ok((index, mut carrier))) = coming.join_next() => {
                let Some(link) = slots[index].take_in(now[index].as_ref()) else {
                    continue;
                };
                let (path, priority) = (index as u8, link.priority);
                carrier.put_bytes(&Opener { path, priority, ..opener.clone() }.encode());
                if events.send(Event::Join(index, carrier, priority)).await.is_err() {
                    return;
                }
            }
            Some(loss) = losses.recv() => match loss {
                Loss::Ended(index) => slots[index].lose(),
                Loss::Stale(index, since) => {
                    if let Stage::Joined(link) = &slots[index].stage {
                        slots[index].stage = Stage::Replacing(link.clone());
                        pool.distrust(index, since);
                        bring(&mut coming, &pool, index, Duration::ZERO);
                    }
                }
            },
            changed = links.changed(), if !fixed => fixed = changed.is_err(),
            () = events.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str) -> Link {
        Link {
            name: name.into(),
            device: None,
            addresses: Vec::new(),
            priority: Priority::Normal,
        }
    }

    fn slot(stage: Stage) -> Slot {
        Slot {
            stage,
            joined: Instant::now(),
            pause: Duration::ZERO,
        }
    }

    #[test]
    fn a_silent_connection_stays_until_another_takes_its_place() {
        let (wifi, lte) = (link("wifi"), link("lte"));
        let mut replacing = slot(Stage::Replacing(wifi.clone()));
        assert!(!replacing.follow(Some(&wifi)));
        assert_eq!(replacing.take_in(Some(&wifi)), Some(wifi.clone()));
        assert!(replacing.stage == Stage::Joined(wifi.clone()));

        // It ends first.
        let mut replacing = slot(Stage::Replacing(wifi.clone()));
        replacing.lose();
        assert!(replacing.stage == Stage::Waiting(wifi.clone()));
        // The link goes first, and the one that comes is for nobody.
        let mut replacing = slot(Stage::Replacing(wifi.clone()));
        assert!(replacing.follow(Some(&lte)));
        assert!(!replacing.follow(Some(&lte)), "once");
        assert_eq!(replacing.take_in(Some(&lte)), None);
        assert!(replacing.stage == Stage::Idle);
    }

    #[test]
    fn what_ends_at_once_again_and_again_is_replaced_less_often() {
        let quick = Duration::from_millis(1);
        let mut pause = Duration::ZERO;
        let pauses: Vec<_> = std::iter::repeat_with(|| {
            pause = pause_after(pause, quick);
            pause.as_millis()
        })
        .take(9)
        .collect();
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        assert_eq!(pause_after(pause, Duration::from_secs(11)), PAUSE.0);
    }
}
