//! One flow at one of its ends: numbers for what it sends, whether copies are worth it, and which copies it has had.

use std::time::Duration;

use bytes::Bytes;

use super::order::Order;
use super::packet::How;
use super::parts::Part;

/// A flow within this rate is copied, bytes/s: calls, games, DNS, the first bytes of everything.
const RATE: u64 = 3_000_000 / 8;
/// … after so many bytes at any rate.
const BURST: u64 = 1 << 16;

/// Open flows; the one that was quiet longest makes place. The relay has place for those that the device has just forgotten: were
/// it to forget one that the device knows, packets would be lost ([`Idle`]).
pub const MOST: Most = Most {
    device: 4096,
    relay: 4096 + 512,
};

const _: () = assert!(MOST.relay > MOST.device);

pub struct Most {
    pub device: usize,
    pub relay: usize,
}

/// Both ends look for quiet flows so often.
pub const EXPIRE_EVERY: Duration = Duration::from_secs(5);
const DNS: u16 = 53;
const QUIC: u16 = 443;
/// Tunnels that carry TCP: WireGuard, IPsec behind a NAT (RFC 3948), OpenVPN.
const TUNNELS: [u16; 3] = [51820, 4500, 1194];

/// Whether a flow of bulk to this port is to be in order. QUIC takes a packet for lost when one that was sent three later has come
/// (RFC 9002, section 6.1.1), as TCP does, and sends less; others may rather have a packet late than all of them.
pub fn minds_order(port: u16) -> bool {
    port == QUIC || TUNNELS.contains(&port)
}

/// A flow in which no packet goes for so long is forgotten. The device forgets first: its next packet opens a flow anew. Were
/// the relay first, it would not know the flow of that packet, nor the target, and the packet would be lost.
#[derive(Debug, PartialEq, Eq)]
pub struct Idle {
    pub device: Duration,
    pub relay: Duration,
}

impl Idle {
    /// Two minutes, as RFC 4787, requirement 5, asks.
    pub const LONGEST: Idle = Idle {
        device: Duration::from_secs(120),
        relay: Duration::from_secs(150),
    };
    /// It lets a well-known port have less.
    const DNS: Idle = Idle {
        device: Duration::from_secs(20),
        relay: Duration::from_secs(40),
    };

    /// To this port.
    pub fn of(port: u16) -> Idle {
        match port {
            DNS => Idle::DNS,
            _ => Idle::LONGEST,
        }
    }
}

/// A token bucket. A flow that empties it is bulk until it has been so quiet that the bucket is full again.
#[derive(Debug)]
pub struct Budget {
    tokens: u64,
    bulk: bool,
    filled: Duration,
}

impl Budget {
    pub fn new(now: Duration) -> Budget {
        Budget {
            tokens: BURST,
            bulk: false,
            filled: now,
        }
    }

    /// Whether packets are not copied now.
    pub fn is_bulk(&self) -> bool {
        self.bulk
    }

    /// Whether a packet of this many bytes is to be copied. Time never goes back.
    pub fn take(&mut self, bytes: usize, now: Duration) -> bool {
        let elapsed = now.saturating_sub(self.filled).as_micros();
        let earned = (elapsed.min(10_000_000) as u64) * RATE / 1_000_000;
        if earned > 0 {
            self.tokens = (self.tokens + earned).min(BURST);
            self.filled = now;
        }
        self.bulk &= self.tokens < BURST;
        match self.tokens.checked_sub(bytes as u64) {
            Some(left) => self.tokens = left,
            None => {
                self.tokens = 0;
                self.bulk = true;
            }
        }
        !self.bulk
    }
}

/// Sequence numbers that have arrived: each counts once. They wrap; one that is older than the window counts as a copy.
#[derive(Debug)]
pub struct Seen {
    /// Highest that has arrived, after the first.
    newest: Option<u32>,
    bits: Box<[u64; WORDS]>,
}

const WORDS: usize = 128;
/// Packets of one flow that may overtake each other on paths of different length.
pub const WINDOW: u32 = WORDS as u32 * 64;

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            newest: None,
            bits: Box::new([0; WORDS]),
        }
    }
}

