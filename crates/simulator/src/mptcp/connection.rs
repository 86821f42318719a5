//! What a connection keeps at the data level, at both ends.

use mp_policy::path_manager::driver::Driver;
use mp_policy::path_manager::{self, PathManager};
use mp_policy::scheduler::{ConnectionView, Schedule, Scheduler, SubflowView};
use mp_policy::MAX_SUBFLOWS;

use super::buffer::Buffer;
use super::reassembly::Reassembly;
use super::subflow::Subflow;
use super::window::Window;
use crate::agenda::NEVER;
use crate::network::Packet;
use crate::tcp::Kindred;

/// What every connection of a `[[connections]]` entry has in common.
#[derive(Debug, Clone)]
pub struct Plan {
    pub name: String,
    pub multipath: bool,
    pub download: bool,
    pub controller: Kindred,
    /// Settings of a shared controller.
    pub parameters: mp_controllers::Connection,
    /// The parameter that a scheduler writes, where the controller follows one.
    pub target: Option<usize>,
    pub scheduler: &'static mp_policy::scheduler::Entry,
    pub manager: &'static mp_policy::path_manager::Entry,
    /// What each connection begins with.
    pub fresh_manager: PathManager,
    /// Indices into the scenario's paths.
    pub paths: Vec<usize>,
    /// Payload of a segment, bytes.
    pub mss: u32,
    pub bytes: Option<u64>,
    /// Bytes, and whether they are an upper bound.
    pub send_buffer: (u64, bool),
    pub receive_buffer: (u64, bool),
}

/// A stream without an end: more segments than a run can send.
const ENDLESS: u64 = 1 << 50;

#[derive(Debug)]
pub struct Connection {
    pub plan: usize,
    /// Of the transfer.
    pub id: u32,
    /// MPTCP is (still) in use: not plain TCP, no fallback.
    pub multipath: bool,
    pub fallback: bool,
    pub started: u64,
    pub finished: Option<u64>,
    /// The application has stopped.
    pub closed: bool,
    pub shared: Box<mp_controllers::Connection>,
    pub target: Option<usize>,
    pub scheduler: Scheduler,
    pub driver: Driver,
    /// The path manager was told that the connection is up.
    pub managed: bool,
    pub paths: Vec<path_manager::Path>,
    /// Of each path.
    pub probing: Vec<path_manager::Probing>,
    /// Subflow of each slot, and what the scheduler sees of it.
    pub slots: Vec<u32>,
    pub views: [SubflowView; MAX_SUBFLOWS],
    /// Every subflow there ever was.
    pub subflows: Vec<u32>,

    // The stream, segments.
    pub total: u64,
    /// Payload of the last segment, bytes.
    pub tail: u32,
    pub mss: u32,

    // Sender.
    pub una: u64,
    /// First segment that no subflow has been given yet (`snd_nxt`).
    pub next: u64,
    /// What goes to a subflow next; below `next` while data are sent again (`first_pending`).
    pub pending: u64,
    /// First segment outside the receive window.
    pub edge: u64,
    pub buffer: Buffer,
    pub reinjected: u64,
    /// Next segment of each slot, for a scheduler that replicates.
    pub cursors: [u64; MAX_SUBFLOWS],
    /// Data-level retransmission timer: when `una` last moved, and the deadline.
    pub progress: u64,
    pub retransmit_at: u64,
    pub announce_at: u64,
    pub announce_tries: u32,
    /// Paths (bits) whose ADD_ADDR the client has not echoed.
    pub unannounced: u32,
    pub wake_at: u64,

    // Receiver.
    pub reassembly: Reassembly,
    pub window: Window,
    /// Segments dropped beyond the announced window (Linux: `MPTcpExtNoDSSInWindow`).
    pub window_overruns: u64,

    pub source: u32,
    pub scheduled: u64,
}

