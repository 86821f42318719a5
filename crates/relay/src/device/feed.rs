//! Brings a flow its connections: one over each link that is up, another where one has ended or is silent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::StreamExt;
use mp_policy::link::Priority;
use mp_policy::path_manager::Backoff;
use mp_policy::MAX_SUBFLOWS;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use crate::carrier::Carrier;
use crate::flow::{Event, Loss, Untold};
use crate::links::{carry_on, Link, Links};
use crate::wire::Opener;

use super::pool::Pool;

/// A flow that is over before costs a backup link nothing.
const BACKUP_AFTER: Duration = Duration::from_secs(2);
/// The relay is told of a flow that ended without it for so long. It gives up flows by itself too.
const TELLING: Duration = Duration::from_secs(3600);
/// Before a connection is replaced, by how many in a row have ended within the longest of these times.
const PAUSE: Backoff = Backoff {
    first_us: 100_000,
    most_us: 10_000_000,
};
/// From so many in a row on, the pause grows further: the relay's process may be another one since, which does not know the flow.
const HOPELESS: u32 = 20;
const RARELY: Duration = Duration::from_secs(120);

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

/// What a link's change means for a flow's connection over it.
#[derive(Debug, PartialEq)]
enum Change {
    /// It is to go.
    Down,
    Priority(Priority),
}

struct Slot {
    stage: Stage,
    joined: Instant,
    /// In a row, and soon.
    ended: u32,
}

