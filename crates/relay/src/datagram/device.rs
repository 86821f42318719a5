//! The device's end of the lane: a QUIC connection over each link that is up, and the flows of this host.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lru::LruCache;
use mp_policy::link::Priority;
use mp_policy::scheduler::Entry;
use mp_policy::MAX_SUBFLOWS;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use super::deal::Slots;
use super::flow::{minds_order, Flow, Idle, EXPIRE_EVERY, MOST};
use super::inbox::{Inbox, Taken};
use super::packet::{Destination, Hello, How, Packet, MOST_HEADER};
use super::parts::split;
use super::paths::{self, count, Counts, Paths, Sent};
use super::quic::{self, Channel, ClientTls, BATCH};
use crate::device::Place;
use crate::handshake::{Failed, PATIENCE, RETRY};
use crate::keys::Secret;
use crate::links::{carry_on, is_as_before, unspecified, Link, Links};
use crate::lock;
use crate::socket::lead_over;
use crate::tally::Tally;
use crate::wire::{path_byte, Malformed, Refusal};

/// A path that has lived for so long was none that the relay closes at once.
const LASTING: Duration = Duration::from_secs(10);
/// So long after the last path has gone, packets are lost. Then programs learn that there is none.
const GRACE: Duration = Duration::from_secs(1);
/// Of bulk, between two turns of the process.
const SOCKET_BUFFER: usize = 1 << 21;

pub struct Settings {
    pub relay: watch::Receiver<Place>,
    pub secret: Secret,
    pub tls: Arc<rustls::ClientConfig>,
    pub session: [u8; 16],
    pub scheduler: &'static Entry,
    pub links: watch::Receiver<Links>,
    /// Changes when this host has slept: connections may be over at the relay.
    pub woken: watch::Sender<()>,
    pub mark: Option<u32>,
}

/// Where packets from the relay go.
pub trait Sink: Send + Sync {
    fn deliver(&self, from: Destination, to: SocketAddr, payload: &[u8]);
    /// The relay does not reach the target.
    fn refuse(&self, application: SocketAddr, target: Destination, why: Refusal);
}

/// Why a packet did not go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undelivered {
    /// More bytes of payload than these.
    TooBig(usize),
    NoPath,
}

struct Known {
    flow: Flow,
    /// Of echo requests: the address and the identifier.
    application: SocketAddr,
    target: Destination,
    /// The relay has answered: it knows the target.
    heard: bool,
    /// Bytes by path, both ways together.
    carried: [u64; MAX_SUBFLOWS],
}

/// A flow of this host.
pub struct UdpFlow {
    pub target: Destination,
    pub bulk: bool,
    pub quiet: Duration,
    pub carried: [u64; MAX_SUBFLOWS],
    pub backup: [bool; MAX_SUBFLOWS],
}

struct State {
    paths: Paths,
    ids: HashMap<(SocketAddr, Destination), u32>,
    /// The one that was quiet longest goes first.
    flows: LruCache<u32, Known>,
    next: u32,
    inbox: Inbox,
    /// When the last path went.
    left: Option<Duration>,
    failure: Option<String>,
}

impl Known {
    /// What the program of this flow gets its datagrams by.
    fn giver<'a>(&self, sink: &'a dyn Sink) -> impl FnMut(Bytes) + 'a {
        let (target, application) = (self.target, self.application);
        move |payload| sink.deliver(target, application, &payload)
    }

    fn carries(&mut self, slots: Slots, bytes: usize) {
        for slot in (0..MAX_SUBFLOWS).filter(|slot| slots >> slot & 1 == 1) {
            self.carried[slot] += bytes as u64;
        }
    }
}

impl State {
    /// Passes on the packets of this flow that need not wait any more, and asks for those that are lost. Returns the time of the next
    /// release.
    fn release(
        &mut self,
        sink: &dyn Sink,
        id: u32,
        now: Duration,
        counts: &Counts,
    ) -> Option<Duration> {
        // What is not asked for any more may go.
        self.ask(sink, id, now, counts);
        let Some(known) = self.flows.peek_mut(&id) else {
            self.inbox.forget(id);
            return None;
        };
        let give = known.giver(sink);
        self.inbox.release(id, &mut known.flow, now, give)
    }

