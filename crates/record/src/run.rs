//! One run of one variant with one seed.

/// What a world hands back. Times are seconds from the start of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    pub transfers: Vec<Transfer>,
    pub samples: Vec<Sample>,
    /// [`Transfer::window_overruns`] of all transfers together; `None` where the kernel does not count them.
    pub window_overruns: Option<u64>,
    /// Where connections were started on a path that was chosen for each.
    pub decisions: Vec<Decision>,
    /// What the agents of learned controllers were asked; empty in the simulator.
    pub intervals: Vec<Interval>,
    /// Seconds the run covered (virtual in the simulator).
    pub elapsed_s: f64,
    /// What the user should know of this run, one line each (a fallback, a policy the world cannot honour).
    pub notes: Vec<String>,
}

/// One transfer over one connection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transfer {
    /// Name of the scenario's `[[connections]]` entry.
    pub connection: String,
    /// Unique within the run, dense from 0.
    pub id: u32,
    /// False for plain TCP by the scenario's choice.
    pub multipath: bool,
    /// MPTCP was asked for and the connection went on as plain TCP.
    pub fallback: bool,
    pub start_s: f64,
    /// `None`: not complete when the run ended.
    pub end_s: Option<f64>,
    /// Payload bytes delivered in order to the receiving application by the end of the transfer or of the run.
    pub bytes: u64,
    /// Whether the body's hash was right; `None` where there was no whole body to check.
    pub intact: Option<bool>,
    /// MPTCP data that the receiver dropped, out of order and beyond the receive window that it had announced: segments in the
    /// simulator, socket buffers in the kernel (`MPTcpExtNoDSSInWindow`). `None` where they cannot be told from other transfers'.
    pub window_overruns: Option<u64>,
    /// Payload bytes that arrived on each path, by path name, duplicates included.
    pub path_bytes: Vec<(String, u64)>,
}

/// The choice of the path that a connection was started on, and what came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// [`Transfer::id`]
    pub transfer: u32,
    pub time_s: f64,
    /// Name of the path manager that chose.
    pub policy: String,
    /// Name of the path.
    pub arm: String,
    /// Chosen in order to learn.
    pub explored: bool,
    /// How likely this path was to be chosen.
    pub probability: f64,
    /// What was known, by name; `None` where it was missing.
    pub features: Vec<(String, Option<f64>)>,
    /// What each path was ranked by.
    pub scores: Vec<(String, Option<f64>)>,
    /// Of the whole connection; `None` when it had not ended with the run, as the next two.
    pub throughput_mbps: Option<f64>,
    /// Smoothed round-trip time of the path it was started on, at its end.
    pub latency_ms: Option<f64>,
    pub reward: Option<bool>,
}

/// One monitor interval of a subflow under a learned controller, as its agent got it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    pub time_s: f64,
    /// [`Transfer::id`]
    pub transfer: u32,
    /// As [`Sample::subflow`].
    pub subflow: u32,
    pub path: String,
    /// Counts the intervals of the subflow, from 1. A gap: the agent was not there, or too slow.
    pub serial: u64,
    /// Sending rate of the interval, bytes/s.
    pub rate: u64,
    /// Bytes.
    pub mss: u64,
    /// Packets acknowledged and marked lost.
    pub delivered: u64,
    pub lost: u64,
    /// Over which they were.
    pub elapsed_us: u64,
    /// Mean of the interval.
    pub rtt_us: u64,
    /// Lifetime minimum.
    pub min_rtt_us: u64,
    /// Rates of the siblings, as the controller knew them, bytes/s.
    pub others: u64,
    /// The next rate that the agent asked for, bytes/s; `None`: it gave no answer.
    pub answer: Option<u64>,
    /// From the record to the answer; a late one has no effect.
    pub delay_us: u64,
}

/// State of one subflow at one time, seen from the sender of data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    pub time_s: f64,
    /// [`Transfer::id`]
    pub transfer: u32,
    /// Slot of the subflow within its connection, dense from 0 in order of joining.
    pub subflow: u32,
    pub path: String,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    /// Payload bytes acknowledged so far.
    pub delivered_bytes: u64,
    /// Payload of the whole transfer that the receiver has in order so far, the same for all its subflows; `None` where
    /// nothing tells.
    pub in_order_bytes: Option<u64>,
    /// Packets marked lost so far.
    pub lost: u32,
    /// bytes/s
    pub pacing_rate: u64,
    pub backup: bool,
}
