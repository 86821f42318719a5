//! Schedulers: which subflow carries the next piece of the stream.
//!
//! A world keeps one [`SubflowView`] a slot up to date as its own state changes, and asks [`Schedule::pick`] whenever
//! there is unsent data and the last answer's burst is used up. A pick reads at most [`MAX_SUBFLOWS`] views and
//! allocates nothing, so that it can be asked for each segment.
//!
//! [`Scheduler`] is the closed set of built-in ones, dispatched statically; outsiders implement [`Schedule`].

mod blest;
mod cloning;
mod delay_balance;
mod ecf;
mod edpf;
mod ld_mpsp;
mod linux;
mod min_rtt;
mod redundant;
mod round_robin;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use blest::Blest;
pub use cloning::Cloning;
pub use delay_balance::DelayBalance;
pub use ecf::Ecf;
pub use edpf::Edpf;
pub use ld_mpsp::LdMpsp;
pub use linux::Linux;
pub use min_rtt::MinRtt;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;

use crate::link::Priority;
use crate::registry::{self, World};
use crate::MAX_SUBFLOWS;

/// What a scheduler sees of one subflow. The index in the slice is the subflow's slot; a free slot has `active` false.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SubflowView {
    /// Fully established and not closing (`__mptcp_subflow_active` in net/mptcp/protocol.h).
    pub active: bool,
    /// No acknowledgement for so long that its data were sent again elsewhere (`mptcp_pm_subflow_chk_stale`).
    pub stale: bool,
    /// Either end asked for backup (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// The user wants it full before others carry data, see [`shown`]. MPTCP has no such flag.
    pub preferred: bool,
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub srtt_us: u32,
    /// Mean deviation of the round-trip time, µs (RFC 6298 RTTVAR).
    pub rttvar_us: u32,
    /// Lowest round-trip time seen, µs; 0 before the first sample.
    pub min_rtt_us: u32,
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Packets sent and neither acknowledged nor marked lost (`tcp_packets_in_flight`).
    pub in_flight: u32,
    /// Packets given to the subflow and not yet sent by it.
    pub unsent: u32,
    /// Bytes given to the subflow and not yet acknowledged, sent or not (`sk_wmem_queued`).
    pub queued: u64,
    /// Bytes that its send buffer still takes (`sk_sndbuf - sk_wmem_queued`, not below 0).
    pub room: u64,
    /// Pacing rate, bytes/s (`sk_pacing_rate`; Linux computes it for every controller).
    pub pacing_rate: u64,
    /// Packets sent so far, retransmissions included.
    pub sent: u64,
    /// Packets marked lost so far.
    pub lost: u64,
    /// Packets acknowledged so far.
    pub delivered: u64,
}

impl SubflowView {
    pub fn set_priority(&mut self, priority: Priority) {
        self.backup = priority == Priority::Backup;
        self.preferred = priority == Priority::Preferred;
    }

    /// Packets that the congestion window would let out at once.
    #[inline]
    pub fn window(&self) -> u32 {
        self.cwnd
            .saturating_sub(self.in_flight.saturating_add(self.unsent))
    }

    /// May carry data at all.
    #[inline]
    pub fn alive(&self) -> bool {
        self.active && !self.stale
    }

    /// May carry a segment right now.
    #[inline]
    pub fn ready(&self) -> bool {
        self.alive() && self.window() > 0 && self.room > 0
    }
}

/// What a scheduler sees of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConnectionView {
    pub now_us: u64,
    /// Bytes written by the application and not yet given to any subflow.
    pub unsent: u64,
    /// Bytes given to subflows and not yet acknowledged at the data level (`snd_nxt - snd_una`).
    pub in_flight: u64,
    /// Bytes of new data that the peer's receive window still admits (`mptcp_wnd_end - snd_nxt`).
    pub window_left: u64,
    /// Segments sent a second time on another subflow, so far: a sign that the receive window was blocked.
    pub reinjected: u64,
}

/// Which subflows carry the next piece of the stream, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Bit `i`: slot `i`. More than one bit: each of them carries a copy.
    pub subflows: u8,
    /// Bytes to send there before asking again, at least 1 unless `subflows` is empty.
    pub burst: u32,
}

