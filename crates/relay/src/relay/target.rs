//! From the relay to a target, as far as its rules go.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::egress::Egress;
use crate::probe;
use crate::resolver;
use crate::wire::{Refusal, Target};

const PATIENCE: Duration = Duration::from_secs(10);
/// Of one device at a time: the system's resolver takes a thread for each, and goes on when nobody waits for it any more.
pub const LOOKUPS: usize = 32;

/// The first of the target's addresses that is permitted and answers.
pub async fn connect(
    target: &Target,
    egress: &Egress,
    lookups: &Arc<Semaphore>,
) -> Result<TcpStream, Refusal> {
    if let Some(stream) = probe::Stream::of(target) {
        let answered = probe::answer_streams(stream).await;
        return answered.map_err(|e| refusal(&e));
    }
    timeout(PATIENCE, try_connect(target, egress, lookups))
        .await
        .unwrap_or(Err(Refusal::TimedOut))
}

async fn try_connect(
    target: &Target,
    egress: &Egress,
    lookups: &Arc<Semaphore>,
) -> Result<TcpStream, Refusal> {
    if *target == Target::Address(resolver::ADDRESS.ip(), resolver::PORT) {
        let own = resolver::own().map_err(|e| refusal(&e))?;
        return TcpStream::connect(own).await.map_err(|e| refusal(&e));
    }
    let addresses: Vec<SocketAddr> = match target {
        Target::Address(ip, port) => vec![(*ip, *port).into()],
        Target::Name(name, port) => resolve((name.clone(), *port), lookups).await?,
    };
    let mut last = Refusal::Forbidden;
    for address in addresses {
        if !egress.permits(address.ip(), address.port()) {
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(e) => last = refusal(&e),
        }
    }
    Err(last)
}

async fn resolve(
    place: (String, u16),
    lookups: &Arc<Semaphore>,
) -> Result<Vec<SocketAddr>, Refusal> {
    let permit = lookups.clone().acquire_owned().await;
    let lookup = spawn_blocking(move || {
        let _permit = permit;
        place.to_socket_addrs().map(Iterator::collect)
    });
    let found = lookup.await.map_err(|_| Refusal::Failed)?;
    found.map_err(|_| Refusal::NoSuchName)
}

pub(crate) fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ECONNREFUSED) => Refusal::ConnectionRefused,
        Some(Errno::ENETUNREACH) => Refusal::NetworkUnreachable,
        Some(Errno::EHOSTUNREACH) => Refusal::HostUnreachable,
        Some(Errno::ETIMEDOUT) => Refusal::TimedOut,
        Some(Errno::EACCES | Errno::EPERM) => Refusal::Forbidden,
        _ => Refusal::Failed,
    }
}