impl Seen {
    /// Whether it is the first with this number.
    pub fn take(&mut self, sequence: u32) -> bool {
        let newest = *self.newest.get_or_insert(sequence.wrapping_sub(1));
        let ahead = sequence.wrapping_sub(newest);
        if ahead != 0 && ahead < 1 << 31 {
            if ahead >= WINDOW {
                self.bits.fill(0);
            } else {
                for gone in 1..=ahead {
                    self.set(newest.wrapping_add(gone), false);
                }
            }
            self.newest = Some(sequence);
        } else if newest.wrapping_sub(sequence) >= WINDOW {
            return false;
        }
        let first = !self.has(sequence);
        self.set(sequence, true);
        first
    }

    fn has(&self, sequence: u32) -> bool {
        let place = sequence % WINDOW;
        self.bits[place as usize / 64] >> (place % 64) & 1 == 1
    }

    fn set(&mut self, sequence: u32, value: bool) {
        let place = sequence % WINDOW;
        let word = &mut self.bits[place as usize / 64];
        *word = *word & !(1 << (place % 64)) | u64::from(value) << (place % 64);
    }
}

/// A packet that waits for earlier ones.
#[derive(Debug)]
pub struct Kept {
    pub sequence: u32,
    pub part: Option<Part>,
    pub payload: Bytes,
}

/// What becomes of a packet that has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is a copy.
    Copy,
    /// On its way, and [`Flow::pop`] after it.
    Goes,
    /// Until [`Flow::pop`].
    Waits,
}

/// What both ends keep of a flow.
#[derive(Debug)]
pub struct Flow {
    pub budget: Budget,
    seen: Seen,
    next: u32,
    /// When a packet went either way.
    pub last: Duration,
    order: Order<Kept>,
}

impl Flow {
    pub fn new(now: Duration) -> Flow {
        Flow {
            budget: Budget::new(now),
            seen: Seen::default(),
            next: 0,
            last: now,
            order: Order::default(),
        }
    }

    /// Over the path of this slot, of a flow that minds the order or not.
    pub fn arrives(
        &mut self,
        (sequence, how, part, payload): (u32, How, Option<Part>, &[u8]),
        slot: usize,
        minds_order: bool,
        now: Duration,
    ) -> Arrival {
        self.last = now;
        if !self.seen.take(sequence) {
            if minds_order && how != How::Again {
                self.order.copy(sequence, slot, now);
            }
            return Arrival::Copy;
        }
        if !minds_order {
            return Arrival::Goes;
        }
        if how == How::Copied && !self.order.holds() {
            self.order.pass(sequence, slot, now);
            return Arrival::Goes;
        }
        let slot = (how != How::Again).then_some(slot);
        let Some(place) = self.order.take(sequence, slot, now) else {
            return Arrival::Goes;
        };
        let payload = Bytes::copy_from_slice(payload);
        let bytes = payload.len();
        let kept = Kept {
            sequence,
            part,
            payload,
        };
        self.order.hold(place, kept, bytes, now);
        Arrival::Waits
    }

    /// The next packet that need not wait any more.
    pub fn pop(&mut self, now: Duration) -> Option<Kept> {
        self.order.pop(now)
    }

    /// Numbers that were found to be lost since the last call, `most` at most.
    pub fn missing(&mut self, now: Duration, most: usize) -> Vec<u32> {
        self.order.missing(now, most)
    }

    /// Packets of these numbers will not come.
    pub fn are_gone(&mut self, numbers: impl IntoIterator<Item = u32>) {
        numbers.into_iter().for_each(|n| self.order.is_gone(n));
    }

    /// When it is to be asked for one at the latest.
    pub fn due(&self, now: Duration) -> Option<Duration> {
        self.order.due(now)
    }

    /// Of the next packet.
    pub fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// The packet of the last number went nowhere: the other end is not to wait for it.
    pub fn reuse_number(&mut self) {
        self.next = self.next.wrapping_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_forgets_a_flow_first() {
        for port in [0, DNS, 123, 443] {
            let idle = Idle::of(port);
            // It looks late, and packets wait on the way.
            let latest = idle.device + EXPIRE_EVERY + Duration::from_secs(10);
            assert!(idle.relay > latest, "{port}: {idle:?}");
        }
        assert!(Idle::of(DNS).relay < Idle::of(443).relay);
    }
}
