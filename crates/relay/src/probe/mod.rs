//! What a link can do, measured against the relay: round trips, loss, rates and queues.
//!
//! The relay itself is the target: of streams by a name that nobody has (RFC 6761), of datagrams by an address of the
//! discard prefix (RFC 6666). It listens nowhere for that.

mod device;
mod relay;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};

use crate::wire::Target;

pub use device::{probe, Direction, Link, Phase, Probe};
pub(crate) use relay::{answer_echoes, answer_streams};

const NAME: &str = "probe.multipilot.invalid";
/// Every packet comes back, with the count of those that have come.
pub(crate) const ECHO: SocketAddr =
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 7)), 7);
/// Of an echo packet: its number, then the count, big-endian.
const ECHO_BYTES: usize = 200;

/// What a stream to the relay is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The relay sends as much as goes through.
    Download,
    /// The relay says every 100 ms how many bytes have come: a big-endian u64.
    Upload,
}

impl Stream {
    pub fn of(target: &Target) -> Option<Stream> {
        match target {
            Target::Name(name, 1) if name == NAME => Some(Stream::Download),
            Target::Name(name, 2) if name == NAME => Some(Stream::Upload),
            _ => None,
        }
    }

    fn target(self) -> Target {
        let port = match self {
            Stream::Download => 1,
            Stream::Upload => 2,
        };
        Target::Name(NAME.to_owned(), port)
    }
}

/// Two ends of one connection within this process.
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    let (far, from) = listener.accept().await?;
    match from == near.local_addr()? {
        true => Ok((near, far)),
        // Another process was faster.
        false => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}
