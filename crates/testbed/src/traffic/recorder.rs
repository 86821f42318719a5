//! What is measured while the run goes on, from both ends of every connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mp_kernel::agent;
use mp_kernel::mptcp_info::{full_info, tcp_info, SubflowInfo, TcpInfo};
use mp_record::{Decision, Interval, Sample, Transfer};
use mp_relay::flow::FlowStats;
use tokio::task::AbortHandle;

use super::intervals::{self, path_between, Place, Places};
use crate::plan::Flow;

pub struct Recorder {
    pub epoch: Instant,
    interval: Duration,
    paths: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: Vec<Live>,
    samples: Vec<Sample>,
    notes: BTreeSet<String>,
    decisions: Vec<Decision>,
    /// Groups and paths, by what path managers and events said last.
    backup: BTreeSet<(usize, usize)>,
}

#[derive(Default)]
struct Live {
    transfer: Transfer,
    order: usize,
    group: usize,
    initial: usize,
    /// Subflows in order of joining, by the ports and addresses at the sender, and at the receiver.
    slots: [Vec<(SocketAddr, SocketAddr)>; 2],
    /// Bytes received by each of the receiver's.
    received: Vec<(usize, u64)>,
    /// Where that can be seen, while the connection is open.
    receiver: Option<Source>,
}

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Sender,
    Receiver,
}

/// What a run has recorded.
pub struct Recorded {
    pub transfers: Vec<Transfer>,
    pub samples: Vec<Sample>,
    pub decisions: Vec<Decision>,
    pub intervals: Vec<Interval>,
    pub notes: BTreeSet<String>,
}

impl Recorder {
    pub fn new(epoch: Instant, interval: Duration, paths: Vec<String>) -> Arc<Recorder> {
        Arc::new(Recorder {
            epoch,
            interval,
            paths,
            state: Mutex::default(),
        })
    }

