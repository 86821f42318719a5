//! Every TCP connection and UDP flow that programs of this host open to the outside, taken from a TUN and handed to the
//! device's end.
//!
//! [`translate`] decides and has neither I/O nor a clock, [`packet`] rewrites headers of TCP, [`udp`] reads and makes packets of
//! UDP, [`routes`] leads both into the TUN.

pub mod icmp;
pub mod packet;
pub mod translate;
pub mod udp;

mod answer;
mod routes;

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use mp_kernel::interfaces::{self, Interface};
use mp_kernel::tun;
use nix::poll::{poll, PollFd, PollFlags};
use rtnetlink::Handle;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, sleep, timeout};

use crate::datagram::device::{self as datagram, Lane, Sink, Undelivered};
use crate::datagram::echo::Answer;
use crate::datagram::packet::Destination;
use crate::device::{Device, LinkReport};
use crate::egress::Prefix;
use crate::flow::Outcome;
use crate::socket::same_family;
use crate::wire::{Refusal, Target};
use crate::{lock, Error};

pub use routes::MARK;
use translate::{Action, Ends, Id, Translator};

/// The daemon leaves interfaces of this kind of name alone.
pub const INTERFACE: &str = "tun-multipilot";
/// Private (RFC 1918, RFC 4193), shared (RFC 6598), link-local, multicast and broadcast addresses, which a relay elsewhere
/// does not reach.
pub const DIRECT: [&str; 10] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "ff00::/8",
];
/// For the TUN; of the range for benchmarks (RFC 2544), which no network uses. The first of which the host has no part.
const OWN_V4: [[u8; 3]; 4] = [[198, 18, 77], [198, 19, 77], [198, 18, 177], [198, 19, 177]];
/// A whole packet with all of its headers.
const LARGEST: usize = tun::HEADER + 65_535 + 40;
/// How often the thread looks whether it is to end, ms.
const STOPS_WITHIN_MS: u16 = 100;
/// Packets of the TUN that go on together.
const BATCH: usize = 64;
const BACKLOG: u32 = 4096;
/// Between the SYN's leave and the connection; both are this kernel's.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(10);
/// For applications that ask again whether their connection is really over.
const LAST_WORDS: Duration = Duration::from_millis(100);
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// For the first path of the datagram lane, before the streams begin without it.
const LANE_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Beside [`DIRECT`] and the relay itself.
    pub direct: Vec<Prefix>,
    /// Whether TCP stays cut off when this process dies without its last words.
    pub block: bool,
}

#[derive(Debug, Default)]
struct Counts {
    opened: AtomicU64,
    closed: AtomicU64,
    refused: AtomicU64,
}

/// What `status` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// HOST:PORT
    pub relay: String,
    pub scheduler: String,
    pub uptime_s: f64,
    /// `direct` or `block`
    pub leak: String,
    /// Open now.
    pub flows: u64,
    /// So far.
    pub opened: u64,
    /// Of them: those that the relay did not connect.
    pub refused: u64,
    pub links: Vec<LinkReport>,
    /// Why a connection to the relay could not be made last.
    pub failure: Option<String>,
    /// Protocols that go out directly.
    pub not_captured: Vec<String>,
    /// UDP.
    pub datagrams: datagram::Report,
}

struct Shared {
    device: Arc<Device>,
    tun: File,
    out: Arc<Out>,
    lane: Arc<Lane>,
    runtime: runtime::Handle,
    stop: AtomicBool,
    translator: Mutex<Translator>,
    /// Who waits for the connection that the listener is to accept.
    waiting: Mutex<HashMap<Id, oneshot::Sender<TcpStream>>>,
    counts: Counts,
    started: Instant,
}

/// Dropping it leaves rules behind, which lead nowhere; [`Capture::stop`] does not.
pub struct Capture {
    shared: Arc<Shared>,
    netlink: Netlink,
    tasks: JoinSet<()>,
    gone: watch::Receiver<bool>,
    block: bool,
    index: u32,
    /// Leads UDP into the TUN while the datagram lane is up.
    following: JoinHandle<()>,
    udp_diverted: watch::Receiver<bool>,
}

struct Netlink {
    handle: Handle,
    connection: JoinHandle<()>,
}

impl Netlink {
    fn open() -> Result<Netlink, Error> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|e| Error::failed("netlink", e))?;
        Ok(Netlink {
            handle,
            connection: tokio::spawn(connection),
        })
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Takes back what a process that was killed has left. Whether there was anything.
pub async fn clear() -> Result<bool, Error> {
    routes::clear(&Netlink::open()?.handle).await
}

