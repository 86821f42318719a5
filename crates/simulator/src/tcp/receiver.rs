//! The receiving half of a subflow: reassembly, SACK, and when to acknowledge (`tcp_data_queue`,
//! `__tcp_ack_snd_check`).

use crate::agenda::NEVER;
use crate::network::{flag, Packet, Sack};
use crate::time::MILLISECOND;

/// `TCP_ATO_MIN`, ns.
const DELAYED_ACK: u64 = 40 * MILLISECOND;
/// `TCP_MAX_QUICKACKS`
const QUICK_ACKS: u32 = 16;
/// `TCP_FASTRETRANS_THRESH`: duplicate ACKs that are sent at once.
const DUPLICATES: u32 = 3;
/// net.ipv4.tcp_comp_sack_nr
const COMPRESSED: u32 = 44;
/// net.ipv4.tcp_comp_sack_delay_ns
const COMPRESSION: u64 = MILLISECOND;
/// No sample of the round-trip time is longer (`TCP_RTO_MAX`), ms.
const LONGEST_MS: u32 = 120_000;
/// `TCP_NUM_SACKS`
const BLOCKS: usize = 4;
/// `TCP_SACK_BLOCKS_EXPECTED`
const BLOCKS_EXPECTED: usize = 2;

/// Whether an arrival is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Now,
    Later,
}

#[derive(Debug)]
pub struct Receiver {
    pub rcv_nxt: u64,
    /// Ranges received above `rcv_nxt`, ascending, not touching.
    ahead: Vec<(u64, u64)>,
    /// Segments in `ahead`.
    pub held: u64,
    /// The most recent first.
    blocks: [(u64, u64); BLOCKS],
    block_count: usize,
    duplicate: Option<(u64, u64)>,
    /// In order and not acknowledged.
    pending: u32,
    quick: u32,
    /// What is pending ends what its sender had to say, as far as one can tell (`ICSK_ACK_PUSHED`).
    pushed: bool,
    started: bool,
    /// Time of the segment that the next ACK echoes.
    echo: u64,
    echoed: u64,
    last_arrival: u64,
    /// Delay between the echoed segment's sending and now, for the next ACK.
    pub delayed_ack: u64,
    duplicates: u32,
    compressed: u32,
    compressed_at: u64,
    /// ACKs held back by compression go out by then.
    pub compressed_until: u64,
    ece: bool,
    /// Window that this subflow would announce by itself (`rcv_ssthresh`), segments.
    pub opened: u64,
    /// Payload segments that arrived, duplicates included, and the short ones among them.
    pub arrived: u64,
    pub arrived_short: u64,
    /// Payload segments that arrived ahead of a hole (`tcpi_rcv_ooopack`).
    pub out_of_order: u64,
    /// From an ACK to the data that it let go (`rcv_rtt_est`), µs times 8; 0 before the first sample.
    rtt_us8: u32,
    /// The ACK of the latest sample (`rcv_rtt_last_tsecr`), ms.
    measured_ms: u32,
    /// Selective blocks that fit beside the other options.
    room: usize,
    dead: bool,
}

impl Receiver {
    /// `room`: SACK blocks an ACK can carry. `opened`: window at first, segments.
    pub fn new(room: usize, opened: u64) -> Self {
        Receiver {
            rcv_nxt: 0,
            ahead: Vec::new(),
            held: 0,
            blocks: [(0, 0); BLOCKS],
            block_count: 0,
            duplicate: None,
            pending: 0,
            quick: 0,
            pushed: false,
            started: false,
            echo: 0,
            echoed: 0,
            last_arrival: 0,
            delayed_ack: NEVER,
            duplicates: 0,
            compressed: 0,
            compressed_at: 0,
            compressed_until: NEVER,
            ece: false,
            opened,
            arrived: 0,
            arrived_short: 0,
            out_of_order: 0,
            rtt_us8: 0,
            measured_ms: 0,
            room,
            dead: false,
        }
    }

    #[inline]
    pub fn deadline(&self) -> u64 {
        self.delayed_ack.min(self.compressed_until)
    }

    pub fn close(&mut self) {
        self.dead = true;
        self.delayed_ack = NEVER;
        self.compressed_until = NEVER;
        self.ahead = Vec::new();
    }

    pub fn is_closed(&self) -> bool {
        self.dead
    }

