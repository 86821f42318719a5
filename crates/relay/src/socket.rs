//! TCP sockets of path connections: where they leave this host, and how they send.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};

use crate::links::Link;

/// Middleboxes forget idle connections after minutes, some after one.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(30))
    .with_interval(Duration::from_secs(10))
    .with_retries(3);
/// Data that nobody acknowledges for so long end the connection; the flow goes on over others, and over a new one here.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Used where the kernel has it and nothing else is asked for: it fills links of unlike length that lose packets.
const PREFERRED_CONTROLLER: &str = "bbr";

/// Connects over this link, whatever the routing table prefers.
pub async fn connect(
    link: &Link,
    relay: SocketAddr,
    controller: Option<&str>,
    mark: Option<u32>,
) -> io::Result<TcpStream> {
    let socket = match relay {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(mark) = mark {
        SockRef::from(&socket).set_mark(mark)?;
    }
    if let Some(device) = &link.device {
        match socket.bind_device(Some(device.as_bytes())) {
            // Before Linux 5.7 that takes CAP_NET_RAW. The address does where routing rules go by source.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let source = link.source(relay.ip()).ok_or(e)?;
                socket.bind(SocketAddr::new(source, 0))?;
            }
            bound => bound?,
        }
    }
    tune(&SockRef::from(&socket), controller)?;
    socket.connect(relay).await
}

/// For either end of a path connection.
pub fn tune(socket: &SockRef, controller: Option<&str>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&KEEPALIVE)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
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
    let _ = socket.set_tcp_keepalive(&KEEPALIVE);
}

/// A flow takes a descriptor a path and one for its program or target; the usual limit is 1024. Programs that this process
/// starts later have the new limit too, and some bear none above 1024 (select(2)).
pub fn raise_descriptors() {
    use nix::sys::resource::{getrlimit, setrlimit, Resource};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