impl Capture {
    /// From now on new connections go to the device's relay.
    pub async fn start(device: Arc<Device>, settings: &Settings) -> Result<Capture, Error> {
        let here = interfaces::all().map_err(|e| Error::Failed(e.to_string()))?;
        let own = |ip: &IpAddr| ip.is_loopback() || here.iter().any(|i| i.addresses.contains(ip));
        if device.relay().iter().any(own) {
            return Err(Error::Usage("the relay is on this host: its own connections would come back to it; use run --relay LINE -- COMMAND".into()));
        }
        let file = tun::open(INTERFACE)?;
        let netlink = Netlink::open()?;
        routes::clear(&netlink.handle).await?;
        let index =
            nix::net::if_::if_nametoindex(INTERFACE).map_err(|e| Error::failed(INTERFACE, e))?;
        let ends = addresses(&here)?;
        routes::furnish(&netlink.handle, index, &ends).await?;
        let mut listeners = Vec::new();
        for ends in &ends {
            listeners.push(listen(ends.host)?);
        }
        let local = |l: &TcpListener| l.local_addr().map_err(|e| Error::failed("listener", e));
        let translated: Result<Vec<Ends>, Error> = ends
            .iter()
            .zip(&listeners)
            .map(|(ends, listener)| {
                let listener = local(listener)?;
                Ok(Ends {
                    listener,
                    peer: ends.peer,
                })
            })
            .collect();
        let mut direct = settings.direct.clone();
        direct.extend(DIRECT.iter().map(|text| text.parse().expect("a prefix")));
        direct.extend(device.relay().iter().map(|ip| Prefix::whole(*ip)));
        let mut tasks = JoinSet::new();
        let out = Arc::new(Out {
            tun: file.try_clone().map_err(|e| Error::failed(INTERFACE, e))?,
            peers: ends.iter().map(|ends| ends.peer).collect(),
        });
        let lane = Lane::start(device.datagrams(), out.clone(), &mut tasks);
        let mut lane_up = lane.up();
        let shared = Arc::new(Shared {
            device,
            tun: file,
            out,
            lane,
            runtime: runtime::Handle::current(),
            stop: AtomicBool::new(false),
            translator: Mutex::new(Translator::new(translated?)),
            waiting: Mutex::default(),
            counts: Counts::default(),
            started: Instant::now(),
        });
        let (alive, gone) = watch::channel(false);
        let pumped = shared.clone();
        thread::Builder::new()
            .name("tun".into())
            .spawn(move || pump(&pumped, &alive))
            .map_err(|e| Error::failed("a thread", e))?;
        tasks.spawn(expire(shared.clone()));
        for listener in listeners {
            tasks.spawn(accept(shared.clone(), listener));
        }
        let (diverting, udp_diverted) = watch::channel(false);
        let mut capture = Capture {
            shared,
            netlink,
            tasks,
            gone,
            block: settings.block,
            index,
            following: tokio::spawn(async {}),
            udp_diverted,
        };
        let mut diverted = routes::divert(
            &capture.netlink.handle,
            index,
            &ends,
            &direct,
            settings.block,
        )
        .await;
        if diverted.is_ok() {
            let first = timeout(LANE_PATIENCE, lane_up.wait_for(|up| *up)).await;
            let wanted = first.is_ok() || settings.block;
            drop(first);
            if wanted {
                let handle = &capture.netlink.handle;
                diverted = routes::divert_udp(handle, &ends, settings.block, true).await;
                diverting.send_replace(true);
            }
            if !settings.block {
                let handle = capture.netlink.handle.clone();
                capture.following = tokio::spawn(follow(handle, ends, lane_up, diverting));
            }
        }
        match diverted {
            Ok(()) => Ok(capture),
            Err(e) => {
                let _ = capture.stop().await;
                Err(e)
            }
        }
    }

    /// Connections are reset; new ones go out directly again.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.following.abort();
        let _ = (&mut self.following).await;
        let resets = self.shared.translator().end();
        for packet in &resets {
            self.shared.answer(packet);
        }
        if !resets.is_empty() {
            sleep(LAST_WORDS).await;
        }
        let cleared = routes::clear(&self.netlink.handle).await;
        // Flows that have yet to end hold the file; the interface is not to wait for them.
        let removed = self.netlink.handle.link().del(self.index).execute().await;
        self.tasks.shutdown().await;
        self.shared.stop.store(true, Ordering::Relaxed);
        self.gone().await;
        cleared?;
        removed.map_err(|e| Error::failed(format!("removing {INTERFACE}"), e))
    }

    /// Until somebody has removed the interface.
    pub async fn gone(&self) {
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }

    pub fn report(&self) -> Report {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (counts, device) = (&self.shared.counts, &self.shared.device);
        // The other way round a flow might be counted as closed alone.
        let closed = count(&counts.closed);
        let opened = count(&counts.opened);
        let settings = device.settings();
        Report {
            relay: format!("{}:{}", settings.line.host, settings.line.port),
            scheduler: settings.scheduler.name.to_owned(),
            uptime_s: self.shared.started.elapsed().as_secs_f64(),
            leak: if self.block { "block" } else { "direct" }.to_owned(),
            flows: opened - closed,
            opened,
            refused: count(&counts.refused),
            links: device.report(),
            failure: device.last_failure(),
            not_captured: match *self.udp_diverted.borrow() {
                true => vec!["ICMP".into()],
                false => vec!["UDP".into(), "ICMP".into()],
            },
            datagrams: self.shared.lane.report(),
        }
    }
}

