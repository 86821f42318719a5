//! Bulk that waits for a path: a queue for each flow, taken in turns, each with CoDel at its head (FQ-CoDel, RFC 8290).
//!
//! RFC 8290's list of new flows is missing: flows that send little do not come here.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mp_links::{CoDel, Verdict};

/// RFC 8289, section 4.4.
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes a flow has for each turn.
const QUANTUM: i64 = 1514;
/// Bytes in all queues; above, the longest queue loses its oldest packets.
pub const MOST: usize = 1 << 22;
/// A packet that waits for longer is dropped: the paths have stood still, or flows do not react to CoDel.
const OLD: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Queue {
    flows: HashMap<u32, Waiting>,
    turns: VecDeque<u32>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    packets: VecDeque<(Duration, Bytes)>,
    bytes: usize,
    /// Bytes of this turn that are left.
    left: i64,
    codel: CoDel,
    /// CoDel has let the first one pass.
    has_passed: bool,
}

impl Waiting {
    /// Removes the first packet. Returns its bytes.
    fn pop(&mut self) -> usize {
        let first = self.packets.pop_front();
        let bytes = first.map_or(0, |(_, packet)| packet.len());
        self.bytes -= bytes;
        self.has_passed = false;
        bytes
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn has(&self, flow: u32) -> bool {
        let waiting = self.flows.get(&flow);
        waiting.is_some_and(|waiting| !waiting.packets.is_empty())
    }

    /// Appends a packet to its flow's queue. Returns the number of packets dropped for it.
    pub fn put(&mut self, flow: u32, packet: Bytes, now: Duration) -> u64 {
        let turns = &mut self.turns;
        let waiting = self.flows.entry(flow).or_insert_with(|| {
            turns.push_back(flow);
            Waiting {
                packets: VecDeque::new(),
                bytes: 0,
                left: QUANTUM,
                codel: CoDel::new(nanos(TARGET), nanos(INTERVAL)),
                has_passed: false,
            }
        });
        waiting.bytes += packet.len();
        self.bytes += packet.len();
        waiting.packets.push_back((now, packet));
        let mut dropped = 0;
        while self.bytes > MOST {
            let longest = self.flows.iter_mut().max_by_key(|(_, of)| of.bytes);
            let Some((_, longest)) = longest else { break };
            self.bytes -= longest.pop();
            dropped += 1;
        }
        dropped
    }

    /// Offers the next packet to `go`, which returns false if no path has room; the packet then stays, and shorter ones of other flows
    /// are offered. Returns the number of packets dropped before, by CoDel or for their age, and whether one has gone.
    pub fn take(&mut self, now: Duration, mut go: impl FnMut(u32, &Bytes) -> bool) -> (u64, bool) {
        let mut dropped = 0;
        let (mut refused, mut shortest) = (0, usize::MAX);
        while let Some(flow) = self.turns.front().copied() {
            if refused >= self.turns.len() {
                break;
            }
            let Some(waiting) = self.flows.get_mut(&flow) else {
                self.turns.pop_front();
                continue;
            };
            if waiting.left <= 0 {
                waiting.left += QUANTUM;
                self.turns.rotate_left(1);
                continue;
            }
            let Some((since, packet)) = waiting.packets.front() else {
                self.turns.pop_front();
                self.flows.remove(&flow);
                continue;
            };
            let length = packet.len();
            let age = now.saturating_sub(*since);
            if age > OLD {
                self.bytes -= waiting.pop();
                dropped += 1;
                continue;
            }
            if length >= shortest {
                refused += 1;
                self.turns.rotate_left(1);
                continue;
            }
            if !waiting.has_passed {
                let (at, sojourn) = (nanos(now), nanos(age));
                let behind = (waiting.bytes - length) as u64;
                if waiting.codel.dequeue(at, sojourn, behind) == Verdict::Signal {
                    self.bytes -= waiting.pop();
                    dropped += 1;
                    continue;
                }
                waiting.has_passed = true;
            }
            if !go(flow, packet) {
                (refused, shortest) = (refused + 1, length);
                self.turns.rotate_left(1);
                continue;
            }
            waiting.left -= length as i64;
            self.bytes -= waiting.pop();
            if waiting.packets.is_empty() {
                self.turns.pop_front();
                self.flows.remove(&flow);
            }
            return (dropped, true);
        }
        (dropped, false)
    }
}