impl Connection {
    pub fn new(plan: &Plan, index: usize, id: u32, source: u32, now: u64, initial: usize) -> Self {
        let mss = u64::from(plan.mss);
        let (total, tail) = match plan.bytes {
            Some(bytes) => {
                let total = bytes.div_ceil(mss).max(1);
                (total, (bytes - (total - 1) * mss).max(1) as u32)
            }
            None => (ENDLESS, plan.mss),
        };
        let window = Window::new(plan.receive_buffer, plan.multipath, plan.mss);
        let mut connection = Connection {
            plan: index,
            id,
            multipath: plan.multipath,
            fallback: false,
            started: now,
            finished: None,
            closed: false,
            shared: Box::new(plan.parameters.clone()),
            target: plan.target,
            scheduler: plan.scheduler.build(),
            driver: Driver::new(plan.fresh_manager.clone(), now / 1000),
            managed: false,
            paths: (0..plan.paths.len())
                .map(|i| path_manager::Path {
                    up: i == initial,
                    initial: Some(i == initial),
                    ..Default::default()
                })
                .collect(),
            probing: vec![Default::default(); plan.paths.len()],
            slots: Vec::new(),
            views: [SubflowView::default(); MAX_SUBFLOWS],
            subflows: Vec::new(),
            total,
            tail,
            mss: plan.mss,
            una: 0,
            next: 0,
            pending: 0,
            edge: 0,
            buffer: if plan.multipath {
                Buffer::new(plan.send_buffer.0, plan.send_buffer.1, plan.mss)
            } else {
                Buffer::unlimited(plan.mss)
            },
            reinjected: 0,
            cursors: [0; MAX_SUBFLOWS],
            progress: now,
            retransmit_at: NEVER,
            announce_at: NEVER,
            announce_tries: 0,
            unannounced: 0,
            wake_at: NEVER,
            reassembly: Reassembly::default(),
            window,
            window_overruns: 0,
            source,
            scheduled: NEVER,
        };
        // The window of the handshake.
        connection.edge = connection.window.announce(0, 0, Window::first(plan.mss));
        connection
    }

    /// First segment that may not go to a subflow now: end of the data, of the receive window, or of the send buffer.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.total.min(self.edge).min(self.buffer.written)
    }

    /// Whether a scheduler that gives a subflow no more than its window admits has data for another.
    #[inline]
    pub fn waits_for_a_window(&self) -> bool {
        self.pending < self.limit() && !matches!(self.scheduler, Scheduler::Default(_))
    }

    /// A segment that is in order on its subflow (`__mptcp_move_skb`). Ahead of the stream and of the announced window it
    /// is dropped, though its subflow has acknowledged it: only a data-level timeout sends it again.
    #[inline]
    pub fn receive(&mut self, dseq: u64) {
        if dseq == self.reassembly.next || self.window.admits(dseq) {
            self.reassembly.receive(dseq);
        } else {
            self.window_overruns += 1;
        }
    }

    /// Segments that follow each other in both sequences.
    #[inline]
    pub fn receive_run(&mut self, dseq: u64, count: u64) {
        if dseq == self.reassembly.next && self.reassembly.held == 0 {
            self.reassembly.next += count;
        } else {
            (dseq..dseq + count).for_each(|dseq| self.receive(dseq));
        }
    }

    /// What a shared controller learns of the connection when an ACK comes. In Linux TCP hears of it before MPTCP does.
    #[inline]
    pub fn tell_data_level(&mut self, s: &Subflow, ack: &Packet) {
        let mss = u64::from(self.mss);
        let slot = &mut self.shared.subflows[s.slot % MAX_SUBFLOWS];
        let unsent = s.sender.flow.snd_nxt;
        slot.data_una = self.una * mss;
        slot.data_end = self.edge * mss;
        slot.data_next = mss
            * if unsent < s.sender.end() {
                s.sender.board.at(unsent).dseq()
            } else {
                self.next
            };
        let is_taken = ack.seq > s.sender.flow.snd_una;
        slot.data_window = if is_taken { ack.window() * mss } else { 0 };
    }

    /// LD-MPSP's target is what its delay balancing found last.
    #[inline]
    pub fn follow_scheduler(&mut self) {
        let Some(parameter) = self.target else { return };
        if let Some(target) = self.scheduler.queue_target_us() {
            self.shared.parameters[parameter] = target;
        }
    }

    /// Number and payload of the last segment.
    #[inline]
    pub fn last(&self) -> (u64, u32) {
        (self.total.wrapping_sub(1), self.tail)
    }

    pub fn view(&self, now: u64) -> ConnectionView {
        let mss = u64::from(self.mss);
        ConnectionView {
            now_us: now / 1000,
            unsent: (self.total.min(self.buffer.written)).saturating_sub(self.pending) * mss,
            in_flight: (self.next - self.una) * mss,
            window_left: self.edge.saturating_sub(self.pending) * mss,
            reinjected: self.reinjected,
        }
    }

    /// Payload bytes delivered in order.
    pub fn delivered_bytes(&self) -> u64 {
        let next = self.reassembly.next;
        let full = next * u64::from(self.mss);
        if next >= self.total {
            full - u64::from(self.mss - self.tail)
        } else {
            full
        }
    }

    pub fn done(&self) -> bool {
        self.reassembly.next >= self.total
    }

    /// Ends an open transfer: what no subflow was given yet is not sent any more.
    pub fn stop(&mut self) {
        if self.total == ENDLESS {
            self.total = self.next.max(self.reassembly.next);
            self.tail = self.mss;
        }
    }

    #[inline]
    pub fn deadline(&self) -> u64 {
        self.retransmit_at.min(self.announce_at).min(self.wake_at)
    }
}