    /// Asks for packets of this flow that were found to be lost. Returns whether there are any.
    fn ask(&mut self, sink: &dyn Sink, id: u32, now: Duration, counts: &Counts) -> bool {
        // Hardly any packet of any flow waits.
        if !self.inbox.has(id) {
            return false;
        }
        let Some(known) = self.flows.peek_mut(&id) else {
            return false;
        };
        let give = known.giver(sink);
        let (of, paths) = ((id, &mut known.flow), &mut self.paths);
        let missing = self.inbox.missing(of, || paths.repairs(), now, give);
        let any = !missing.is_empty();
        self.paths.ask(id, missing, now, counts);
        any
    }

    fn remove(&mut self, id: u32) -> Option<Known> {
        let known = self.flows.pop(&id)?;
        self.ids.remove(&(known.application, known.target));
        Some(known)
    }

    fn open(&mut self, application: SocketAddr, target: Destination, now: Duration) -> u32 {
        if self.flows.len() >= MOST.device {
            if let Some((_, quiet)) = self.flows.pop_lru() {
                self.ids.remove(&(quiet.application, quiet.target));
            }
        }
        while self.flows.contains(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        let known = Known {
            flow: Flow::new(now),
            application,
            target,
            heard: false,
            carried: [0; MAX_SUBFLOWS],
        };
        self.flows.put(id, known);
        self.ids.insert((application, target), id);
        id
    }
}

pub struct Lane {
    settings: Settings,
    tls: Option<ClientTls>,
    started: Instant,
    state: Mutex<State>,
    counts: Counts,
    /// Bytes of paths that have ended, by slot, and whose they were.
    carried: [AtomicU64; MAX_SUBFLOWS],
    tally: Mutex<Tally<1>>,
    sink: Arc<dyn Sink>,
    up: watch::Sender<bool>,
}

/// As `status` shows it. Counts are in packets of this host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Seen in the last two minutes; to port 53, in the last 20 s.
    pub flows: u64,
    pub sent: u64,
    /// Beside those: sent again, on another path or later.
    pub copies: u64,
    pub received: u64,
    /// Copies that came too, and were dropped.
    pub duplicates: u64,
    /// Answered with the size that fits.
    pub too_big: u64,
    /// No path, or a full sender.
    pub dropped: u64,
    pub paths: Vec<PathReport>,
    /// Why a path could not be opened last.
    pub failure: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PathReport {
    pub link: String,
    pub rtt_ms: f64,
    /// Acknowledgements are overdue.
    pub stale: bool,
    /// QUIC packets.
    pub sent: u64,
    pub lost: u64,
    /// Bytes of UDP payload that fit.
    pub largest: u64,
}

impl Lane {
    /// Its tasks end with `tasks`.
    pub fn start(settings: Settings, sink: Arc<dyn Sink>, tasks: &mut JoinSet<()>) -> Arc<Lane> {
        let state = State {
            paths: Paths::new(settings.scheduler),
            ids: HashMap::new(),
            flows: LruCache::unbounded(),
            next: 0,
            inbox: Inbox::default(),
            left: None,
            failure: None,
        };
        let lane = Arc::new(Lane {
            tls: ClientTls::new(&settings.tls),
            settings,
            started: Instant::now(),
            state: Mutex::new(state),
            counts: Counts::default(),
            carried: Default::default(),
            tally: Mutex::default(),
            sink,
            up: watch::Sender::new(false),
        });
        for slot in 0..MAX_SUBFLOWS {
            tasks.spawn(keep(lane.clone(), slot));
        }
        tasks.spawn(expire(lane.clone()));
        let (wake, tended) = (lock(&lane.state).paths.wake(), lane.clone());
        tasks.spawn(paths::tend(wake, move || Some(tended.tend())));
        lane
    }

    /// Whether any path is open.
    pub fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether the path of this slot is open and acknowledges; `None` where it never was.
    pub fn answers(&self, slot: usize) -> Option<bool> {
        let state = lock(&self.state);
        match state.paths.get(slot) {
            Some(channel) => Some(!channel.view().stale),
            None => {
                drop(state);
                (self.carried(slot) > 0).then_some(false)
            }
        }
    }

