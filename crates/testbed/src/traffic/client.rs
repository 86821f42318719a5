//! The clients of one group: each transfer is one connection.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Either, Empty};
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use mp_kernel::mptcp_info::{full_info, mptcp_info};
use mp_kernel::pm::{Endpoint, Flags, PathManager};
use mp_record::Decision;
use mp_relay::flow::Observer;
use rattan_env::netns::NetNs;
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::body::{Body, Hash};
use super::command::{delivered, went_plain, Program};
use super::recorder::{End, Probe, Recorder, Source};
use super::{socket, Service, FIRST_PORT};
use crate::emulator::Traffic;
use crate::initial_path::InitialPath;
use crate::network::{address, PROXY, SERVER};
use crate::plan::{self, Group, PathManagement, Transport, NDIFFPORTS};
use crate::worker::{self, Worker};
use crate::Error;

#[derive(Clone)]
pub struct Client {
    pub number: usize,
    pub group: Group,
    /// Where a bandit chooses the initial path.
    pub initial_path: Option<InitialPath>,
    /// Of all groups, in the plan's order: a service's port follows from its place.
    pub services: Vec<Service>,
    pub recorder: Arc<Recorder>,
    /// Of this host's device.
    pub observer: Arc<Observer>,
    pub seed: u64,
    pub hashes: Arc<HashMap<u64, Hash>>,
    /// Of this host on each of its paths (index in the scenario).
    pub traffic: Vec<(usize, Arc<Traffic>)>,
}

impl Client {
    /// Ends when all its transfers have, or when `stop` turns true.
    pub fn start(
        self,
        namespace: Arc<NetNs>,
        stop: watch::Receiver<bool>,
    ) -> Result<Worker, Error> {
        worker::start("client", namespace, move || async move {
            let manager = match self.group.management {
                PathManagement::Userspace => Some(PathManager::new()?),
                _ => None,
            };
            let client = Rc::new(Local {
                initial_path: RefCell::new(self.initial_path.clone()),
                client: self,
                manager,
            });
            client.run(stop).await;
            Ok(())
        })
    }
}

struct Local {
    client: Client,
    initial_path: RefCell<Option<InitialPath>>,
    manager: Option<PathManager>,
}

