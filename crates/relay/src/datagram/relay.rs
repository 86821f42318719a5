//! The relay's end of the lane: sessions of devices, their paths, and a socket of its own for each flow.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lru::LruCache;
use mp_policy::MAX_SUBFLOWS;
use nix::sys::socket::{recv, MsgFlags};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{yield_now, AbortHandle};
use tokio::time::{interval, timeout};

use super::flow::{minds_order, Flow, Idle, EXPIRE_EVERY, MOST};
use super::inbox::{Inbox, Taken};
use super::outlet::{is_of_path_mtu, Burst, Outlet};
use super::packet::{Destination, Hello, How, Packet};
use super::parts::split;
use super::paths::{self, Counts, Paths, Sent};
use super::ping::Ping;
use super::quic::{Accepted, Channel, Endpoint, BATCH};
use crate::carrier::with_scratch;
use crate::devices::Register;
use crate::egress::Egress;
use crate::keys::{Secret, PROOF_LENGTH};
use crate::links::unspecified;
use crate::lock;
use crate::probe;
use crate::rates::{Allowance, Rates, Way};
use crate::relay::target::refusal;
use crate::resolver;
use crate::wire::{read_path, DatagramKnock, Malformed, Refusal, ID_LENGTH};

/// From a valid knock to the proof.
const HANDSHAKE: Duration = Duration::from_secs(5);
const STRANGERS: usize = 256;
/// Of each device: twice what it needs to connect over all links anew.
const SHARE: usize = 2 * MAX_SUBFLOWS;
/// Of each device.
const SESSIONS: usize = 16;
/// A session without a path keeps its flows for so long: targets that go on sending do not hold it.
const ABSENT: Duration = Idle::LONGEST.relay;
/// What a target's network takes without fragments. QUIC servers look for what gets through up to there, and mean it.
const ETHERNET: usize = 1500;
/// What every link takes (RFC 8200): nobody looks for less.
pub const LEAST: usize = 1280;
const QUIC: u16 = 443;
/// Of what comes between two turns of the process.
const SOCKET_BUFFER: usize = 1 << 22;
/// Of IPv6 and UDP.
const HEADERS: usize = 48;

type Key = ([u8; ID_LENGTH], [u8; 16]);

pub struct Lanes {
    register: Arc<Mutex<Register>>,
    egress: Egress,
    rates: Arc<Rates>,
    sessions: Mutex<HashMap<Key, Arc<Session>>>,
    strangers: Arc<Semaphore>,
    /// Of each line, so that whoever has one keeps no other's devices out.
    shares: Mutex<HashMap<[u8; ID_LENGTH], Arc<Semaphore>>>,
}

/// For IPv4 too, where it is any address of IPv6.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // The system may give less.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Until the task is dropped.
pub async fn serve(
    endpoint: Endpoint,
    register: Arc<Mutex<Register>>,
    egress: Egress,
    rates: Arc<Rates>,
) {
    let lanes = Arc::new(Lanes {
        register,
        egress,
        rates,
        sessions: Mutex::default(),
        strangers: Arc::new(Semaphore::new(STRANGERS)),
        shares: Mutex::default(),
    });
    let expiring = tokio::spawn(expire(Arc::downgrade(&lanes)));
    loop {
        let register = &lanes.register;
        let admits = |knock: &_| {
            DatagramKnock::decode(knock).and_then(|knock| lock(register).admit_datagram(&knock))
        };
        let Some((accepted, secret)) = endpoint.accept(admits).await else {
            break;
        };
        if let Some(place) = lanes.enter(secret.id) {
            let lanes = lanes.clone();
            tokio::spawn(async move {
                let welcomed = timeout(HANDSHAKE, lanes.welcome(accepted, &secret)).await;
                drop(place);
                if let Ok(Ok(Some((channel, hello)))) = welcomed {
                    lanes.carry(secret.id, &hello, channel).await;
                }
            });
        }
    }
    expiring.abort();
}

async fn expire(lanes: Weak<Lanes>) {
    let mut every = interval(EXPIRE_EVERY);
    loop {
        every.tick().await;
        let Some(lanes) = lanes.upgrade() else { return };
        lanes.expire();
    }
}

