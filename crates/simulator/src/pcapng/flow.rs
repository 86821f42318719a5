//! From the simulator's segments, counted from 0, to a subflow's bytes on the wire.

use super::options::{Keys, Options};
use super::{addresses, mix};
use crate::network::{flag, Kind, Packet};
use crate::observe::Passing;
use crate::time::MILLISECOND;

/// Window scale of both ends, bits: 65,535 · 2^10 is above any receive buffer that Linux sizes by itself.
const SCALE: u8 = 10;

/// IP and TCP headers with timestamps, and what a mapping and the keys add in whole words, bytes.
const PLAIN_HEADERS: u32 = 20 + 20 + 12;
const MAPPING: u32 = 28;
const CAPABLE: u32 = 24;

/// ECN codepoints, RFC 3168.
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// One header to be written.
#[derive(Debug, Default)]
pub struct Segment {
    pub sequence: u32,
    pub acknowledgment: Option<u32>,
    pub syn: bool,
    pub ece: bool,
    pub cwr: bool,
    pub ecn: etherparse::IpEcn,
    pub window: u16,
    pub options: Vec<u8>,
    /// Bytes
    pub payload: u16,
}

/// What the subflows of a connection share.
#[derive(Debug)]
pub struct Conversation {
    pub keys: Keys,
    /// Bytes of request in the third packet of the first subflow.
    request: u32,
    /// Latest data-level acknowledgement, bytes.
    data_ack: u64,
    /// Data-level end of the transfer, bytes, once its short last segment was seen.
    end: Option<u64>,
}

impl Conversation {
    pub fn new(keys: Keys) -> Conversation {
        Conversation {
            keys,
            request: 0,
            data_ack: 0,
            end: None,
        }
    }
}

#[derive(Debug)]
pub struct Flow {
    mss: u32,
    /// End that sends the transfer's data: 0 client, 1 server.
    sender: usize,
    join: bool,
    path: u32,
    multipath: bool,
    initial: [u32; 2],
    nonces: [u32; 2],
    /// Bytes of request in the third packet of this subflow.
    request: u32,
    /// Short segments so far, and the bytes missing up to and with each from the size of full ones.
    short: Vec<(u64, u64)>,
    /// Latest window that the receiving end announced, scaled.
    window: u16,
    /// Latest timestamp of each end, ms.
    clock: [u32; 2],
    /// Segments sent, and acknowledged, so far.
    sent: u64,
    acked: u64,
}

impl Flow {
    pub fn new(passing: &Passing<'_>) -> Flow {
        let id = u64::from(passing.packet.subflow);
        let number = |salt: u64| (mix(id << 8 | salt) >> 32) as u32;
        Flow {
            mss: passing.mss,
            sender: usize::from(passing.download),
            join: passing.join,
            path: passing.path,
            multipath: false,
            initial: [number(0), number(1)],
            nonces: [number(2), number(3)],
            request: 0,
            short: Vec::new(),
            window: (65_535 >> SCALE) as u16,
            clock: [0; 2],
            sent: 0,
            acked: 0,
        }
    }

    /// The headers of one packet: several where it is a train.
    pub fn segments(
        &mut self,
        passing: &Passing<'_>,
        connection: &mut Conversation,
    ) -> Vec<Segment> {
        let packet = passing.packet;
        let from = usize::from(!passing.from_client);
        if packet.kind != Kind::Data {
            return vec![self.control(from, passing, connection)];
        }
        self.clock[from] = (packet.stamp / MILLISECOND) as u32;
        let payload = self.payload(packet);
        (0..u64::from(packet.count))
            .filter(|i| packet.count == 1 || passing.from_client || packet.extra >> i & 1 == 1)
            .map(|i| self.data(from, packet, i, payload, connection))
            .collect()
    }

    /// Bytes of payload of a data packet, or of each in a train.
    fn payload(&self, packet: &Packet) -> u32 {
        let headers = PLAIN_HEADERS + if self.multipath { MAPPING } else { 0 };
        (packet.size / u32::from(packet.count))
            .saturating_sub(headers)
            .min(self.mss)
    }

    /// A data packet leaves its sender. First transmissions do so in order.
    pub fn sent(&mut self, packet: &Packet) {
        let missing = self.mss - self.payload(packet);
        let before = self.short.last().copied();
        if missing > 0 && before.is_none_or(|(seq, _)| seq < packet.seq) {
            let sum = before.map_or(0, |(_, sum)| sum) + u64::from(missing);
            self.short.push((packet.seq, sum));
        }
    }

    /// Segment `i` of a train.
    fn data(
        &mut self,
        from: usize,
        packet: &Packet,
        i: u64,
        payload: u32,
        connection: &mut Conversation,
    ) -> Segment {
        let (seq, mut data) = (packet.seq + i, (packet.dseq + i) * u64::from(self.mss));
        self.sent = self.sent.max(seq + 1);
        if packet.has(flag::SHORT) {
            // The end of the segment before it once more.
            data += u64::from(self.mss - payload);
        } else if payload < self.mss {
            connection.end = Some(data + u64::from(payload));
        }
        let relative = 1 + self.bytes(seq) as u32;
        let mut options = Options::default();
        options.timestamps(self.clock[from], self.clock[1 - from]);
        if self.multipath {
            let sequence = connection.keys.idsn[from].wrapping_add(1 + data);
            let ack =
                connection.keys.idsn[1 - from].wrapping_add(1 + u64::from(connection.request));
            options.mapping(ack, sequence, relative, payload as u16);
        }
        Segment {
            sequence: self.initial[from].wrapping_add(relative),
            acknowledgment: Some(self.initial[1 - from].wrapping_add(1 + self.request)),
            ece: packet.has(flag::ECE),
            cwr: packet.has(flag::CWR),
            ecn: ecn(packet),
            window: self.window,
            options: options.bytes(),
            payload: payload as u16,
            ..Segment::default()
        }
    }

