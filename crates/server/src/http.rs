//! Connections: so many at once, each with a time to send its request, and an end in good order.

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{watch, Semaphore};
use tokio::task::JoinSet;

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

/// Serves until `stop` is done and the requests under way are answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: usize,
    patience: Duration,
    stop: impl Future<Output = ()>,
) {
    let permits = Arc::new(Semaphore::new(connections));
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
            Ok((stream, _)) => {
                let (router, ended) = (router.clone(), ended.clone());
                open.spawn(async move {
                    let _permit = permit;
                    converse(stream, router, patience, ended).await;
                });
            }
            // Out of file descriptors, most likely: others must close first.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    drop(listener);
    let _ = ending.send(true);
    let all = async { while open.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, all).await;
    open.shutdown().await;
}

async fn converse(
    stream: TcpStream,
    router: Router,
    patience: Duration,
    mut ended: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        _ = ended.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