impl Lanes {
    /// A place of those that are not welcome yet.
    fn enter(&self, device: [u8; ID_LENGTH]) -> Option<[OwnedSemaphorePermit; 2]> {
        let share = lock(&self.shares)
            .entry(device)
            .or_insert_with(|| Arc::new(Semaphore::new(SHARE)))
            .clone();
        let own = share.try_acquire_owned().ok()?;
        Some([own, self.strangers.clone().try_acquire_owned().ok()?])
    }

    /// What is not needed any more, and all of devices that were removed from the register.
    fn expire(&self) {
        let sessions = lock(&self.sessions);
        let mut removed: BTreeSet<_> = sessions.keys().map(|(device, _)| *device).collect();
        drop(sessions);
        // Not under both locks: the register reads a file, and an enrolment writes one.
        removed.retain(|device| !lock(&self.register).knows(device));
        lock(&self.sessions).retain(|(device, _), session| {
            let is_removed = removed.contains(device);
            if is_removed {
                lock(&session.state).paths.close();
            }
            !is_removed && session.expire()
        });
    }

    /// The device of this secret, or [`None`] and a word to it.
    async fn welcome(
        &self,
        accepted: Accepted,
        secret: &Secret,
    ) -> io::Result<Option<(Channel, Hello)>> {
        let channel = accepted.establish().await?;
        let exporter = channel.exporter()?;
        let key = channel.peer_key();
        let mut welcomed = None;
        let decide = |words: &[u8]| {
            let invalid = || io::Error::from(io::ErrorKind::InvalidData);
            let (proof, hello) = words.split_at_checked(PROOF_LENGTH).ok_or_else(invalid)?;
            let proof = proof.try_into().map_err(|_| invalid())?;
            let hello = Hello::decode(hello).map_err(|_| invalid())?;
            let taken = match key {
                Some(key) if secret.proves(&exporter, proof) => {
                    lock(&self.register).accepts(secret, &key)
                }
                _ => Ok(false),
            };
            match taken {
                Ok(true) => welcomed = Some(hello),
                Ok(false) => return Ok(Refusal::UnknownKey as u8),
                Err(_) => return Ok(Refusal::Failed as u8),
            }
            Ok(0)
        };
        channel.answer(PROOF_LENGTH + Hello::MOST, decide).await?;
        if welcomed.is_none() {
            // It closes when it has read that.
            channel.closed().await;
        }
        Ok(welcomed.map(|hello| (channel, hello)))
    }

    async fn carry(&self, device: [u8; ID_LENGTH], hello: &Hello, channel: Channel) {
        let Some(session) = self.session(device, hello) else {
            return channel.close();
        };
        let (slot, channel) = (usize::from(hello.path), Arc::new(channel));
        lock(&session.state)
            .paths
            .join(slot, hello.priority, channel.clone());
        let receiving = async {
            let mut batch = vec![Bytes::new(); BATCH];
            while let Some(count) = channel.receive(&mut batch).await {
                if session
                    .receive(slot, &batch[..count], &self.egress)
                    .is_err()
                {
                    return;
                }
                batch[..count].fill(Bytes::new());
                // A device that never pauses keeps no other from its turn.
                if count == BATCH {
                    yield_now().await;
                }
            }
        };
        let set_priority = |words: &[u8]| -> io::Result<u8> {
            let told = words.first().and_then(|byte| read_path(*byte));
            let own = told.filter(|(path, _)| usize::from(*path) == slot);
            let (_, priority) = own.ok_or(io::ErrorKind::InvalidData)?;
            lock(&session.state)
                .paths
                .set_priority(slot, &channel, priority);
            Ok(0)
        };
        let listening = async { while channel.answer(1, set_priority).await.is_ok() {} };
        tokio::select! {
            () = receiving => {}
            () = listening => {}
        }
        let mut state = lock(&session.state);
        state.paths.leave(slot, &channel);
        state.absent = session.started.elapsed();
    }