    /// UDP payload over the link of this slot, both ways together.
    pub fn carried(&self, slot: usize) -> u64 {
        let link = self.settings.links.borrow()[slot].clone();
        link.map_or(0, |link| {
            let [carried] = lock(&self.tally).of(slot, &link.name, self.total(slot));
            carried
        })
    }

    /// The same, of all links that have had the slot.
    fn total(&self, slot: usize) -> [u64; 1] {
        let state = lock(&self.state);
        let open = state.paths.get(slot).map_or(0, |channel| channel.carried());
        [self.carried[slot].load(Ordering::Relaxed) + open]
    }

    /// A packet of this host, which waits for [`Lane::flush`]. The relay sends it to `remote`, as whose answers come from `target`.
    /// With `may_split` one that fits on no path goes in parts.
    pub fn send(
        &self,
        application: SocketAddr,
        target: Destination,
        remote: Destination,
        payload: &[u8],
        may_split: bool,
    ) -> Result<(), Undelivered> {
        let now = self.now();
        let state = &mut *lock(&self.state);
        let id = match state.ids.get(&(application, target)) {
            Some(id) => *id,
            None => state.open(application, target, now),
        };
        let Some(known) = state.flows.get_mut(&id) else {
            return Err(Undelivered::NoPath);
        };
        known.flow.last = now;
        let copied = known.flow.budget.take(payload.len(), now);
        let target = (!known.heard).then_some(remote);
        let (widest, most) = state.paths.widths();
        let parts: Vec<_> = match may_split && payload.len() > widest && most > 0 {
            true => split(payload, most)
                .map(|(p, some)| (Some(p), some))
                .collect(),
            false => Vec::new(),
        };
        // What would take too many parts goes nowhere.
        let whole = [(None, payload)];
        let all = if parts.is_empty() { &whole[..] } else { &parts };
        for (part, payload) in all {
            let packet = Packet::Data {
                flow: id,
                sequence: known.flow.number(),
                target,
                how: How::first(copied),
                part: *part,
                payload,
            };
            match state.paths.send(id, &packet, now, &self.counts) {
                Sent::Yes(slots) => known.carries(slots, payload.len()),
                Sent::Later => {}
                Sent::TooBig => {
                    known.flow.reuse_number();
                    return Err(Undelivered::TooBig(widest));
                }
                Sent::NoPath => {
                    known.flow.reuse_number();
                    if state.left.is_none_or(|left| now >= left + GRACE) {
                        return Err(Undelivered::NoPath);
                    }
                }
            }
        }
        Ok(())
    }

    /// Releases and sends what is due. Returns the time until more is.
    fn tend(&self) -> Option<Duration> {
        let now = self.now();
        let state = &mut *lock(&self.state);
        // Before the paths send.
        let waiting = state.inbox.waiting().into_iter();
        let dues = waiting.filter_map(|id| state.release(&*self.sink, id, now, &self.counts));
        let due = dues.min().map(|due| due.saturating_sub(now));
        let flows = &mut state.flows;
        let carried = |flow, slots, bytes| {
            if let Some(known) = flows.peek_mut(&flow) {
                known.carries(slots, bytes);
            }
        };
        let pause = state.paths.tend(now, &self.counts, carried);
        due.into_iter().chain(pause).min()
    }

    /// Whether no path gets an answer.
    pub fn is_silent(&self) -> bool {
        let state = lock(&self.state);
        let mut open = (0..MAX_SUBFLOWS)
            .filter_map(|slot| state.paths.get(slot))
            .peekable();
        open.peek().is_some() && open.all(|channel| channel.view().stale)
    }

    /// The packets of the batch are on their way.
    pub fn flush(&self) {
        lock(&self.state).paths.flush();
    }

