//! What a socket tells of itself: MPTCP_INFO, MPTCP_FULL_INFO and TCP_INFO (`include/uapi/linux/{mptcp,tcp}.h`).

use std::io;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use zerocopy::FromBytes;

const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;
const MPTCP_FULL_INFO: i32 = 4;

/// More than the kernel opens per connection (`MPTCP_SUBFLOWS_MAX` 8, fullmesh pairs included), so that none is missed.
const MOST_SUBFLOWS: usize = 64;

/// `struct mptcp_info`, the part that every kernel with MPTCP fills.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes)]
pub struct MptcpInfo {
    /// Subflows beyond the first.
    pub subflows: u8,
    pub add_addr_signal: u8,
    pub add_addr_accepted: u8,
    pub subflows_max: u8,
    pub add_addr_signal_max: u8,
    pub add_addr_accepted_max: u8,
    flags: u32,
    /// Identifies the connection within its network namespace.
    pub token: u32,
    pub write_seq: u64,
    pub snd_una: u64,
    pub rcv_nxt: u64,
    pub local_addr_used: u8,
    pub local_addr_max: u8,
    pub csum_enabled: u8,
}

impl MptcpInfo {
    /// The connection went on as plain TCP.
    pub fn fallback(&self) -> bool {
        self.flags & 1 != 0
    }

    /// The peer has answered in MPTCP.
    pub fn remote_key(&self) -> bool {
        self.flags & 2 != 0
    }
}

/// `struct tcp_info` up to `tcpi_rcv_wnd`; a kernel that knows less leaves the rest 0.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub window_scales: u8,
    pub rate_app_limited: u8,
    /// µs
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    /// Packets marked lost and not yet retransmitted.
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent: u32,
    pub last_ack_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    /// Smoothed, µs
    pub rtt: u32,
    pub rttvar: u32,
    /// Packets
    pub snd_ssthresh: u32,
    /// Packets
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    /// Retransmissions over the connection's life, packets.
    pub total_retrans: u32,
    /// bytes/s
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    /// µs
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    /// bytes/s
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    /// Packets
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubflowInfo {
    /// Unique in the connection, in order of joining; `None` before Linux 6.5.
    pub id: Option<u32>,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub tcp: TcpInfo,
}

/// A connection and its subflows as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullInfo {
    pub mptcp: MptcpInfo,
    pub subflows: Vec<SubflowInfo>,
}