    fn session(&self, device: [u8; ID_LENGTH], hello: &Hello) -> Option<Arc<Session>> {
        let mut sessions = lock(&self.sessions);
        let key = (device, hello.session);
        if let Some(session) = sessions.get(&key) {
            return Some(session.clone());
        }
        let own = sessions.keys().filter(|(owner, _)| *owner == device);
        if own.count() >= SESSIONS {
            let absent = longest_absent(&sessions, device)?;
            sessions.remove(&absent);
        }
        let own = sessions.iter().find(|((owner, _), _)| *owner == device);
        let all = own.map(|(_, session)| session.all.clone());
        let scheduler = crate::scheduler(&hello.scheduler);
        let session = Arc::new(Session {
            started: Instant::now(),
            counts: Counts::default(),
            allowance: self.rates.of(device),
            all: all.unwrap_or_default(),
            state: Mutex::new(State {
                paths: Paths::new(scheduler),
                flows: LruCache::unbounded(),
                inbox: Inbox::default(),
                ready: Vec::new(),
                burst: Burst::default(),
                absent: Duration::ZERO,
            }),
        });
        let wake = lock(&session.state).paths.wake();
        let tended = Arc::downgrade(&session);
        let tending = paths::tend(wake, move || Some(tended.upgrade()?.tend()));
        tokio::spawn(tending);
        sessions.insert(key, session.clone());
        Some(session)
    }
}

/// Of this device, without a path: a device that has restarted often comes in all the same.
fn longest_absent(sessions: &HashMap<Key, Arc<Session>>, device: [u8; ID_LENGTH]) -> Option<Key> {
    let own = sessions.iter().filter(|((owner, _), _)| *owner == device);
    let absent = own.filter_map(|(key, session)| {
        let state = lock(&session.state);
        (!state.paths.are_open()).then(|| (session.started + state.absent, *key))
    });
    absent.min_by_key(|(since, _)| *since).map(|(_, key)| key)
}

struct Session {
    started: Instant,
    counts: Counts,
    allowance: Option<Arc<Allowance>>,
    /// Flows of the device, in all of its sessions.
    all: Arc<AtomicUsize>,
    state: Mutex<State>,
}

struct State {
    paths: Paths,
    /// The one that was quiet longest goes first.
    flows: LruCache<u32, Open>,
    inbox: Inbox,
    /// Datagrams that go on now: empty between two packets.
    ready: Vec<Bytes>,
    burst: Burst,
    /// When the last path went.
    absent: Duration,
}

struct Open {
    flow: Flow,
    outlet: Outlet,
    port: u16,
    reading: AbortHandle,
    /// Of the device, all together.
    all: Arc<AtomicUsize>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.reading.abort();
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Within the device's rate.
    fn admits(&self, way: Way, payload: &[u8]) -> bool {
        let admits = |of: &Arc<Allowance>| of.admits(way, payload.len(), Instant::now());
        self.allowance.as_ref().is_none_or(admits)
    }

    /// Of the device. An error: it is none of this version.
    fn receive(
        self: &Arc<Self>,
        slot: usize,
        datagrams: &[Bytes],
        egress: &Egress,
    ) -> Result<(), Malformed> {
        let state = &mut *lock(&self.state);
        let mut all = datagrams.iter();
        let received = all.try_for_each(|datagram| self.take(state, slot, datagram, egress));
        self.leave(state);
        // What was told the device meanwhile.
        state.paths.flush();
        received
    }

    fn take(
        self: &Arc<Self>,
        state: &mut State,
        slot: usize,
        datagram: &Bytes,
        egress: &Egress,
    ) -> Result<(), Malformed> {
        let now = self.now();
        let (id, sequence, target, (how, part), payload) = match Packet::decode(datagram)? {
            Packet::Data {
                flow,
                sequence,
                target,
                how,
                part,
                payload,
            } => (flow, sequence, target, (how, part), payload),
            Packet::Missing { flow, numbers } => {
                state.paths.repair(flow, numbers, now, &self.counts);
                return Ok(());
            }
            Packet::Gone { flow, numbers } => {
                if let Some(open) = state.flows.peek_mut(&flow) {
                    let (of, ready) = ((flow, &mut open.flow), &mut state.ready);
                    let give = |payload| ready.push(payload);
                    state.inbox.are_gone(of, numbers.iter(), now, give);
                    if state.inbox.take_early() {
                        state.paths.wake().notify();
                    }
                    self.pass(state, flow);
                }
                return Ok(());
            }
            Packet::Unknown { .. } | Packet::Refused { .. } => {
                return Err(Malformed("a datagram that relays send"));
            }
        };
        let open = match (state.flows.get_mut(&id), target) {
            (Some(open), _) => open,
            (None, Some(target)) => match self.open(id, target, egress) {
                Ok(open) => {
                    state.make_place(&self.all);
                    state.flows.get_or_insert_mut(id, || open)
                }
                Err(why) => {
                    self.tell(state, &Packet::Refused { flow: id, why });
                    return Ok(());
                }
            },
            (None, None) => {
                self.tell(state, &Packet::Unknown { flow: id });
                return Ok(());
            }
        };
        let taken = state.inbox.put(
            (id, &mut open.flow),
            (sequence, how, part, datagram.slice_ref(payload)),
            (slot, minds_order(open.port)),
            now,
            |payload| state.ready.push(payload),
        );
        self.ask(state, id, now);
        if taken == Taken::Waits || state.inbox.take_early() {
            state.paths.wake().notify();
        }
        self.pass(state, id);
        Ok(())
    }

