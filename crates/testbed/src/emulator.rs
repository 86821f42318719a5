//! The network between the hosts: one thread that takes frames from every host's interface, sends them through the
//! scenario's paths and links, and hands them on when they are due.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mp_links::nanos;
use mp_scenario::{Path, Scenario, TransferDirection};
use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::time::TimeSpec;

use crate::packet::{Frame, Mac, PacketSocket};
use crate::path::{Counts, Nanos, Packet, Pipe};

/// A packet that leaves this much later than it should has met a busy machine.
const LATE: Nanos = 5_000_000;
/// The thread looks at least this often whether it is to stop.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// What the network between may do to MPTCP.
#[derive(Debug, Clone, Default)]
pub struct Impairments {
    /// The server knows plain TCP only.
    pub server_without_mptcp: bool,
    /// Paths, by name, with a middlebox that replaces MPTCP options by no-operations.
    pub stripping: Vec<String>,
    /// Paths, by name, on which the first so many packets by which clients tell a subflow's priority (MP_PRIO) are lost.
    pub deaf: Vec<(String, u32)>,
}

/// One end of a veth pair, on the emulator's side.
pub struct Port {
    pub socket: PacketSocket,
    pub own: Mac,
    pub peer: Mac,
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Server,
    /// A client host's interface to the path of this index in the scenario.
    Client {
        address: [u8; 4],
        path: usize,
    },
}

/// Payload bytes that came out of the emulated network at one client interface; shared with who measures.
#[derive(Debug, Default)]
pub struct Traffic {
    pub down: AtomicU64,
    pub up: AtomicU64,
    /// Data went without an MPTCP option.
    pub plain: AtomicBool,
}

/// What became of the packets of a path, or of a shared link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathCounts {
    pub name: String,
    /// Server to client.
    pub down: Counts,
    /// Client to server.
    pub up: Counts,
}

/// What the emulated network has to tell at the end.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub paths: Vec<PathCounts>,
    /// Packets lost before they reached the emulation: it had no time to fetch them.
    pub overflows: u64,
    /// Share of the packets that left [`LATE`] or more after their time.
    pub late: f64,
}

/// The network's time: real time, and what was skipped of it.
struct Clock {
    epoch: Instant,
    skipped: Duration,
}

impl Clock {
    fn now(&self) -> Duration {
        self.epoch.elapsed() + self.skipped
    }

    fn skip_to(&mut self, time: Duration) {
        self.skipped = time.saturating_sub(self.epoch.elapsed());
    }
}

/// From when on it is to be later, and who hears at what time of this host it was.
type Skip = (Duration, mpsc::Sender<Instant>);

pub struct Emulator {
    thread: Option<JoinHandle<io::Result<Report>>>,
    skips: mpsc::Sender<Skip>,
    stop: Arc<AtomicBool>,
    traffic: HashMap<[u8; 4], Arc<Traffic>>,
}

struct Travelling {
    frame: Frame,
    port: usize,
}

impl Packet for Travelling {
    fn size(&self) -> u64 {
        self.frame.size()
    }
    fn mark(&mut self) -> bool {
        self.frame.mark()
    }
}

/// Where a packet goes after a pipe.
#[derive(Clone, Copy)]
enum Next {
    Pipe(usize),
    Port,
}

/// The pipes of all paths, then of all links: `2 i` is the i-th's way to the client, `2 i + 1` its way to the server.
struct Network {
    pipes: Vec<Pipe<Travelling>>,
    next: Vec<Next>,
    /// By path index.
    strips: Vec<bool>,
    /// So many packets of clients with MP_PRIO are yet to be lost.
    deaf: Vec<u32>,
}

impl Network {
    fn new(scenario: &Scenario, seed: u64, impairments: &Impairments) -> Network {
        let all: Vec<(&String, &Path)> = scenario.paths.iter().chain(&scenario.links).collect();
        let mut network = Network {
            pipes: Vec::new(),
            next: Vec::new(),
            strips: Vec::new(),
            deaf: Vec::new(),
        };
        for (name, path) in &all {
            for (way, direction) in [&path.down, &path.up].into_iter().enumerate() {
                let takes_data = scenario.connections.iter().any(|c| {
                    let data_way = usize::from(c.direction == TransferDirection::Upload);
                    data_way == way
                        && c.paths
                            .iter()
                            .any(|p| p == *name || scenario.paths[p].link.as_ref() == Some(name))
                });
                let events = scenario
                    .events
                    .iter()
                    .filter(|e| e.path == **name)
                    .map(|e| (e.at, &e.change));
                network.pipes.push(Pipe::new(
                    direction,
                    events,
                    takes_data,
                    seed_of(seed, name, way),
                ));
                let link = path
                    .link
                    .as_ref()
                    .and_then(|l| scenario.links.get_index_of(l));
                network.next.push(match link {
                    Some(link) => Next::Pipe(2 * (scenario.paths.len() + link) + way),
                    None => Next::Port,
                });
            }
            network.strips.push(impairments.stripping.contains(name));
            let deaf = impairments.deaf.iter().find(|(path, _)| path == *name);
            network.deaf.push(deaf.map_or(0, |(_, times)| *times));
        }
        network
    }