impl Choice {
    /// Nobody may, or should, send now: ask again when a view has changed.
    pub const WAIT: Choice = Choice {
        subflows: 0,
        burst: 0,
    };

    #[inline]
    pub fn one(subflow: usize, burst: u32) -> Choice {
        Choice {
            subflows: 1 << subflow,
            burst: burst.max(1),
        }
    }

    #[inline]
    pub fn is_wait(self) -> bool {
        self.subflows == 0
    }

    /// Lowest slot chosen; `None` for [`Choice::WAIT`].
    #[inline]
    pub fn first(self) -> Option<usize> {
        (self.subflows != 0).then(|| self.subflows.trailing_zeros() as usize)
    }

    /// Slots chosen, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_SUBFLOWS).filter(move |i| self.subflows >> i & 1 == 1)
    }
}

/// A scheduler of one connection.
pub trait Schedule {
    /// Chooses where the next bytes go. Asked only while there is something to send (`unsent`, or for a replicating
    /// scheduler something that a subflow has not carried); the caller then sends up to `burst` bytes on each chosen
    /// slot, stopping early where the subflow's buffer or the receive window is full, and counts them in the views.
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice;

    /// The slot was freed, or given to a new subflow: what was remembered of it no longer holds.
    fn forget(&mut self, _subflow: usize) {}

    /// The target for the queueing delay that follows from the last round, µs. A world writes it into the connection's
    /// congestion controller where that has a parameter for it.
    fn queue_target_us(&self) -> Option<u64> {
        None
    }

    /// Each subflow carries the whole stream. The caller keeps a cursor a subflow and sends on it, when it is chosen,
    /// the oldest data that are neither acknowledged at the data level nor carried by it before.
    fn replicates(&self) -> bool {
        false
    }

    /// How much waits to be sent (`unsent`) decides: a caller that reads little ahead hides it.
    fn plans_ahead(&self) -> bool {
        false
    }
}

/// Where a lost or stuck piece of the stream is sent again: an idle normal subflow, a backup one only when every other
/// subflow is stuck for the second time (`mptcp_subflow_get_retrans` of net/mptcp/protocol.c).
///
/// `stuck` is the lowest number of data-level retransmission timeouts in a row that an active, non-empty subflow has
/// seen without progress (`min_stale_count`); pass `u32::MAX` where every subflow is empty.
pub fn pick_reinjection(subflows: &[SubflowView], stuck: u32) -> Option<usize> {
    let idle = |backup: bool| {
        subflows
            .iter()
            .position(|s| s.active && s.queued == 0 && s.backup == backup)
    };
    idle(false).or_else(|| if stuck > 1 { idle(true) } else { None })
}

/// Subflows that data may go to: the live normal ones, or the live backup ones where no normal one lives. Bit `i`: slot `i`.
#[inline]
pub(crate) fn eligible(subflows: &[SubflowView]) -> u8 {
    let (mut normal, mut backup) = (0u8, 0u8);
    for (i, s) in subflows.iter().enumerate() {
        let bit = u8::from(s.alive()) << i;
        if s.backup {
            backup |= bit;
        } else {
            normal |= bit;
        }
    }
    if normal != 0 {
        normal
    } else {
        backup
    }
}

/// What a scheduler is shown: the preferred subflows alone, while one of them may carry a segment right now.
#[inline]
pub fn shown(views: &[SubflowView; MAX_SUBFLOWS]) -> Cow<'_, [SubflowView; MAX_SUBFLOWS]> {
    if !views.iter().any(|v| v.preferred && v.ready()) {
        return Cow::Borrowed(views);
    }
    let mut views = *views;
    for view in views.iter_mut().filter(|v| !v.preferred) {
        view.active = false;
    }
    Cow::Owned(views)
}

/// Eligible slots with their views.
#[inline]
pub(crate) fn candidates(subflows: &[SubflowView]) -> impl Iterator<Item = (usize, &SubflowView)> {
    let set = eligible(subflows);
    subflows
        .iter()
        .enumerate()
        .filter(move |(i, _)| set >> i & 1 == 1)
}

