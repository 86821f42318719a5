//! How programs reach the device's end: SOCKS5 (RFC 1928), or the preload shim, which redirects their connect(2).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::device::Device;
use crate::flow::Answer;
use crate::socket::raise_descriptors;
use crate::wire::{Refusal, Target};

/// A program says what it wants within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of the shim's greeting: token, family (4 or 6), port, address (IPv4 in its first 4 bytes). The answer is one byte: 0, or
/// the number of a [`Refusal`].
const GREETING: usize = TOKEN + 1 + 2 + 16;
const TOKEN: usize = 16;

/// What speaks on the listener.
#[derive(Debug, Clone, Copy)]
pub enum Protocol {
    Socks,
    /// Programs that know this token: the listener is reachable for everybody on the host.
    Shim([u8; TOKEN]),
}

/// Carries what comes in, until the task is dropped.
pub async fn serve(listener: TcpListener, protocol: Protocol, device: Arc<Device>) {
    // With the first connection: the program that the shim is for has been started by then.
    let raised = Once::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                raised.call_once(raise_descriptors);
                tokio::spawn(one(stream, protocol, device.clone()));
            }
            // Out of descriptors, most likely: others end.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn one(mut stream: TcpStream, protocol: Protocol, device: Arc<Device>) {
    let (target, answer): (_, Answer) = match protocol {
        Protocol::Socks => match timeout(PATIENCE, socks(&mut stream)).await {
            Ok(Ok(target)) => (target, |status| socks_reply(status).to_vec()),
            _ => return,
        },
        Protocol::Shim(token) => match timeout(PATIENCE, shim(&mut stream, &token)).await {
            Ok(Ok(target)) => (target, |status| vec![status.err().map_or(0, |r| r as u8)]),
            _ => return,
        },
    };
    device.carry(stream, target, answer).await;
}

async fn shim(stream: &mut TcpStream, token: &[u8; TOKEN]) -> io::Result<Target> {
    let mut greeting = [0; GREETING];
    stream.read_exact(&mut greeting).await?;
    let rest = &greeting[TOKEN..];
    let port = u16::from_be_bytes([rest[1], rest[2]]);
    let address: [u8; 16] = rest[3..].try_into().expect("the length is fixed");
    let ip = match rest[0] {
        4 => IpAddr::from(Ipv4Addr::from(
            <[u8; 4]>::try_from(&address[..4]).expect("the length is fixed"),
        )),
        6 => IpAddr::from(Ipv6Addr::from(address)).to_canonical(),
        _ => return Err(ErrorKind::InvalidData.into()),
    };
    match greeting[..TOKEN] == token[..] {
        true => Ok(Target::Address(ip, port)),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

/// What the client asks for. Refused requests are answered here.
async fn socks(stream: &mut TcpStream) -> io::Result<Target> {
    let refused = || io::Error::from(ErrorKind::InvalidData);
    let mut head = [0; 2];
    stream.read_exact(&mut head).await?;
    if head[0] != 5 {
        return Err(refused());
    }
    let mut methods = vec![0; usize::from(head[1])];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&0) {
        stream.write_all(&[5, 0xff]).await?;
        return Err(refused());
    }
    stream.write_all(&[5, 0]).await?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let [version, command, _, kind] = request;
    let place = match kind {
        1 => Some(IpAddr::from(read::<4>(stream).await?).to_string()),
        4 => Some(
            IpAddr::from(read::<16>(stream).await?)
                .to_canonical()
                .to_string(),
        ),
        3 => {
            let [length] = read::<1>(stream).await?;
            let mut name = vec![0; usize::from(length)];
            stream.read_exact(&mut name).await?;
            String::from_utf8(name).ok()
        }
        _ => None,
    };
    let port = u16::from_be_bytes(read(stream).await?);
    let target = place.and_then(|place| Target::name(&place, port).ok());
    let code = match (version, command, target) {
        (5, 1, Some(target)) => return Ok(target),
        (5, 1, None) => 8,
        _ => 7,
    };
    stream.write_all(&reply(code)).await?;
    Err(refused())
}

async fn read<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn socks_reply(status: Result<(), Refusal>) -> [u8; 10] {
    reply(match status {
        Ok(()) => 0,
        Err(Refusal::Forbidden | Refusal::UnknownKey) => 2,
        Err(Refusal::NetworkUnreachable) => 3,
        Err(Refusal::HostUnreachable | Refusal::NoSuchName) => 4,
        Err(Refusal::ConnectionRefused) => 5,
        Err(Refusal::TimedOut) => 6,
        Err(Refusal::Failed | Refusal::Busy) => 1,
    })
}

fn reply(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Bound to this host alone, at a port of the system's choice.
pub async fn private_listener() -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}
