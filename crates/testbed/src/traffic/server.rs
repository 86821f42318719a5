//! The HTTP server: `GET /ID` sends the flow's body, `PUT /ID` takes one in. ID is the transfer's. A program of the user's may
//! ask for any path; what it moves is counted elsewhere.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mp_relay::flow::Observer;
use rattan_env::netns::NetNs;
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::body::{Body, Hash};
use super::recorder::{End, Probe, Recorder, Source};
use super::{socket, Service, FIRST_PORT};
use crate::error::Context;
use crate::network::SERVER;
use crate::plan::Transport;
use crate::worker::{self, Worker};
use crate::Error;

pub struct Server {
    pub services: Vec<Service>,
    pub recorder: Arc<Recorder>,
    pub seed: u64,
    pub hashes: Arc<HashMap<u64, Hash>>,
    /// False: a server that knows no MPTCP.
    pub speaks_mptcp: bool,
    /// Of the relays on this host.
    pub observer: Arc<Observer>,
}

/// Of one connection, from its request on.
type SharedProbe = Rc<RefCell<Option<Probe>>>;
type Answer = Response<Either<Body, Empty<Bytes>>>;

impl Server {
    /// Returns once every port is open. Ends when `stop` turns true.
    pub fn start(
        self,
        namespace: Arc<NetNs>,
        stop: watch::Receiver<bool>,
    ) -> Result<Worker, Error> {
        worker::start_and_wait("server", namespace, move |ready| async move {
            let listeners = self.listen()?;
            ready();
            Rc::new(self).serve(listeners, stop).await;
            Ok(())
        })
    }

    fn listen(&self) -> Result<Vec<TcpListener>, Error> {
        let listener = |(i, service): (usize, &Service)| {
            let address = SocketAddr::new(SERVER.into(), FIRST_PORT + i as u16);
            let congestion = (!service.flow.upload).then_some(service.congestion.as_str());
            let mptcp = service.flow.is_mptcp() && self.speaks_mptcp;
            socket::listen(address, mptcp, congestion)
                .context(format!("cannot serve {} at {address}", service.flow.name))
        };
        self.services.iter().enumerate().map(listener).collect()
    }

    async fn serve(self: Rc<Self>, listeners: Vec<TcpListener>, mut stop: watch::Receiver<bool>) {
        for (i, listener) in listeners.into_iter().enumerate() {
            let (server, stop) = (self.clone(), stop.clone());
            tokio::task::spawn_local(async move {
                loop {
                    // An accept fails for a connection that is gone already, or for want of descriptors: wait for either.
                    match listener.accept().await {
                        Ok((stream, _)) => {
                            tokio::task::spawn_local(server.clone().connection(
                                i,
                                stream,
                                stop.clone(),
                            ));
                        }
                        Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                    }
                }
            });
        }
        // An error: the other side is gone, which is a stop too.
        let _ = stop.wait_for(|stop| *stop).await;
        // Connections see the same signal: let them reset themselves.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    async fn connection(
        self: Rc<Self>,
        flow: usize,
        stream: TcpStream,
        mut stop: watch::Receiver<bool>,
    ) {
        let Ok(fd) = socket::duplicate(&stream).map(Arc::new) else {
            return;
        };
        let _ = stream.set_nodelay(true);
        let probe = Rc::new(RefCell::new(None));
        let (probes, probed) = (probe.clone(), fd.clone());
        let peer = stream.peer_addr().ok();
        let service = service_fn(move |request| {
            self.clone()
                .answer(flow, request, peer, probed.clone(), probes.clone())
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            // An error is a client that has gone: the transfer's record shows it.
            _ = connection => {}
            _ = stop.wait_for(|stop| *stop) => {
                if let Some(probe) = &*probe.borrow() {
                    probe.last_look();
                }
                socket::abort_on_close(&fd);
            }
        }
        // The service holds it too, and with it the probe's task.
        probe.take();
    }

    async fn answer(
        self: Rc<Self>,
        flow: usize,
        request: Request<Incoming>,
        peer: Option<SocketAddr>,
        fd: Arc<OwnedFd>,
        probe: SharedProbe,
    ) -> Result<Answer, Infallible> {
        let flow = &self.services[flow].flow;
        // The relay shows a flow before it forwards anything of it.
        let relayed = peer.filter(|_| flow.transport == Transport::Relay);
        let source = match relayed.and_then(|peer| self.observer.flow(peer)) {
            Some(stats) => Source::Relay(stats),
            None => Source::Socket(fd),
        };
        let path = request.uri().path().trim_start_matches('/');
        let id = path.parse::<u32>().ok().filter(|_| flow.command.is_none());
        let answer = match (request.method(), id) {
            (&Method::GET, Some(id)) => {
                probe.replace(Some(Probe::start(&self.recorder, id, End::Sender, source)));
                Response::new(Either::Left(Body::new(self.seed, flow.bytes)))
            }
            (&Method::GET, None) => Response::new(Either::Left(Body::new(self.seed, flow.bytes))),
            (&Method::PUT, Some(id)) => {
                probe.replace(Some(Probe::start(
                    &self.recorder,
                    id,
                    End::Receiver,
                    source,
                )));
                let intact = self.take_in(id, flow.bytes, request.into_body()).await;
                if let Some(probe) = &*probe.borrow() {
                    probe.look();
                }
                if let Some(intact) = intact {
                    self.recorder.end(id, Some(intact));
                }
                Response::new(Either::Right(Empty::new()))
            }
            (&Method::PUT, None) => {
                let mut body = request.into_body();
                while let Some(Ok(_)) = body.frame().await {}
                Response::new(Either::Right(Empty::new()))
            }
            _ => {
                let mut answer = Response::new(Either::Right(Empty::new()));
                *answer.status_mut() = StatusCode::BAD_REQUEST;
                answer
            }
        };
        Ok(answer)
    }

    /// Whether the whole body came and was right; `None` if it has no end or broke off.
    async fn take_in(&self, id: u32, length: Option<u64>, mut body: Incoming) -> Option<bool> {
        let mut hash = Sha256::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.ok()?.into_data() {
                self.recorder.received(id, data.len() as u64);
                hash.update(&data);
            }
        }
        let wanted = self.hashes.get(&length?)?;
        Some(<Hash>::from(hash.finalize()) == *wanted)
    }
}