/// `None` where the connection is plain TCP: because it fell back before it began, or because it never was MPTCP.
pub fn mptcp_info(socket: impl AsFd) -> io::Result<Option<MptcpInfo>> {
    let mut info = MptcpInfo::default();
    match get(socket.as_fd(), SOL_MPTCP, MPTCP_INFO, &mut info) {
        Ok(_) => Ok(Some(info)),
        Err(e) if plain_tcp(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Of a plain TCP socket, or of an MPTCP connection's first subflow.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    get(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    Ok(info)
}

/// `None` where the connection is plain TCP, as in [`mptcp_info`].
pub fn full_info(socket: impl AsFd) -> io::Result<Option<FullInfo>> {
    let socket = socket.as_fd();
    match full_info_at_once(socket) {
        Ok(info) => Ok(Some(info)),
        // A kernel before 6.5 has no MPTCP_FULL_INFO; plain TCP answers the same.
        Err(e) if plain_tcp(&e) => match mptcp_info(socket)? {
            Some(mptcp) => Ok(Some(FullInfo {
                mptcp,
                subflows: subflows_one_by_one(socket)?,
            })),
            None => Ok(None),
        },
        Err(e) => Err(e),
    }
}

fn plain_tcp(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT))
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Addresses {
    local: libc::sockaddr_storage,
    remote: libc::sockaddr_storage,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Subflow {
    id: u32,
    addresses: Addresses,
}

#[repr(C)]
struct FullInfoRequest {
    size_tcpinfo_kernel: u32,
    size_tcpinfo_user: u32,
    size_sfinfo_kernel: u32,
    size_sfinfo_user: u32,
    num_subflows: u32,
    size_arrays_user: u32,
    subflow_info: u64,
    tcp_info: u64,
    mptcp_info: MptcpInfo,
}

fn full_info_at_once(socket: BorrowedFd) -> io::Result<FullInfo> {
    // SAFETY: Subflow is plain data, for which all zeros is a value.
    let mut subflows: Vec<Subflow> = vec![unsafe { std::mem::zeroed() }; MOST_SUBFLOWS];
    let mut tcp = vec![TcpInfo::default(); MOST_SUBFLOWS];
    let mut request = FullInfoRequest {
        size_tcpinfo_kernel: 0,
        size_tcpinfo_user: size_of::<TcpInfo>() as u32,
        size_sfinfo_kernel: 0,
        size_sfinfo_user: size_of::<Subflow>() as u32,
        num_subflows: 0,
        size_arrays_user: MOST_SUBFLOWS as u32,
        subflow_info: subflows.as_mut_ptr() as u64,
        tcp_info: tcp.as_mut_ptr() as u64,
        mptcp_info: MptcpInfo::default(),
    };
    get(socket, SOL_MPTCP, MPTCP_FULL_INFO, &mut request)?;
    let count = (request.num_subflows as usize).min(MOST_SUBFLOWS);
    let subflows = subflows[..count]
        .iter()
        .zip(&tcp)
        .filter_map(|(s, &tcp)| {
            let (local, remote) = (address(&s.addresses.local)?, address(&s.addresses.remote)?);
            Some(SubflowInfo {
                id: Some(s.id),
                local,
                remote,
                tcp,
            })
        })
        .collect();
    Ok(FullInfo {
        mptcp: request.mptcp_info,
        subflows,
    })
}

#[repr(C, align(8))]
struct SubflowData {
    size_subflow_data: u32,
    num_subflows: u32,
    size_kernel: u32,
    size_user: u32,
}

#[repr(C)]
struct SubflowArray<T> {
    header: SubflowData,
    data: [T; MOST_SUBFLOWS],
}

fn array<T>(socket: BorrowedFd, option: i32) -> io::Result<(usize, Box<SubflowArray<T>>)> {
    // SAFETY: only used with plain data, for which all zeros is a value.
    let mut array: Box<SubflowArray<T>> = Box::new(unsafe { std::mem::zeroed() });
    array.header.size_subflow_data = size_of::<SubflowData>() as u32;
    array.header.size_user = size_of::<T>() as u32;
    get(socket, SOL_MPTCP, option, &mut *array)?;
    Ok((
        (array.header.num_subflows as usize).min(MOST_SUBFLOWS),
        array,
    ))
}

/// Two calls: a subflow that comes or goes between them shortens the list, and is complete in the next one.
fn subflows_one_by_one(socket: BorrowedFd) -> io::Result<Vec<SubflowInfo>> {
    let (n, addresses) = array::<Addresses>(socket, MPTCP_SUBFLOW_ADDRS)?;
    let (m, tcp) = array::<TcpInfo>(socket, MPTCP_TCPINFO)?;
    if n != m {
        return Ok(Vec::new());
    }
    Ok(addresses.data[..n]
        .iter()
        .zip(&tcp.data)
        .filter_map(|(a, &tcp)| {
            Some(SubflowInfo {
                id: None,
                local: address(&a.local)?,
                remote: address(&a.remote)?,
                tcp,
            })
        })
        .collect())
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at = storage as *const libc::sockaddr_storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in, which is smaller than the storage and no more aligned.
            let v4 = unsafe { *at.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { *at.cast::<libc::sockaddr_in6>() };
            // A dual-stack listener shows IPv4 peers as mapped.
            let ip = IpAddr::from(v6.sin6_addr.s6_addr).to_canonical();
            Some(SocketAddr::new(ip, u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

fn get<T>(socket: BorrowedFd, level: i32, option: i32, value: &mut T) -> io::Result<usize> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`, which outlives the call; every T here is plain data.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (value as *mut T).cast(),
            &mut length,
        )
    };
    if answer == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// By hand from the kernel's headers: those of this machine may be older than the structs.
const _: () = {
    assert!(size_of::<MptcpInfo>() == 48);
    assert!(offset_of!(MptcpInfo, flags) == 8 && offset_of!(MptcpInfo, token) == 12);
    assert!(offset_of!(MptcpInfo, rcv_nxt) == 32 && offset_of!(MptcpInfo, csum_enabled) == 42);
    assert!(size_of::<TcpInfo>() == 240);
    assert!(offset_of!(TcpInfo, rto) == 8 && offset_of!(TcpInfo, rtt) == 68);
    assert!(offset_of!(TcpInfo, total_retrans) == 100 && offset_of!(TcpInfo, pacing_rate) == 104);
    assert!(offset_of!(TcpInfo, min_rtt) == 148 && offset_of!(TcpInfo, delivery_rate) == 160);
    assert!(offset_of!(TcpInfo, delivered) == 192 && offset_of!(TcpInfo, bytes_retrans) == 208);
    assert!(offset_of!(TcpInfo, snd_wnd) == 228 && offset_of!(TcpInfo, rcv_wnd) == 232);
    assert!(size_of::<Addresses>() == 256);
    assert!(size_of::<Subflow>() == 264 && offset_of!(Subflow, addresses) == 8);
    assert!(size_of::<SubflowData>() == 16 && offset_of!(SubflowData, size_user) == 12);
    assert!(size_of::<FullInfoRequest>() == 88);
    assert!(offset_of!(FullInfoRequest, subflow_info) == 24);
    assert!(offset_of!(FullInfoRequest, mptcp_info) == 40);
};