    fn control(
        &mut self,
        from: usize,
        passing: &Passing<'_>,
        connection: &mut Conversation,
    ) -> Segment {
        let packet = passing.packet;
        self.clock[from] = match packet.kind {
            // The echoed time plus the delay that the receiver measured is the receiver's clock.
            Kind::Ack => (packet.stamp / MILLISECOND + packet.delay_ms()) as u32,
            _ => (packet.stamp / MILLISECOND) as u32,
        }
        .max(self.clock[from]);
        let syn = matches!(packet.kind, Kind::Syn | Kind::SynAck);
        let mut segment = Segment {
            sequence: self.next(from, self.sent),
            acknowledgment: Some(self.next(1 - from, self.acked)),
            ece: packet.has(flag::ECE),
            ecn: ecn(packet),
            window: if syn { u16::MAX } else { self.window },
            ..Segment::default()
        };
        let mut options = Options::default();
        if packet.kind == Kind::Syn {
            self.multipath = packet.has(flag::MULTIPATH);
            segment.acknowledgment = None;
        }
        if syn {
            segment.syn = true;
            segment.sequence = self.initial[from];
            let echo = if packet.kind == Kind::Syn {
                0
            } else {
                self.clock[1 - from]
            };
            // The timestamps of each segment count as its payload here (RFC 6691).
            options.syn(self.mss as u16 + 12, [self.clock[from], echo], SCALE);
        } else {
            options.timestamps(self.clock[from], self.clock[1 - from]);
        }
        if packet.kind == Kind::Third && !self.join && self.sender == 1 {
            self.request = packet
                .size
                .saturating_sub(PLAIN_HEADERS + if self.multipath { CAPABLE } else { 0 });
            connection.request = self.request;
            segment.payload = self.request as u16;
        }
        if packet.kind == Kind::Ack {
            self.acked = self.acked.max(packet.seq);
            segment.acknowledgment = Some(self.next(1 - from, packet.seq));
            let window = packet.window() * u64::from(self.mss);
            self.window = (window >> SCALE).min(u64::from(u16::MAX)) as u16;
            segment.window = self.window;
            connection.data_ack = connection.data_ack.max(packet.dseq * u64::from(self.mss));
        }
        if self.multipath {
            self.multipath_options(&mut options, from, passing, connection);
        }
        if let Some(sack) = passing.sack {
            options.sack(sack, |s| {
                self.initial[1 - from].wrapping_add(1 + self.bytes(s) as u32)
            });
        }
        segment.options = options.bytes();
        segment
    }

    fn multipath_options(
        &self,
        options: &mut Options,
        from: usize,
        passing: &Passing<'_>,
        connection: &Conversation,
    ) {
        let packet = passing.packet;
        let (first, backup, keys) = (!self.join, packet.has(flag::BACKUP), &connection.keys);
        match packet.kind {
            Kind::Syn if first => options.mp_capable(&[], None),
            Kind::Syn => options.join_syn(keys, backup, address_id(self.path), self.nonces[0]),
            Kind::SynAck if first => options.mp_capable(&keys.key[1..], None),
            Kind::SynAck => options.join_syn_ack(keys, backup, address_id(self.path), self.nonces),
            Kind::Third if first => {
                options.mp_capable(&keys.key, (self.request > 0).then_some(self.request as u16));
            }
            Kind::Third => options.join_third(keys, self.nonces),
            Kind::AddAddr | Kind::AddAddrEcho => {
                let address = addresses(passing.announced)[1];
                let echo = packet.kind == Kind::AddAddrEcho;
                options.add_addr(keys, 1, address_id(passing.announced), address, echo);
            }
            Kind::Priority => options.mp_prio(packet.seq == 1),
            Kind::Fourth | Kind::Ack | Kind::Data | Kind::Probe | Kind::ProbeEcho => {}
        }
        if matches!(packet.kind, Kind::Fourth | Kind::Ack | Kind::Priority) {
            let ack = if from == self.sender {
                u64::from(connection.request)
            } else {
                connection.data_ack.min(connection.end.unwrap_or(u64::MAX))
            };
            options.data_ack(keys.idsn[1 - from].wrapping_add(1 + ack));
        }
    }

    /// Bytes before a segment.
    fn bytes(&self, segment: u64) -> u64 {
        let before = self.short.partition_point(|&(s, _)| s < segment);
        let missing = before.checked_sub(1).map_or(0, |i| self.short[i].1);
        segment * u64::from(self.mss) - missing
    }

    /// Sequence number after an end's first `segments`; the request is the only data of the end that receives.
    fn next(&self, end: usize, segments: u64) -> u32 {
        let sent = if end == self.sender {
            self.bytes(segments) as u32
        } else {
            self.request
        };
        self.initial[end].wrapping_add(1 + sent)
    }
}

/// Identifier of a path's addresses: 0 is that of the connection's first subflow.
fn address_id(path: u32) -> u8 {
    (path + 1).min(255) as u8
}

fn ecn(packet: &Packet) -> etherparse::IpEcn {
    let codepoint = match (packet.has(flag::CE), packet.has(flag::ECT)) {
        (true, _) => CE,
        (false, true) => ECT_0,
        _ => 0,
    };
    etherparse::IpEcn::try_new(codepoint).expect("two bits")
}
