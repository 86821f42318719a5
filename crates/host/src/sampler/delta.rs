//! What `tcp_info` counts between two polls of a subflow.

use mp_kernel::mptcp_info::TcpInfo;

/// One subflow between two polls.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubflowDelta {
    pub sent_packets: u64,
    pub lost: u64,
    pub sent_bytes: u64,
    pub arrived_packets: u64,
    pub out_of_order: u64,
    pub received_bytes: u64,
    /// In order or not: while a hole is being filled `received_bytes` stands still, but the path does not. What had come
    /// before does not count: it comes again and again where nothing that this end says gets through.
    pub arrived_bytes: u64,
}

impl SubflowDelta {
    pub fn between(before: TcpInfo, now: TcpInfo) -> SubflowDelta {
        // The kernel's counters of 32 bits wrap.
        let count = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        let retransmitted = count(now.total_retrans, before.total_retrans);
        let needless = count(now.dsack_dups, before.dsack_dups);
        let arrived = count(now.data_segs_in, before.data_segs_in);
        let out_of_order = count(now.rcv_ooopack, before.rcv_ooopack);
        let received_bytes = now.bytes_received.saturating_sub(before.bytes_received);
        let segment = u64::from(now.rcv_mss);
        SubflowDelta {
            sent_packets: count(now.data_segs_out, before.data_segs_out),
            lost: retransmitted.saturating_sub(needless),
            arrived_packets: arrived,
            out_of_order,
            sent_bytes: now.bytes_acked.saturating_sub(before.bytes_acked),
            received_bytes,
            arrived_bytes: (arrived * segment).min(received_bytes + out_of_order * segment),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.sent_bytes + self.received_bytes
    }

    /// The own estimate of an end that only acknowledges is as old as its last request. While nothing moves, the end is
    /// what it was so far.
    pub fn rtt_us(&self, tcp: &TcpInfo) -> u32 {
        let receives = match self.bytes() {
            0 => tcp.bytes_received > tcp.bytes_acked,
            _ => self.received_bytes > self.sent_bytes,
        };
        match receives && tcp.rcv_rtt > 0 {
            true => tcp.rcv_rtt,
            false => tcp.rtt,
        }
    }
}
