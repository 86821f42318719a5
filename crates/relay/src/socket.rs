//! TCP sockets of path connections: where they leave this host, and how they send.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpSocket, TcpStream};

use crate::links::Link;

/// Middleboxes forget idle connections after minutes, some after one.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(30))
    .with_interval(Duration::from_secs(10))
    .with_retries(3);
/// Of programs and targets, whose networks may be out for minutes: about as long as Linux' TCP goes on without an answer.
const APPLICATION_KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(30))
    .with_interval(Duration::from_secs(30))
    .with_retries(30);
/// Data that nobody acknowledges for so long end the connection; the flow goes on over others, and over a new one here.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Used where the kernel has it and nothing else is asked for: it fills links of unlike length that lose packets.
const PREFERRED_CONTROLLER: &str = "bbr";

/// What carries the streams between device and relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// A TCP connection over each link, among which our schedulers choose.
    #[default]
    Tcp,
    /// One MPTCP connection for each flow, whose subflows are the kernel's business.
    Mptcp,
}

impl Transport {
    pub const NAMES: [(&'static str, Transport); 2] =
        [("tcp", Transport::Tcp), ("mptcp", Transport::Mptcp)];

    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Mptcp => "mptcp",
        }
    }

    fn protocol(self) -> Protocol {
        match self {
            Transport::Tcp => Protocol::TCP,
            Transport::Mptcp => Protocol::MPTCP,
        }
    }

    /// Whether sockets have it here; an error says why not.
    pub fn check(self) -> io::Result<()> {
        self.socket(Domain::IPV4).map(drop)
    }

    pub fn socket(self, domain: Domain) -> io::Result<Socket> {
        Socket::new(domain, Type::STREAM, Some(self.protocol()))
    }

    /// One that fell back to TCP counts as MPTCP.
    pub fn of(stream: &TcpStream) -> Transport {
        match SockRef::from(stream).protocol() {
            Ok(Some(Protocol::MPTCP)) => Transport::Mptcp,
            _ => Transport::Tcp,
        }
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Transport, String> {
        let found = Transport::NAMES.into_iter().find(|(name, _)| *name == text);
        let (_, transport) = found.ok_or_else(|| format!("{text}: expected tcp or mptcp"))?;
        Ok(transport)
    }
}

/// Connects over this link, whatever the routing table prefers.
pub async fn connect(
    transport: Transport,
    link: &Link,
    relay: SocketAddr,
    controller: Option<&str>,
    mark: Option<u32>,
) -> io::Result<TcpStream> {
    let socket = transport.socket(Domain::for_address(relay))?;
    socket.set_nonblocking(true)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    if let Some(source) = lead_over(&SockRef::from(&socket), link, relay.ip(), mark)? {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    tune(&SockRef::from(&socket), controller)?;
    socket.connect(relay).await
}

/// Its packets leave over this link, whatever the routing table prefers. Where it may not be bound to the link (before Linux 5.7 that
/// takes CAP_NET_RAW), returns the address to bind it to instead, which does where routing rules go by source.
pub fn lead_over(
    socket: &SockRef,
    link: &Link,
    relay: IpAddr,
    mark: Option<u32>,
) -> io::Result<Option<IpAddr>> {
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    let Some(device) = &link.device else {
        return Ok(None);
    };
    match socket.bind_device(Some(device.as_bytes())) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            link.source(relay).map(Some).ok_or(e)
        }
        bound => bound.map(|()| None),
    }
}

/// For either end of a path connection.
pub fn tune(socket: &SockRef, controller: Option<&str>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    // MPTCP sockets do not take every option of these.
    let _ = socket.set_tcp_keepalive(&KEEPALIVE);
    let _ = socket.set_tcp_user_timeout(Some(USER_TIMEOUT));
    match controller {
        Some(name) => socket
            .set_tcp_congestion(name.as_bytes())
            .map_err(|e| io::Error::new(e.kind(), format!("congestion controller {name}: {e}"))),
        None => {
            let _ = socket.set_tcp_congestion(PREFERRED_CONTROLLER.as_bytes());
            Ok(())
        }
    }
}

/// For sockets of applications and of their targets.
pub fn tune_application(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&APPLICATION_KEEPALIVE);
}

/// A flow takes a descriptor a path and one for its program or target; the usual limit is 1024. Programs that this process
/// starts later have the new limit too, and some bear none above 1024 (select(2)).
pub fn raise_descriptors() {
    use nix::sys::resource::{getrlimit, setrlimit, Resource};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Until silence ends it, s.
    fn patience(socket: &SockRef) -> u64 {
        let (time, each) = (socket.tcp_keepalive_time(), socket.tcp_keepalive_interval());
        let tries = socket.tcp_keepalive_retries().unwrap();
        assert!(socket.keepalive().unwrap());
        time.unwrap().as_secs() + each.unwrap().as_secs() * u64::from(tries)
    }

    #[tokio::test]
    async fn a_silent_target_is_waited_for_longer_than_a_silent_path() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap());
        let stream = stream.await.unwrap();
        let socket = SockRef::from(&stream);
        tune(&socket, None).unwrap();
        assert_eq!(patience(&socket), 60);
        tune_application(&stream);
        assert_eq!(patience(&socket), 930);
    }
}
