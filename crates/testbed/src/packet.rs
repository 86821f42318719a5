//! Raw frames from and to one interface (packet(7)), with the kernel's time of arrival: an emulator that wakes up late on
//! a busy machine still knows when each packet came.

use std::io;
use std::mem::{size_of, zeroed};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use etherparse::{IpNumber, Ipv4HeaderSlice, TcpHeaderSlice};

use crate::path::Packet;

const ETHERNET: usize = 14;
const BATCH: usize = 32;
/// Largest frame on a veth pair whose offloads are off.
const FRAME: usize = 2048;
/// Bytes of an IP packet.
pub const LARGEST_PACKET: usize = FRAME - ETHERNET;
/// Holds a burst of some thousand packets while the emulator waits for a CPU.
const RECEIVE_BUFFER: libc::c_int = 32 << 20;
/// In the frame, of what is rewritten.
const TOS: usize = ETHERNET + 1;
const IP_CHECKSUM: usize = ETHERNET + 10;
/// In the TCP header.
const TCP_CHECKSUM: usize = 16;
const TCP_OPTIONS: usize = 20;
const MPTCP_OPTION: u8 = 30;
/// Subtype, RFC 8684 section 3.3.8.
const MP_PRIO: u8 = 5;

pub type Mac = [u8; 6];

/// An Ethernet frame that holds an IPv4 packet.
#[derive(Debug)]
pub struct Frame(Vec<u8>);

#[cfg(test)]
impl Frame {
    pub fn of(bytes: Vec<u8>) -> Frame {
        Frame(bytes)
    }
}

/// A TCP option, and where it is in the frame.
struct TcpOption {
    kind: u8,
    bytes: Range<usize>,
}

impl Frame {
    fn ip(&self) -> Option<Ipv4HeaderSlice<'_>> {
        Ipv4HeaderSlice::from_slice(&self.0[ETHERNET..]).ok()
    }

    /// 0.0.0.0, which no host has, where it is not IPv4.
    pub fn source(&self) -> [u8; 4] {
        self.ip().map_or([0; 4], |ip| ip.source())
    }

    /// As [`Frame::source`].
    pub fn destination(&self) -> [u8; 4] {
        self.ip().map_or([0; 4], |ip| ip.destination())
    }

    pub fn readdress(&mut self, from: Mac, to: Mac) {
        self.0[..6].copy_from_slice(&to);
        self.0[6..12].copy_from_slice(&from);
    }

    /// Where the TCP header is in the frame.
    fn tcp(&self) -> Option<Range<usize>> {
        let ip = self.ip().filter(|ip| ip.protocol() == IpNumber::TCP)?;
        let start = ETHERNET + ip.slice().len();
        let tcp = TcpHeaderSlice::from_slice(self.0.get(start..)?).ok()?;
        Some(start..start + tcp.slice().len())
    }

    /// Bytes that the packet carries for the application.
    pub fn payload(&self) -> u64 {
        let total = self.ip().map_or(0, |ip| usize::from(ip.total_len()));
        let tcp = self.tcp();
        tcp.map_or(0, |tcp| (ETHERNET + total).saturating_sub(tcp.end) as u64)
    }

    /// Whether a TCP packet has a Multipath TCP option.
    pub fn has_mptcp(&self) -> bool {
        self.mptcp_options().next().is_some()
    }

    /// Whether it tells the other end of a subflow's priority (MP_PRIO).
    pub fn tells_priority(&self) -> bool {
        let subtype = |option: Range<usize>| self.0[option].get(2).map(|byte| byte >> 4);
        self.mptcp_options()
            .any(|option| subtype(option) == Some(MP_PRIO))
    }

    /// Where they are in the frame.
    fn mptcp_options(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mptcp = self.options().filter(|option| option.kind == MPTCP_OPTION);
        mptcp.map(|option| option.bytes)
    }

    /// TCP options. Those of etherparse end before the first that it does not know, such as MPTCP's.
    fn options(&self) -> impl Iterator<Item = TcpOption> + '_ {
        let header = self.tcp().unwrap_or_default();
        let (mut at, end) = (header.start + TCP_OPTIONS, header.end);
        std::iter::from_fn(move || {
            let kind = *self.0.get(at).filter(|kind| at < end && **kind != 0)?;
            let length = match kind {
                1 => 1,
                _ => usize::from(*self.0.get(at + 1)?),
            };
            let bytes = at..at + length;
            at = bytes.end;
            (length > 0 && at <= end).then_some(TcpOption { kind, bytes })
        })
    }

    /// What a middlebox does that knows no Multipath TCP: its options become no-operations.
    pub fn strip_mptcp(&mut self) {
        let Some(Range { start, .. }) = self.tcp() else {
            return;
        };
        let found: Vec<_> = self.mptcp_options().collect();
        for at in found.into_iter().flatten() {
            self.replace(start + TCP_CHECKSUM, at, 1, (at - start) % 2 == 0);
        }
    }

    /// Sets one byte and updates the checksum at `sum` (RFC 1624); `high`: the byte is the first of its 16-bit word.
    fn replace(&mut self, sum: usize, at: usize, value: u8, high: bool) {
        let shift = if high { 8 } else { 0 };
        let (old, new) = (u32::from(self.0[at]) << shift, u32::from(value) << shift);
        let check = u32::from(u16::from_be_bytes([self.0[sum], self.0[sum + 1]]));
        let mut folded = (!check & 0xffff) + (!old & 0xffff) + new;
        while folded > 0xffff {
            folded = (folded & 0xffff) + (folded >> 16);
        }
        self.0[at] = value;
        self.0[sum..sum + 2].copy_from_slice(&(!folded as u16).to_be_bytes());
    }
}

