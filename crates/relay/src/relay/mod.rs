//! The relay's end: takes path connections, joins them to flows, and connects those to their targets.

mod ended;
mod successor;
pub(crate) mod target;

use ended::Ended;
use successor::Kept;
pub use successor::{Predecessor, Sockets, Successor};

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use socket2::{Domain, SockRef};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout, timeout_at, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::carrier::Carrier;
use crate::control::Control;
use crate::datagram;
use crate::devices::{Register, Store};
use crate::egress::Egress;
use crate::flow::{Event, Flow, Observer, Outcome, Side};
use crate::handshake;
use crate::hold::{self, Holding, Place};
use crate::lock;
use crate::rates::{Rates, Throttle};
use crate::socket::{self, Transport};
use crate::wire::{Frame, Opener, Refusal, ID_LENGTH};
use crate::Error;

/// From a connection's first byte to its proof.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Connections that have not knocked yet.
const STRANGERS: usize = 256;
/// And those that have, and have proven nothing.
const UNPROVEN: usize = 1024;
/// A ready connection waits so long for its flow.
const IDLE: Duration = Duration::from_secs(600);
/// Of each device.
const CONNECTIONS: usize = 4096;
const FLOWS: usize = 1024;
/// A flow that was refused tells so to paths that come this late.
const AFTERMATH: Duration = Duration::from_secs(2);
/// Polling interval for the end of the flows of a relay that has a successor.
const DRAIN_POLL: Duration = Duration::from_millis(200);
/// Flows of devices that are away are held for so long: a night.
pub const HOLD: Duration = Duration::from_secs(12 * 3600);

pub struct Settings {
    pub listen: SocketAddr,
    pub store: Store,
    pub egress: Egress,
    /// Of the path connections' downloads.
    pub controller: Control,
    /// Flows without any path end after so long.
    pub hold: Duration,
    /// Of each device in each direction, bit/s; [`None`]: no limit.
    pub rate: Option<u64>,
    /// Shows the open flows.
    pub observer: Option<Arc<Observer>>,
}

type Id = [u8; ID_LENGTH];
type FlowId = (Id, [u8; 16], u64);

#[derive(Default)]
struct Flows {
    open: HashMap<FlowId, mpsc::Sender<Event>>,
    ended: Ended,
}

impl Flows {
    fn end(&mut self, id: FlowId, well: bool) {
        self.open.remove(&id);
        self.ended.put(id, well);
    }

    fn kept(&self) -> Kept {
        Kept {
            open: (self.open.keys().copied())
                .chain(self.ended.elsewhere())
                .collect(),
            ended: self.ended.iter().collect(),
        }
    }
}

/// Connections that have not knocked yet, or not proven who they are, each by its place. Where they are too many the oldest has to
/// leave: a device does either as soon as it can, and none is kept out by those who never do.
struct Strangers {
    most: usize,
    places: Mutex<VecDeque<oneshot::Sender<()>>>,
}

impl Strangers {
    fn new(most: usize) -> Strangers {
        Strangers {
            most,
            places: Mutex::default(),
        }
    }

    /// A place, which is lost when the sender is dropped.
    fn enter(&self) -> oneshot::Receiver<()> {
        let (kept, place) = oneshot::channel();
        let mut all = lock(&self.places);
        if all.len() >= self.most {
            all.retain(|kept| !kept.is_closed());
        }
        if all.len() >= self.most {
            all.pop_front();
        }
        all.push_back(kept);
        place
    }
}

/// What one device may have at a time.
#[derive(Clone)]
struct Share {
    connections: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Share {
        Share {
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            lookups: Arc::new(Semaphore::new(target::LOOKUPS)),
        }
    }
}

struct Relay {
    tls: Arc<ServerConfig>,
    register: Arc<Mutex<Register>>,
    egress: Egress,
    controller: Control,
    hold: Duration,
    holding: Arc<Mutex<Holding>>,
    rates: Arc<Rates>,
    observer: Option<Arc<Observer>>,
    strangers: Strangers,
    unproven: Strangers,
    shares: Mutex<HashMap<Id, Share>>,
    flows: Mutex<Flows>,
    /// No flow begins here any more: connections without one are closed.
    is_over: CancellationToken,
}

