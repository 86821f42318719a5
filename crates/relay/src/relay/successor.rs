//! A relay that goes on in another process, of a newer version perhaps: the successor has its sockets, and knows which
//! flows stay with the predecessor until they end.
//!
//! The successor's stdin is a Unix socket. Over it come the sockets; the successor says that it is ready; then come the
//! flows; and its end is the predecessor's.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{listen, FlowId};
use crate::datagram;
use crate::wire::ID_LENGTH;
use crate::Error;

/// A successor that is not ready by then is ended.
const READY: Duration = Duration::from_secs(30);
/// What comes with the sockets, and what a successor says when it is ready.
const VERSION: u8 = 1;
const SOCKETS: usize = 2;
/// A device, a session, a flow, and what became of it.
const RECORD: usize = ID_LENGTH + 16 + 8 + 1;

/// What a relay listens on.
#[derive(Debug)]
pub struct Sockets {
    pub(super) tcp: TcpListener,
    /// Of the datagram lane: there may be no UDP port.
    pub(super) udp: Result<UdpSocket, String>,
}

impl Sockets {
    pub fn bind(address: SocketAddr) -> Result<Sockets, Error> {
        let tcp = listen(address)?;
        let local = local(&tcp)?;
        let udp = datagram::relay::bind(local).map_err(|e| e.to_string());
        Ok(Sockets { tcp, udp })
    }

    pub fn address(&self) -> Result<SocketAddr, Error> {
        local(&self.tcp)
    }
}

fn local(tcp: &TcpListener) -> Result<SocketAddr, Error> {
    tcp.local_addr().map_err(|e| Error::failed("listener", e))
}

/// Flows that are not for a successor.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// They stay with the predecessor.
    pub open: Vec<FlowId>,
    /// As in [`super::Flows`].
    pub ended: Vec<(FlowId, bool)>,
}

const OPEN: u8 = 2;

/// The process that goes on.
#[derive(Debug)]
pub struct Successor {
    stream: UnixStream,
    pid: u32,
}

impl Successor {
    /// Starts the command, and waits until it is ready. It is ended if it is not.
    pub async fn start(mut command: Command, sockets: &Sockets) -> Result<Successor, Error> {
        let failed = |e: &dyn std::fmt::Display| Error::failed("no successor of the relay", e);
        let (ours, theirs) = StdUnixStream::pair().map_err(|e| failed(&e))?;
        send(&ours, sockets).map_err(|e| failed(&e))?;
        command.stdin(OwnedFd::from(theirs));
        let mut child = command.spawn().map_err(|e| failed(&e))?;
        // It held the successor's end.
        drop(command);
        let pid = child.id();
        let readiness = async {
            ours.set_nonblocking(true)?;
            let mut stream = UnixStream::from_std(ours)?;
            let version = stream.read_u8().await?;
            std::io::Result::Ok((version == VERSION).then_some(stream))
        };
        match timeout(READY, readiness).await {
            Ok(Ok(Some(stream))) => {
                // It outlives this process, unless it fails before.
                std::thread::spawn(move || child.wait());
                Ok(Successor { stream, pid })
            }
            Ok(Ok(None)) => Err(failed(&format!(
                "{}; its version does not fit",
                end(&mut child)
            ))),
            // Its own words say why.
            Ok(Err(_)) => Err(failed(&end(&mut child))),
            Err(_) => Err(failed(&format!(
                "{}; it was not ready within {READY:?}",
                end(&mut child)
            ))),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// From now on it accepts.
    pub(super) async fn tell(&mut self, kept: &Kept) -> std::io::Result<()> {
        let open = kept.open.iter().map(|id| (id, OPEN));
        let ended = kept.ended.iter().map(|(id, well)| (id, u8::from(*well)));
        let count = kept.open.len() + kept.ended.len();
        let mut text = Vec::with_capacity(4 + RECORD * count);
        text.extend((count as u32).to_be_bytes());
        for ((device, session, flow), fate) in open.chain(ended) {
            text.extend(device);
            text.extend(session);
            text.extend(flow.to_be_bytes());
            text.push(fate);
        }
        self.stream.write_all(&text).await
    }
}

/// How it ended, by itself or now.
fn end(child: &mut Child) -> String {
    let _ = child.kill();
    match child.wait() {
        Ok(status) => format!("it ended with {status}"),
        Err(e) => e.to_string(),
    }
}

fn send(stream: &StdUnixStream, sockets: &Sockets) -> rustix::io::Result<()> {
    let udp = sockets.udp.as_ref().map(AsFd::as_fd).ok();
    let all: Vec<BorrowedFd> = std::iter::once(sockets.tcp.as_fd()).chain(udp).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&all));
    let version = [IoSlice::new(&[VERSION])];
    sendmsg(stream, &version, &mut control, SendFlags::empty()).map(drop)
}