    /// To the target, with the next [`Session::leave`].
    fn pass(&self, state: &mut State, id: u32) {
        let mut ready = std::mem::take(&mut state.ready);
        for payload in ready.drain(..).filter(|p| self.admits(Way::Up, p)) {
            if let Some(before) = state.burst.put(id, payload) {
                self.send(state, before);
            }
        }
        state.ready = ready;
    }

    /// Sends the burst that has been collected.
    fn leave(&self, state: &mut State) {
        if let Some(burst) = state.burst.take() {
            self.send(state, burst);
        }
    }

    fn send(&self, state: &mut State, (id, packets): (u32, Vec<Bytes>)) {
        let sent = state.flows.peek(&id).map(|open| open.outlet.send(&packets));
        match sent {
            Some(Err(e)) if e.kind() == io::ErrorKind::ConnectionRefused => {
                self.refuse(state, id, refusal(&e));
            }
            _ => {}
        }
    }

    /// Passes on the packets of this flow that need not wait any more, and asks for those that are lost. Returns the time of the next
    /// release.
    fn release(&self, state: &mut State, id: u32, now: Duration) -> Option<Duration> {
        // What is not asked for any more may go.
        self.ask(state, id, now);
        let Some(open) = state.flows.peek_mut(&id) else {
            state.inbox.forget(id);
            return None;
        };
        let ready = &mut state.ready;
        let due = state
            .inbox
            .release(id, &mut open.flow, now, |payload| ready.push(payload));
        self.pass(state, id);
        due
    }

    /// Asks for packets of this flow that were found to be lost.
    fn ask(&self, state: &mut State, id: u32, now: Duration) {
        // Hardly any packet of any flow waits.
        if !state.inbox.has(id) {
            return;
        }
        let Some(open) = state.flows.peek_mut(&id) else {
            return;
        };
        let (of, paths, ready) = ((id, &mut open.flow), &mut state.paths, &mut state.ready);
        let give = |payload| ready.push(payload);
        let missing = state.inbox.missing(of, || paths.repairs(), now, give);
        state.paths.ask(id, missing, now, &self.counts);
    }

    /// Releases and sends what is due. Returns the time until more is.
    fn tend(&self) -> Option<Duration> {
        let now = self.now();
        let state = &mut *lock(&self.state);
        let waiting = state.inbox.waiting().into_iter();
        let dues = waiting.filter_map(|id| self.release(state, id, now));
        let due = dues.min().map(|due| due.saturating_sub(now));
        self.leave(state);
        let pause = state.paths.tend(now, &self.counts, |_, _, _| {});
        due.into_iter().chain(pause).min()
    }

    fn tell(&self, state: &mut State, packet: &Packet) {
        state.paths.send(0, packet, self.now(), &self.counts);
    }

    fn refuse(&self, state: &mut State, flow: u32, why: Refusal) {
        if state.flows.pop(&flow).is_some() {
            self.tell(state, &Packet::Refused { flow, why });
        }
    }