/// Two addresses of each family: the host's, and that from which connections seem to come.
fn addresses(here: &[Interface]) -> Result<Vec<routes::Ends>, Error> {
    let v4 = |[a, b, c]: [u8; 3], d| IpAddr::from(Ipv4Addr::new(a, b, c, d));
    let taken = |net: &[u8; 3]| {
        let all = here.iter().flat_map(|i| &i.addresses);
        all.into_iter()
            .any(|ip| matches!(ip, IpAddr::V4(v4) if v4.octets()[..3] == net[..]))
    };
    let net = OWN_V4.into_iter().find(|net| !taken(net)).ok_or_else(|| {
        Error::Missing("the addresses 198.18.77.0/24 and the like are all in use here".into())
    })?;
    let mut ends = vec![routes::Ends {
        host: v4(net, 1),
        peer: v4(net, 2),
    }];
    let disabled = std::fs::read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6");
    if disabled.is_ok_and(|text| text.trim() == "0") {
        // A network of one's own (RFC 4193), new each time.
        let [a, b, c, d, e] = crate::keys::random::<5>().map(u16::from);
        let v6 = |last| {
            IpAddr::from(Ipv6Addr::new(
                0xfd00 | a,
                b << 8 | c,
                d << 8 | e,
                0,
                0,
                0,
                0,
                last,
            ))
        };
        ends.push(routes::Ends {
            host: v6(1),
            peer: v6(2),
        });
    }
    Ok(ends)
}

fn listen(host: IpAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let socket = match host {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.bind_device(Some(INTERFACE.as_bytes()))?;
        socket.bind(SocketAddr::new(host, 0))?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|e| Error::failed(format!("a port on {INTERFACE}"), e))
}

impl Shared {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn translator(&self) -> MutexGuard<'_, Translator> {
        lock(&self.translator)
    }

    /// What does not fit is lost, as on any link.
    fn write(&self, frame: &[u8]) {
        let _ = (&self.tun).write(frame);
    }

    fn answer(&self, packet: &[u8]) {
        self.write(&[&[0; tun::HEADER], packet].concat());
    }

    /// Fragments are dropped: whoever sends them has been told what fits.
    fn datagram(&self, packet: &[u8]) {
        let Some(udp) = udp::parse(packet) else {
            return;
        };
        let to = Destination::Udp(udp.to);
        match self.lane.send(udp.from, to, udp.payload) {
            Ok(()) => {}
            Err(Undelivered::TooBig(most)) => {
                let peer = self.out.peer(udp.from);
                let answer = peer.and_then(|peer| udp::too_big(packet, &udp, most, peer));
                self.out.write(answer);
            }
            Err(Undelivered::NoPath) => {
                // Of the errors for hosts out of reach the kernel tells programs this one alone.
                self.out.refuse(udp.from, to, Refusal::Forbidden);
            }
        }
    }

    /// Of ICMP echo requests alone are answered by somebody; the rest ends here.
    fn ping(&self, packet: &[u8]) {
        let Some(request) = icmp::parse(packet) else {
            return;
        };
        let to = Destination::Echo(request.to);
        match self.lane.send(request.from, to, &request.echo.encode()) {
            Ok(()) => {}
            Err(Undelivered::TooBig(most)) => {
                let peer = self.out.peer(request.from);
                let answer = peer.and_then(|peer| icmp::too_big(packet, &request, most, peer));
                self.out.write(answer);
            }
            Err(Undelivered::NoPath) => self.out.refuse(request.from, to, Refusal::Forbidden),
        }
    }

    fn handle(self: &Arc<Self>, frame: &mut [u8]) {
        let Some((header, packet)) = frame.split_at_mut_checked(tun::HEADER) else {
            return;
        };
        if udp::concerns(packet) {
            return self.datagram(packet);
        }
        if icmp::concerns(packet) {
            return self.ping(packet);
        }
        let action = self
            .translator()
            .packet(packet, is_partial(header), self.now());
        match action {
            Action::Drop => {}
            Action::Write => self.write(frame),
            Action::Answer(packet) => self.answer(&packet),
            Action::Open(id, target) => {
                let carrying = carry(self.clone(), id, target, frame.to_vec());
                self.runtime.spawn(carrying);
            }
        }
    }
}