/// Until `stop`. `ready` is told where it listens.
pub async fn run(
    settings: Settings,
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let sockets = Sockets::bind(settings.listen)?;
    let serving = Serving::start(settings, &sockets)?;
    ready(sockets.address()?);
    tokio::select! {
        () = serving.accept() => {}
        () = stop => {}
    }
    Ok(())
}

/// A relay that listens.
pub struct Serving {
    relay: Arc<Relay>,
    listener: TcpListener,
    lane: Option<(datagram::Endpoint, AbortOnDropHandle<()>)>,
}

impl Serving {
    pub fn start(settings: Settings, sockets: &Sockets) -> Result<Serving, Error> {
        let identity = settings.store.identity()?;
        let relay = Arc::new(Relay {
            tls: identity.server(),
            register: Arc::new(Mutex::new(Register::new(settings.store)?)),
            egress: settings.egress,
            controller: settings.controller,
            hold: settings.hold,
            holding: Arc::new(Mutex::new(Holding::new(hold::LIMITS))),
            rates: Arc::new(Rates::new(settings.rate)),
            observer: settings.observer,
            strangers: Strangers::new(STRANGERS),
            unproven: Strangers::new(UNPROVEN),
            shares: Mutex::default(),
            flows: Mutex::default(),
            is_over: CancellationToken::new(),
        });
        let address = sockets.address()?;
        let listener = (sockets.tcp.try_clone())
            .and_then(TcpListener::from_std)
            .map_err(|e| Error::failed(address, e))?;
        socket::raise_descriptors();
        let endpoint = (sockets.udp.as_ref().map_err(String::clone))
            .and_then(|socket| socket.try_clone().map_err(|e| e.to_string()))
            .and_then(|socket| {
                datagram::Endpoint::listen(socket, &identity).map_err(|e| e.to_string())
            });
        let endpoint = endpoint.inspect_err(|e| {
            eprintln!(
                "multipilot: UDP port {}: {e}; devices send UDP directly",
                address.port()
            );
        });
        let lane = endpoint.ok().map(|endpoint| {
            let (register, egress) = (relay.register.clone(), relay.egress.clone());
            let lanes =
                datagram::relay::serve(endpoint.clone(), register, egress, relay.rates.clone());
            (endpoint, AbortOnDropHandle::new(tokio::spawn(lanes)))
        });
        Ok(Serving {
            relay,
            listener,
            lane,
        })
    }

    /// Never returns.
    pub async fn accept(&self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => self.relay.clone().greet(stream),
                // Out of descriptors, most likely: others end.
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Before it accepts: flows that stay with the predecessor are not for this relay.
    pub async fn take_over(&self, mut predecessor: Predecessor) -> Result<(), Error> {
        let kept = predecessor.take_over().await;
        let kept = kept.map_err(|e| Error::failed("the relay before this one", e))?;
        let relay = self.relay.clone();
        {
            let mut flows = lock(&relay.flows);
            for (id, well) in kept.ended {
                flows.end(id, well);
            }
            flows.ended.keep(kept.open);
        }
        tokio::spawn(async move {
            predecessor.ended().await;
            // A device that still tries to join one learns that it is lost.
            lock(&relay.flows).ended.lose();
        });
        Ok(())
    }

    /// Leaves all to the successor but the open flows, and returns when they have ended, and those of the relay before this one.
    /// Those without a path get none any more, and are not waited for.
    pub async fn hand_over(self, mut successor: Successor) {
        let Serving {
            relay,
            listener,
            lane,
        } = self;
        drop(listener);
        if let Some((endpoint, _)) = &lane {
            endpoint.close();
        }
        relay.is_over.cancel();
        let kept = lock(&relay.flows).kept();
        // If it has ended already, its own words say why.
        let _ = successor.tell(&kept).await;
        loop {
            // Also where there is no flow: the devices are still to hear that the lane is closed.
            sleep(DRAIN_POLL).await;
            let flows = lock(&relay.flows);
            // Its successor hears of their end from this one.
            let elsewhere = flows.ended.elsewhere().next().is_some();
            if !elsewhere && flows.open.len() <= lock(&relay.holding).flows() {
                return;
            }
        }
    }
}

/// Whether a relay could listen there, now.
pub fn check(address: SocketAddr) -> Result<(), Error> {
    let listener = listen(address)?;
    let local = listener
        .local_addr()
        .map_err(|e| Error::failed(address, e))?;
    let bound = datagram::relay::bind(local).map_err(|e| {
        let consequence = format!("{e}; devices would send UDP directly");
        Error::failed(format!("UDP port {}", local.port()), consequence)
    });
    bound.map(drop)
}

/// For IPv4 too, where it is any address of IPv6; for IPv4 alone where there is no IPv6.
fn listen(address: SocketAddr) -> Result<std::net::TcpListener, Error> {
    let bound = match bind(address) {
        Err(e)
            if address.ip() == std::net::Ipv6Addr::UNSPECIFIED
                && e.raw_os_error() == Some(nix::errno::Errno::EAFNOSUPPORT as i32) =>
        {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    };
    bound.map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => Error::Missing(format!(
            "cannot listen on {address}: {e}; ports below 1024 need root, others do not: --listen [::]:8443"
        )),
        io::ErrorKind::AddrInUse => Error::Failed(format!(
            "cannot listen on {address}: {e}: another program has this port, choose another (--listen)"
        )),
        _ => Error::failed(format!("cannot listen on {address}"), e),
    })
}