macro_rules! schedulers {
    ($($variant:ident: $kind:ty, $name:literal, [$($world:ident),*], $summary:literal, $source:literal;)*) => {
        /// The built-in schedulers.
        // A connection has one; a box would cost a cache miss a packet.
        #[allow(clippy::large_enum_variant)]
        #[derive(Debug, Clone)]
        pub enum Scheduler {
            $(#[doc = $summary] $variant($kind),)*
        }

        impl Schedule for Scheduler {
            #[inline]
            fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
                match self {
                    $(Self::$variant(s) => s.pick(connection, subflows),)*
                }
            }

            fn forget(&mut self, subflow: usize) {
                match self {
                    $(Self::$variant(s) => s.forget(subflow),)*
                }
            }

            #[inline]
            fn queue_target_us(&self) -> Option<u64> {
                match self {
                    $(Self::$variant(s) => s.queue_target_us(),)*
                }
            }

            #[inline]
            fn replicates(&self) -> bool {
                match self {
                    $(Self::$variant(s) => s.replicates(),)*
                }
            }

            fn plans_ahead(&self) -> bool {
                match self {
                    $(Self::$variant(s) => s.plans_ahead(),)*
                }
            }
        }

        static ALL: &[Entry] = &[
            $(Entry {
                name: $name,
                summary: $summary,
                source: $source,
                worlds: &[$(World::$world),*],
                parameters: &[],
                build: || Scheduler::$variant(<$kind>::default()),
            },)*
        ];
    };
}

schedulers! {
    Default: Linux, "default", [Sim, Kernel, Run, Daemon, Relay], "The one of Linux: the subflow whose queue empties first",
        "Linux net/mptcp/protocol.c, mptcp_subflow_get_send";
    MinRtt: MinRtt, "min-rtt", [Sim, Relay], "Lowest smoothed RTT among those with room in the congestion window",
        "Paasch, Ferlin, Alay, Bonaventure, \"Experimental Evaluation of Multipath TCP Schedulers\", CSWS 2014";
    RoundRobin: RoundRobin, "round-robin", [Sim, Relay], "Each subflow with room in its congestion window in turn",
        "Paasch, Ferlin, Alay, Bonaventure, \"Experimental Evaluation of Multipath TCP Schedulers\", CSWS 2014";
    Redundant: Redundant, "redundant", [Sim, Relay], "Every byte on every subflow: latency bought with capacity",
        "Frömmgen, Erbshäußer, Buchmann, Zimmermann, Wehrle, \"ReMP TCP: Low Latency Multipath TCP\", ICC 2016";
    Blest: Blest, "blest", [Sim, Relay], "Skips the slow subflow when it would block the fast one's send window",
        "Ferlin, Alay, Mehani, Boreli, \"BLEST: Blocking estimation-based MPTCP scheduler\", IFIP Networking 2016";
    Ecf: Ecf, "ecf", [Sim, Relay], "Waits for the fast subflow when that completes the data earlier",
        "Lim, Nahum, Towsley, Gibbens, \"ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths\", CoNEXT 2017";
    Edpf: Edpf, "edpf", [Sim, Relay], "The subflow on which the segment would arrive first",
        "Chebrolu, Rao, \"Bandwidth Aggregation for Real-Time Applications in Heterogeneous Wireless Networks\", IEEE TMC 2006";
    DelayBalance: DelayBalance, "delay-balance", [Sim, Relay], "Splits blocks of packets so that their parts are expected to end together",
        "Paper drones, equations 5 to 12: delay balancing of LD-MPSP";
    Cloning: Cloning, "cloning", [Sim, Relay], "Lowest RTT, and copies on other subflows in proportion to loss",
        "Paper drones, equations 21 and 22: packet cloning of LD-MPSP";
    LdMpsp: LdMpsp, "ld-mpsp", [Sim, Relay], "Delay balancing with packet cloning",
        "Paper drones, algorithm 3: LD-MPSP";
}

/// A scheduler by its name.
pub type Entry = registry::Entry<Scheduler>;

/// Every built-in scheduler; the first is what stock Linux does.
pub fn all() -> &'static [Entry] {
    ALL
}

pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.name == name)
}
