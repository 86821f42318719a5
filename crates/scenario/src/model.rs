//! A scenario after parsing: units resolved, defaults filled in, directions spelled out. Worlds read only this.
//!
//! Units: times are [`Duration`], rates bit/s, sizes bytes, loss a probability in 0..=1. All link values are one-way.

use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

pub use mp_policy::path_manager::Rule;

use crate::air::Air;
use crate::defaults;
use crate::trace::Trace;

/// One experiment: what the network is, who sends what over it, and which variants are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// File stem, e.g. `wifi-lte`; used in rows and folder names.
    pub name: String,
    pub title: String,
    pub description: String,
    /// Upper bound of one run; transfers without `bytes` end here.
    pub duration: Duration,
    /// First seed; run `k` of a variant uses `seed + k`.
    pub seed: u64,
    /// Interval between telemetry samples.
    pub sample_interval: Duration,
    /// Segments per simulated event (1: packet by packet). The kernel world ignores it.
    pub segment_train: u32,
    /// Bytes of TCP payload per segment.
    pub mss: u32,
    pub buffers: Buffers,
    /// Shared bottlenecks that several paths run through, after their own cells.
    pub links: IndexMap<String, Path>,
    pub paths: IndexMap<String, Path>,
    pub connections: Vec<Connection>,
    /// Sorted by time.
    pub events: Vec<Event>,
    /// Never empty.
    pub variants: Vec<Variant>,
    /// What makes the rates of paths over a radio; [`Scenario::tuned`] fills them in.
    pub radio: Option<Arc<Air>>,
}

/// Socket buffers of both ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffers {
    /// Bytes; upper bound when `autotune`, else fixed.
    pub send: u64,
    /// Bytes; upper bound when `autotune`, else fixed.
    pub receive: u64,
    pub autotune: bool,
}

/// What a user says of an interface, as he writes it.
pub const RULES: &[(&str, Rule)] = &[
    ("none", Rule::None),
    ("preferred", Rule::Preferred),
    ("metered", Rule::Metered),
    ("untrusted", Rule::Untrusted),
];

/// A path (one pair of addresses), or a shared bottleneck.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Name of the shared bottleneck in [`Scenario::links`] that this path continues through. `None` for a link.
    pub link: Option<String>,
    /// What the client says of its interface. `None` for a link.
    pub rule: Rule,
    /// Server to client.
    pub down: Direction,
    /// Client to server.
    pub up: Direction,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Uniform extra delay per packet, in `jitter.0 ..= jitter.1`.
    pub jitter: Option<(Duration, Duration)>,
    /// Whether jitter may reorder packets; by default a later packet waits for the earlier one.
    pub reorder: bool,
    pub loss: Loss,
    pub policer: Option<Policer>,
    pub queue: Queue,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Rate {
    /// No bottleneck here (a path that only adds delay before a shared link).
    Unlimited,
    /// bit/s
    Constant(u64),
    Trace(Arc<Trace>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Loss {
    None,
    Bernoulli(f64),
    /// Two-state Markov chain, one step a packet: `p` good→bad, `r` bad→good, loss `good`/`bad` in each state
    /// (Gilbert: good = 0, bad = 1).
    GilbertElliott {
        p: f64,
        r: f64,
        good: f64,
        bad: f64,
    },
}

/// A token bucket before the queue: a packet that finds too few tokens is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policer {
    /// bit/s of IP packets
    pub rate: u64,
    /// Bytes that may pass at once after a pause.
    pub burst: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    pub limit: QueueLimit,
    pub discipline: Discipline,
    /// Mark ECN-capable packets in place of dropping them (CoDel, RED).
    pub ecn: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueLimit {
    Packets(u64),
    Bytes(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    DropTail,
    /// RFC 8289
    CoDel {
        target: Duration,
        interval: Duration,
    },
    /// Floyd & Jacobson 1993; thresholds in packets
    Red {
        min: f64,
        max: f64,
        probability: f64,
    },
}

/// `count` like connections between one client host and the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    pub name: String,
    pub protocol: Protocol,
    /// Names in [`Scenario::paths`]; the first is the initial path.
    pub paths: Vec<String>,
    /// Client host that opens it; hosts share paths (two clients behind one bottleneck), not addresses.
    pub client: String,
    pub count: u32,
    pub direction: TransferDirection,
    /// A program that makes the traffic in place of the built-in download or upload; run by `sh -c` on the client host.
    pub command: Option<String>,
    /// Bytes of each transfer; `None`: until `lasting` or the end of the run.
    pub bytes: Option<u64>,
    pub start: Duration,
    /// How long an open-ended transfer lasts, uniform between the two.
    pub lasting: Option<(Duration, Duration)>,
    /// New transfers arrive as a Poisson process from `start` on, per second; `count` then caps how many live at once.
    pub arrivals: Option<f64>,
    /// Overrides the variant's: a competing flow keeps its own.
    pub controller: Option<String>,
    pub path_manager: Option<String>,
    pub initial_path: Option<String>,
    pub scheduler: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Mptcp,
    Tcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferDirection {
    Download,
    Upload,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub at: Duration,
    /// A path or a shared link.
    pub path: String,
    pub change: Change,
}

/// Changes touch both directions, loss only the direction(s) that data takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// All packets are lost.
    Down,
    Up,
    Rate(u64),
    Delay(Duration),
    Loss(Loss),
    /// MP_PRIO by the client on this path's subflows.
    Backup(bool),
    /// What the client's radio receives on this path from now on, dBm: path managers see it, packets do not.
    Signal(i32),
    /// What else the client knows of this path's radio from now on, by name ([`READINGS`]): what a bandit decides by.
    Readings(Vec<(String, f64)>),
}

/// What `readings` of an event may tell, with its unit in the name.
pub const READINGS: &[&str] = &[
    "rtt_ms",
    "loss",
    "dns_ms",
    "udp_delta_ms",
    "signal_dbm",
    "link_speed_mbps",
    "signal_level",
    "rsrq_db",
    "cqi",
    "snr_db",
];

/// One column of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Shown in tables; unique within the scenario.
    pub name: String,
    pub controller: String,
    /// Parameters of the controller by name, in its units.
    pub parameters: IndexMap<String, u64>,
    pub path_manager: String,
    /// Settings of the path manager by the names of its registry entry, in its units.
    pub path_manager_parameters: IndexMap<String, u64>,
    /// How the path is chosen that a connection is opened over.
    pub initial_path: String,
    pub scheduler: String,
    /// What carries the streams between the relay and its device: `tcp` or `mptcp`.
    pub carrier: String,
    /// Whether an agent answers a learned controller; without one it goes on as plain MPCC.
    pub agent: bool,
}

impl Variant {
    /// Why the relay world alone can run it, if so.
    pub fn only_over_the_relay(&self) -> Option<String> {
        (self.carrier != defaults::CARRIER).then(|| {
            format!(
                "carrier {}: only --world relay has it; leave it out, or use that world",
                self.carrier
            )
        })
    }
}
