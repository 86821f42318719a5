//! What becomes of each packet of the TUN: TCP connections become flows, UDP and ICMP echo go to the datagram lane.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mp_kernel::tun;
use rustix::io::fcntl_dupfd_cloexec;
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{oneshot, watch, Notify};
use tokio::task::yield_now;
use tokio::time::{interval, sleep, timeout};

use super::fragments::{self, Fragments};
use super::out::Out;
use super::routes::Caught;
use super::translate::{Action, Id, Translator};
use super::{icmp, udp};
use crate::datagram::device::{Lane, Sink, Undelivered};
use crate::datagram::packet::Destination;
use crate::datagram::relay::LEAST;
use crate::device::{Device, LinkReport};
use crate::flow::Outcome;
use crate::wire::{Refusal, Target};
use crate::{lock, resolver};

/// A whole packet with all of its headers.
const LARGEST: usize = tun::HEADER + 65_535 + 40;
/// A packet that is longer has been, or would be, sent in fragments.
const ETHERNET: usize = 1500;
/// Packets of the TUN that go on together.
const BATCH: usize = 64;
/// Between the SYN's leave and the connection; both are this kernel's.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(10);
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// A relay that has not connected to a target after so long is asked whether it is there.
const DOUBT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Counts {
    pub opened: AtomicU64,
    pub closed: AtomicU64,
    pub refused: AtomicU64,
}

pub struct Shared {
    pub device: Arc<Device>,
    pub out: Arc<Out>,
    /// The last of the TUN's descriptors.
    pub last: RawFd,
    pub lane: Arc<Lane>,
    pub runtime: runtime::Handle,
    pub translator: Mutex<Translator>,
    pub fragments: Mutex<Fragments>,
    /// Who waits for the connection that the listener is to accept.
    pub waiting: Mutex<HashMap<Id, oneshot::Sender<TcpStream>>>,
    pub counts: Counts,
    pub started: Instant,
    pub caught: watch::Receiver<Caught>,
    /// Flows that wait for it.
    pub doubts: Arc<Notify>,
    /// Flows are to end.
    pub over: watch::Sender<bool>,
}

impl Shared {
    pub fn links(&self) -> Vec<LinkReport> {
        let lane = &self.lane;
        self.device
            .report(|slot| lane.answers(slot), |slot| lane.carried(slot))
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn translator(&self) -> MutexGuard<'_, Translator> {
        lock(&self.translator)
    }

    /// Queries to the TUN's peer, and to resolvers that the rules catch, are for the relay's resolver.
    fn is_resolver(&self, to: SocketAddr) -> bool {
        to.port() == resolver::PORT
            && (self.out.peers.contains(&to.ip())
                || self.caught.borrow().resolvers.contains(&to.ip()))
    }

    /// In parts where it fits on no path and `may_split` because it was fragmented, or [`may_split`] by its length.
    fn datagram(&self, packet: &[u8], may_split: bool) {
        let Some(udp) = udp::parse(packet) else {
            return;
        };
        let to = Destination::Udp(udp.to);
        let remote = match self.is_resolver(udp.to) {
            true => Destination::Udp(resolver::ADDRESS),
            false => to,
        };
        let may_split = may_split || self::may_split(packet.len());
        self.send(
            udp.from,
            to,
            remote,
            udp.payload,
            may_split,
            |most, peer| udp::too_big(packet, &udp, most, peer),
        );
    }

    /// Echo requests alone are answered by somebody; other ICMP ends here.
    fn ping(&self, packet: &[u8], may_split: bool) {
        let Some(request) = icmp::parse(packet) else {
            return;
        };
        let to = Destination::Echo(request.to);
        let payload = request.echo.encode();
        let may_split = may_split || self::may_split(packet.len());
        self.send(request.from, to, to, &payload, may_split, |most, peer| {
            icmp::too_big(packet, &request, most, peer)
        });
    }

    /// Into the datagram lane. `too_big` makes the answer to what fits on no path, of what fits and of who says so.
    fn send(
        &self,
        from: SocketAddr,
        to: Destination,
        remote: Destination,
        payload: &[u8],
        may_split: bool,
        too_big: impl FnOnce(usize, IpAddr) -> Option<Vec<u8>>,
    ) {
        match self.lane.send(from, to, remote, payload, may_split) {
            Ok(()) => {}
            Err(Undelivered::TooBig(most)) => {
                let answer = self.out.peer(from).and_then(|peer| too_big(most, peer));
                self.out.write(answer);
            }
            // Of the errors for hosts out of reach the kernel tells programs this one alone.
            Err(Undelivered::NoPath) => self.out.refuse(from, to, Refusal::Forbidden),
        }
    }

    /// Whether the relay has connected. Not waited for any more once connections go out directly.
    async fn verdict(
        &self,
        mut decided: oneshot::Receiver<Result<(), Refusal>>,
    ) -> Result<(), Refusal> {
        let mut caught = self.caught.clone();
        let doubting = async {
            sleep(DOUBT).await;
            self.doubts.notify_one();
            let _ = caught.wait_for(|caught| !caught.tcp).await;
        };
        tokio::select! {
            // A flow that ends without verdict has found no path.
            decided = &mut decided => decided.unwrap_or(Err(Refusal::HostUnreachable)),
            () = doubting => Err(Refusal::HostUnreachable),
        }
    }

