//! Ready connections to the relay, over each link: a flow does not wait for handshakes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::StreamExt;
use mp_policy::link::Priority;
use mp_policy::MAX_SUBFLOWS;
use rustls::ClientConfig;
use tokio::sync::{watch, Notify};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::carrier::Carrier;
use crate::control::Control;
use crate::flow::Meters;
use crate::handshake::{self, Failed, PATIENCE, RETRY};
use crate::keys::Secret;
use crate::links::{carry_on, is_as_before, Link, Links};
use crate::lock;
use crate::socket::{self, Transport};
use crate::tally::Tally;

use super::place::Place;

/// Kept ready over each link, and over one that is a backup.
const READY: usize = 2;
const READY_BACKUP: usize = 1;
/// A link that is a backup is asked so long after the others.
const BACKUP_AFTER: Duration = Duration::from_secs(1);
/// Made at once over each link, and while none comes about.
const AT_ONCE: usize = 32;
const AT_ONCE_FAILING: usize = 1;
/// A ready connection that is older may be forgotten by a middlebox, and soon is by the relay.
const OLDEST: Duration = Duration::from_secs(240);
/// For three round trips of the slowest link.
const ANSWERS_WITHIN: Duration = Duration::from_secs(4);

pub struct Settings {
    pub relay: watch::Receiver<Place>,
    pub transport: Transport,
    pub mark: Option<u32>,
    pub tls: Arc<ClientConfig>,
    pub secret: Secret,
    pub controller: Control,
    pub links: watch::Receiver<Links>,
    /// Changes when this host has slept.
    pub woken: watch::Receiver<()>,
    pub meters: Arc<Meters>,
}

#[derive(Default)]
struct Shelf {
    ready: VecDeque<(Instant, Carrier)>,
    waiting: usize,
}

impl Shelf {
    /// Questions whether the relay answers have left more than `ready`, and than those who wait take.
    fn trim(&mut self, ready: usize) {
        let more = self.ready.len().saturating_sub(ready + self.waiting);
        self.ready.drain(..more);
    }
}

fn is_backup(link: &Link) -> bool {
    link.priority == Priority::Backup
}

#[derive(Default)]
struct Slot {
    shelf: Mutex<Shelf>,
    /// One was put there.
    arrived: Notify,
    /// One was taken, or is waited for.
    wanted: Notify,
    /// Which of the relay's addresses is tried: after a failure the next one, which has the other family.
    turn: AtomicUsize,
}

pub struct Pool {
    settings: Settings,
    slots: [Slot; MAX_SUBFLOWS],
    state: watch::Sender<State>,
    /// A connection has failed, or the relay does not answer.
    failed: Notify,
    /// Of the meters.
    tally: Mutex<Tally<3>>,
}

#[derive(Default)]
struct State {
    /// A relay has taken this device at least once.
    welcome: bool,
    /// It never will.
    refused: bool,
    failure: Option<String>,
    /// Of each slot, until a connection comes about.
    failures: [Option<String>; MAX_SUBFLOWS],
    /// The last failure is one of enrolment, and no connection has come about since.
    untaken: bool,
}

impl State {
    fn fail(&mut self, slot: usize, why: String) {
        self.failures[slot] = Some(why.clone());
        self.failure = Some(why);
    }

    /// A connection of the slot has come about, or its link is another.
    fn clear(&mut self, slot: usize) -> bool {
        self.failures[slot].take().is_some()
    }
}

impl Pool {
    /// It is filled until `tasks` end.
    pub fn start(settings: Settings, tasks: &mut JoinSet<()>) -> Arc<Pool> {
        let pool = Arc::new(Pool {
            settings,
            slots: Default::default(),
            state: watch::Sender::default(),
            failed: Notify::new(),
            tally: Mutex::default(),
        });
        for slot in 0..MAX_SUBFLOWS {
            tasks.spawn(keep(pool.clone(), slot));
        }
        pool
    }

    /// Until the relay has taken this device; an error where it refuses to.
    pub async fn first(&self) -> Result<(), String> {
        let mut state = self.state.subscribe();
        let decided = state.wait_for(|s| s.welcome || s.refused).await;
        match decided.map(|s| s.refused) {
            Ok(true) => Err(Failed::Refused.to_string()),
            _ => Ok(()),
        }
    }

    /// Until a connection to the relay has failed, or it does not answer. For one that waits.
    pub async fn failed(&self) {
        self.failed.notified().await;
    }

    /// Whether the relay answers over any link now. The connection is kept ready; where none comes about, those that were ready
    /// are none.
    pub async fn reaches(&self) -> bool {
        let asked = Instant::now();
        let relay = self.settings.relay.borrow().addresses.clone();
        match self.any(&relay).await {
            Some((slot, carrier)) => self.put(slot, carrier),
            None => {
                (0..MAX_SUBFLOWS).for_each(|slot| self.distrust(slot, asked));
                self.failed.notify_one();
                return false;
            }
        }
        true
    }

