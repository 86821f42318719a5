//! MPTCP and TCP sockets for tokio.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_socks::tcp::Socks5Stream;

pub fn listen(
    address: SocketAddr,
    mptcp: bool,
    congestion: Option<&str>,
) -> io::Result<TcpListener> {
    let socket = socket(mptcp)?;
    socket.set_reuse_address(true)?;
    // Accepted sockets take it over, subflows that join too.
    if let Some(congestion) = congestion {
        set_congestion(&socket, congestion)?;
    }
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

pub async fn connect(
    from: SocketAddr,
    to: SocketAddr,
    mptcp: bool,
    congestion: Option<&str>,
) -> io::Result<TcpStream> {
    let socket = socket(mptcp)?;
    if let Some(congestion) = congestion {
        set_congestion(&socket, congestion)?;
    }
    socket.bind(&from.into())?;
    connected(socket, to).await
}

/// Over this interface alone, or as the routing table has it.
pub async fn connect_over(
    interface: Option<&str>,
    to: SocketAddr,
    mptcp: bool,
) -> io::Result<TcpStream> {
    let socket = socket(mptcp)?;
    socket.bind_device(interface.map(str::as_bytes))?;
    connected(socket, to).await
}

async fn connected(socket: Socket, to: SocketAddr) -> io::Result<TcpStream> {
    match socket.connect(&to.into()) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => return Err(e),
        _ => {}
    }
    let stream = TcpStream::from_std(socket.into())?;
    stream.writable().await?;
    match stream.take_error()? {
        Some(e) => Err(e),
        None => {
            stream.set_nodelay(true)?;
            Ok(stream)
        }
    }
}

/// Through a SOCKS5 proxy.
pub async fn connect_by_proxy(proxy: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let stream = Socks5Stream::connect(proxy, to).await;
    let stream = stream.map_err(io::Error::other)?.into_inner();
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// For an observer; the connection ends only when this is dropped too.
pub fn duplicate(stream: &TcpStream) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// Closing resets the connection: nothing of it outlives the run.
pub fn abort_on_close(fd: &OwnedFd) {
    // Fails only where the connection is gone already.
    let _ = SockRef::from(fd).set_linger(Some(Duration::ZERO));
}

fn socket(mptcp: bool) -> io::Result<Socket> {
    let protocol = if mptcp {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn set_congestion(socket: &Socket, name: &str) -> io::Result<()> {
    socket.set_tcp_congestion(name.as_bytes())?;
    // The kernel takes an unknown name's place with its default in some versions: a wrong row is worse than none.
    let set = socket.tcp_congestion()?;
    let set = String::from_utf8_lossy(&set)
        .trim_end_matches('\0')
        .to_owned();
    match set == name {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "congestion control is {set} in place of {name}"
        ))),
    }
}
