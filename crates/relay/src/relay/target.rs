//! From the relay to a target, as far as its rules go.

use std::future::Future;
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
/// An address has so much of it at least, however many there are.
const SHARE: Duration = Duration::from_secs(2);
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
    let permits = |address: &SocketAddr| egress.permits(address.ip(), address.port());
    let permitted: Vec<_> = addresses.into_iter().filter(permits).collect();
    first(&permitted, share(permitted.len()), TcpStream::connect).await
}

/// Of the time for all of so many addresses, what each has: one that is silent does not keep from the others.
fn share(addresses: usize) -> Duration {
    (PATIENCE / addresses.max(1) as u32).max(SHARE)
}

async fn first<T, F: Future<Output = io::Result<T>>>(
    addresses: &[SocketAddr],
    share: Duration,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, Refusal> {
    let mut last = Refusal::Forbidden;
    for address in addresses {
        match timeout(share, connect(*address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(e)) => last = refusal(&e),
            Err(_) => last = Refusal::TimedOut,
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn an_address_that_is_silent_leaves_time_for_the_next() {
        assert_eq!(share(1), PATIENCE);
        assert_eq!(share(2), PATIENCE / 2);
        assert_eq!(share(100), SHARE);
        let addresses = [1, 2, 3].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let connect = |address: SocketAddr| async move {
            match address.port() {
                1 => pending().await,
                2 => Err(io::ErrorKind::Other.into()),
                port => Ok(port),
            }
        };
        let short = Duration::from_millis(1);
        assert_eq!(first(&addresses, short, connect).await, Ok(3));
        let failed = first(&addresses[..2], short, connect).await;
        assert_eq!(failed, Err(Refusal::Failed));
        let silent = first(&addresses[..1], short, connect).await;
        assert_eq!(silent, Err(Refusal::TimedOut));
        assert_eq!(first(&[], short, connect).await, Err(Refusal::Forbidden));
    }
}