    fn open(
        self: &Arc<Self>,
        id: u32,
        target: Destination,
        egress: &Egress,
    ) -> Result<Open, Refusal> {
        let own = [probe::ECHO, resolver::ADDRESS]
            .into_iter()
            .find(|own| target == Destination::Udp(*own));
        if own.is_none() && !egress.permits(target.ip(), target.port()) {
            return Err(Refusal::Forbidden);
        }
        let failed = |e: io::Error| refusal(&e);
        let session = Arc::downgrade(self);
        let (outlet, reading) = match target {
            Destination::Udp(address) => {
                let socket = match own {
                    Some(probe::ECHO) => probe::answer_echoes(),
                    Some(_) => resolver::own().and_then(connect),
                    None => connect(address),
                };
                let socket = socket.and_then(tokio::net::UdpSocket::from_std);
                let socket = Arc::new(socket.map_err(failed)?);
                let reading = tokio::spawn(read(session, id, socket.clone()));
                (Outlet::udp(socket), reading)
            }
            Destination::Echo(ip) => {
                let ping = Arc::new(Ping::open(ip.to_canonical()).map_err(failed)?);
                let reading = tokio::spawn(hear(session, id, ping.clone()));
                (Outlet::Echo(ping), reading)
            }
        };
        self.all.fetch_add(1, Ordering::Relaxed);
        Ok(Open {
            flow: Flow::new(self.now()),
            outlet,
            port: target.port(),
            reading: reading.abort_handle(),
            all: self.all.clone(),
        })
    }

    /// From the target; it waits to be flushed. Whether the flow is there.
    fn answer(&self, state: &mut State, id: u32, payload: &[u8]) -> bool {
        let now = self.now();
        let Some(open) = state.flows.get_mut(&id) else {
            return false;
        };
        open.flow.last = now;
        if !self.admits(Way::Down, payload) {
            return true;
        }
        let copied = open.flow.budget.take(payload.len(), now);
        let (widest, most) = state.paths.widths();
        let mut send = |part, payload: &[u8]| {
            let packet = Packet::Data {
                flow: id,
                sequence: open.flow.number(),
                target: None,
                how: How::first(copied),
                part,
                payload,
            };
            let sent = state.paths.send(id, &packet, now, &self.counts);
            if let Sent::TooBig | Sent::NoPath = sent {
                open.flow.reuse_number();
            }
        };
        if payload.len() <= widest || most == 0 || probes(open.port, payload) {
            send(None, payload);
        } else {
            split(payload, most).for_each(|(part, some)| send(Some(part), some));
        }
        true
    }

    /// All that has come from the target goes at once. Whether there may be more; [`None`] where the flow is not there.
    fn read(&self, id: u32, socket: &tokio::net::UdpSocket) -> Option<bool> {
        let state = &mut *lock(&self.state);
        let more = with_scratch(|buffer| {
            for _ in 0..BATCH {
                let mut receive = |of| {
                    socket.try_io(of, || {
                        Ok(recv(socket.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT)?)
                    })
                };
                let received = match receive(Interest::READABLE) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => receive(Interest::ERROR),
                    received => received,
                };
                match received {
                    Ok(count) => {
                        if !self.answer(state, id, &buffer[..count]) {
                            return None;
                        }
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Some(false),
                    Err(e) if is_of_path_mtu(&e) => {}
                    Err(e) => {
                        self.refuse(state, id, refusal(&e));
                        return Some(false);
                    }
                }
            }
            Some(true)
        });
        state.paths.flush();
        more
    }

    /// Whether the session is to be kept.
    fn expire(&self) -> bool {
        let now = self.now();
        let mut state = lock(&self.state);
        state.flows.retain(|_, open| {
            let most = Idle::of(open.port).relay;
            now.saturating_sub(open.flow.last) < most
        });
        state.paths.are_open() || now.saturating_sub(state.absent) < ABSENT
    }
}

/// Whether another flow of a session takes the place of one of the session's: each has a port here. A device that has restarted has
/// some room beside the flows of before.
fn is_full(own: usize, all: usize) -> bool {
    own >= MOST.relay || all >= MOST.relay && own >= MOST.relay / SESSIONS
}

impl State {
    /// For one that is open, of the device's.
    fn make_place(&mut self, all: &AtomicUsize) {
        if is_full(self.flows.len(), all.load(Ordering::Relaxed) - 1) {
            self.flows.pop_lru();
        }
    }
}