    fn handle(self: &Arc<Self>, frame: &mut [u8]) {
        let Some((header, packet)) = frame.split_at_mut_checked(tun::HEADER) else {
            return;
        };
        if fragments::concerns(packet) {
            let whole = lock(&self.fragments).take(packet, self.now());
            match whole {
                Some(whole) if udp::concerns(&whole) => self.datagram(&whole, true),
                Some(whole) if icmp::concerns(&whole) => self.ping(&whole, true),
                _ => {}
            }
            return;
        }
        if udp::concerns(packet) {
            return self.datagram(packet, false);
        }
        if icmp::concerns(packet) {
            return self.ping(packet, false);
        }
        let action = self
            .translator()
            .packet(packet, is_partial(header), self.now());
        match action {
            Action::Drop => {}
            Action::Write => self.out.frame(header, packet),
            Action::Answer(packet) => self.out.write(Some(packet)),
            Action::Open(id, target) => {
                let carrying = carry(self.clone(), id, target, frame.to_vec());
                self.runtime.spawn(carrying);
            }
        }
    }
}

/// One that is longer than Ethernet takes goes in parts, as it would in fragments there, and so does one that every link takes.
/// The sender of any other is told what fits: programs look for what gets through.
fn may_split(length: usize) -> bool {
    length > ETHERNET || length <= LEAST
}

fn is_partial(header: &[u8]) -> bool {
    header[0] & tun::PARTIAL_CHECKSUM != 0
}

/// Packets out of the TUN, which tokio takes for a pipe, until it is gone. Not in a thread of its own: the datagram lane goes
/// on without another one's waking up.
pub async fn pump(shared: Arc<Shared>, tun: pipe::Receiver, _alive: watch::Sender<()>) {
    let mut buffer = vec![0; LARGEST];
    let mut waiting = 0;
    while let Ok(ready) = tun.ready(Interest::READABLE | Interest::ERROR).await {
        // An interface that is removed becomes an error alone, and nothing to read.
        if ready.is_error() {
            return;
        }
        loop {
            match tun.try_read(&mut buffer) {
                Ok(count) => {
                    shared.handle(&mut buffer[..count]);
                    waiting += 1;
                    if waiting == BATCH {
                        waiting = 0;
                        shared.lane.flush();
                        yield_now().await;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
        // All that came at once goes at once.
        if std::mem::take(&mut waiting) > 0 {
            shared.lane.flush();
        }
    }
}

pub async fn expire(shared: Arc<Shared>) {
    let mut every = interval(EXPIRE_EVERY);
    loop {
        every.tick().await;
        let now = shared.now();
        shared.translator().expire(now);
    }
}

pub async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // A flow that is over before it has it is not to look as if the target had ended it well.
                let _ = stream.set_zero_linger();
                let Ok(stream) = above(stream, shared.last) else {
                    continue;
                };
                let local = stream.local_addr();
                let id = local
                    .ok()
                    .and_then(|local| shared.translator().accept(from, local));
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

/// The same connection with a descriptor above this one. The kernel closes those of a process that is killed from the last to the
/// first, and a reset reaches the program only as long as the TUN is there.
fn above(stream: TcpStream, descriptor: RawFd) -> io::Result<TcpStream> {
    if stream.as_raw_fd() > descriptor {
        return Ok(stream);
    }
    let above = fcntl_dupfd_cloexec(&stream, descriptor + 1)?;
    TcpStream::from_std(above.into())
}

/// One connection, from its SYN on.
async fn carry(shared: Arc<Shared>, id: Id, target: SocketAddr, mut syn: Vec<u8>) {
    shared.counts.opened.fetch_add(1, Ordering::Relaxed);
    let (verdict, decided) = oneshot::channel();
    let (bring, brought) = oneshot::channel();
    lock(&shared.waiting).insert(id, bring);
    let here = shared.clone();
    let application = async move {
        let status = here.verdict(decided).await;
        let (header, packet) = syn.split_at_mut(tun::HEADER);
        if let Err(refusal) = status {
            let answer = here.translator().refuse(id, packet, refusal);
            here.out.write(answer);
            return None;
        }
        let partial = is_partial(header);
        let admitted = here.translator().admit(id, packet, partial, here.now());
        if !admitted {
            return None;
        }
        here.out.frame(header, packet);
        timeout(ACCEPTED_WITHIN, brought).await.ok()?.ok()
    };
    let mut ending = shared.over.subscribe();
    let over = async move {
        let _ = ending.wait_for(|over| *over).await;
    };
    let target = match shared.is_resolver(target) {
        true => Target::Address(resolver::ADDRESS.ip(), resolver::PORT),
        false => Target::Address(target.ip(), target.port()),
    };
    let outcome = shared
        .device
        .clone()
        .carry_later(target, verdict, application, over)
        .await;
    lock(&shared.waiting).remove(&id);
    shared.translator().finish(id, shared.now());
    shared.counts.closed.fetch_add(1, Ordering::Relaxed);
    if matches!(outcome, Outcome::Refused(_)) {
        shared.counts.refused.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_connection_has_a_descriptor_above_the_tun() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let (one, other) = tokio::join!(TcpStream::connect(there), listener.accept());
        let (one, (mut other, _)) = (one.unwrap(), other.unwrap());
        let (as_it_was, there) = (one.as_raw_fd(), one.local_addr().unwrap());
        let one = above(one, as_it_was - 1).unwrap();
        assert_eq!(one.as_raw_fd(), as_it_was);
        let mut one = above(one, 700).unwrap();
        assert!(one.as_raw_fd() > 700);
        assert_eq!(one.local_addr().unwrap(), there);
        one.write_all(b"still the same").await.unwrap();
        drop(one);
        let mut heard = String::new();
        other.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "still the same");
    }

    #[test]
    fn nobody_is_told_that_less_fits_than_on_any_link() {
        assert!(may_split(1280) && !may_split(1281));
        assert!(!may_split(1500) && may_split(1501));
    }
}
