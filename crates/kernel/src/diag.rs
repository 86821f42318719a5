//! Every MPTCP subflow of a network namespace as `ss -ti` has it (sock_diag, `include/uapi/linux/inet_diag.h`): also those
//! of connections older than this process, and with what the receiving end counts.

mod wire;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use zerocopy::FromBytes;

use crate::error::{Context, Error};
use crate::fallback::{Fallback, Why};
use crate::mptcp_info::{MptcpInfo, TcpInfo};
use crate::prefix::prefix;
use wire::{attribute, read, request, Message, INET_DIAG_INFO};

const TCP_ESTABLISHED: u32 = 1;
const TCP_LISTEN: u32 = 10;
const INET_DIAG_ULP_INFO: u16 = 19;
const INET_ULP_INFO_MPTCP: u16 = 3;

/// An established subflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subflow {
    /// Of its connection at this end, unique within the namespace.
    pub token: u32,
    /// Unlike any other socket's since boot.
    pub cookie: u64,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Either end asked that it carry nothing while another subflow can.
    pub backup: bool,
    pub tcp: TcpInfo,
    /// Of its connection: bytes of the stream that came in order, and those of ours that the peer has in order. Only
    /// differences say something. Known where a connection has several subflows (what one alone brings is in order) and
    /// the kernel tells (`CONFIG_INET_MPTCP_DIAG`).
    pub stream: Option<u64>,
}

/// Asks for the subflows of the namespace that the calling thread was in at [`Diag::new`]. Needs CAP_NET_ADMIN.
pub struct Diag {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// The kernel tells of connections, as far as is known.
    tells_streams: bool,
}

impl Diag {
    pub fn new() -> Result<Diag, Error> {
        // SAFETY: plain system call.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                libc::NETLINK_SOCK_DIAG,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error()).context("sock_diag");
        }
        Ok(Diag {
            // SAFETY: just opened.
            socket: unsafe { OwnedFd::from_raw_fd(fd) },
            buffer: vec![0; 1 << 17],
            tells_streams: true,
        })
    }

    /// Those of connections that are MPTCP, as far as subflows show it ([`Diag::fallbacks`] knows more).
    pub fn subflows(&mut self) -> Result<Vec<Subflow>, Error> {
        let all = self.established().context("sock_diag")?;
        let live = all.into_iter().filter(|(_, why)| why.is_none());
        let mut found: Vec<Subflow> = live.map(|(subflow, _)| subflow).collect();
        self.add_streams(&mut found).context("sock_diag")?;
        Ok(found)
    }

    /// Connections of sockets that are MPTCP's, and that are plain TCP all the same.
    pub fn fallbacks(&mut self) -> Result<Vec<Fallback>, Error> {
        let all = self.established().context("sock_diag")?;
        let mut answered = HashSet::new();
        self.connections(&mut |info| {
            if info.fallback() && info.remote_key() {
                answered.insert(info.token);
            }
        })
        .context("sock_diag")?;
        let fallback = |(subflow, why): (Subflow, Option<Why>)| {
            let why = match answered.contains(&subflow.token) {
                true => Why::OptionsLost,
                false => why?,
            };
            Some(Fallback {
                local: subflow.local,
                remote: subflow.remote,
                why,
            })
        };
        Ok(all.into_iter().filter_map(fallback).collect())
    }

    /// Subflows, each with why it is plain TCP where it shows that.
    fn established(&mut self) -> io::Result<Vec<(Subflow, Option<Why>)>> {
        let mut found = Vec::new();
        let states = 1 << TCP_ESTABLISHED;
        self.ask(libc::IPPROTO_TCP, states, &mut |body| {
            found.extend(parse(body));
        })?;
        Ok(found)
    }

    /// Nothing where the kernel tells nothing of connections.
    fn connections(&mut self, take: &mut dyn FnMut(MptcpInfo)) -> io::Result<()> {
        if !self.tells_streams {
            return Ok(());
        }
        // Subflows outlive the states in which their connection is established.
        let states = !(1 << TCP_LISTEN);
        let asked = self.ask(libc::IPPROTO_MPTCP, states, &mut |body| {
            if let Some(info) = parse_connection(body) {
                take(info);
            }
        });
        match asked {
            // Each question would have the kernel look for a module again.
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {
                self.tells_streams = false;
                Ok(())
            }
            asked => asked,
        }
    }

    fn add_streams(&mut self, found: &mut [Subflow]) -> io::Result<()> {
        let mut tokens = HashSet::new();
        let shared = found.iter().any(|s| !tokens.insert(s.token));
        if !shared {
            return Ok(());
        }
        let mut streams = HashMap::new();
        self.connections(&mut |info| {
            streams.insert(info.token, info.rcv_nxt.wrapping_add(info.snd_una));
        })?;
        for subflow in found {
            subflow.stream = streams.get(&subflow.token).copied();
        }
        Ok(())
    }

    /// About sockets of the protocol in these states.
    fn ask(
        &mut self,
        protocol: libc::c_int,
        states: u32,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.dump(&request(family, protocol, states), take)?;
        }
        Ok(())
    }

    fn dump(&mut self, request: &[u8], take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        // SAFETY: pointer and length of the request.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                request.as_ptr().cast(),
                request.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        loop {
            // SAFETY: pointer and length of the buffer.
            let length = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    0,
                )
            };
            if length < 0 {
                match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => continue,
                    e => return Err(e),
                }
            }
            if read(&self.buffer[..length as usize], take)? {
                return Ok(());
            }
        }
    }
}

/// `struct inet_diag_msg` of a connection.
fn parse_connection(body: &[u8]) -> Option<MptcpInfo> {
    let (_, attributes) = Message::read_from_prefix(body).ok()?;
    attribute(attributes, INET_DIAG_INFO).map(prefix)
}

/// `struct inet_diag_msg` with its attributes; `None` where the socket is no MPTCP subflow.
fn parse(body: &[u8]) -> Option<(Subflow, Option<Why>)> {
    let (message, attributes) = Message::read_from_prefix(body).ok()?;
    let ulp = attribute(attributes, INET_DIAG_ULP_INFO)?;
    let mptcp = attribute(ulp, INET_ULP_INFO_MPTCP)?;
    // MPTCP_SUBFLOW_ATTR_TOKEN_LOC, _FLAGS (include/uapi/linux/mptcp.h)
    let number = |kind| Some(u32::read_from_prefix(attribute(mptcp, kind)?).ok()?.0);
    let token = number(2)?;
    let flags = number(8).unwrap_or(0);
    const CAPABLE_REMOTE: u32 = 1;
    const CAPABLE_LOCAL: u32 = 1 << 1;
    const JOIN: u32 = 1 << 2 | 1 << 3;
    const BACKUP: u32 = 1 << 4 | 1 << 5;
    let why = match () {
        () if flags & (JOIN | CAPABLE_REMOTE) != 0 => None,
        () if flags & CAPABLE_LOCAL != 0 => Some(Why::NoAnswer),
        () => Some(Why::SynLost),
    };
    let subflow = Subflow {
        token,
        cookie: message.id.cookie(),
        local: message.local(),
        remote: message.remote(),
        backup: flags & BACKUP != 0,
        tcp: prefix::<TcpInfo>(attribute(attributes, INET_DIAG_INFO)?),
        stream: None,
    };
    Some((subflow, why))
}