/// Whether it may be one that looks for what gets through: in parts it would find what is not so.
fn probes(port: u16, payload: &[u8]) -> bool {
    let length = payload.len() + HEADERS;
    port == QUIC && length > LEAST && length <= ETHERNET
}

/// Packets of other senders do not come to it.
fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((unspecified(target.ip()), 0))?;
    // The system may give less.
    let _ = SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER);
    socket.set_nonblocking(true)?;
    socket.connect(target)?;
    Ok(socket)
}

async fn read(session: Weak<Session>, id: u32, socket: Arc<tokio::net::UdpSocket>) {
    // ICMP errors of the target too. To try takes one of them at a time.
    while socket
        .ready(Interest::READABLE | Interest::ERROR)
        .await
        .is_ok()
    {
        let Some(session) = session.upgrade() else {
            return;
        };
        let Some(more) = session.read(id, &socket) else {
            return;
        };
        // A target that never pauses keeps nobody from their turn: to be ready costs nothing of tokio's budget.
        if more {
            yield_now().await;
        }
    }
}

async fn hear(session: Weak<Session>, id: u32, ping: Arc<Ping>) {
    while let Ok(answer) = ping.answer().await {
        let Some(session) = session.upgrade() else {
            return;
        };
        {
            let state = &mut *lock(&session.state);
            if !session.answer(state, id, &answer) {
                return;
            }
            state.paths.flush();
        }
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::capture::udp;
    use crate::devices::Store;

    /// IPPROTO_RAW: with a header of its own.
    const RAW: i32 = 255;
    const SCHEDULER: &str = "default";

    fn session() -> Arc<Session> {
        Arc::new(Session {
            started: Instant::now(),
            counts: Counts::default(),
            allowance: None,
            all: Arc::default(),
            state: Mutex::new(State {
                paths: Paths::new(crate::scheduler(SCHEDULER)),
                flows: LruCache::unbounded(),
                inbox: Inbox::default(),
                ready: Vec::new(),
                burst: Burst::default(),
                absent: Duration::ZERO,
            }),
        })
    }

    /// An ICMP message of a router that takes no more than 1,000 bytes, to whoever sends `from` there `to`.
    fn say_what_fits(from: SocketAddr, to: SocketAddr) {
        let packet = udp::build(from, to, &[]).unwrap();
        let parsed = udp::parse(&packet).unwrap();
        let message = udp::too_big(&packet, &parsed, 1000 - 28, to.ip()).unwrap();
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW))).unwrap();
        raw.send_to(&message, &SocketAddr::new(from.ip(), 0).into())
            .unwrap();
    }

    #[tokio::test]
    async fn a_router_that_says_what_fits_ends_no_flow() {
        if !crate::is_root() {
            eprintln!("left out: ICMP messages of a router need root");
            return;
        }
        // The kernel keeps what fits for this address.
        let target = UdpSocket::bind("127.88.0.1:0").unwrap();
        let to = target.local_addr().unwrap();
        let egress = Egress {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            ..Egress::default()
        };
        let session = session();
        let mut sequence = 0;
        let mut send = |payload: &[u8]| {
            let packet = Packet::Data {
                flow: 7,
                sequence,
                target: Some(Destination::Udp(to)),
                how: How::Copied,
                part: None,
                payload,
            };
            sequence += 1;
            let datagram = packet.encode().into();
            session.receive(0, &[datagram], &egress).unwrap();
        };
        send(b"first");
        let mut buffer = [0; 100];
        let (_, from) = target.recv_from(&mut buffer).unwrap();
        say_what_fits(from, to);
        send(b"second");
        let (count, _) = target.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"second");

        say_what_fits(from, to);
        target.send_to(b"answer", from).unwrap();
        let last = || {
            lock(&session.state)
                .flows
                .peek(&7)
                .map(|open| open.flow.last)
        };
        let before = last().unwrap();
        while last().expect("the flow goes on") == before {
            yield_now().await;
        }
        assert_eq!(session.all.load(Ordering::Relaxed), 1);
        lock(&session.state).flows.clear();
        assert_eq!(session.all.load(Ordering::Relaxed), 0);
    }

    /// Some of one length, a shorter one, one of another flow, some that are longer than the path's MTU, and an empty one.
    #[tokio::test]
    async fn packets_that_come_together_leave_as_they_came() {
        let targets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let egress = Egress {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            ..Egress::default()
        };
        let session = session();
        let lengths = [200; 70]
            .into_iter()
            .chain([30, 200, 0, 200, 20_000, 20_000, 7]);
        let packets: Vec<(usize, usize)> = lengths
            .map(|length| (0, length))
            .chain([(1, 5), (0, 5), (0, 5)])
            .collect();
        let datagrams: Vec<Bytes> = (0u32..)
            .zip(&packets)
            .map(|(sequence, (flow, length))| {
                let packet = Packet::Data {
                    flow: *flow as u32,
                    sequence,
                    target: Some(Destination::Udp(targets[*flow].local_addr().unwrap())),
                    how: How::Copied,
                    part: None,
                    payload: &vec![sequence as u8; *length],
                };
                packet.encode().into()
            })
            .collect();
        session.receive(0, &datagrams, &egress).unwrap();
        let patience = Some(Duration::from_secs(10));
        targets
            .iter()
            .for_each(|target| target.set_read_timeout(patience).unwrap());
        let mut buffer = vec![0; 1 << 16];
        for (sequence, (flow, length)) in packets.iter().enumerate() {
            let (count, _) = targets[*flow].recv_from(&mut buffer).unwrap();
            assert_eq!(count, *length, "packet {sequence}");
            assert!(buffer[..count].iter().all(|byte| *byte == sequence as u8));
        }
    }

    #[test]
    fn sessions_of_a_device_share_its_flows() {
        assert!(!is_full(MOST.relay - 1, MOST.relay - 1));
        assert!(is_full(MOST.relay, MOST.relay));
        assert!(is_full(1000, MOST.relay));
        assert!(!is_full(0, MOST.relay), "after a restart");
        let most = MOST.relay + (SESSIONS - 1) * MOST.relay / SESSIONS;
        assert!(most < 2 * MOST.relay);
    }

    #[test]
    fn what_every_link_takes_is_no_probe() {
        let probes = |port, length: usize| super::probes(port, &vec![0; length - HEADERS]);
        assert!(!probes(QUIC, 1280) && probes(QUIC, 1281));
        assert!(probes(QUIC, 1500) && !probes(QUIC, 1501) && !probes(53, 1400));
    }

    fn lanes(folder: &Path) -> Lanes {
        let store = Store::open(folder).unwrap();
        Lanes {
            register: Arc::new(Mutex::new(Register::new(store).unwrap())),
            egress: Egress::default(),
            rates: Arc::new(Rates::new(None)),
            sessions: Mutex::default(),
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            shares: Mutex::default(),
        }
    }

    #[tokio::test]
    async fn a_line_keeps_no_device_of_another_out() {
        let folder = tempfile::tempdir().unwrap();
        let lanes = lanes(folder.path());
        let mut places: Vec<_> = (0..2 * SHARE)
            .filter_map(|_| lanes.enter([1; ID_LENGTH]))
            .collect();
        assert_eq!(places.len(), SHARE);
        assert!(lanes.enter([2; ID_LENGTH]).is_some());
        places.pop();
        assert!(lanes.enter([1; ID_LENGTH]).is_some());
    }

    #[tokio::test]
    async fn of_too_many_sessions_the_one_that_left_first_goes() {
        let folder = tempfile::tempdir().unwrap();
        let lanes = lanes(folder.path());
        let hello = |session| Hello {
            session: [session; 16],
            path: 0,
            priority: mp_policy::link::Priority::Normal,
            scheduler: SCHEDULER.into(),
        };
        for number in 0..SESSIONS as u8 {
            let session = lanes.session([1; ID_LENGTH], &hello(number)).unwrap();
            let left = if number == 5 {
                1
            } else {
                100 + u64::from(number)
            };
            lock(&session.state).absent = Duration::from_secs(left);
        }
        assert!(lanes.session([2; ID_LENGTH], &hello(5)).is_some());
        assert!(lanes.session([1; ID_LENGTH], &hello(100)).is_some());
        let sessions = lock(&lanes.sessions);
        let has = |session| sessions.contains_key(&([1; ID_LENGTH], [session; 16]));
        assert!(!has(5) && has(4) && has(100));
        assert_eq!(sessions.len(), SESSIONS + 1);
    }
}
