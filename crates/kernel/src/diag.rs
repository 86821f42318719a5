//! Every MPTCP subflow of a network namespace as `ss -ti` has it (sock_diag, `include/uapi/linux/inet_diag.h`): also those
//! of connections older than this process, and with what the receiving end counts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::{Context, Error};
use crate::mptcp_info::TcpInfo;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const TCP_ESTABLISHED: u32 = 1;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_ULP_INFO: u16 = 19;
const INET_ULP_INFO_MPTCP: u16 = 3;
/// `struct nlmsghdr`, `struct inet_diag_req_v2`, `struct inet_diag_msg`, `struct nlattr`
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
const ATTRIBUTE: usize = 4;

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
}

/// Asks for the subflows of the namespace that the calling thread was in at [`Diag::new`]. Needs CAP_NET_ADMIN.
pub struct Diag {
    socket: OwnedFd,
    buffer: Vec<u8>,
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
        })
    }

    pub fn subflows(&mut self) -> Result<Vec<Subflow>, Error> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.dump(family as u8, &mut found).context("sock_diag")?;
        }
        Ok(found)
    }

    fn dump(&mut self, family: u8, found: &mut Vec<Subflow>) -> io::Result<()> {
        let mut request = [0u8; HEADER + REQUEST];
        request[..4].copy_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        request[6..8].copy_from_slice(&flags.to_ne_bytes());
        request[HEADER] = family;
        request[HEADER + 1] = libc::IPPROTO_TCP as u8;
        request[HEADER + 2] = 1 << (INET_DIAG_INFO - 1);
        request[HEADER + 4..HEADER + 8].copy_from_slice(&(1u32 << TCP_ESTABLISHED).to_ne_bytes());
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
            if read(&self.buffer[..length as usize], found)? {
                return Ok(());
            }
        }
    }
}

/// One datagram of the answer; whether it was the last.
fn read(mut datagram: &[u8], found: &mut Vec<Subflow>) -> io::Result<bool> {
    while datagram.len() >= HEADER {
        let length = (u32_at(datagram, 0) as usize).clamp(HEADER, datagram.len());
        let kind = i32::from(u16_at(datagram, 4));
        let body = &datagram[HEADER..length];
        match kind {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR if body.len() >= 4 => {
                return Err(io::Error::from_raw_os_error(-(u32_at(body, 0) as i32)))
            }
            _ => found.extend(parse(body)),
        }
        datagram = &datagram[length.next_multiple_of(4).min(datagram.len())..];
    }
    Ok(false)
}

/// `struct inet_diag_msg` with its attributes; `None` where the socket is no MPTCP subflow.
fn parse(body: &[u8]) -> Option<Subflow> {
    let (message, attributes) = body.split_at_checked(MESSAGE)?;
    let ulp = attribute(attributes, INET_DIAG_ULP_INFO)?;
    let mptcp = attribute(ulp, INET_ULP_INFO_MPTCP)?;
    // MPTCP_SUBFLOW_ATTR_TOKEN_LOC, _FLAGS (include/uapi/linux/mptcp.h)
    let token = attribute(mptcp, 2).filter(|v| v.len() >= 4)?;
    let flags = attribute(mptcp, 8)
        .filter(|v| v.len() >= 4)
        .map_or(0, |v| u32_at(v, 0));
    const BACKUP: u32 = 1 << 4 | 1 << 5;
    Some(Subflow {
        token: u32_at(token, 0),
        cookie: u64::from(u32_at(message, 44)) | u64::from(u32_at(message, 48)) << 32,
        local: address(message, 8, 4)?,
        remote: address(message, 24, 6)?,
        backup: flags & BACKUP != 0,
        tcp: tcp_info(attribute(attributes, INET_DIAG_INFO)?),
    })
}

fn address(message: &[u8], at: usize, port_at: usize) -> Option<SocketAddr> {
    let octets: [u8; 16] = message[at..at + 16].try_into().ok()?;
    let ip = match i32::from(message[0]) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
        _ => {
            let v6 = Ipv6Addr::from(octets);
            v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
        }
    };
    let port = u16::from_be_bytes(message[port_at..port_at + 2].try_into().ok()?);
    Some(SocketAddr::new(ip, port))
}

fn tcp_info(bytes: &[u8]) -> TcpInfo {
    let mut info = TcpInfo::default();
    let length = bytes.len().min(size_of::<TcpInfo>());
    // SAFETY: plain data, of which the first `length` bytes are written, for which any bits are a value.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut info).cast::<u8>(), length);
    }
    info
}

fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    const NESTED: u16 = 1 << 15;
    while attributes.len() >= ATTRIBUTE {
        let length = usize::from(u16_at(attributes, 0)).clamp(ATTRIBUTE, attributes.len());
        if u16_at(attributes, 2) & !NESTED == wanted {
            return Some(&attributes[ATTRIBUTE..length]);
        }
        attributes = &attributes[length.next_multiple_of(4).min(attributes.len())..];
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
