//! Open flows, as somebody beside them sees them: their path connections, and what each of those has brought.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mp_kernel::diag::Subflow;
use mp_kernel::mptcp_info::TcpInfo;
use mp_policy::link::Priority;
use mp_policy::MAX_SUBFLOWS;
use socket2::SockRef;

use crate::carrier::Carrier;
use crate::lock;
use crate::socket::Transport;
use crate::wire::Target;

/// The open flows of one end, by their number. Each has the address that connected: at the device the program's, at the relay its
/// own, towards the target. Connections to different targets may share it.
#[derive(Debug, Default)]
pub struct Observer {
    flows: Mutex<HashMap<u32, (SocketAddr, Arc<FlowStats>)>>,
    /// Flows so far.
    count: AtomicU32,
    keeps_closed: bool,
}

impl Observer {
    /// It also shows path connections that have closed, as long as their flow is open: a flow of days has many.
    pub fn with_closed() -> Observer {
        Observer {
            keeps_closed: true,
            ..Observer::default()
        }
    }

    pub fn flow(&self, connected_from: SocketAddr) -> Option<Arc<FlowStats>> {
        let flows = lock(&self.flows);
        let own = flows.values().find(|(from, _)| *from == connected_from);
        own.map(|(_, stats)| stats.clone())
    }

    pub fn flows(&self) -> Vec<Arc<FlowStats>> {
        let flows = lock(&self.flows);
        flows.values().map(|(_, stats)| stats.clone()).collect()
    }

    /// The open path connections of all flows, as sock_diag shows the subflows of MPTCP connections: a path manager sees
    /// both alike. The token is the flow's number.
    pub fn subflows(&self) -> Vec<Subflow> {
        let flows = self.flows();
        let of = |flow: &Arc<FlowStats>| {
            let open = flow.paths().into_iter().filter(|path| path.open);
            let token = flow.number;
            open.filter_map(move |path| path.subflow(token))
                .collect::<Vec<_>>()
        };
        flows.iter().flat_map(of).collect()
    }
}

/// The path connections of a flow in order of joining.
#[derive(Debug)]
pub struct FlowStats {
    number: u32,
    /// At the device.
    target: Option<Target>,
    begun: Instant,
    /// When it carried something last, ms after it has begun.
    moved_ms: AtomicU64,
    paths: Mutex<Vec<PathStats>>,
    /// Of a path connection over MPTCP, while it is open: the kernel shows its subflows.
    mptcp: Mutex<Option<Arc<OwnedFd>>>,
}

impl FlowStats {
    pub fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// For how long it has carried nothing.
    pub fn quiet(&self) -> Duration {
        let moved = Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(moved)
    }

    fn moved(&self, now: Instant) {
        let since = now.saturating_duration_since(self.begun).as_millis();
        self.moved_ms.store(since as u64, Ordering::Relaxed);
    }

    /// The socket of its path connection over MPTCP, where the observer is one [`Observer::with_closed`]. Whoever keeps it
    /// keeps the connection open.
    pub fn mptcp(&self) -> Option<Arc<OwnedFd>> {
        lock(&self.mptcp).clone()
    }

    pub fn paths(&self) -> Vec<PathStats> {
        lock(&self.paths).clone()
    }
}

#[derive(Debug, Clone)]
pub struct PathStats {
    pub slot: usize,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub open: bool,
    pub backup: bool,
    /// Its socket's (SO_COOKIE).
    cookie: u64,
    /// As it was read last.
    pub tcp: Option<TcpInfo>,
    /// Bytes of the stream that it brought, duplicates included.
    pub received: u64,
    /// Since it belongs to the flow: bytes acknowledged, those of TLS and frames among them, and segments sent again.
    pub acknowledged: u64,
    pub retransmitted: u32,
    /// The same two when it came to the flow.
    before: (u64, u32),
}

impl PathStats {
    /// Of a connection that has just joined; `ends`: local and remote.
    fn new(slot: usize, ends: (SocketAddr, SocketAddr), backup: bool, cookie: u64) -> PathStats {
        PathStats {
            slot,
            local: ends.0,
            remote: ends.1,
            open: true,
            backup,
            cookie,
            tcp: None,
            received: 0,
            acknowledged: 0,
            retransmitted: 0,
            before: (0, 0),
        }
    }

    /// `None` before its first reading.
    fn subflow(self, token: u32) -> Option<Subflow> {
        Some(Subflow {
            token,
            cookie: self.cookie,
            local: self.local,
            remote: self.remote,
            backup: self.backup,
            tcp: self.tcp?,
            stream: None,
        })
    }
}

/// A flow's own hold on its statistics; without it nobody sees them any more.
pub(super) struct Observed {
    observer: Arc<Observer>,
    stats: Arc<FlowStats>,
    /// Of each slot's connection in the list.
    places: [Option<usize>; MAX_SUBFLOWS],
}

impl Observed {
    pub fn new(observer: Arc<Observer>, target: Option<Target>) -> Observed {
        let stats = FlowStats {
            number: observer.count.fetch_add(1, Ordering::Relaxed),
            target,
            begun: Instant::now(),
            moved_ms: AtomicU64::new(0),
            paths: Mutex::default(),
            mptcp: Mutex::default(),
        };
        Observed {
            observer,
            stats: Arc::new(stats),
            places: [None; MAX_SUBFLOWS],
        }
    }