    /// Whether the relay answers over any link at these addresses.
    pub async fn is_at(&self, relay: &[SocketAddr]) -> bool {
        self.any(relay).await.is_some()
    }

    /// The first connection to any of these addresses that comes about, and its slot. A backup link has its turn later.
    async fn any(&self, relay: &[SocketAddr]) -> Option<(usize, Carrier)> {
        let links = self.settings.links.borrow().clone();
        let some_normal = links.iter().flatten().any(|link| !is_backup(link));
        let some_normal = &some_normal;
        let up = links.iter().enumerate();
        let ways = up.flat_map(|(slot, link)| {
            let link = link.as_ref()?;
            Some(link.reachable(relay).map(move |relay| (slot, link, relay)))
        });
        let mut asking: FuturesUnordered<_> = ways
            .flatten()
            .map(|(slot, link, relay)| async move {
                if *some_normal && is_backup(link) {
                    sleep(BACKUP_AFTER).await;
                }
                Some((slot, make(&self.settings, link, relay).await.ok()?))
            })
            .collect();
        let first = async {
            while let Some(asked) = asking.next().await {
                if asked.is_some() {
                    return asked;
                }
            }
            None
        };
        timeout(ANSWERS_WITHIN, first).await.ok().flatten()
    }

    /// One of this slot is silent since then: those that are older will be too.
    pub fn distrust(&self, slot: usize, since: Instant) {
        self.slots[slot]
            .lock()
            .ready
            .retain(|(made, _)| *made > since);
        self.slots[slot].wanted.notify_one();
    }

    fn put(&self, slot: usize, mut carrier: Carrier) {
        carrier.count_in(&self.settings.meters.carried[slot]);
        self.state
            .send_if_modified(|s| std::mem::take(&mut s.untaken) | s.clear(slot));
        let slot = &self.slots[slot];
        slot.lock().ready.push_back((Instant::now(), carrier));
        slot.arrived.notify_waiters();
    }

    fn meters(&self, slot: usize) -> [u64; 3] {
        let meters = &self.settings.meters;
        let all = [
            &meters.sent[slot],
            &meters.received[slot],
            &*meters.carried[slot],
        ];
        all.map(|meter| meter.load(Ordering::Relaxed))
    }

    /// What streams have sent and received over this link, and what its connections have carried.
    pub fn counted(&self, slot: usize, link: &str) -> [u64; 3] {
        lock(&self.tally).of(slot, link, self.meters(slot))
    }

    pub fn last_failure(&self) -> Option<String> {
        self.state.borrow().failure.clone()
    }

    /// Whether the relay does not take this device, over any link.
    pub fn is_refused(&self) -> bool {
        let none_ready = (0..MAX_SUBFLOWS).all(|slot| self.ready(slot) == 0);
        none_ready && self.state.borrow().untaken
    }

    /// Why there is no connection of this slot.
    pub fn failure(&self, slot: usize) -> Option<String> {
        self.state.borrow().failures[slot].clone()
    }

    /// Connections of this slot that wait to be taken.
    pub fn ready(&self, slot: usize) -> usize {
        self.slots[slot].lock().ready.len()
    }

    /// A connection over the link of this slot, when there is one.
    pub async fn take(&self, slot: usize) -> Carrier {
        let slot = &self.slots[slot];
        let _waiting = Waiting::new(slot);
        loop {
            let mut arrived = std::pin::pin!(slot.arrived.notified());
            arrived.as_mut().enable();
            if let Some(carrier) = slot.pop() {
                return carrier;
            }
            slot.wanted.notify_one();
            arrived.await;
        }
    }
}

/// Counts one who waits, also where that is given up.
struct Waiting<'a>(&'a Slot);

impl Waiting<'_> {
    fn new(slot: &Slot) -> Waiting<'_> {
        slot.lock().waiting += 1;
        Waiting(slot)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
        self.0.wanted.notify_one();
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Shelf> {
        lock(&self.shelf)
    }

    /// The newest that still lives.
    fn pop(&self) -> Option<Carrier> {
        let mut shelf = self.lock();
        while let Some((made, mut carrier)) = shelf.ready.pop_back() {
            if lives(made, &mut carrier) {
                return Some(carrier);
            }
        }
        None
    }
}

fn lives(made: Instant, carrier: &mut Carrier) -> bool {
    let quiet = carrier.receive().is_ok() && !carrier.ended();
    quiet && made.elapsed() < OLDEST
}

