//! Connections: so many at once, each with a time to send its request, and an end in good order.

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::service::{service_fn, Service};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{watch, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutWriter;

use crate::tls::Tls;

/// Requests under way have so long when the server ends.
const FAREWELL: Duration = Duration::from_secs(3);
/// Bytes of a request's head at most.
const LONGEST_HEAD: usize = 16 << 10;

/// An error says where, and what to do about a port that is taken; `setting` is what chooses another.
pub async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, String> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => {
            format!("{address}: {e}: another program has this port, choose another ({setting})")
        }
        _ => format!("{address}: {e}"),
    })
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

/// What all connections share.
#[derive(Clone)]
pub struct HttpSettings {
    pub router: Router,
    /// `None`: plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// At a time.
    pub connections: usize,
    /// For a TLS handshake, again for a request's head, and for a client to take more of its answer.
    pub patience: Duration,
    pub counts: ConnectionCounts,
}

/// Of all connections.
#[derive(Clone, Default)]
pub struct ConnectionCounts {
    pub open: Gauge,
    pub handshakes_failed: Counter,
}

/// Serves until `stop` is done and the requests under way are answered.
pub async fn serve(listener: TcpListener, terms: HttpSettings, stop: impl Future<Output = ()>) {
    let permits = Arc::new(Semaphore::new(terms.connections));
    let (ending, ended) = watch::channel(false);
    let mut open = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        // Beyond the limit connections wait in the kernel's backlog, and are refused once that is full.
        let next = async {
            let permit = permits.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut stop => break,
            next = next => next,
        };
        while open.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => {
                let (terms, ended) = (terms.clone(), ended.clone());
                open.spawn(async move {
                    let _permit = permit;
                    let _counted = Counted::new(terms.counts.open.clone());
                    admit(stream, peer, &terms, ended).await;
                });
            }
            // Out of file descriptors, most likely: others must close first.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    drop(listener);
    let _ = ending.send(true);
    let all = async { while open.join_next().await.is_some() {} };
    let _ = timeout(FAREWELL, all).await;
    open.shutdown().await;
}

/// One more while it lives, whatever ends it.
struct Counted(Gauge);

impl Counted {
    fn new(gauge: Gauge) -> Counted {
        gauge.inc();
        Counted(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn admit(
    stream: TcpStream,
    peer: SocketAddr,
    terms: &HttpSettings,
    ended: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &terms.tls else {
        return converse(stream, peer, terms, ended).await;
    };
    match timeout(terms.patience, tls.acceptor.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, peer, terms, ended).await,
        _ => {
            terms.counts.handshakes_failed.inc();
        }
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    terms: &HttpSettings,
    mut ended: watch::Receiver<bool>,
) {
    let router = TowerToHyperService::new(terms.router.clone());
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.call(request)
    });
    // Who takes no answers may not stay either.
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(terms.patience));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(terms.patience)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        _ = ended.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
