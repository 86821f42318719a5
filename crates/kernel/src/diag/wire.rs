//! Messages of sock_diag (`include/uapi/linux/inet_diag.h`, `netlink.h`). Members have the kernel's names.

use std::io;
use std::net::{IpAddr, SocketAddr};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
pub const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_REQ_PROTOCOL: u16 = 3;

/// `struct nlmsghdr`
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Header {
    nlmsg_len: u32,
    nlmsg_type: u16,
    nlmsg_flags: u16,
    nlmsg_seq: u32,
    nlmsg_pid: u32,
}

/// `struct inet_diag_sockid`
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct SocketId {
    /// Ports are in network byte order.
    idiag_sport: [u8; 2],
    idiag_dport: [u8; 2],
    /// Of which IPv4 takes the first four.
    idiag_src: [u8; 16],
    idiag_dst: [u8; 16],
    idiag_if: u32,
    idiag_cookie: [u32; 2],
}

impl SocketId {
    pub fn cookie(&self) -> u64 {
        let [low, high] = self.idiag_cookie.map(u64::from);
        low | high << 32
    }
}

/// `struct inet_diag_req_v2`
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Request {
    sdiag_family: u8,
    sdiag_protocol: u8,
    idiag_ext: u8,
    pad: u8,
    idiag_states: u32,
    id: SocketId,
}

/// `struct inet_diag_msg`
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Message {
    idiag_family: u8,
    idiag_state: u8,
    idiag_timer: u8,
    idiag_retrans: u8,
    pub id: SocketId,
    idiag_expires: u32,
    idiag_rqueue: u32,
    idiag_wqueue: u32,
    idiag_uid: u32,
    idiag_inode: u32,
}

impl Message {
    pub fn local(&self) -> SocketAddr {
        self.address(self.id.idiag_src, self.id.idiag_sport)
    }

    pub fn remote(&self) -> SocketAddr {
        self.address(self.id.idiag_dst, self.id.idiag_dport)
    }

    /// An IPv4 address within an IPv6 one, as sockets for both see their peers, is IPv4's.
    fn address(&self, address: [u8; 16], port: [u8; 2]) -> SocketAddr {
        let [a, b, c, d, ..] = address;
        let ip = match i32::from(self.idiag_family) {
            libc::AF_INET => IpAddr::from([a, b, c, d]),
            _ => IpAddr::from(address).to_canonical(),
        };
        SocketAddr::new(ip, u16::from_be_bytes(port))
    }
}

/// `struct nlattr`
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Attribute {
    nla_len: u16,
    nla_type: u16,
}

/// What sockets of the protocol in these states are asked.
pub fn request(family: libc::c_int, protocol: libc::c_int, states: u32) -> Vec<u8> {
    let mut request = Request::new_zeroed();
    request.sdiag_family = family as u8;
    request.sdiag_protocol = u8::try_from(protocol).unwrap_or(libc::IPPROTO_RAW as u8);
    request.idiag_ext = 1 << (INET_DIAG_INFO - 1);
    request.idiag_states = states;
    let mut attributes = Vec::new();
    if u8::try_from(protocol).is_err() {
        // The number has outgrown its field.
        let attribute = Attribute {
            nla_len: (size_of::<Attribute>() + size_of::<u32>()) as u16,
            nla_type: INET_DIAG_REQ_PROTOCOL,
        };
        attributes.extend_from_slice(attribute.as_bytes());
        attributes.extend_from_slice((protocol as u32).as_bytes());
    }
    let mut header = Header::new_zeroed();
    let length = size_of::<Header>() + size_of::<Request>() + attributes.len();
    header.nlmsg_len = length as u32;
    header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    header.nlmsg_flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    [header.as_bytes(), request.as_bytes(), &attributes].concat()
}

/// One datagram of the answer; whether it was the last.
pub fn read(mut datagram: &[u8], take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
    while let Ok((header, _)) = Header::read_from_prefix(datagram) {
        let length = (header.nlmsg_len as usize).clamp(size_of::<Header>(), datagram.len());
        let body = &datagram[size_of::<Header>()..length];
        let error = || i32::read_from_prefix(body).map_or(0, |(errno, _)| -errno);
        match i32::from(header.nlmsg_type) {
            // A dump that fails ends so as well.
            libc::NLMSG_DONE | libc::NLMSG_ERROR if error() > 0 => {
                return Err(io::Error::from_raw_os_error(error()))
            }
            libc::NLMSG_DONE => return Ok(true),
            _ => take(body),
        }
        datagram = &datagram[length.next_multiple_of(4).min(datagram.len())..];
    }
    Ok(false)
}

/// The value of the first attribute of a type.
pub fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    const NESTED: u16 = 1 << 15;
    while let Ok((header, _)) = Attribute::read_from_prefix(attributes) {
        let length = usize::from(header.nla_len).clamp(size_of::<Attribute>(), attributes.len());
        if header.nla_type & !NESTED == wanted {
            return Some(&attributes[size_of::<Attribute>()..length]);
        }
        attributes = &attributes[length.next_multiple_of(4).min(attributes.len())..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{assert_matches, layout_of};

    #[test]
    fn structs_match_the_layout_in_c() {
        let header = layout_of!(
            Header: nlmsg_len, nlmsg_type, nlmsg_flags, nlmsg_seq, nlmsg_pid
        );
        let id = layout_of!(
            SocketId: idiag_sport, idiag_dport, idiag_src, idiag_dst, idiag_if, idiag_cookie
        );
        let request = layout_of!(
            Request: sdiag_family, sdiag_protocol, idiag_ext, pad, idiag_states, id
        );
        let message = layout_of!(
            Message: idiag_family, idiag_state, idiag_timer, idiag_retrans, id, idiag_expires, idiag_rqueue,
            idiag_wqueue, idiag_uid, idiag_inode
        );
        assert_matches(
            &["linux/netlink.h", "linux/inet_diag.h"],
            &[
                ("nlmsghdr", header),
                ("inet_diag_sockid", id),
                ("inet_diag_req_v2", request),
                ("inet_diag_msg", message),
                ("nlattr", layout_of!(Attribute: nla_len, nla_type)),
            ],
        );
    }

    #[test]
    fn an_address_is_of_the_family_that_it_means() {
        let mut message = Message::new_zeroed();
        message.id.idiag_sport = [1, 2];
        let mut found = |family: libc::c_int, address: [u8; 16]| {
            message.idiag_family = family as u8;
            message.id.idiag_src = address;
            message.local().to_string()
        };
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[10, 0, 0, 7]);
        assert_eq!(found(libc::AF_INET, address), "10.0.0.7:258");
        assert_eq!(found(libc::AF_INET6, address), "[a00:7::]:258");
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[255, 255, 10, 0, 0, 7]);
        assert_eq!(found(libc::AF_INET6, mapped), "10.0.0.7:258");
    }
}