    fn receive(&self, slot: usize, datagram: &Bytes) -> Result<(), Malformed> {
        let now = self.now();
        let mut held = lock(&self.state);
        let state = &mut *held;
        match Packet::decode(datagram)? {
            Packet::Data {
                flow,
                sequence,
                how,
                part,
                payload,
                ..
            } => {
                let Some(known) = state.flows.get_mut(&flow) else {
                    return Ok(());
                };
                known.heard = true;
                known.carried[slot] += payload.len() as u64;
                let (give, minds_order) =
                    (known.giver(&*self.sink), minds_order(known.target.port()));
                let taken = state.inbox.put(
                    (flow, &mut known.flow),
                    (sequence, how, part, datagram.slice_ref(payload)),
                    (slot, minds_order),
                    now,
                    give,
                );
                match taken {
                    Taken::Copy => count(&self.counts.duplicates, 1),
                    Taken::Yes | Taken::Waits => count(&self.counts.received, 1),
                }
                if state.ask(&*self.sink, flow, now, &self.counts) {
                    state.paths.flush();
                }
                if taken == Taken::Waits || state.inbox.take_early() {
                    state.paths.wake().notify();
                }
            }
            Packet::Unknown { flow } => {
                // The next packet opens another: what comes late of this one cannot be mistaken for it.
                state.remove(flow);
            }
            Packet::Missing { flow, numbers } => {
                state.paths.repair(flow, numbers, now, &self.counts);
                state.paths.flush();
            }
            Packet::Gone { flow, numbers } => {
                if let Some(known) = state.flows.peek_mut(&flow) {
                    let give = known.giver(&*self.sink);
                    let of = (flow, &mut known.flow);
                    state.inbox.are_gone(of, numbers.iter(), now, give);
                    if state.inbox.take_early() {
                        state.paths.wake().notify();
                    }
                }
            }
            Packet::Refused { flow, why } => {
                if let Some(known) = state.remove(flow) {
                    drop(held);
                    self.sink.refuse(known.application, known.target, why);
                }
            }
        }
        Ok(())
    }

    /// One connection's whole life, and whether the relay's next process takes another at once; an error where it did not
    /// come about.
    async fn path(&self, slot: usize, link: &Link, turn: usize) -> Result<bool, Failed> {
        let channel = timeout(PATIENCE, self.connect(slot, link, turn));
        let channel = channel.await.map_err(|_| {
            io::Error::other("no answer over UDP: firewalls between here and the relay have to let UDP to its port through")
        })??;
        let joined = Joined::new(self, slot, link.priority, Arc::new(channel));
        let receiving = async {
            let mut batch = vec![Bytes::new(); BATCH];
            while let Some(count) = joined.channel.receive(&mut batch).await {
                for datagram in &mut batch[..count] {
                    // A relay of this version sends no other.
                    let _ = self.receive(slot, &std::mem::take(datagram));
                }
            }
        };
        tokio::select! {
            () = receiving => Ok(joined.channel.is_handed_over()),
            Err(e) = joined.follow(link.priority) => Err(e.into()),
        }
    }

    async fn connect(&self, slot: usize, link: &Link, turn: usize) -> Result<Channel, Failed> {
        let settings = &self.settings;
        let relay = link.reaches(&settings.relay.borrow().addresses, turn)?;
        let tls = self
            .tls
            .as_ref()
            .ok_or_else(|| io::Error::other("no AES for QUIC"))?;
        let socket = socket(link, relay, settings.mark)?;
        let knock = settings.secret.datagram_knock().encode();
        let channel = quic::connect(socket, relay, tls, knock).await?;
        let hello = Hello {
            session: settings.session,
            path: slot as u8,
            priority: link.priority,
            scheduler: settings.scheduler.name.to_owned(),
        };
        let proof = settings.secret.proof(&channel.exporter()?);
        let words = [&proof[..], &hello.encode()].concat();
        let [status] = channel.ask(&words, 1).await?[..] else {
            return Err(Malformed("no welcome").into());
        };
        Refusal::from(status)?;
        Ok(channel)
    }

    pub fn flows(&self) -> Vec<UdpFlow> {
        let now = self.now();
        let state = lock(&self.state);
        let backup = std::array::from_fn(|slot| state.paths.is_backup(slot));
        let of = |known: &Known| UdpFlow {
            target: known.target,
            bulk: known.flow.budget.is_bulk(),
            quiet: now.saturating_sub(known.flow.last),
            carried: known.carried,
            backup,
        };
        state.flows.iter().map(|(_, known)| of(known)).collect()
    }