impl Slot {
    /// Its connection has ended by itself.
    fn lose(&mut self) {
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::Joined(_) => Stage::Idle,
            Stage::Replacing(link) => Stage::Waiting(link),
            stage => stage,
        };
        let soon = self.joined.elapsed() <= Duration::from_micros(PAUSE.most_us);
        self.ended = if soon { self.ended + 1 } else { 1 };
    }

    /// Before the next one.
    fn pause(&self) -> Duration {
        let again = self.ended.checked_sub(1);
        match again {
            Some(HOPELESS..) => RARELY,
            again => Duration::from_micros(again.map_or(0, |again| PAUSE.time(again))),
        }
    }

    /// When an address of a link goes, its connections are as dead as without the link. What has become of the flow's one.
    fn follow(&mut self, new: Option<&Link>) -> Option<Change> {
        let (Stage::Joined(old) | Stage::Replacing(old)) = &mut self.stage else {
            return None;
        };
        if let Some(new) = new.filter(|new| carry_on(Some(&*old), Some(new))) {
            // Whole: those that come may have a new address, and it may go too.
            let before = std::mem::replace(old, new.clone());
            return (before.priority != new.priority).then_some(Change::Priority(new.priority));
        }
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::Replacing(old) => Stage::Waiting(old),
            _ => Stage::Idle,
        };
        Some(Change::Down)
    }

    /// One that was waited for is there; the link that it is for.
    fn take_in(&mut self, now: Option<&Link>) -> Option<Link> {
        let (Stage::Waiting(link) | Stage::Replacing(link)) = &self.stage else {
            return None;
        };
        let Some(now) = now.filter(|now| carry_on(Some(link), Some(now))) else {
            self.stage = Stage::Idle;
            return None;
        };
        (self.stage, self.joined) = (Stage::Joined(now.clone()), Instant::now());
        Some(now.clone())
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

/// `woken` changes when this host has slept. `opener` is the flow's.
pub async fn run(
    pool: Arc<Pool>,
    mut links: watch::Receiver<Links>,
    mut woken: watch::Receiver<()>,
    opener: Opener,
    events: mpsc::Sender<Event>,
    mut losses: mpsc::UnboundedReceiver<Loss>,
) {
    let mut untold = bring_all(&pool, &mut links, &mut woken, &events, &mut losses).await;
    while untold.is_none() {
        match losses.try_recv() {
            Ok(Loss::Untold(found)) => untold = Some(found),
            Ok(_) => {}
            Err(_) => return,
        }
    }
    if let Some(untold) = untold {
        let _ = timeout(TELLING, tell(&pool, &opener, untold)).await;
    }
}

/// That the flow is over, over whatever link there is.
async fn tell(pool: &Arc<Pool>, opener: &Opener, untold: Untold) {
    let mut parting: FuturesUnordered<_> = untold.parting.into_iter().collect();
    while let Some(heard) = parting.next().await {
        if heard.unwrap_or(false) {
            return;
        }
    }
    drop(untold.unsaid);
    loop {
        let mut coming = Coming::new();
        for slot in 0..MAX_SUBFLOWS {
            bring(&mut coming, pool, slot, Duration::ZERO);
        }
        let Some(Ok((slot, mut carrier))) = coming.join_next().await else {
            return;
        };
        drop(coming);
        let opener = Opener {
            path: slot as u8,
            resumes: true,
            ..opener.clone()
        };
        carrier.put_bytes(&opener.encode());
        carrier.put(&untold.word);
        if carrier.part().await.unwrap_or(false) {
            return;
        }
        sleep(Duration::from_micros(PAUSE.most_us)).await;
    }
}

/// Until the flow is over: what the relay is to be told of it, where it may not know.
async fn bring_all(
    pool: &Arc<Pool>,
    links: &mut watch::Receiver<Links>,
    woken: &mut watch::Receiver<()>,
    events: &mpsc::Sender<Event>,
    losses: &mut mpsc::UnboundedReceiver<Loss>,
) -> Option<Untold> {
    let mut slots: [Slot; MAX_SUBFLOWS] = std::array::from_fn(|_| Slot {
        stage: Stage::Idle,
        joined: Instant::now(),
        ended: 0,
    });
    let mut coming = Coming::new();
    let mut fixed = false;
    let backups_at = Instant::now() + BACKUP_AFTER;
    loop {
        let now = links.borrow_and_update().clone();
        let some_normal = now.iter().flatten().any(|l| l.priority != Priority::Backup);
        let backups_wait = some_normal && Instant::now() < backups_at;
        for (index, link) in now.iter().enumerate() {
            let slot = &mut slots[index];
            let event = match slot.follow(link.as_ref()) {
                Some(Change::Down) => Some(Event::Down(index)),
                Some(Change::Priority(priority)) => Some(Event::Priority(index, priority)),
                None => None,
            };
            if let Some(event) = event {
                events.send(event).await.ok()?;
            }
            if let (Stage::Idle, Some(link)) = (&slot.stage, link) {
                if link.priority == Priority::Backup && backups_wait {
                    continue;
                }
                slot.stage = Stage::Waiting(link.clone());
                bring(&mut coming, pool, index, slot.pause());
            }
        }
        tokio::select! {
            Some(Ok((index, carrier))) = coming.join_next() => {
                let Some(link) = slots[index].take_in(now[index].as_ref()) else {
                    continue;
                };
                if events.send(Event::Join(index, carrier, link.priority)).await.is_err() {
                    return None;
                }
            }
            Some(loss) = losses.recv() => match loss {
                Loss::Ended(index) => slots[index].lose(),
                Loss::Stale(index, since) => {
                    if let Stage::Joined(link) = &slots[index].stage {
                        slots[index].stage = Stage::Replacing(link.clone());
                        pool.distrust(index, since);
                        bring(&mut coming, pool, index, Duration::ZERO);
                    }
                }
                Loss::Untold(untold) => return Some(untold),
            },
            changed = links.changed(), if !fixed => fixed = changed.is_err(),
            () = sleep_until(backups_at.into()), if backups_wait => {}
            Ok(()) = woken.changed() => {
                if events.send(Event::Woken).await.is_err() {
                    return None;
                }
            }
            () = events.closed() => return None,
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
            ended: 0,
        }
    }

    #[test]
    fn a_silent_connection_stays_until_another_takes_its_place() {
        let (wifi, lte) = (link("wifi"), link("lte"));
        let mut replacing = slot(Stage::Replacing(wifi.clone()));
        assert_eq!(replacing.follow(Some(&wifi)), None);
        assert_eq!(replacing.take_in(Some(&wifi)), Some(wifi.clone()));
        assert!(replacing.stage == Stage::Joined(wifi.clone()));

        // It ends first.
        let mut replacing = slot(Stage::Replacing(wifi.clone()));
        replacing.lose();
        assert!(replacing.stage == Stage::Waiting(wifi.clone()));
        // The link goes first, and the one that comes is for nobody.
        let mut replacing = slot(Stage::Replacing(wifi.clone()));
        assert_eq!(replacing.follow(Some(&lte)), Some(Change::Down));
        assert_eq!(replacing.follow(Some(&lte)), None, "once");
        assert_eq!(replacing.take_in(Some(&lte)), None);
        assert!(replacing.stage == Stage::Idle);
    }

    #[test]
    fn a_connection_stays_until_an_address_goes() {
        let with = |addresses: &[&str]| Link {
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            ..link("wifi")
        };
        let before = with(&["10.0.0.1", "2001:db8::1"]);
        let more = with(&["2001:db8::2", "10.0.0.1", "2001:db8::1"]);
        for stage in [Stage::Joined, Stage::Replacing] {
            let mut stays = slot(stage(before.clone()));
            assert_eq!(stays.follow(Some(&more)), None);
            assert!(stays.stage == stage(more.clone()));
            assert_eq!(stays.follow(Some(&before)), Some(Change::Down));
            let mut moves = slot(stage(before.clone()));
            let other = with(&["10.0.0.2", "2001:db8::1"]);
            assert_eq!(moves.follow(Some(&other)), Some(Change::Down));
        }
        let mut waiting = slot(Stage::Waiting(before));
        assert_eq!(waiting.take_in(Some(&more)), Some(more));
    }

    #[test]
    fn a_connection_stays_when_its_link_has_another_priority() {
        let wifi = link("wifi");
        let backup = Link {
            priority: Priority::Backup,
            ..wifi.clone()
        };
        for stage in [Stage::Joined, Stage::Replacing] {
            let mut slot = slot(stage(wifi.clone()));
            let changed = Some(Change::Priority(Priority::Backup));
            assert_eq!(slot.follow(Some(&backup)), changed);
            assert_eq!(slot.follow(Some(&backup)), None, "once");
            assert!(slot.stage == stage(backup.clone()));
            assert_eq!(slot.follow(None), Some(Change::Down));
        }
        // It changes before the connection is there.
        let mut waiting = slot(Stage::Waiting(wifi));
        assert_eq!(waiting.follow(Some(&backup)), None);
        assert_eq!(waiting.take_in(Some(&backup)), Some(backup));
    }

    #[test]
    fn what_ends_at_once_again_and_again_is_replaced_less_often() {
        let mut slot = slot(Stage::Idle);
        assert_eq!(slot.pause(), Duration::ZERO);
        let pauses: Vec<_> = std::iter::repeat_with(|| {
            slot.lose();
            slot.pause().as_millis()
        })
        .take(9)
        .collect();
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        (0..20).for_each(|_| slot.lose());
        assert_eq!(slot.pause(), RARELY);
        slot.joined -= Duration::from_secs(11);
        slot.lose();
        assert_eq!(slot.pause().as_millis(), 100);
    }
}