/// Where packets of the datagram lane come out.
struct Out {
    tun: File,
    /// The TUN's, of each family.
    peers: Vec<IpAddr>,
}

impl Out {
    fn peer(&self, as_of: SocketAddr) -> Option<IpAddr> {
        let same = |peer: &&IpAddr| same_family(**peer, as_of.ip());
        self.peers.iter().find(same).copied()
    }

    fn write(&self, packet: Option<Vec<u8>>) {
        let Some(packet) = packet else { return };
        let _ = (&self.tun).write(&[&[0; tun::HEADER], &packet[..]].concat());
    }
}

impl Sink for Out {
    fn deliver(&self, from: Destination, to: SocketAddr, payload: &[u8]) {
        self.write(match from {
            Destination::Udp(from) => udp::build(from, to, payload),
            Destination::Echo(target) => {
                Answer::decode(payload).and_then(|answer| icmp::answer(&answer, target, to))
            }
        });
    }

    fn refuse(&self, application: SocketAddr, target: Destination, why: Refusal) {
        let answer = self.peer(application).and_then(|peer| match target {
            Destination::Udp(target) => udp::unreachable(application, target, why, peer),
            Destination::Echo(target) => icmp::unreachable(application, target, why, peer),
        });
        self.write(answer);
    }
}

/// Leads UDP into the TUN and out of it again, as the lane comes and goes.
async fn follow(
    handle: Handle,
    ends: Vec<routes::Ends>,
    mut lane: watch::Receiver<bool>,
    diverting: watch::Sender<bool>,
) {
    loop {
        let up = *lane.borrow_and_update();
        if up != *diverting.borrow() {
            // Rules that somebody else has removed are as good as ours.
            let _ = routes::divert_udp(&handle, &ends, false, up).await;
            diverting.send_replace(up);
        }
        if lane.changed().await.is_err() {
            return;
        }
    }
}

fn is_partial(header: &[u8]) -> bool {
    header[0] & tun::PARTIAL_CHECKSUM != 0
}

/// Packets out of the TUN, until it is gone or nobody wants them any more.
fn pump(shared: &Arc<Shared>, alive: &watch::Sender<bool>) {
    let mut buffer = vec![0; LARGEST];
    let mut waiting = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        match (&shared.tun).read(&mut buffer) {
            Ok(count) => {
                shared.handle(&mut buffer[..count]);
                waiting += 1;
                if waiting == BATCH {
                    shared.lane.flush();
                    waiting = 0;
                }
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                // All that came at once goes at once.
                if std::mem::take(&mut waiting) > 0 {
                    shared.lane.flush();
                }
                let mut wait = [PollFd::new(shared.tun.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut wait, STOPS_WITHIN_MS);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let _ = alive.send(true);
}

async fn expire(shared: Arc<Shared>) {
    let mut every = interval(EXPIRE_EVERY);
    loop {
        every.tick().await;
        let now = shared.now();
        shared.translator().expire(now);
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // Until a flow has it: one that is over before is not to look as if the target had ended it well.
                let _ = stream.set_zero_linger();
                let id = shared.translator().accept(from);
                let waits = id.and_then(|id| lock(&shared.waiting).remove(&id));
                if let Some(waits) = waits {
                    let _ = waits.send(stream);
                }
            }
            // Out of descriptors, most likely: others end.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// One connection, from its SYN on.
async fn carry(shared: Arc<Shared>, id: Id, target: SocketAddr, mut syn: Vec<u8>) {
    shared.counts.opened.fetch_add(1, Ordering::Relaxed);
    let (verdict, decided) = oneshot::channel();
    let (bring, brought) = oneshot::channel();
    lock(&shared.waiting).insert(id, bring);
    let here = shared.clone();
    let application = async move {
        // A flow that ends without verdict has found no path.
        let status = decided.await.unwrap_or(Err(Refusal::HostUnreachable));
        let (header, packet) = syn.split_at_mut(tun::HEADER);
        if let Err(refusal) = status {
            let answer = here.translator().refuse(id, packet, refusal);
            answer.inspect(|packet| here.answer(packet));
            return None;
        }
        let partial = is_partial(header);
        let admitted = here.translator().admit(id, packet, partial, here.now());
        if !admitted {
            return None;
        }
        here.write(&syn);
        timeout(ACCEPTED_WITHIN, brought).await.ok()?.ok()
    };
    let target = Target::Address(target.ip(), target.port());
    let outcome = shared
        .device
        .clone()
        .carry_later(target, verdict, application)
        .await;
    lock(&shared.waiting).remove(&id);
    shared.translator().finish(id, shared.now());
    shared.counts.closed.fetch_add(1, Ordering::Relaxed);
    if matches!(outcome, Outcome::Refused(_)) {
        shared.counts.refused.fetch_add(1, Ordering::Relaxed);
    }
}