impl Local {
    async fn run(self: Rc<Self>, stop: watch::Receiver<bool>) {
        let mut tasks = JoinSet::new();
        for (i, service) in self.client.services.iter().enumerate() {
            if service.flow.group != self.client.number {
                continue;
            }
            let (transfers, at_once) = match &service.flow.starts {
                plan::Starts::Fixed(transfers) => (transfers, u32::MAX),
                plan::Starts::Arriving { transfers, at_once } => (transfers, *at_once),
            };
            let living = Rc::new(Cell::new(0));
            for &(start, end) in transfers {
                let (local, stop, living) = (self.clone(), stop.clone(), living.clone());
                tasks.spawn_local(async move {
                    let mut ended = stop.clone();
                    let work = async {
                        local.until(start).await;
                        if living.get() < at_once {
                            living.set(living.get() + 1);
                            local.transfer(i, end, stop).await;
                            living.set(living.get() - 1);
                        }
                    };
                    // The transfer itself heeds the signal; this is for one that has not begun.
                    tokio::select! {
                        biased;
                        () = work => {}
                        () = async { let _ = ended.wait_for(|s| *s).await; tokio::time::sleep(Duration::from_millis(20)).await } => {}
                    }
                });
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn until(&self, at: Duration) {
        tokio::time::sleep_until((self.client.recorder.epoch + at).into()).await;
    }

    async fn transfer(&self, index: usize, end: Option<Duration>, mut stop: watch::Receiver<bool>) {
        let client = &self.client;
        let (flow, recorder) = (&client.services[index].flow, &client.recorder);
        let (id, initial) = self.begin(index);
        // True: its time is over; false: the run's is.
        let cut = async {
            match end {
                Some(end) => tokio::select! {
                    () = self.until(end) => true,
                    _ = stop.wait_for(|stop| *stop) => false,
                },
                None => stop.wait_for(|stop| *stop).await.is_err(),
            }
        };
        tokio::pin!(cut);
        let began = recorder.now();
        let broke_off = |e: Box<dyn std::error::Error>| {
            let of = &flow.name;
            recorder.note(format!(
                "a transfer of {of}, begun at {began:.1} s, broke off: {e}"
            ));
        };
        if let Some(command) = &flow.command {
            let work = self.command(id, index, command);
            tokio::select! {
                biased;
                over = &mut cut => {
                    self.count(id, index);
                    if over {
                        recorder.end(id, None);
                    }
                }
                result = work => result.unwrap_or_else(|e| broke_off(e.into())),
            }
            return;
        }
        let connected = tokio::select! {
            // What the end of the run cuts does not break off.
            biased;
            over = &mut cut => {
                if over && flow.bytes.is_none() {
                    recorder.end(id, None);
                }
                return;
            }
            connected = self.connect(index, initial) => connected,
        };
        let (stream, fd, source) = match connected {
            Ok(connected) => connected,
            Err(e) => {
                self.learn(id, 0.0, None);
                return broke_off(e.into());
            }
        };
        let side = if flow.upload {
            End::Sender
        } else {
            End::Receiver
        };
        let probe = Probe::start(recorder, id, side, source);
        let exchange = async {
            tokio::select! {
                result = self.exchange(id, index, stream, &probe) => result,
                () = async { self.open_subflows(&fd, initial).await; std::future::pending().await } => Ok(()),
            }
        };
        tokio::select! {
            biased;
            over = &mut cut => {
                probe.last_look();
                socket::abort_on_close(&fd);
                // Of a transfer without a size this is the proper end.
                if over && flow.bytes.is_none() {
                    recorder.end(id, None);
                    self.learn(id, recorder.goodput(id), Some(&fd));
                }
            }
            result = exchange => match result {
                Ok(()) => self.learn(id, recorder.goodput(id), Some(&fd)),
                Err(e) => {
                    self.learn(id, 0.0, Some(&fd));
                    broke_off(e);
                }
            },
        }
    }

    /// A transfer begins: its id, and the place among the group's paths of the one it starts on.
    fn begin(&self, index: usize) -> (u32, usize) {
        let client = &self.client;
        let (flow, recorder) = (&client.services[index].flow, &client.recorder);
        let now = recorder.epoch.elapsed();
        let mut learner = self.initial_path.borrow_mut();
        let Some(learner) = learner.as_mut() else {
            return (recorder.begin(index, flow, client.group.paths[0]), 0);
        };
        let (arm, decision) = learner.decide(now);
        let id = recorder.begin(index, flow, client.group.paths[arm]);
        learner.begin(id, arm, &decision);
        recorder.decided(Decision {
            transfer: id,
            ..decision
        });
        (id, arm)
    }

    /// Tells the bandit, where there is one, how a connection went.
    fn learn(&self, id: u32, throughput_mbps: f64, fd: Option<&OwnedFd>) {
        let mut learner = self.initial_path.borrow_mut();
        let Some(learner) = learner.as_mut() else {
            return;
        };
        let info = fd.and_then(|fd| full_info(fd).ok().flatten());
        let subflows = info.map(|info| info.subflows).unwrap_or_default();
        if let Some((latency_ms, reward)) = learner.learn(id, throughput_mbps, &subflows) {
            let recorder = &self.client.recorder;
            recorder.rewarded(id, throughput_mbps, latency_ms, reward);
        }
    }

    /// Runs the user's program; it dies with this future.
    async fn command(&self, id: u32, index: usize, text: &str) -> Result<(), String> {
        let client = &self.client;
        let service = &client.services[index];
        let started = Program::start(text, index, client.number, &client.group, service);
        let mut program = started.map_err(|e| e.to_string())?;
        let result = program.wait().await;
        self.count(id, index);
        if result.is_ok() {
            client.recorder.end(id, None);
        }
        result
    }

    fn count(&self, id: u32, index: usize) {
        let client = &self.client;
        let flow = &client.services[index].flow;
        let moved = delivered(&client.traffic, flow.upload);
        client
            .recorder
            .moved(id, moved, flow.is_mptcp() && went_plain(&client.traffic));
    }

    async fn connect(
        &self,
        index: usize,
        initial: usize,
    ) -> io::Result<(TcpStream, Arc<OwnedFd>, Source)> {
        let Service { flow, congestion } = &self.client.services[index];
        let to = SocketAddr::new(SERVER.into(), FIRST_PORT + index as u16);
        if flow.transport == Transport::Relay {
            let stream = socket::connect_by_proxy(PROXY, to).await?;
            let fd = Arc::new(socket::duplicate(&stream)?);
            let stats = self.client.observer.flow(stream.local_addr()?);
            let source = stats.map_or(Source::Socket(fd.clone()), Source::Relay);
            return Ok((stream, fd, source));
        }
        let from = SocketAddr::new(
            address(self.client.number, self.client.group.paths[initial]).into(),
            0,
        );
        let congestion = flow.upload.then_some(congestion.as_str());
        let stream = socket::connect(from, to, flow.is_mptcp(), congestion).await?;
        let fd = Arc::new(socket::duplicate(&stream)?);
        Ok((stream, fd.clone(), Source::Socket(fd)))
    }

    /// One request and its answer.
    async fn exchange(
        &self,
        id: u32,
        index: usize,
        stream: TcpStream,
        probe: &Probe,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let client = &self.client;
        let flow = &client.services[index].flow;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::task::spawn_local(connection);
        let (method, body) = match flow.upload {
            true => (
                Method::PUT,
                Either::Left(Body::new(client.seed, flow.bytes)),
            ),
            false => (Method::GET, Either::Right(Empty::new())),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("/{id}"))
            .header("host", "server")
            .body(body)?;
        let mut answer = sender.send_request(request).await?;
        if !answer.status().is_success() {
            return Err(format!("the server answered {}", answer.status()).into());
        }
        if flow.upload {
            // The server has timed the end.
            probe.look();
            return Ok(());
        }
        let mut hash = Sha256::new();
        while let Some(frame) = answer.frame().await {
            if let Ok(data) = frame?.into_data() {
                client.recorder.received(id, data.len() as u64);
                hash.update(&data);
            }
        }
        let wanted = flow.bytes.and_then(|bytes| client.hashes.get(&bytes));
        client.recorder.end(
            id,
            wanted.map(|wanted| <Hash>::from(hash.finalize()) == *wanted),
        );
        probe.look();
        drop(sender);
        // The other side may be slow to say goodbye; it has no data any more.
        connection.abort();
        Ok(())
    }

    /// The path manager ndiffports: further subflows over the same addresses, once the connection is up.
    async fn open_subflows(&self, fd: &OwnedFd, initial: usize) {
        let Some(manager) = &self.manager else { return };
        let path = self.client.group.paths[initial];
        let local = IpAddr::from(address(self.client.number, path));
        let Ok(peer) = socket2::SockRef::from(fd).peer_addr() else {
            return;
        };
        let Some(peer) = peer.as_socket() else { return };
        for _ in 1..NDIFFPORTS {
            // The kernel refuses until the handshake is confirmed by the peer's data.
            for attempt in 0.. {
                let Ok(Some(info)) = mptcp_info(fd) else {
                    return;
                };
                let from = Endpoint {
                    id: 1,
                    ..Endpoint::new(local, Flags::NONE)
                };
                match manager.create_subflow(info.token, &from, peer) {
                    Ok(()) => break,
                    Err(e) if attempt == PATIENCE => {
                        self.client
                            .recorder
                            .note(format!("ndiffports opened no further subflow: {e}"));
                        return;
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        }
    }
}

/// Attempts at opening a subflow: 5 s, several round trips of the slowest path.
const PATIENCE: u32 = 250;
