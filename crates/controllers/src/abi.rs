//! The structs of `controllers/mp.h` in Rust. `tests/layout.rs` compares them with what the C compiler made.

pub const MAX_SUBFLOWS: usize = 8;
pub const PARAMETERS: usize = 8;
pub const STATE_WORDS: usize = 48;
/// Packets; the floor of every window rule.
pub const MIN_CWND: u64 = 2;
/// [`Subflow::cwnd_fraction`] counts 2^-40 packets.
pub const FRACTION_BITS: u32 = 40;
/// A fact that is not known (yet).
pub const UNKNOWN: u64 = u64::MAX;
pub const INFINITE_SSTHRESH: u64 = 0x7fff_ffff;

/// One slot. Facts are the stack's to keep up, decisions the controller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Subflow {
    /// 0: the slot is free.
    pub owner: u64,
    /// Bytes.
    pub mss: u64,
    /// Latest sample.
    pub rtt_us: u64,
    /// Smoothed (RFC 6298); 0 before the first sample, never 0 after it.
    pub srtt_us: u64,
    /// Minimum over the connection's lifetime, or [`UNKNOWN`].
    pub min_rtt_us: u64,
    /// Forward one-way delay above its lifetime minimum, or [`UNKNOWN`].
    pub queue_owd_us: u64,
    /// Packets acknowledged so far.
    pub delivered: u64,
    /// Packets marked lost so far.
    pub lost: u64,
    /// 1: not used while a normal subflow lives.
    pub backup: u64,
    /// Packets sent, neither acknowledged nor marked lost.
    pub in_flight: u64,
    /// Packets acknowledged so far whose ACK carried ECN-Echo.
    pub ce: u64,
    /// `enum tcp_ca_state`: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 timeout.
    pub phase: u64,
    /// 1: the window has room and nothing is queued to fill it.
    pub app_limited: u64,
    /// Packets sent, neither acknowledged nor selectively acknowledged.
    pub unsacked: u64,
    /// Data sequence number, bytes: the first one not acknowledged, as before the latest ACK.
    pub data_una: u64,
    /// That of the next new segment here; where none is queued, of the connection's next one.
    pub data_next: u64,
    /// What the stack takes for the end of the receive window.
    pub data_end: u64,
    /// Receive window that the latest ACK announces, bytes; 0: it is not taken, or none is known.
    pub data_window: u64,
    /// Packets.
    pub cwnd: u64,
    /// Packets.
    pub ssthresh: u64,
    /// Growth not yet worth a packet, in 2^-[`FRACTION_BITS`] packets.
    pub cwnd_fraction: u64,
    /// Window before the last decrease, packets.
    pub prior_cwnd: u64,
    /// Bytes/s; 0: the stack's own pacing.
    pub pacing_rate: u64,
    /// The controller's own.
    pub state: [u64; STATE_WORDS],
}

impl Default for Subflow {
    /// A free slot.
    fn default() -> Self {
        Self {
            owner: 0,
            mss: 0,
            rtt_us: 0,
            srtt_us: 0,
            min_rtt_us: UNKNOWN,
            queue_owd_us: UNKNOWN,
            delivered: 0,
            lost: 0,
            backup: 0,
            in_flight: 0,
            ce: 0,
            phase: 0,
            app_limited: 0,
            unsacked: 0,
            data_una: 0,
            data_next: 0,
            data_end: 0,
            data_window: 0,
            cwnd: 0,
            ssthresh: INFINITE_SSTHRESH,
            cwnd_fraction: 0,
            prior_cwnd: 0,
            pacing_rate: 0,
            state: [0; STATE_WORDS],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Connection {
    /// In the order and units of [`Entry::parameters`](crate::Entry::parameters).
    pub parameters: [u64; PARAMETERS],
    pub subflows: [Subflow; MAX_SUBFLOWS],
}

/// One acknowledgement that may grow the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Ack {
    pub now_us: u64,
    /// Packets newly acknowledged.
    pub acked: u64,
    /// 1: the window, not the application, held back the last flight.
    pub is_cwnd_limited: u64,
    /// Largest flight of the last window, packets.
    pub max_packets_out: u64,
}

/// `struct mp_controller`. Every hook touches only the structs it is given and takes any values in them; it masks the
/// slot into bounds and keeps no pointer. So the one duty of a caller is to pass valid references.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Hooks {
    pub init: unsafe extern "C" fn(&mut Connection, u32, u64),
    pub on_rtt: unsafe extern "C" fn(&mut Connection, u32, u64),
    pub on_ack: Option<unsafe extern "C" fn(&mut Connection, u32, &Ack)>,
    pub on_loss: unsafe extern "C" fn(&mut Connection, u32, u64) -> u64,
    pub on_undo: unsafe extern "C" fn(&mut Connection, u32) -> u64,
    pub on_close: unsafe extern "C" fn(&mut Connection, u32),
    pub on_interval: Option<unsafe extern "C" fn(&mut Connection, u32, u64)>,
    pub send_buffer_windows: u64,
}