    pub fn now(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    /// A transfer of the plan's flow number `order` begins; returns its id while the run goes on.
    pub fn begin(&self, order: usize, flow: &Flow, initial: usize) -> u32 {
        let mut state = self.state();
        let id = state.live.len() as u32;
        let transfer = Transfer {
            connection: flow.name.clone(),
            id,
            multipath: flow.is_multipath(),
            start_s: self.now(),
            ..Transfer::default()
        };
        state.live.push(Live {
            transfer,
            order,
            group: flow.group,
            initial,
            ..Live::default()
        });
        id
    }

    /// The receiver's application took `bytes` more.
    pub fn received(&self, id: u32, bytes: u64) {
        self.state().live[id as usize].transfer.bytes += bytes;
    }

    pub fn end(&self, id: u32, intact: Option<bool>) {
        let now = self.now();
        let transfer = &mut self.state().live[id as usize].transfer;
        transfer.end_s = Some(now);
        transfer.intact = intact;
    }

    /// What a program moved, by path, where no socket of ours could tell.
    pub fn moved(&self, id: u32, by_path: Vec<(usize, u64)>, fallback: bool) {
        let live = &mut self.state().live[id as usize];
        live.transfer.bytes = by_path.iter().map(|(_, bytes)| bytes).sum();
        live.transfer.fallback = fallback;
        live.received = by_path;
    }

    /// A connection was started on a path that was chosen for it.
    pub fn decided(&self, decision: Decision) {
        self.state().decisions.push(decision);
    }

    /// What came of that.
    pub fn rewarded(&self, id: u32, throughput_mbps: f64, latency_ms: Option<f64>, reward: bool) {
        let mut state = self.state();
        if let Some(decision) = state.decisions.iter_mut().rfind(|d| d.transfer == id) {
            decision.throughput_mbps = Some(throughput_mbps);
            decision.latency_ms = latency_ms;
            decision.reward = Some(reward);
        }
    }

    /// Mbit/s of a transfer until now, or until its end.
    pub fn goodput(&self, id: u32) -> f64 {
        let now = self.now();
        let transfer = &self.state().live[id as usize].transfer;
        let seconds = transfer.end_s.unwrap_or(now) - transfer.start_s;
        transfer.bytes as f64 * 8e-6 / seconds.max(1e-6)
    }

    pub fn note(&self, note: String) {
        self.state().notes.insert(note);
    }

    pub fn set_backup(&self, group: usize, path: usize, backup: bool) {
        let all = &mut self.state().backup;
        match backup {
            true => all.insert((group, path)),
            false => all.remove(&(group, path)),
        };
    }

    /// Ids become those of the plan's order: which host was first to begin is chance. `asked`: what the agents of this run's
    /// controllers were asked.
    pub fn finish(&self, asked: &[agent::Interval]) -> Recorded {
        let mut state = std::mem::take(&mut *self.state());
        state.live.sort_by_key(|live| live.order);
        let mut ids = vec![0; state.live.len()];
        for (new, live) in state.live.iter_mut().enumerate() {
            ids[live.transfer.id as usize] = new as u32;
            live.transfer.id = new as u32;
        }
        for sample in &mut state.samples {
            sample.transfer = ids[sample.transfer as usize];
        }
        for decision in &mut state.decisions {
            decision.transfer = ids[decision.transfer as usize];
        }
        Recorded {
            decisions: state.decisions,
            intervals: intervals::placed(asked, self.epoch, &self.paths, &places(&state.live)),
            transfers: state.live.into_iter().map(|l| self.summed(l)).collect(),
            samples: state.samples,
            notes: state.notes,
        }
    }

    fn summed(&self, live: Live) -> Transfer {
        let mut by_path = BTreeMap::new();
        for (path, bytes) in live.received {
            *by_path.entry(path).or_default() += bytes;
        }
        let path_bytes = by_path
            .into_iter()
            .map(|(path, bytes)| (self.paths[path].clone(), bytes));
        Transfer {
            path_bytes: path_bytes.collect(),
            ..live.transfer
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Before the connection is cut off, by whichever end: only the receiver's bytes matter then, and a sender whose peer has
    /// begun to tear down subflows would show what is no more part of the run.
    fn last_look(&self, id: u32) {
        let receiver = |live: &Live| live.receiver.clone();
        let source = self.state().live.get(id as usize).and_then(receiver);
        if let Some(source) = source {
            self.measure(id, End::Receiver, &source);
        }
    }

    fn measure(&self, id: u32, end: End, source: &Source) {
        let time_s = self.now();
        let seen = match source {
            Source::Socket(fd) => of_socket(fd),
            Source::Relay(stats) => match stats.mptcp() {
                Some(socket) => of_socket(&socket),
                None => Some((of_relay(stats), false)),
            },
        };
        let Some((subflows, fallback)) = seen else {
            return;
        };
        let mut state = self.state();
        let State {
            live,
            samples,
            backup,
            ..
        } = &mut *state;
        let live = &mut live[id as usize];
        if live.transfer.multipath {
            live.transfer.fallback |= fallback;
        }
        for subflow in subflows {
            let slot = live.slot(end, &subflow);
            let path = path_between(subflow.local, subflow.remote).unwrap_or(live.initial);
            match end {
                End::Receiver => live.received[slot] = (path, subflow.received),
                End::Sender if !subflow.open => {}
                End::Sender => {
                    let backup = backup.contains(&(live.group, path));
                    samples.push(Sample {
                        // What the receiver's application took.
                        in_order_bytes: Some(live.transfer.bytes),
                        ..sample(time_s, id, slot, &self.paths[path], backup, &subflow)
                    });
                }
            }
        }
    }
}

impl Live {
    fn slot(&mut self, end: End, subflow: &Seen) -> usize {
        let key = (subflow.local, subflow.remote);
        let slots = &mut self.slots[end as usize];
        let slot = slots.iter().position(|k| *k == key).unwrap_or_else(|| {
            slots.push(key);
            slots.len() - 1
        });
        if end == End::Receiver && self.received.len() <= slot {
            self.received.resize(slot + 1, (self.initial, 0));
        }
        slot
    }
}

/// The senders' subflows.
fn places(all: &[Live]) -> Places {
    let of = |live: &Live| {
        let (transfer, initial) = (live.transfer.id, live.initial);
        let keys = live.slots[End::Sender as usize].clone();
        (keys.into_iter().zip(0..)).map(move |(key, subflow)| {
            let place = Place {
                transfer,
                subflow,
                initial,
            };
            (key, place)
        })
    };
    all.iter().flat_map(of).collect()
}

fn sample(
    time_s: f64,
    transfer: u32,
    slot: usize,
    path: &str,
    backup: bool,
    seen: &Seen,
) -> Sample {
    let tcp = &seen.tcp;
    Sample {
        time_s,
        transfer,
        subflow: slot as u32,
        path: path.to_owned(),
        cwnd: tcp.snd_cwnd,
        ssthresh: tcp.snd_ssthresh,
        srtt_us: tcp.rtt,
        min_rtt_us: tcp.min_rtt,
        delivered_bytes: seen.delivered,
        in_order_bytes: None,
        // Packets marked lost are retransmitted; the kernel tells outsiders the latter only.
        lost: seen.retransmitted,
        pacing_rate: tcp.pacing_rate,
        backup,
    }
}

/// `include/net/tcp_states.h`
const TCP_CLOSE: u8 = 7;

/// Where one end of a transfer can be seen.
#[derive(Clone)]
pub enum Source {
    Socket(Arc<OwnedFd>),
    /// The relay's end beside this one, or the device's.
    Relay(Arc<FlowStats>),
}

/// One subflow, or one path connection of the relay.
struct Seen {
    local: SocketAddr,
    remote: SocketAddr,
    open: bool,
    tcp: TcpInfo,
    /// Payload, bytes.
    received: u64,
    /// Bytes acknowledged.
    delivered: u64,
    retransmitted: u32,
}

impl From<SubflowInfo> for Seen {
    fn from(info: SubflowInfo) -> Seen {
        let tcp = info.tcp;
        Seen {
            local: info.local,
            remote: info.remote,
            open: true,
            received: tcp.bytes_received,
            // The SYN counts as one byte acknowledged (RFC 4898, tcpi_bytes_acked).
            delivered: tcp.bytes_acked.saturating_sub(1),
            retransmitted: tcp.total_retrans,
            tcp,
        }
    }
}

/// The subflows, and whether the connection is plain TCP. A connection that has just gone has nothing more to tell.
fn of_socket(fd: &OwnedFd) -> Option<(Vec<Seen>, bool)> {
    let full = full_info(fd).ok()?;
    let fallback = full.as_ref().is_none_or(|f| f.mptcp.fallback());
    let subflows = match full {
        Some(full) if !full.subflows.is_empty() => full.subflows,
        _ => vec![SubflowInfo {
            id: None,
            local: local(fd).ok()?,
            remote: remote(fd).ok()?,
            tcp: tcp_info(fd).ok()?,
        }],
    };
    // What is closed no longer knows what it was.
    let known = subflows.iter().any(|s| s.tcp.state != TCP_CLOSE);
    known.then(|| (subflows.into_iter().map(Seen::from).collect(), fallback))
}

fn of_relay(stats: &FlowStats) -> Vec<Seen> {
    let paths = stats.paths().into_iter();
    let seen = paths.map(|path| Seen {
        local: path.local,
        remote: path.remote,
        open: path.open && path.tcp.is_some(),
        tcp: path.tcp.unwrap_or_default(),
        received: path.received,
        delivered: path.acknowledged,
        retransmitted: path.retransmitted,
    });
    seen.collect()
}

fn local(fd: &OwnedFd) -> std::io::Result<SocketAddr> {
    Ok(socket2::SockRef::from(fd)
        .local_addr()?
        .as_socket()
        .unwrap_or(NOWHERE))
}

fn remote(fd: &OwnedFd) -> std::io::Result<SocketAddr> {
    Ok(socket2::SockRef::from(fd)
        .peer_addr()?
        .as_socket()
        .unwrap_or(NOWHERE))
}

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Looks at one end of a connection now and then, until it is dropped.
pub struct Probe {
    recorder: Arc<Recorder>,
    id: u32,
    end: End,
    source: Source,
    task: AbortHandle,
}

impl Probe {
    /// Inside a `LocalSet`.
    pub fn start(recorder: &Arc<Recorder>, id: u32, end: End, source: Source) -> Probe {
        let (recorder, each, seen) = (recorder.clone(), recorder.interval, source.clone());
        let by_task = recorder.clone();
        if end == End::Receiver {
            recorder.state().live[id as usize].receiver = Some(source.clone());
        }
        let task = tokio::task::spawn_local(async move {
            let mut ticks = tokio::time::interval(each);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                by_task.measure(id, end, &seen);
            }
        });
        Probe {
            recorder,
            id,
            end,
            source,
            task: task.abort_handle(),
        }
    }

    pub fn look(&self) {
        self.recorder.measure(self.id, self.end, &self.source);
    }

    /// At the receiver, whichever end this one is.
    pub fn last_look(&self) {
        self.recorder.last_look(self.id);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
        if self.end == End::Receiver {
            if let Some(live) = self.recorder.state().live.get_mut(self.id as usize) {
                live.receiver = None;
            }
        }
    }
}