    /// Takes on what is due, in the order of its times, and returns the packets that leave the network with theirs: late as
    /// we may be, packets of different paths meet in a link's queue as they would have.
    fn due(&mut self, now: Nanos, out: &mut Vec<(Nanos, Travelling)>) {
        while let Some((time, i)) = self.next().filter(|(time, _)| *time <= now) {
            let Some((at, packet)) = self.pipes[i].pop(time) else {
                continue;
            };
            match self.next[i] {
                Next::Pipe(link) => self.pipes[link].push(at, packet),
                Next::Port => out.push((at, packet)),
            }
        }
    }

    /// What is due next, and in which pipe.
    fn next(&self) -> Option<(Nanos, usize)> {
        let times = self.pipes.iter().enumerate();
        times.filter_map(|(i, pipe)| Some((pipe.next()?, i))).min()
    }
}

/// A different stream for every path, way and run.
fn seed_of(seed: u64, name: &str, way: usize) -> u64 {
    // FNV-1a: stable over versions of this program, unlike std's hasher.
    let bytes = seed
        .to_le_bytes()
        .into_iter()
        .chain(name.bytes())
        .chain([way as u8]);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, b| {
        (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Emulator {
    /// The run's time begins at `epoch`; packets before it meet the network as it is at the beginning.
    pub fn start(
        scenario: &Scenario,
        seed: u64,
        impairments: &Impairments,
        ports: Vec<Port>,
        epoch: Instant,
    ) -> io::Result<Emulator> {
        let network = Network::new(scenario, seed, impairments);
        let traffic: HashMap<_, _> = ports
            .iter()
            .filter_map(|port| match port.role {
                Role::Client { address, .. } => Some((address, Arc::new(Traffic::default()))),
                Role::Server => None,
            })
            .collect();
        let names = scenario
            .paths
            .keys()
            .chain(scenario.links.keys())
            .cloned()
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let (skips, asked) = mpsc::channel();
        let work = Loop {
            network,
            ports,
            clock: Clock {
                epoch,
                skipped: Duration::ZERO,
            },
            asked,
            skip: None,
            stop: stop.clone(),
            traffic: traffic.clone(),
            names,
        };
        let thread = std::thread::Builder::new()
            .name("emulator".into())
            .spawn(move || work.run())?;
        Ok(Emulator {
            thread: Some(thread),
            skips,
            stop,
            traffic,
        })
    }

    /// Once no packet is on its way, whose round trip it would shorten, it is this late, unless it is later. Returns when that
    /// was; [`None`]: the emulation has ended.
    pub fn skip_to(&self, time: Duration) -> Option<Instant> {
        let (done, when) = mpsc::channel();
        self.skips.send((time, done)).ok()?;
        when.recv().ok()
    }

    /// The bytes that one client interface has had so far.
    pub fn traffic(&self, client: [u8; 4]) -> Option<Arc<Traffic>> {
        self.traffic.get(&client).cloned()
    }

    pub fn finish(mut self) -> io::Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("an emulator finishes once");
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the emulator's thread panicked")))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // An error was of interest to `finish` only.
            let _ = thread.join();
        }
    }
}

struct Loop {
    network: Network,
    ports: Vec<Port>,
    clock: Clock,
    asked: mpsc::Receiver<Skip>,
    skip: Option<Skip>,
    stop: Arc<AtomicBool>,
    traffic: HashMap<[u8; 4], Arc<Traffic>>,
    names: Vec<String>,
}

impl Loop {
    fn run(mut self) -> io::Result<Report> {
        raise_priority();
        let clients: HashMap<[u8; 4], (usize, usize)> = self
            .ports
            .iter()
            .enumerate()
            .filter_map(|(i, port)| match port.role {
                Role::Client { address, path } => Some((address, (i, path))),
                Role::Server => None,
            })
            .collect();
        let server = self
            .ports
            .iter()
            .position(|p| p.role == Role::Server)
            .expect("there is a server");
        let (mut sent, mut late) = (0u64, 0u64);
        let (mut frames, mut arrived, mut out) = (Vec::new(), Vec::new(), Vec::new());
        while !self.stop.load(Ordering::Relaxed) {
            self.wait()?;
            self.skip_if_asked();
            for i in 0..self.ports.len() {
                loop {
                    let more = self.ports[i].socket.receive(&mut frames)?;
                    let now = self.now();
                    for (age, frame) in frames.drain(..) {
                        let route = match self.ports[i].role {
                            Role::Client { path, .. } => Some((2 * path + 1, server, path)),
                            Role::Server => clients
                                .get(&frame.destination())
                                .map(|(port, path)| (2 * path, *port, *path)),
                        };
                        let Some((pipe, port, path)) = route else {
                            continue;
                        };
                        let mut frame = frame;
                        let deaf = &mut self.network.deaf[path];
                        if port == server && *deaf > 0 && frame.tells_priority() {
                            *deaf -= 1;
                            continue;
                        }
                        if self.network.strips[path] {
                            frame.strip_mptcp();
                        }
                        let came = now.saturating_sub(nanos(age));
                        arrived.push((came, pipe, Travelling { frame, port }));
                    }
                    if !more {
                        break;
                    }
                }
            }
            arrived.sort_by_key(|(came, ..)| *came);
            for (came, pipe, packet) in arrived.drain(..) {
                self.network.pipes[pipe].push(came, packet);
            }
            let now = self.now();
            self.network.due(now, &mut out);
            for (at, Travelling { mut frame, port }) in out.drain(..) {
                self.count(&frame, port);
                let port = &self.ports[port];
                frame.readdress(port.own, port.peer);
                // A full queue behind the interface is a loss like any other; the host's counters show it.
                let _ = port.socket.send(&frame);
                sent += 1;
                late += u64::from(now.saturating_sub(at) > LATE);
            }
        }
        let pipes = &self.network.pipes;
        let paths = self
            .names
            .into_iter()
            .enumerate()
            .map(|(i, name)| PathCounts {
                name,
                down: pipes[2 * i].counts(),
                up: pipes[2 * i + 1].counts(),
            });
        let paths = paths.collect();
        let overflows = self
            .ports
            .iter()
            .map(|p| u64::from(p.socket.overflows()))
            .sum();
        Ok(Report {
            paths,
            overflows,
            late: late as f64 / sent.max(1) as f64,
        })
    }

    fn count(&self, frame: &Frame, port: usize) {
        let (client, down) = match self.ports[port].role {
            Role::Client { address, .. } => (address, true),
            Role::Server => (frame.source(), false),
        };
        let (Some(traffic), payload @ 1..) = (self.traffic.get(&client), frame.payload()) else {
            return;
        };
        let counter = if down { &traffic.down } else { &traffic.up };
        counter.fetch_add(payload, Ordering::Relaxed);
        if !frame.has_mptcp() {
            traffic.plain.store(true, Ordering::Relaxed);
        }
    }

    fn skip_if_asked(&mut self) {
        self.skip = self.skip.take().or_else(|| self.asked.try_recv().ok());
        if self.network.next().is_some() {
            return;
        }
        if let Some((time, done)) = self.skip.take() {
            self.clock.skip_to(time);
            let _ = done.send(Instant::now());
        }
    }

    fn now(&self) -> Nanos {
        nanos(self.clock.now())
    }

    fn wait(&self) -> io::Result<()> {
        let until = self
            .network
            .next()
            .map(|(time, _)| Duration::from_nanos(time));
        let wait = until.map_or(LONGEST_WAIT, |t| {
            t.saturating_sub(self.clock.now()).min(LONGEST_WAIT)
        });
        let mut fds: Vec<PollFd> = self
            .ports
            .iter()
            .map(|p| PollFd::new(p.socket.as_fd(), PollFlags::POLLIN))
            .collect();
        match ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// Emulated time is real time: the thread that keeps it goes before all that only load the machine, and it sleeps most of
/// its time. The kernel's TCP gains too, since most of it runs where a packet is handed over: in this thread. It also asks
/// for timers finer than the usual 50 µs.
fn raise_priority() {
    const PRIORITY: libc::c_int = 1;
    const NICE: libc::c_int = -15;
    // SAFETY: plain system calls on the calling thread; if one is refused, the emulation is merely less exact, which the
    // report shows.
    unsafe {
        let real_time = libc::sched_param {
            sched_priority: PRIORITY,
        };
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &real_time) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, NICE);
        }
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet that was on its way would otherwise arrive at once: a host would know a round trip that the path never has.
    #[test]
    fn time_is_skipped_only_while_no_packet_is_on_its_way() {
        let text = "[paths.wifi]\nrate = '10Mbit'\ndelay = '20ms'\n";
        let scenario = crate::scenario(text);
        let (skips, asked) = mpsc::channel();
        let mut work = Loop {
            network: Network::new(&scenario, 1, &Impairments::default()),
            ports: Vec::new(),
            clock: Clock {
                epoch: Instant::now(),
                skipped: Duration::ZERO,
            },
            asked,
            skip: None,
            stop: Arc::default(),
            traffic: HashMap::new(),
            names: Vec::new(),
        };
        let frame = Frame::of(vec![0; 1000]);
        work.network.pipes[0].push(0, Travelling { frame, port: 0 });

        let (done, when) = mpsc::channel();
        let later = Duration::from_secs(600);
        skips.send((later, done)).expect("the emulator runs");
        work.skip_if_asked();
        assert!(when.try_recv().is_err() && work.clock.now() < later);

        let mut out = Vec::new();
        work.network.due(nanos(Duration::from_millis(30)), &mut out);
        assert_eq!(out.len(), 1);
        work.skip_if_asked();
        assert!(when.try_recv().is_ok() && work.clock.now() >= later);
    }
}