/// A listener of MPTCP takes connections of TCP as they are.
fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Transport::Mptcp
        .socket(domain)
        .or_else(|_| Transport::Tcp.socket(domain))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

impl Relay {
    fn greet(self: Arc<Self>, mut stream: TcpStream) {
        let mut place = self.strangers.enter();
        let is_over = self.is_over.clone();
        let greeting = async move {
            let deadline = Instant::now() + HANDSHAKE;
            let _ = socket::tune(&SockRef::from(&stream), self.controller.name());
            let knocked = tokio::select! {
                knocked = timeout_at(deadline, handshake::knock(&mut stream, &self.register)) => knocked,
                _ = &mut place => return,
            };
            let Ok(Ok(Some(secret))) = knocked else {
                // To a stranger a wrong knock looks like one that is not complete.
                let _ = timeout_at(deadline, place).await;
                return;
            };
            drop(place);
            // A knock may be an old one, sent again by anybody: what a device may have is for those who prove that they are it.
            let mut place = self.unproven.enter();
            let admit = || self.admit(secret.id);
            let accepting =
                handshake::accept(stream, self.tls.clone(), &secret, &self.register, admit);
            let accepted = tokio::select! {
                accepted = timeout_at(deadline, accepting) => accepted,
                _ = &mut place => return,
            };
            if let Ok(Ok((carrier, permit))) = accepted {
                tokio::spawn(self.idle(carrier, secret.id, permit));
            }
        };
        tokio::spawn(async move { is_over.run_until_cancelled(greeting).await });
    }

    /// A connection that has no flow yet.
    async fn idle(self: Arc<Self>, mut carrier: Carrier, device: Id, permit: OwnedSemaphorePermit) {
        let is_over = self.is_over.clone();
        let opener = is_over.run_until_cancelled(timeout(IDLE, async {
            loop {
                match Opener::decode(carrier.input()) {
                    Ok(None) => carrier.more().await.ok()?,
                    Ok(Some((opener, length))) => {
                        carrier.take(length);
                        return Some(opener);
                    }
                    Err(_) => return None,
                }
            }
        }));
        if let Some(Ok(Some(opener))) = opener.await {
            self.join(device, opener, carrier, permit).await;
        }
    }

    fn admit(&self, device: Id) -> Option<OwnedSemaphorePermit> {
        self.share(device).connections.try_acquire_owned().ok()
    }

    fn share(&self, device: Id) -> Share {
        lock(&self.shares).entry(device).or_default().clone()
    }