impl Packet for Frame {
    fn size(&self) -> u64 {
        (self.0.len() - ETHERNET) as u64
    }

    /// RFC 3168 section 5
    fn mark(&mut self) -> bool {
        let old = self.0[TOS];
        if old & 3 == 0 {
            return false;
        }
        self.replace(IP_CHECKSUM, TOS, old | 3, false);
        true
    }
}

/// All IPv4 frames that come in on one interface.
pub struct PacketSocket {
    fd: OwnedFd,
    buffers: Box<[[u8; FRAME]; BATCH]>,
}

impl PacketSocket {
    /// `interface` is an index in the calling thread's network namespace.
    pub fn open(interface: u32) -> io::Result<PacketSocket> {
        // Of one protocol: such a socket, unlike one for all protocols, does not see what is sent.
        let protocol = (libc::ETH_P_IP as u16).to_be();
        // SAFETY: plain system calls on a descriptor that this function owns.
        unsafe {
            let fd = libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
                0,
            );
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = OwnedFd::from_raw_fd(fd);
            set(&fd, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)?;
            set(&fd, libc::SO_TIMESTAMPNS, 1)?;
            let mut address: libc::sockaddr_ll = zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            address.sll_ifindex = interface as i32;
            let length = size_of::<libc::sockaddr_ll>() as u32;
            if libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(PacketSocket {
                fd,
                buffers: Box::new([[0; FRAME]; BATCH]),
            })
        }
    }

    /// Frames that wait, each with its age; fewer than a full batch means that there are no more.
    pub fn receive(&mut self, frames: &mut Vec<(Duration, Frame)>) -> io::Result<bool> {
        const CONTROL: usize = 64;
        let mut control = [[0u64; CONTROL / 8]; BATCH];
        // SAFETY: the structures below are plain data; every pointer in them is to memory that outlives the call, and
        // the kernel states how much of it it wrote.
        unsafe {
            let mut vectors: [libc::iovec; BATCH] = zeroed();
            let mut messages: [libc::mmsghdr; BATCH] = zeroed();
            for i in 0..BATCH {
                vectors[i] = libc::iovec {
                    iov_base: self.buffers[i].as_mut_ptr().cast(),
                    iov_len: FRAME,
                };
                let header = &mut messages[i].msg_hdr;
                header.msg_iov = &mut vectors[i];
                header.msg_iovlen = 1;
                header.msg_control = control[i].as_mut_ptr().cast();
                header.msg_controllen = CONTROL;
            }
            let fd = self.fd.as_raw_fd();
            let n = libc::recvmmsg(
                fd,
                messages.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            );
            if n < 0 {
                let e = io::Error::last_os_error();
                return if e.kind() == io::ErrorKind::WouldBlock {
                    Ok(false)
                } else {
                    Err(e)
                };
            }
            let mut now: libc::timespec = zeroed();
            libc::clock_gettime(libc::CLOCK_REALTIME, &mut now);
            for (message, buffer) in messages[..n as usize].iter().zip(self.buffers.iter()) {
                let bytes = &buffer[..message.msg_len as usize];
                let complete = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
                if complete && bytes.len() >= ETHERNET + 20 {
                    frames.push((age(&message.msg_hdr, &now), Frame(bytes.to_vec())));
                }
            }
            Ok(n as usize == BATCH)
        }
    }

    pub fn send(&self, frame: &Frame) -> io::Result<()> {
        // SAFETY: the buffer is valid for its length.
        let n = unsafe {
            libc::send(
                self.fd.as_raw_fd(),
                frame.0.as_ptr().cast(),
                frame.0.len(),
                0,
            )
        };
        if n < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Frames that came while the receive buffer was full, since the last call.
    pub fn overflows(&self) -> u32 {
        // SAFETY: the kernel writes at most `length` bytes.
        unsafe {
            let mut stats: libc::tpacket_stats = zeroed();
            let mut length = size_of::<libc::tpacket_stats>() as u32;
            let fd = self.fd.as_raw_fd();
            let at = (&raw mut stats).cast();
            match libc::getsockopt(
                fd,
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                at,
                &mut length,
            ) {
                0 => stats.tp_drops,
                _ => 0,
            }
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// # Safety
/// `header` is as recvmsg(2) left it.
unsafe fn age(header: &libc::msghdr, now: &libc::timespec) -> Duration {
    let ns = |t: &libc::timespec| i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec);
    // SAFETY: as the function's; the control message says its type.
    let stamp = unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        if message.is_null() || (*message).cmsg_type != libc::SCM_TIMESTAMPNS {
            return Duration::ZERO;
        }
        libc::CMSG_DATA(message)
            .cast::<libc::timespec>()
            .read_unaligned()
    };
    Duration::from_nanos(u64::try_from(ns(now) - ns(&stamp)).unwrap_or(0))
}

fn set(fd: &OwnedFd, option: i32, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as u32;
    // SAFETY: the value is valid for its length.
    match unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            length,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ones' complement sum over 16-bit words: 0xffff over a header or segment whose checksum is right.
    fn sum(bytes: &[u8]) -> u16 {
        let mut s: u32 = bytes
            .chunks(2)
            .map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)))
            .sum();
        while s > 0xffff {
            s = (s & 0xffff) + (s >> 16);
        }
        s as u16
    }

    /// A SYN with MSS, a no-operation, MP_CAPABLE and a window scale; its TCP checksum is over the segment alone.
    fn syn() -> Frame {
        let mut bytes = vec![0; ETHERNET];
        bytes.extend([
            0x45, 0x02, 0, 64, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        bytes.extend([
            0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0xb0, 2, 0xff, 0xff, 0, 0, 0, 0,
        ]);
        bytes.extend([
            2, 4, 5, 0xb4, 1, 30, 12, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 3, 7, 0, 0, 0, 0,
        ]);
        for (check, range) in [
            (ETHERNET + 10, ETHERNET..ETHERNET + 20),
            (ETHERNET + 36, ETHERNET + 20..ETHERNET + 64),
        ] {
            let value = !sum(&bytes[range]);
            bytes[check..check + 2].copy_from_slice(&value.to_be_bytes());
        }
        Frame(bytes)
    }

    #[test]
    fn stripping_leaves_other_options_and_a_right_checksum() {
        let mut frame = syn();
        frame.strip_mptcp();
        let options = &frame.0[ETHERNET + 40..ETHERNET + 64];
        let mut wanted = vec![2, 4, 5, 0xb4, 1];
        wanted.extend([1; 12]);
        wanted.extend([3, 3, 7, 0, 0, 0, 0]);
        assert_eq!(options, wanted);
        assert_eq!(sum(&frame.0[ETHERNET + 20..]), 0xffff);
    }

    #[test]
    fn a_priority_is_told_by_its_subtype() {
        let mut frame = syn();
        assert!(frame.has_mptcp() && !frame.tells_priority(), "MP_CAPABLE");
        frame.0[ETHERNET + 40 + 7] = 0x51;
        assert!(frame.tells_priority());
    }

    #[test]
    fn a_mark_keeps_the_header_checksum_right() {
        let mut frame = syn();
        assert!(frame.mark());
        assert_eq!(frame.0[ETHERNET + 1] & 3, 3);
        assert_eq!(sum(&frame.0[ETHERNET..ETHERNET + 20]), 0xffff);
        frame.0[ETHERNET + 1] = 0;
        assert!(!frame.mark());
    }

    #[test]
    fn the_payload_is_what_the_headers_leave() {
        assert_eq!(syn().payload(), 0);
        assert_eq!(syn().size(), 64);
    }
}