    pub fn report(&self) -> Report {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let links = self.settings.links.borrow().clone();
        let state = lock(&self.state);
        let paths = links.into_iter().enumerate().filter_map(|(slot, link)| {
            let channel = state.paths.get(slot)?;
            let view = channel.view();
            Some(PathReport {
                link: link?.name,
                rtt_ms: f64::from(view.srtt_us) / 1e3,
                stale: view.stale,
                sent: view.sent,
                lost: view.lost,
                largest: channel.room().saturating_sub(MOST_HEADER) as u64,
            })
        });
        Report {
            paths: paths.collect(),
            flows: state.flows.len() as u64,
            failure: state.failure.clone(),
            sent: of(&self.counts.sent),
            copies: of(&self.counts.copies),
            received: of(&self.counts.received),
            duplicates: of(&self.counts.duplicates),
            too_big: of(&self.counts.too_big),
            dropped: of(&self.counts.dropped),
        }
    }
}

/// A path that is open, until it is dropped.
struct Joined<'a> {
    lane: &'a Lane,
    slot: usize,
    channel: Arc<Channel>,
}

impl Joined<'_> {
    fn new(lane: &Lane, slot: usize, priority: Priority, channel: Arc<Channel>) -> Joined<'_> {
        let mut state = lock(&lane.state);
        state.paths.join(slot, priority, channel.clone());
        lane.up.send_replace(true);
        drop(state);
        Joined {
            lane,
            slot,
            channel,
        }
    }

    /// Both ends use the path as the link's priority says, from now on. `known`: as the relay knows it. Ends where it cannot be
    /// told.
    async fn follow(&self, mut known: Priority) -> io::Result<Infallible> {
        let mut links = self.lane.settings.links.clone();
        loop {
            let link = links.borrow_and_update()[self.slot].clone();
            let priority = link.map_or(known, |link| link.priority);
            if priority != known {
                known = priority;
                lock(&self.lane.state)
                    .paths
                    .set_priority(self.slot, &self.channel, priority);
                let byte = path_byte(self.slot as u8, priority);
                self.channel.ask(&[byte], 1).await?;
            }
            if links.changed().await.is_err() {
                // Without a sender the links never change.
                pending().await
            }
        }
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.lane.state);
        count(&self.lane.carried[self.slot], self.channel.carried());
        state.paths.leave(self.slot, &self.channel);
        let is_open = state.paths.are_open();
        if !is_open {
            state.left = Some(self.lane.now());
        }
        self.lane.up.send_replace(is_open);
    }
}

async fn expire(lane: Arc<Lane>) {
    let mut every = interval(EXPIRE_EVERY);
    loop {
        every.tick().await;
        let now = lane.now();
        let mut state = lock(&lane.state);
        let idle = |known: &Known| {
            let most = Idle::of(known.target.port()).device;
            now.saturating_sub(known.flow.last) >= most
        };
        let old: Vec<u32> = state
            .flows
            .iter()
            .filter(|(_, known)| idle(known))
            .map(|(id, _)| *id)
            .collect();
        for id in old {
            state.remove(id);
        }
    }
}

/// Until the link of the slot is so; for ever where the links never change.
async fn until(
    links: &mut watch::Receiver<Links>,
    slot: usize,
    mut is_so: impl FnMut(Option<&Link>) -> bool,
) {
    let waiting = links.wait_for(|links| is_so(links[slot].as_ref()));
    let never = waiting.await.is_err();
    if never {
        pending().await
    }
}

/// Failures in a row, once a path has lived for so long after these.
fn failures_after(before: u32, lived: Duration) -> u32 {
    match lived > LASTING {
        true => 0,
        false => before,
    }
}

/// A connection over the link of one slot, while it is up.
async fn keep(lane: Arc<Lane>, slot: usize) {
    let mut links = lane.settings.links.clone();
    let mut woken = lane.settings.woken.subscribe();
    let mut failures = 0;
    // Of the relay's addresses: after a failure the next one.
    let mut turn = 0;
    loop {
        let link = links.borrow_and_update()[slot].clone();
        let mut pausing = links.clone();
        if let Some(link) = &link {
            lock(&lane.tally).settle(slot, &link.name, lane.total(slot));
        }
        let mut known = link.clone();
        let other = until(&mut links, slot, |now| {
            let ends = !carry_on(known.as_ref(), now);
            known = now.cloned();
            ends
        });
        let slept = async {
            let _ = woken.changed().await;
        };
        let path = async {
            let Some(link) = &link else {
                return pending().await;
            };
            let begun = Instant::now();
            match lane.path(slot, link, turn).await {
                // The pause comes after a further one.
                Ok(true) if failures == 0 => {
                    failures = 1;
                    return false;
                }
                Ok(_) => failures = failures_after(failures, begun.elapsed()),
                Err(failed) => {
                    turn += 1;
                    lock(&lane.state).failure = Some(format!("over {}: {failed}", link.name));
                }
            }
            // A new address may be the one that was missing.
            let changes = |now: Option<&Link>| !is_as_before(Some(link), now);
            let pause = Duration::from_micros(RETRY.time(failures));
            tokio::select! {
                () = sleep(pause) => {}
                () = until(&mut pausing, slot, changes) => return true,
            }
            failures += 1;
            false
        };
        let changed = tokio::select! {
            () = other => true,
            () = slept => true,
            changed = path => changed,
        };
        if changed {
            failures = 0;
        }
    }
}

