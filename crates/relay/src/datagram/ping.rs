//! The relay's end of an echo flow: requests go out of a socket of its own, and replies and ICMP errors come back through it.
//! Unprivileged where `net.ipv4.ping_group_range` permits, else raw, which takes CAP_NET_RAW.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type};
use nix::cmsg_space;
use nix::libc::{sock_extended_err, sockaddr_in6, SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6};
use nix::sys::socket::{
    recvmsg, send, setsockopt, sockopt, ControlMessageOwned, MsgFlags, SockaddrStorage,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::echo::{Answer, Request};
use crate::carrier::with_scratch;
use crate::links::unspecified;

/// Of ICMP's header.
const HEADER: usize = 8;
const REPLIES: [u8; 2] = [0, 129];

pub struct Ping {
    /// Any socket of datagrams is one to tokio.
    socket: UdpSocket,
    target: IpAddr,
    /// A raw socket hears what others have asked too.
    raw: bool,
    identifier: u16,
}

impl Ping {
    pub fn open(target: IpAddr) -> io::Result<Ping> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let (domain, protocol) = match target {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let (socket, raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                (Socket::new(domain, Type::RAW, Some(protocol))?, true)
            }
            Err(e) => return Err(e),
        };
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::new(unspecified(target), 0).into())?;
        socket.connect(&SocketAddr::new(target, 0).into())?;
        match target {
            IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?,
            IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?,
        }
        Ok(Ping {
            socket: UdpSocket::from_std(socket.into())?,
            target,
            raw,
            identifier: NEXT.fetch_add(1, Ordering::Relaxed),
        })
    }

    pub fn send(&self, request: &Request) -> io::Result<()> {
        let fd = &self.socket;
        let hops = i32::from(request.hop_limit);
        let echo = IcmpEchoHeader {
            id: self.identifier,
            seq: request.sequence,
        };
        let mut message = match self.target {
            IpAddr::V4(_) => {
                setsockopt(fd, sockopt::Ipv4Ttl, &hops)?;
                let request_of = Icmpv4Type::EchoRequest(echo);
                Icmpv4Header::with_checksum(request_of, request.data)
                    .to_bytes()
                    .to_vec()
            }
            // The kernel has the addresses that its checksum covers.
            IpAddr::V6(_) => {
                setsockopt(fd, sockopt::Ipv6Ttl, &hops)?;
                Icmpv6Header::new(Icmpv6Type::EchoRequest(echo))
                    .to_bytes()
                    .to_vec()
            }
        };
        message.extend_from_slice(request.data);
        let send = || send(fd.as_raw_fd(), &message, MsgFlags::empty());
        // The first may tell of an ICMP error of before instead, which the queue has too.
        send().or_else(|_| send())?;
        Ok(())
    }

    /// What the device gets next; an error where the socket is of no more use.
    pub async fn answer(&self) -> io::Result<Vec<u8>> {
        let ways = [
            (Interest::ERROR, MsgFlags::MSG_ERRQUEUE),
            (Interest::READABLE, MsgFlags::empty()),
        ];
        loop {
            let ready = Interest::READABLE | Interest::ERROR;
            self.socket.ready(ready).await?;
            for (interest, flags) in ways {
                let receive = || {
                    with_scratch(|buffer| {
                        let answer = self.receive(flags, buffer)?;
                        Ok(answer.map(|answer| answer.encode()))
                    })
                };
                // An error is one that the queue tells of.
                if let Ok(Some(answer)) = self.socket.try_io(interest, receive) {
                    return Ok(answer);
                }
            }
        }
    }

    fn receive<'a>(&self, flags: MsgFlags, buffer: &'a mut [u8]) -> io::Result<Option<Answer<'a>>> {
        let mut control = cmsg_space!(sock_extended_err, sockaddr_in6);
        let fd = self.socket.as_raw_fd();
        let (count, error) = {
            let mut parts = [IoSliceMut::new(buffer)];
            let got = recvmsg::<SockaddrStorage>(
                fd,
                &mut parts,
                Some(&mut control),
                flags | MsgFlags::MSG_DONTWAIT,
            )?;
            (got.bytes, got.cmsgs()?.find_map(error))
        };
        let message = &buffer[..count];
        Ok(match (flags.contains(MsgFlags::MSG_ERRQUEUE), error) {
            (true, Some((error, router))) => self.error(message, &error, router),
            (true, None) => None,
            (false, _) => self.reply(message),
        })
    }

    fn reply<'a>(&self, mut message: &'a [u8]) -> Option<Answer<'a>> {
        if self.raw && self.target.is_ipv4() {
            let header = usize::from(message.first()? & 15) * 4;
            message = message.get(header..)?;
        }
        let (header, data) = message.split_at_checked(HEADER)?;
        let sequence = self.sequence(header)?;
        REPLIES
            .contains(&header[0])
            .then_some(Answer::Reply { sequence, data })
    }

    /// `quoted` begins with the request's own header.
    fn error<'a>(
        &self,
        quoted: &[u8],
        error: &sock_extended_err,
        router: Option<IpAddr>,
    ) -> Option<Answer<'a>> {
        let icmp = [SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6].contains(&error.ee_origin);
        Some(Answer::Error {
            sequence: self.sequence(quoted.get(..HEADER)?)?,
            kind: error.ee_type,
            code: error.ee_code,
            information: error.ee_info.to_be_bytes(),
            router: router.filter(|_| icmp)?,
        })
    }

    /// Unless it is of somebody else. An unprivileged socket has an identifier that the kernel has chosen, and hears its own.
    fn sequence(&self, header: &[u8]) -> Option<u16> {
        let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        (!self.raw || field(4) == self.identifier).then(|| field(6))
    }
}

fn error(control: ControlMessageOwned) -> Option<(sock_extended_err, Option<IpAddr>)> {
    match control {
        ControlMessageOwned::Ipv4RecvErr(error, from) => {
            let router = from.map(|a| Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr)).into());
            Some((error, router))
        }
        ControlMessageOwned::Ipv6RecvErr(error, from) => {
            let router = from.map(|a| Ipv6Addr::from(a.sin6_addr.s6_addr).into());
            Some((error, router))
        }
        _ => None,
    }
}