/// The process that was there before.
#[derive(Debug)]
pub struct Predecessor(UnixStream);

impl Predecessor {
    /// The one whose child this process is, and its sockets.
    pub fn of_stdin() -> Result<(Predecessor, Sockets), Error> {
        let failed = |e: &dyn std::fmt::Display| Error::failed("the relay before this one", e);
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        let stream = StdUnixStream::from(stdin.map_err(|e| failed(&e))?);
        let sockets = receive(&stream).map_err(|e| failed(&e))?;
        let sockets = sockets.ok_or_else(|| failed(&"it is of a version that does not fit"))?;
        let stream = stream.set_nonblocking(true).map(|()| stream);
        let stream = stream.and_then(UnixStream::from_std);
        Ok((Predecessor(stream.map_err(|e| failed(&e))?), sockets))
    }

    /// Lets it hand over.
    pub(super) async fn take_over(&mut self) -> std::io::Result<Kept> {
        self.0.write_u8(VERSION).await?;
        let mut kept = Kept::default();
        for _ in 0..self.0.read_u32().await? {
            let mut record = [0; RECORD];
            self.0.read_exact(&mut record).await?;
            match parse(&record) {
                (id, OPEN) => kept.open.push(id),
                (id, well) => kept.ended.push((id, well == 1)),
            }
        }
        Ok(kept)
    }

    /// Until it has ended, and with it all of its flows.
    pub(super) async fn ended(mut self) {
        let _ = self.0.read_u8().await;
    }
}

fn parse(record: &[u8; RECORD]) -> (FlowId, u8) {
    fn part<const N: usize>(record: &[u8], from: usize) -> [u8; N] {
        std::array::from_fn(|i| record[from + i])
    }
    let flow = u64::from_be_bytes(part(record, ID_LENGTH + 16));
    let id = (part(record, 0), part(record, ID_LENGTH), flow);
    (id, record[RECORD - 1])
}

fn receive(stream: &StdUnixStream) -> rustix::io::Result<Option<Sockets>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut version = [0];
    let mut into = [IoSliceMut::new(&mut version)];
    recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut sockets = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => sockets.collect(),
        _ => Vec::new(),
    });
    let (tcp, udp) = (sockets.next(), sockets.next());
    drop(sockets);
    let udp = udp.ok_or_else(|| "the relay before this one has none".to_owned());
    Ok(tcp.filter(|_| version == [VERSION]).map(|tcp| Sockets {
        tcp: tcp.into(),
        udp: udp.map(Into::into),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_and_flows_arrive_as_they_were() {
        let (before, after) = StdUnixStream::pair().unwrap();
        let sockets = Sockets::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        send(&before, &sockets).unwrap();
        let inherited = receive(&after).unwrap().unwrap();
        assert_eq!(inherited.address().unwrap(), sockets.address().unwrap());
        let port = |sockets: &Sockets| sockets.udp.as_ref().unwrap().local_addr().unwrap();
        assert_eq!(port(&inherited), port(&sockets));

        for end in [&before, &after] {
            end.set_nonblocking(true).unwrap();
        }
        let mut successor = Successor {
            stream: UnixStream::from_std(before).unwrap(),
            pid: 0,
        };
        let mut predecessor = Predecessor(UnixStream::from_std(after).unwrap());
        let flow = |n: u8| ([n; ID_LENGTH], [n + 1; 16], u64::from(n) << 56 | 2);
        let kept = Kept {
            open: vec![flow(1), flow(2)],
            ended: vec![(flow(3), true), (flow(4), false)],
        };
        successor.tell(&kept).await.unwrap();
        assert_eq!(predecessor.take_over().await.unwrap(), kept);
        drop(successor);
        predecessor.ended().await;
    }

    #[tokio::test]
    async fn a_command_that_is_no_relay_does_not_take_over() {
        let sockets = Sockets::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        for command in ["false", "/nonexistent"] {
            let started = Successor::start(Command::new(command), &sockets).await;
            let told = started.unwrap_err().to_string();
            assert!(told.starts_with("no successor of the relay: "), "{told}");
        }
    }
}