fn socket(link: &Link, relay: SocketAddr, mark: Option<u32>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(relay), Type::DGRAM, Some(Protocol::UDP))?;
    let source = lead_over(&SockRef::from(&socket), link, relay.ip(), mark)?;
    let own = source.unwrap_or(unspecified(relay.ip()));
    socket.bind(&SocketAddr::new(own, 0).into())?;
    // The system may give less.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{Register, Store};
    use crate::egress::Egress;
    use crate::keys::Identity;
    use crate::links::{self, Choose};
    use crate::rates::Rates;
    use crate::wire::Line;

    #[test]
    fn a_path_that_ends_at_once_does_not_count_as_a_success() {
        assert_eq!(failures_after(7, Duration::from_millis(40)), 7);
        assert_eq!(failures_after(7, Duration::from_secs(11)), 0);
    }

    struct Nowhere;

    impl Sink for Nowhere {
        fn deliver(&self, _: Destination, _: SocketAddr, _: &[u8]) {}
        fn refuse(&self, _: SocketAddr, _: Destination, _: Refusal) {}
    }

    /// What a device says of its lane to a relay on this host; [`None`]: a path is open.
    async fn said(relay: SocketAddr, line: &Line, identity: &Identity) -> Option<String> {
        let place = Place {
            addresses: vec![relay],
            unresolved: None,
        };
        let settings = Settings {
            relay: watch::channel(place).1,
            secret: Secret::derive(&line.secret),
            tls: identity.client(&line.key),
            session: [7; 16],
            scheduler: crate::scheduler(crate::SCHEDULER),
            links: links::watch(Choose::Routes, None).unwrap(),
            woken: watch::Sender::new(()),
            mark: None,
        };
        let mut tasks = JoinSet::new();
        let lane = Lane::start(settings, Arc::new(Nowhere), &mut tasks);
        loop {
            match lane.report().failure {
                None if !*lane.up().borrow() => sleep(Duration::from_millis(5)).await,
                failure => return failure,
            }
        }
    }

    /// As the other lane does.
    #[tokio::test]
    async fn a_device_that_is_not_taken_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (identity, line) = (store.identity().unwrap(), store.add("a", "h", 1).unwrap());
        let later = store.add("b", "h", 1).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let relay = socket.local_addr().unwrap();
        socket.set_nonblocking(true).unwrap();
        let endpoint = quic::Endpoint::listen(socket, &identity).unwrap();
        let register = Arc::new(Mutex::new(Register::new(store).unwrap()));
        let rates = Arc::new(Rates::new(None));
        let serving = super::super::relay::serve(endpoint, register, Egress::default(), rates);
        let _serving = tokio::spawn(serving);

        let device = Identity::fresh();
        assert_eq!(said(relay, &line, &device).await, None);
        let other = said(relay, &line, &Identity::fresh()).await;
        assert_eq!(other, Some(format!("over lo: {}", Failed::Refused)));
        let wrong = Line {
            key: Identity::fresh().public(),
            ..line.clone()
        };
        let wrong = said(relay, &wrong, &device).await;
        assert_eq!(wrong, Some(format!("over lo: {}", Failed::WrongKey)));
        // The relay may not write its register; not for root either.
        let lock = folder.path().join("lock");
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();
        let unwritten = said(relay, &later, &Identity::fresh()).await;
        assert_eq!(unwritten, Some(format!("over lo: {}", Failed::NotStored)));
    }
}