    /// Segments `[start, end)` of one packet. What became in order is below the new [`Receiver::rcv_nxt`].
    #[inline]
    pub fn on_data(&mut self, packet: &Packet, start: u64, end: u64, now: u64, rtt: u64) -> Reply {
        self.arrived += end - start;
        self.arrived_short += u64::from(packet.has(flag::SHORT));
        if !self.started {
            self.started = true;
            self.quick = QUICK_ACKS;
        }
        if packet.has(flag::CWR) {
            self.ece = false;
        }
        if packet.has(flag::CE) {
            self.ece = true;
            self.quick = self.quick.max(2);
        }
        self.last_arrival = now;
        self.measure_rtt(packet, now);
        // RFC 7323: echo the oldest segment that is not acknowledged.
        if start <= self.echoed && packet.stamp >= self.echo {
            self.echo = packet.stamp;
        }
        if start == self.rcv_nxt && self.ahead.is_empty() {
            self.rcv_nxt = end;
            self.pending += (end - start) as u32;
            self.pushed |= packet.flags & (flag::PUSH | flag::SHORT) != 0;
            return self.reply_in_order(now);
        }
        self.on_unusual(start, end, now, rtt)
    }

    /// One sample of each ACK that data echo, short segments aside (`tcp_rcv_rtt_measure_ts` of Linux 6.16 and later). The clock
    /// ticks in milliseconds. The estimate falls at once and rises by an eighth (`tcp_rcv_rtt_update`).
    #[inline]
    fn measure_rtt(&mut self, packet: &Packet, now: u64) {
        let echo_ms = packet.echo_ms();
        if echo_ms == self.measured_ms {
            return;
        }
        self.measured_ms = echo_ms;
        let sample_ms = ((now / MILLISECOND) as u32).saturating_sub(echo_ms);
        let sample_us = sample_ms.min(LONGEST_MS) * 1000;
        if sample_us == 0 || packet.has(flag::SHORT) {
            return;
        }
        self.rtt_us8 = match self.rtt_us8 {
            0 => sample_us * 8,
            old => (sample_us * 8).min(old - old / 8 + sample_us),
        };
    }

    /// Round-trip time of the data that arrive (`tcpi_rcv_rtt`), µs; 0 before the first sample.
    pub fn rtt_us(&self) -> u32 {
        self.rtt_us8 / 8
    }

    /// Every second segment is acknowledged at once, and each of the first ones.
    #[inline]
    fn reply_in_order(&mut self, now: u64) -> Reply {
        if self.pending >= 2 || self.quick > 0 {
            return Reply::Now;
        }
        if self.delayed_ack == NEVER {
            self.delayed_ack = now + DELAYED_ACK;
        }
        Reply::Later
    }

    /// The application has read all there was: what is pending is acknowledged, if it seems to end a burst
    /// (`tcp_cleanup_rbuf`).
    #[inline]
    pub fn drained(&self) -> Reply {
        if self.pushed && self.pending > 0 {
            Reply::Now
        } else {
            Reply::Later
        }
    }

    /// Duplicates, gaps, and the filling of gaps.
    fn on_unusual(&mut self, start: u64, end: u64, now: u64, rtt: u64) -> Reply {
        if end <= self.rcv_nxt {
            self.duplicate = Some((start, end));
            self.quick = QUICK_ACKS;
            return Reply::Now;
        }
        if start <= self.rcv_nxt {
            let before = self.rcv_nxt;
            self.rcv_nxt = end;
            self.absorb();
            self.pending += (self.rcv_nxt - before) as u32;
            self.drop_blocks();
            return Reply::Now;
        }
        self.out_of_order += end - start;
        if !self.insert(start, end) {
            self.duplicate = Some((start, end));
        }
        self.note_block(start, end);
        self.compress(now, rtt)
    }

    /// ACK compression (`__tcp_ack_snd_check`): after three duplicates the others wait for up to 5 % of the RTT.
    fn compress(&mut self, now: u64, rtt: u64) -> Reply {
        if self.compressed_at != self.rcv_nxt {
            self.compressed_at = self.rcv_nxt;
            self.duplicates = 0;
        }
        if self.duplicates < DUPLICATES {
            self.duplicates += 1;
            return Reply::Now;
        }
        self.compressed += 1;
        if self.compressed >= COMPRESSED {
            return Reply::Now;
        }
        if self.compressed_until == NEVER {
            let delay = (rtt / 20).min(COMPRESSION);
            if delay == 0 {
                return Reply::Now;
            }
            self.compressed_until = now + delay;
        }
        Reply::Later
    }