    async fn join(
        self: Arc<Self>,
        device: Id,
        opener: Opener,
        mut carrier: Carrier,
        permit: OwnedSemaphorePermit,
    ) {
        let id = (device, opener.session, opener.flow);
        // It may have been removed while the connection was ready.
        let is_known = lock(&self.register).knows(&device);
        let found = self.find(id, opener.resumes, is_known);
        let (flow, news) = match found {
            Found::Open(flow) => (flow, None),
            Found::New(flow, news) => (flow, Some(news)),
            Found::Over(answer) => {
                if let Some(answer) = &answer {
                    carrier.put(answer);
                }
                carrier.part();
                return;
            }
        };
        let joined = flow
            .send(Event::Join(
                usize::from(opener.path),
                carrier,
                opener.priority,
            ))
            .await;
        drop(flow);
        if let (Ok(()), Some(news)) = (joined, news) {
            let well = self.clone().carry(device, &opener, news).await;
            lock(&self.flows).end(id, well);
        }
        drop(permit);
    }

    /// The flow that a path connection is for. Only a device that is known gets a new one.
    fn find(&self, id: FlowId, resumes: bool, is_known: bool) -> Found {
        let mut flows = lock(&self.flows);
        if let Some(flow) = flows.open.get(&id) {
            return Found::Open(flow.clone());
        }
        match flows.ended.get(&id) {
            Some(true) => return Found::Over(None),
            _ if self.is_over.is_cancelled() => return Found::Over(None),
            // It was given up, or belongs to a relay of before.
            None if !resumes => {}
            _ => return Found::Over(Some(Frame::Reset)),
        }
        if !is_known {
            return Found::Over(Some(Frame::Opened(Err(Refusal::UnknownKey))));
        }
        let (device, ..) = id;
        let own = flows.open.keys().filter(|(owner, ..)| *owner == device);
        if own.count() >= FLOWS && !lock(&self.holding).make_place(device) {
            return Found::Over(Some(Frame::Opened(Err(Refusal::Busy))));
        }
        let (flow, news) = mpsc::channel(16);
        flows.open.insert(id, flow.clone());
        Found::New(flow, news)
    }

    /// A flow's whole life. Whether both directions came to their end.
    async fn carry(
        self: Arc<Self>,
        device: Id,
        opener: &Opener,
        mut news: mpsc::Receiver<Event>,
    ) -> bool {
        let scheduler = crate::scheduler(&opener.scheduler);
        let lookups = self.share(device).lookups;
        match target::connect(&opener.target, &self.egress, &lookups).await {
            Ok(stream) => {
                let (group, observer) = (self.controller.group(), self.observer.clone());
                let place = Place::new(self.holding.clone(), device);
                let throttle = Throttle::new(self.rates.of(device));
                let side = Side::Relay { place, throttle };
                let flow = Flow::new(Some(stream), scheduler, side, self.hold, group, observer);
                flow.run(news).await == Outcome::Done
            }
            Err(refusal) => {
                let tell = async {
                    while let Some(event) = news.recv().await {
                        if let Event::Join(_, mut carrier, _) = event {
                            carrier.put(&Frame::Opened(Err(refusal)));
                            carrier.part();
                        }
                    }
                };
                let _ = timeout(AFTERMATH, tell).await;
                false
            }
        }
    }
}

enum Found {
    Open(mpsc::Sender<Event>),
    New(mpsc::Sender<Event>, mpsc::Receiver<Event>),
    /// There is none (any more), and this is said of it.
    Over(Option<Frame<'static>>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::error::TryRecvError;

    #[test]
    fn the_oldest_stranger_leaves_when_there_are_too_many() {
        let strangers = Strangers::new(STRANGERS);
        let mut places: Vec<_> = (0..STRANGERS).map(|_| strangers.enter()).collect();
        let kept = |place: &mut oneshot::Receiver<()>| place.try_recv() == Err(TryRecvError::Empty);
        // One that has knocked takes no place any more.
        drop(places.remove(5));
        places.push(strangers.enter());
        assert!(places.iter_mut().all(kept));
        places.push(strangers.enter());
        assert!(!kept(&mut places[0]));
        assert!(places[1..].iter_mut().all(kept));
    }
}