    /// The flow can be found from now on.
    pub fn publish(&self, connected_from: SocketAddr) {
        let published = (connected_from, self.stats.clone());
        lock(&self.observer.flows).insert(self.stats.number, published);
    }

    pub fn join(&mut self, slot: usize, carrier: &Carrier, priority: Priority) {
        let stream = carrier.stream();
        let ends = (stream.local_addr(), stream.peer_addr());
        let ((Ok(local), Ok(remote)), Ok(cookie)) = (ends, SockRef::from(stream).cookie()) else {
            return;
        };
        if self.observer.keeps_closed && Transport::of(stream) == Transport::Mptcp {
            let shared = stream.as_fd().try_clone_to_owned();
            *lock(&self.stats.mptcp) = shared.ok().map(Arc::new);
        }
        let backup = priority == Priority::Backup;
        self.add(PathStats::new(slot, (local, remote), backup, cookie));
    }

    fn add(&mut self, path: PathStats) {
        let mut paths = lock(&self.stats.paths);
        self.places[path.slot] = Some(paths.len());
        paths.push(path);
    }

    pub fn close(&mut self, slot: usize) {
        let Some(place) = self.places[slot].take() else {
            return;
        };
        // There is one path over MPTCP.
        lock(&self.stats.mptcp).take();
        let mut paths = lock(&self.stats.paths);
        if self.observer.keeps_closed {
            paths[place].open = false;
            return;
        }
        paths.remove(place);
        let behind = self.places.iter_mut().flatten().filter(|p| **p > place);
        behind.for_each(|p| *p -= 1);
    }

    pub fn set_backup(&self, slot: usize, backup: bool) {
        self.change(slot, |path| path.backup = backup);
    }

    pub fn receive(&self, slot: usize, bytes: usize, now: Instant) {
        self.stats.moved(now);
        self.change(slot, |path| path.received += bytes as u64);
    }

    pub fn read(&self, slot: usize, tcp: &TcpInfo, now: Instant) {
        self.change(slot, |path| {
            if path.tcp.is_none() {
                path.before = (tcp.bytes_acked, tcp.total_retrans);
            }
            let acknowledged = tcp.bytes_acked.saturating_sub(path.before.0);
            if std::mem::replace(&mut path.acknowledged, acknowledged) != acknowledged {
                self.stats.moved(now);
            }
            path.retransmitted = tcp.total_retrans.saturating_sub(path.before.1);
            path.tcp = Some(*tcp);
        });
    }

    fn change(&self, slot: usize, change: impl FnOnce(&mut PathStats)) {
        let mut paths = lock(&self.stats.paths);
        if let Some(path) = self.places[slot].and_then(|place| paths.get_mut(place)) {
            change(path);
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        lock(&self.stats.mptcp).take();
        lock(&self.stats.paths)
            .iter_mut()
            .for_each(|path| path.open = false);
        lock(&self.observer.flows).remove(&self.stats.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(slot: usize, cookie: u64) -> PathStats {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        PathStats::new(slot, (nowhere, nowhere), false, cookie)
    }

    /// Three paths, of which two are replaced over and over, each after it has brought a byte.
    fn replaced(observer: Observer) -> Vec<PathStats> {
        let now = Instant::now();
        let mut observed = Observed::new(Arc::new(observer), None);
        (0..3).for_each(|slot| observed.add(path(slot, slot as u64)));
        for cookie in 3..1000 {
            let slot = [0, 2][cookie % 2];
            observed.receive(slot, 1, now);
            observed.close(slot);
            observed.add(path(slot, cookie as u64));
        }
        observed.receive(1, 7, now);
        observed.close(0);
        observed.stats.paths()
    }

    #[test]
    fn flows_of_one_address_are_seen_each() {
        let observer = Arc::<Observer>::default();
        let address = "192.0.2.1:4000".parse().unwrap();
        let (one, other) = (
            Observed::new(observer.clone(), None),
            Observed::new(observer.clone(), None),
        );
        assert_eq!(observer.flows().len(), 0, "before they can be found");
        one.publish(address);
        other.publish(address);
        assert_eq!(observer.flows().len(), 2);
        drop(other);
        let left = observer.flow(address).unwrap();
        assert!(Arc::ptr_eq(&left, &one.stats));
        drop(one);
        assert!(observer.flow(address).is_none());
    }

    /// The turn's own time: no frame costs a look at the clock.
    #[test]
    fn a_flow_moved_at_the_time_that_it_is_told() {
        let observed = Observed::new(Arc::default(), None);
        let stats = &observed.stats;
        let moved = || Duration::from_millis(stats.moved_ms.load(Ordering::Relaxed));
        let later = Duration::from_secs(70);
        observed.receive(0, 1, stats.begun + later);
        assert_eq!(moved(), later);
        assert_eq!(stats.quiet(), Duration::ZERO);
        // A turn may have begun before the flow.
        observed.receive(0, 1, stats.begun - Duration::from_millis(1));
        assert_eq!(moved(), Duration::ZERO);
    }

    #[test]
    fn closed_paths_take_no_memory_unless_they_are_shown() {
        let open: Vec<_> = replaced(Observer::default())
            .iter()
            .map(|p| (p.cookie, p.received))
            .collect();
        assert_eq!(open, [(1, 7), (999, 0)]);
        let all = replaced(Observer::with_closed());
        assert_eq!(all.len(), 1000);
        let received: u64 = all.iter().map(|p| p.received).sum();
        assert_eq!(received, 997 + 7);
        assert_eq!(all.iter().filter(|p| p.open).count(), 2);
    }
}
