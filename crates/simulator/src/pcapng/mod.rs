//! A run as a capture file: what an analyser would have seen on the client's interfaces.
//!
//! Each path is an interface of raw IPv4; its client has the address 10.1.N.1 and its server 10.2.N.1, N counting paths
//! from 1. Packets are cut after their headers: their payload is not simulated. Keys, nonces and initial sequence
//! numbers follow from the transfer's number, so that the same run gives the same file. Segments of a train appear as
//! packets of their own, at one time.

mod flow;
mod options;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use etherparse::{IpNumber, Ipv4Header, TcpHeader};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::{DataLink, PcapError};

use crate::network::Packet;
use crate::observe::{Observer, Passing};
use flow::{Conversation, Flow, Segment};
use options::Keys;

/// Port of every server.
pub const SERVER_PORT: u16 = 5001;

/// Writes what it observes. Errors of the output are kept for [`Capture::finish`].
pub struct Capture<W: Write> {
    writer: PcapNgWriter<W>,
    flows: HashMap<u32, Flow>,
    connections: HashMap<u32, Conversation>,
    identification: u16,
    failed: Option<PcapError>,
    written: u64,
}

impl<W: Write> Capture<W> {
    /// `paths`: names of the scenario's paths, in order.
    pub fn new<'a>(out: W, paths: impl Iterator<Item = &'a str>) -> io::Result<Self> {
        let mut writer = PcapNgWriter::new(out).map_err(to_io)?;
        for name in paths {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(9), // 10^-9 s
            ];
            let block = InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: 0,
                options,
            };
            writer.write_pcapng_block(block).map_err(to_io)?;
        }
        Ok(Capture {
            writer,
            flows: HashMap::new(),
            connections: HashMap::new(),
            identification: 0,
            failed: None,
            written: 0,
        })
    }

    /// Packets written, or the first error of the output.
    pub fn finish(self) -> io::Result<u64> {
        match self.failed {
            Some(error) => Err(to_io(error)),
            None => self.writer.into_inner().flush().map(|()| self.written),
        }
    }

    fn write(&mut self, passing: &Passing<'_>, segment: &Segment) -> Result<(), PcapError> {
        let addresses = addresses(passing.path);
        let ports = [client_port(passing.packet.subflow), SERVER_PORT];
        let (from, to) = if passing.from_client { (0, 1) } else { (1, 0) };

        let mut tcp = TcpHeader::new(ports[from], ports[to], segment.sequence, segment.window);
        tcp.acknowledgment_number = segment.acknowledgment.unwrap_or(0);
        tcp.ack = segment.acknowledgment.is_some();
        tcp.syn = segment.syn;
        tcp.psh = segment.payload > 0 && !segment.syn;
        tcp.ece = segment.ece;
        tcp.cwr = segment.cwr;
        tcp.set_options_raw(&segment.options)
            .expect("whole words, 40 bytes at most");

        let length = tcp.header_len() + usize::from(segment.payload);
        let length = u16::try_from(length).expect("a segment fits into a packet");
        let mut ip = Ipv4Header::new(length, 64, IpNumber::TCP, addresses[from], addresses[to])
            .expect("a segment fits into a packet");
        self.identification = self.identification.wrapping_add(1);
        ip.identification = self.identification;
        ip.dont_fragment = true;
        ip.ecn = segment.ecn;
        ip.header_checksum = ip.calc_header_checksum();
        let payload = vec![0; usize::from(segment.payload)];
        tcp.checksum = tcp
            .calc_checksum_ipv4(&ip, &payload)
            .expect("a segment fits into a packet");

        let mut data = Vec::with_capacity(100);
        ip.write(&mut data).map_err(PcapError::IoError)?;
        tcp.write(&mut data).map_err(PcapError::IoError)?;
        self.written += 1;
        let block = EnhancedPacketBlock {
            interface_id: passing.path,
            timestamp: Duration::from_nanos(passing.now_ns),
            original_len: (data.len() + payload.len()) as u32,
            data: Cow::Owned(data),
            options: Vec::new(),
        };
        self.writer.write_pcapng_block(block).map(|_| ())
    }
}

impl<W: Write> Observer for Capture<W> {
    fn sent(&mut self, packet: &Packet) {
        if let Some(flow) = self.flows.get_mut(&packet.subflow) {
            flow.sent(packet);
        }
    }

    fn packet(&mut self, passing: &Passing<'_>) {
        if self.failed.is_some() {
            return;
        }
        let connection = self.connections.entry(passing.transfer).or_insert_with(|| {
            Conversation::new(Keys::new(
                [0, 1].map(|end| mix(u64::from(passing.transfer) << 1 | end)),
            ))
        });
        let flow = self
            .flows
            .entry(passing.packet.subflow)
            .or_insert_with(|| Flow::new(passing));
        let segments = flow.segments(passing, connection);
        for segment in segments {
            if let Err(error) = self.write(passing, &segment) {
                self.failed = Some(error);
                return;
            }
        }
    }
}

/// Client's and server's address on a path.
pub fn addresses(path: u32) -> [[u8; 4]; 2] {
    let [_, _, high, low] = (path + 1).to_be_bytes();
    [[10, 1 + 2 * high, low, 1], [10, 2 + 2 * high, low, 1]]
}

/// Every subflow its own, as far as there are ports.
pub fn client_port(subflow: u32) -> u16 {
    (32_768 + subflow % 28_000) as u16
}

/// The finaliser of SplitMix64: a number that looks random, always the same for the same input.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn to_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
