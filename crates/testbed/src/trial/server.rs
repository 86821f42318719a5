//! A web server with pages and an endless file, and the far end of a call.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rattan_env::netns::NetNs;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;

use super::{CALL, PAGE_BYTES, WEB};
use crate::error::Context;
use crate::traffic::{socket, Body};
use crate::worker::{self, Worker};
use crate::Error;

pub const FILE: &str = "/file";

/// Returns once it listens. Ends when `stop` turns true.
pub fn start(
    namespace: Arc<NetNs>,
    mptcp: bool,
    seed: u64,
    mut stop: watch::Receiver<bool>,
) -> Result<Worker, Error> {
    worker::start_and_wait("server", namespace, move |ready| async move {
        // As most servers do.
        let web = socket::listen(WEB, mptcp, Some("cubic"));
        let web = web.or_else(|_| socket::listen(WEB, mptcp, None));
        let web = web.context(format!("cannot serve at {WEB}"))?;
        let call = UdpSocket::bind(CALL).await;
        let call = call.context(format!("cannot answer calls at {CALL}"))?;
        ready();
        tokio::select! {
            () = serve(web, seed) => {}
            () = answer(call) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        Ok(())
    })
}

async fn serve(web: TcpListener, seed: u64) {
    loop {
        // It fails for a connection that is gone already.
        let Ok((stream, _)) = web.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let page = service_fn(move |request: Request<Incoming>| async move {
            let length = (request.uri().path() != FILE).then_some(PAGE_BYTES);
            Ok::<_, Infallible>(Response::new(Body::new(seed, length)))
        });
        tokio::task::spawn_local(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), page);
            // An error is a client that has gone.
            let _ = connection.await;
        });
    }
}

/// Every packet goes back to where it came from.
async fn answer(call: UdpSocket) {
    let mut packet = [0; 2048];
    loop {
        // Both fail for a port that was closed, or a route that is gone: the client counts what it misses.
        if let Ok((length, from)) = call.recv_from(&mut packet).await {
            let _ = call.send_to(&packet[..length], from).await;
        }
    }
}