/// Keeps the shelf of one slot filled while its link is up.
async fn keep(pool: Arc<Pool>, index: usize) {
    let slot = &pool.slots[index];
    let mut links = pool.settings.links.clone();
    let mut woken = pool.settings.woken.clone();
    let mut making = JoinSet::new();
    let mut failures = 0;
    let mut at_once = AT_ONCE;
    let mut not_before = Instant::now();
    let mut fixed = false;
    let mut before: Option<Link> = None;
    loop {
        let link = links.borrow_and_update()[index].clone();
        if link.is_none() || !carry_on(before.as_ref(), link.as_ref()) {
            // Those of an address that has gone get no answer any more.
            making = JoinSet::new();
            slot.lock().ready.clear();
            pool.state.send_if_modified(|s| s.clear(index));
        }
        if !is_as_before(before.as_ref(), link.as_ref()) {
            (failures, at_once, not_before) = (0, AT_ONCE, Instant::now());
        }
        if let Some(link) = &link {
            lock(&pool.tally).settle(index, &link.name, pool.meters(index));
        }
        before.clone_from(&link);
        let missing = {
            let mut shelf = slot.lock();
            shelf
                .ready
                .retain_mut(|(made, carrier)| lives(*made, carrier));
            let ready = match link.as_ref().is_some_and(is_backup) {
                true => READY_BACKUP,
                false => READY,
            };
            shelf.trim(ready);
            (ready + shelf.waiting).saturating_sub(shelf.ready.len() + making.len())
        };
        let early = not_before.saturating_duration_since(Instant::now());
        if let (Some(link), true) = (&link, early.is_zero()) {
            for _ in 0..missing.min(at_once.saturating_sub(making.len())) {
                making.spawn(make_next(pool.clone(), index, link.clone()));
            }
        }
        let look_again = if missing > 0 && !early.is_zero() {
            early
        } else {
            Duration::from_secs(30)
        };
        tokio::select! {
            Some(made) = making.join_next() => match made {
                Ok(Ok(carrier)) => {
                    (failures, at_once) = (0, AT_ONCE);
                    pool.put(index, carrier);
                    pool.state.send_if_modified(|s| !std::mem::replace(&mut s.welcome, true));
                }
                Ok(Err(failed)) => {
                    pool.note(&failed, index, link.as_ref());
                    not_before = Instant::now() + Duration::from_micros(RETRY.time(failures));
                    (failures, at_once) = (failures + 1, AT_ONCE_FAILING);
                }
                // Given up after a sleep.
                Err(_) => {}
            },
            () = slot.wanted.notified() => {}
            // Without a sender the links never change.
            changed = links.changed(), if !fixed => fixed = changed.is_err(),
            Ok(()) = woken.changed() => {
                // Those that were being made, too.
                making.abort_all();
                pool.distrust(index, Instant::now());
                (failures, at_once, not_before) = (0, AT_ONCE, Instant::now());
            }
            () = sleep(look_again) => {}
        }
    }
}

impl Pool {
    fn note(&self, failed: &Failed, slot: usize, link: Option<&Link>) {
        let name = link.map_or("", |link| &link.name);
        self.state.send_modify(|s| {
            s.refused |= matches!(failed, Failed::Refused);
            s.untaken = failed.is_of_enrolment();
            s.fail(slot, format!("over {name}: {failed}"));
        });
        self.failed.notify_one();
    }
}

/// Over this link, to the address of the relay whose turn it is.
async fn make_next(pool: Arc<Pool>, slot: usize, link: Link) -> Result<Carrier, Failed> {
    let turn = pool.slots[slot].turn.load(Ordering::Relaxed);
    let relay = link.reaches(&pool.settings.relay.borrow().addresses, turn)?;
    let made = make(&pool.settings, &link, relay).await;
    if made.is_err() {
        // Once for all that have tried the same.
        pool.slots[slot].turn.store(turn + 1, Ordering::Relaxed);
    }
    made
}

async fn make(settings: &Settings, link: &Link, relay: SocketAddr) -> Result<Carrier, Failed> {
    let connecting = async {
        let controller = settings.controller.name();
        let stream =
            socket::connect(settings.transport, link, relay, controller, settings.mark).await?;
        handshake::connect(stream, settings.tls.clone(), &settings.secret).await
    };
    timeout(PATIENCE, connecting)
        .await
        .map_err(|_| std::io::Error::other("no answer"))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::tests::pair;

    #[tokio::test]
    async fn the_oldest_connections_of_too_many_go() {
        let mut shelf = Shelf::default();
        let start = Instant::now();
        for second in 0..6 {
            let made = start + Duration::from_secs(second);
            shelf.ready.push_back((made, pair().await.0));
        }
        shelf.waiting = 1;
        shelf.trim(READY);
        let left: Vec<_> = shelf.ready.iter().map(|(made, _)| *made - start).collect();
        assert_eq!(left, [3, 4, 5].map(Duration::from_secs));
        shelf.waiting = 10;
        shelf.trim(READY);
        assert_eq!(shelf.ready.len(), 3);
    }

    #[test]
    fn a_failure_is_of_its_link_until_a_connection_comes_about() {
        let mut state = State::default();
        state.fail(1, "over lte: no answer".into());
        assert_eq!(state.failures[0], None);
        assert!(state.failures[1].is_some());
        assert!(state.clear(1) && !state.clear(1));
        assert_eq!(state.failures, State::default().failures);
        assert_eq!(state.failure.as_deref(), Some("over lte: no answer"));
    }
}
