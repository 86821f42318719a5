//! Where a flow leaves the relay: a socket of its own. Packets of a flow that have come together leave with one system call.

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use bytes::Bytes;
use nix::errno::Errno;
use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags};
use socket2::SockRef;

use super::echo::Request;
use super::ping::Ping;

/// Linux' UDP_MAX_SEGMENTS was 64 before 6.9.
const MOST_PACKETS: usize = 64;
/// Of a packet before it is divided, with its headers less than 64 KiB.
const MOST_BYTES: usize = 65_000;

pub enum Outlet {
    Udp(Udp),
    Echo(Arc<Ping>),
}

pub struct Udp {
    socket: Arc<tokio::net::UdpSocket>,
    /// Its interface can divide packets, as far as is known.
    divides: AtomicBool,
}

/// A router has said what fits, since the call before: the system knows it now, and sends what is longer in fragments.
pub fn is_of_path_mtu(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EMSGSIZE as i32)
}

impl Outlet {
    pub fn udp(socket: Arc<tokio::net::UdpSocket>) -> Outlet {
        let divides = AtomicBool::new(true);
        Outlet::Udp(Udp { socket, divides })
    }

    /// Packets that do not fit into the socket's buffer are lost.
    pub fn send(&self, packets: &[Bytes]) -> io::Result<()> {
        let Udp { socket, divides } = match self {
            Outlet::Udp(udp) => udp,
            Outlet::Echo(ping) => {
                let requests = packets.iter().filter_map(|packet| Request::decode(packet));
                return each(requests.map(|request| ping.send(&request)));
            }
        };
        // Past tokio, which does not know yet that a new socket can be written to.
        let one = |packet: &Bytes| SockRef::from(&**socket).send(packet).map(drop);
        let one = |packet: &Bytes| match one(packet) {
            Err(e) if is_of_path_mtu(&e) => one(packet),
            sent => sent,
        };
        match packets {
            [first, _, ..] if divides.load(Ordering::Relaxed) => {
                match send_divided(socket, first.len(), packets) {
                    Ok(()) => Ok(()),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
                    Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Err(e),
                    // Longer than the path's MTU, or over an interface that cannot.
                    Err(e) => {
                        let can = e.raw_os_error() != Some(Errno::EIO as i32);
                        divides.store(can, Ordering::Relaxed);
                        each(packets.iter().map(one))
                    }
                }
            }
            _ => each(packets.iter().map(one)),
        }
    }
}

/// All of them, and the first error: it may be of an earlier packet, and keeps back none of those that follow.
fn each(sent: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    sent.fold(Ok(()), io::Result::and)
}

/// As one packet, which the system or the network card divides (UDP_SEGMENT, udp(7)).
fn send_divided(socket: &impl AsRawFd, each: usize, packets: &[Bytes]) -> io::Result<()> {
    let slices: Vec<_> = packets.iter().map(|packet| IoSlice::new(packet)).collect();
    let each = u16::try_from(each).map_err(io::Error::other)?;
    let control = [ControlMessage::UdpGsoSegments(&each)];
    let flags = MsgFlags::MSG_DONTWAIT;
    sendmsg::<()>(socket.as_raw_fd(), &slices, &control, flags, None)?;
    Ok(())
}

/// Packets of one flow that leave together: all of one length, but the last, which may be shorter.
#[derive(Debug, Default)]
pub struct Burst {
    flow: u32,
    packets: Vec<Bytes>,
    bytes: usize,
}

impl Burst {
    /// Appends a packet. Returns the burst before it, with its flow, if the packet cannot be part of that.
    pub fn put(&mut self, flow: u32, packet: Bytes) -> Option<(u32, Vec<Bytes>)> {
        let fits = match (&self.packets[..], self.packets.last()) {
            ([first, ..], Some(last)) => {
                flow == self.flow
                    && last.len() == first.len()
                    && packet.len() <= first.len()
                    && !packet.is_empty()
                    && self.packets.len() < MOST_PACKETS
                    && self.bytes + packet.len() <= MOST_BYTES
            }
            _ => true,
        };
        let before = if fits { None } else { self.take() };
        self.flow = flow;
        self.bytes += packet.len();
        self.packets.push(packet);
        before
    }

    pub fn take(&mut self) -> Option<(u32, Vec<Bytes>)> {
        self.bytes = 0;
        let packets = std::mem::take(&mut self.packets);
        (!packets.is_empty()).then_some((self.flow, packets))
    }
}