    /// An ACK that was held back must go before these segments are taken in, or the one that follows would have no room
    /// for what it was to report (`tcp_sack_compress_send_ack`).
    #[inline]
    pub fn must_flush(&self, start: u64, end: u64) -> bool {
        self.compressed > 0 && start > self.rcv_nxt && self.displaces(start, end)
    }

    fn displaces(&self, start: u64, end: u64) -> bool {
        let mut blocks = self.blocks[..self.block_count].iter();
        let extends = blocks.position(|b| b.0 <= end && start <= b.1);
        extends.unwrap_or(self.block_count) >= BLOCKS_EXPECTED
    }

    /// Takes in what now follows without a gap.
    fn absorb(&mut self) {
        let mut done = 0;
        for &(start, end) in &self.ahead {
            if start > self.rcv_nxt {
                break;
            }
            self.held -= end - start;
            self.rcv_nxt = self.rcv_nxt.max(end);
            done += 1;
        }
        self.ahead.drain(..done);
    }

    /// How far above `rcv_nxt` segments are held; 0 where there are none.
    #[inline]
    pub fn ahead(&self) -> u64 {
        self.ahead.last().map_or(0, |&(_, end)| end - self.rcv_nxt)
    }

    /// False where all of it was there already.
    fn insert(&mut self, start: u64, end: u64) -> bool {
        let from = self.ahead.partition_point(|r| r.1 < start);
        let to = from + self.ahead[from..].partition_point(|r| r.0 <= end);
        if from == to {
            self.ahead.insert(from, (start, end));
            self.held += end - start;
            return true;
        }
        let merged = (start.min(self.ahead[from].0), end.max(self.ahead[to - 1].1));
        let had: u64 = self.ahead[from..to].iter().map(|r| r.1 - r.0).sum();
        let gained = merged.1 - merged.0 - had;
        self.held += gained;
        self.ahead[from] = merged;
        self.ahead.drain(from + 1..to);
        gained > 0
    }

    /// `tcp_sack_new_ofo_skb`: the block that holds the newest segment comes first.
    fn note_block(&mut self, start: u64, end: u64) {
        let at = self.ahead.partition_point(|r| r.1 < end);
        let whole = self.ahead.get(at).copied().unwrap_or((start, end));
        let mut kept = 0;
        let mut blocks = [(0, 0); BLOCKS];
        blocks[0] = whole;
        for &block in &self.blocks[..self.block_count] {
            let inside = whole.0 <= block.0 && block.1 <= whole.1;
            if !inside && kept + 1 < BLOCKS {
                kept += 1;
                blocks[kept] = block;
            }
        }
        self.blocks = blocks;
        self.block_count = kept + 1;
    }

    /// `tcp_sack_remove`
    fn drop_blocks(&mut self) {
        let mut kept = 0;
        for i in 0..self.block_count {
            if self.blocks[i].1 > self.rcv_nxt {
                self.blocks[kept] = self.blocks[i];
                kept += 1;
            }
        }
        self.block_count = kept;
    }

    /// An ACK leaves: its SACK blocks, where it has any.
    #[inline]
    pub fn acknowledge(&mut self) -> Option<Sack> {
        self.pending = 0;
        self.pushed = false;
        self.quick = self.quick.saturating_sub(1);
        self.delayed_ack = NEVER;
        self.compressed_until = NEVER;
        self.compressed = 0;
        self.echoed = self.rcv_nxt;
        if self.block_count == 0 && self.duplicate.is_none() {
            return None;
        }
        let mut sack = Sack::default();
        if let Some(block) = self.duplicate.take() {
            sack.blocks[0] = block;
            sack.len = 1;
            sack.duplicate = true;
        }
        for &block in &self.blocks[..self.block_count] {
            if usize::from(sack.len) < self.room.min(sack.blocks.len()) {
                sack.blocks[usize::from(sack.len)] = block;
                sack.len += 1;
            }
        }
        Some(sack)
    }

    /// Time of sending that the next ACK echoes, ns.
    #[inline]
    pub fn echo(&self) -> u64 {
        self.echo
    }

    #[inline]
    pub fn echoes_congestion(&self) -> bool {
        self.ece
    }

    /// A timer is due; true where an ACK has to go.
    pub fn on_timer(&mut self, now: u64) -> bool {
        !self.dead && self.deadline() <= now
    }
}
