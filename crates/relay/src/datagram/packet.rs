//! What one QUIC datagram carries. Numbers are big-endian.
//!
//! ```text
//! 0 data     flow u32, sequence u32, payload
//! 1 opening  flow u32, sequence u32, destination, payload
//! 2 unknown  flow u32 (the relay has no such flow: the device is to send its target again)
//! 3 refused  flow u32, status u8 (the numbers of the stream lane)
//! 4 part of data, 5 of an opening: the same, and before the payload which part u8, number of the last part u8 ([`super::parts`])
//! 8, 9, 12, 13, and 16, 17, 20, 21: as 0, 1, 4, 5, of bulk, and sent again ([`How`])
//! 6 missing  flow u32, sequences u32 each (they are lost; whoever has them still sends them again)
//! 7 gone     flow u32, sequences u32 each (of those, what is not sent again)
//! ```
//! A destination is a kind u8, an address of [4] or [16] and, for UDP (kinds 4 and 6), a port u16; kinds 14 and 16 are ICMP
//! echo ([`super::echo`] has its payload).
//!
//! And once on each connection, on a stream: the device's proof [32] and [`Hello`], the relay's status u8.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::BufMut;
use mp_policy::link::Priority;

use super::parts::Part;
use crate::wire::{path_byte, read_path, Cursor, Malformed, Refusal, MOST_SCHEDULER};

/// Where the packets of a flow go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Destination {
    Udp(SocketAddr),
    /// ICMP echo requests.
    Echo(IpAddr),
}

impl Destination {
    pub fn ip(&self) -> IpAddr {
        match self {
            Destination::Udp(address) => address.ip(),
            Destination::Echo(ip) => *ip,
        }
    }

    /// 0 where there is none.
    pub fn port(&self) -> u16 {
        match self {
            Destination::Udp(address) => address.port(),
            Destination::Echo(_) => 0,
        }
    }
}

/// Of an opening to an IPv6 target, the longest.
pub const MOST_HEADER: usize = DATA_HEADER + 1 + 16 + 2;
const DATA_HEADER: usize = 1 + 4 + 4;
/// Bits of the kinds that have data.
const OPENING: u8 = 1;
const PART: u8 = 4;
const BULK: u8 = 8;
const AGAIN: u8 = 16;

/// How a packet with data went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Over every path.
    Copied,
    /// Over one path, after all that went over it before.
    Bulk,
    /// Bulk that was lost.
    Again,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    Data {
        flow: u32,
        sequence: u32,
        /// From the device, until the relay is known to have the flow.
        target: Option<Destination>,
        how: How,
        /// The payload is not the whole.
        part: Option<Part>,
        payload: &'a [u8],
    },
    Unknown {
        flow: u32,
    },
    Refused {
        flow: u32,
        why: Refusal,
    },
    Missing {
        flow: u32,
        numbers: Numbers<'a>,
    },
    Gone {
        flow: u32,
        numbers: Numbers<'a>,
    },
}

/// Sequence numbers as they are in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers<'a>(&'a [[u8; 4]]);

impl<'a> Numbers<'a> {
    /// In a packet at most.
    pub const MOST: usize = 64;

    /// Of [`encoded`] ones, at most so many.
    pub fn new(encoded: &'a [[u8; 4]]) -> Numbers<'a> {
        Numbers(&encoded[..encoded.len().min(Numbers::MOST)])
    }

    fn read(bytes: &'a [u8]) -> Option<Numbers<'a>> {
        let (numbers, rest) = bytes.as_chunks();
        let fits = rest.is_empty() && (1..=Numbers::MOST).contains(&numbers.len());
        fits.then_some(Numbers(numbers))
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + 'a {
        self.0.iter().copied().map(u32::from_be_bytes)
    }
}

/// For [`Numbers::new`].
pub fn encoded(numbers: impl IntoIterator<Item = u32>) -> Vec<[u8; 4]> {
    numbers.into_iter().map(u32::to_be_bytes).collect()
}

impl How {
    pub fn first(copied: bool) -> How {
        match copied {
            true => How::Copied,
            false => How::Bulk,
        }
    }
}

impl<'a> Packet<'a> {
    /// Whether it goes over every path.
    pub fn is_copied(&self) -> bool {
        !matches!(self, Packet::Data { how: How::Bulk, .. })
    }

    pub fn decode(bytes: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let short = || Malformed("a datagram that is too short");
        let mut cursor = Cursor(bytes);
        let kind = cursor.u8().ok_or_else(short)?;
        let flow = cursor.u32().ok_or_else(short)?;
        match kind {
            0 | 1 | 4 | 5 | 8 | 9 | 12 | 13 | 16 | 17 | 20 | 21 => {
                let sequence = cursor.u32().ok_or_else(short)?;
                let target = match kind & OPENING {
                    0 => None,
                    _ => {
                        Some(destination(&mut cursor).ok_or(Malformed("a target that cannot be"))?)
                    }
                };
                let part = match kind & PART {
                    0 => None,
                    _ => Some(read_part(&mut cursor).ok_or(Malformed("a part that cannot be"))?),
                };
                Ok(Packet::Data {
                    flow,
                    sequence,
                    target,
                    how: match kind & (BULK | AGAIN) {
                        0 => How::Copied,
                        BULK => How::Bulk,
                        _ => How::Again,
                    },
                    part,
                    payload: cursor.0,
                })
            }
            2 => Ok(Packet::Unknown { flow }),
            3 => Ok(Packet::Refused {
                flow,
                why: Refusal::from(cursor.u8().ok_or_else(short)?)
                    .err()
                    .unwrap_or(Refusal::Failed),
            }),
            6 | 7 => {
                let numbers = Numbers::read(cursor.0).ok_or(Malformed("numbers that cannot be"))?;
                Ok(match kind {
                    6 => Packet::Missing { flow, numbers },
                    _ => Packet::Gone { flow, numbers },
                })
            }
            _ => Err(Malformed("a datagram of no known kind")),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    /// It is no longer than that, encoded.
    pub fn most_bytes(&self) -> usize {
        match self {
            Packet::Data { payload, .. } => MOST_HEADER + Part::LENGTH + payload.len(),
            Packet::Unknown { .. } | Packet::Refused { .. } => MOST_HEADER,
            Packet::Missing { numbers, .. } | Packet::Gone { numbers, .. } => {
                MOST_HEADER + 4 * numbers.0.len()
            }
        }
    }

    pub fn write(&self, to: &mut impl BufMut) {
        match *self {
            Packet::Data {
                flow,
                sequence,
                target,
                how,
                part,
                payload,
            } => {
                let bit = |of: u8, is_set: bool| if is_set { of } else { 0 };
                let kind = bit(OPENING, target.is_some()) | bit(PART, part.is_some());
                let how = bit(BULK, how == How::Bulk) | bit(AGAIN, how == How::Again);
                to.put_u8(kind | how);
                to.put_u32(flow);
                to.put_u32(sequence);
                if let Some(target) = target {
                    put_destination(&target, to);
                }
                if let Some(part) = part {
                    to.put_slice(&[part.index, part.last]);
                }
                to.put_slice(payload);
            }
            Packet::Unknown { flow } => {
                to.put_u8(2);
                to.put_u32(flow);
            }
            Packet::Refused { flow, why } => {
                to.put_u8(3);
                to.put_u32(flow);
                to.put_u8(why as u8);
            }
            Packet::Missing { flow, numbers } | Packet::Gone { flow, numbers } => {
                let kind = if let Packet::Missing { .. } = self {
                    6
                } else {
                    7
                };
                to.put_u8(kind);
                to.put_u32(flow);
                to.put_slice(numbers.0.as_flattened());
            }
        }
    }

    /// Flow and number of an encoded packet that has data, and is not sent again.
    pub fn key(datagram: &[u8]) -> Option<(u32, u32)> {
        let mut cursor = Cursor(datagram);
        let kind = cursor.u8()?;
        let has_data = kind & !(OPENING | PART | BULK) == 0;
        has_data.then_some((cursor.u32()?, cursor.u32()?))
    }

    /// Of one of bulk: the same, sent again.
    pub fn again(datagram: &[u8]) -> Vec<u8> {
        let mut again = datagram.to_vec();
        if let Some(kind) = again.first_mut() {
            *kind = *kind & !BULK | AGAIN;
        }
        again
    }
}

fn read_part(cursor: &mut Cursor) -> Option<Part> {
    let (index, last) = (cursor.u8()?, cursor.u8()?);
    (index <= last).then_some(Part { index, last })
}

const ECHO: u8 = 10;

fn put_destination(destination: &Destination, to: &mut impl BufMut) {
    let echo = match destination {
        Destination::Udp(_) => 0,
        Destination::Echo(_) => ECHO,
    };
    put_address(destination.ip(), echo, to);
    if let Destination::Udp(address) = destination {
        to.put_u16(address.port());
    }
}

/// Its version, and `more`, in front of it.
pub(super) fn put_address(ip: IpAddr, more: u8, to: &mut impl BufMut) {
    match ip {
        IpAddr::V4(v4) => {
            to.put_u8(4 + more);
            to.put_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            to.put_u8(6 + more);
            to.put_slice(&v6.octets());
        }
    }
}

pub(super) fn address(version: u8, cursor: &mut Cursor) -> Option<IpAddr> {
    match version {
        4 => Some(Ipv4Addr::from(cursor.array::<4>()?).into()),
        6 => Some(Ipv6Addr::from(cursor.array::<16>()?).into()),
        _ => None,
    }
}

fn destination(cursor: &mut Cursor) -> Option<Destination> {
    let kind = cursor.u8()?;
    if kind > ECHO {
        return address(kind - ECHO, cursor).map(Destination::Echo);
    }
    let ip = address(kind, cursor)?;
    Some(Destination::Udp(SocketAddr::new(ip, cursor.u16()?)))
}

/// Which path of which session a connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Of the device's process, random.
    pub session: [u8; 16],
    /// Below [`mp_policy::MAX_SUBFLOWS`].
    pub path: u8,
    /// Of that path, in both directions.
    pub priority: Priority,
    /// By name; a relay that does not know it uses its default.
    pub scheduler: String,
}

impl Hello {
    pub const MOST: usize = 16 + 1 + 1 + MOST_SCHEDULER;

    /// The whole of it: the stream ends behind it.
    pub fn decode(bytes: &[u8]) -> Result<Hello, Malformed> {
        let mut cursor = Cursor(bytes);
        let mut read = || {
            let session = cursor.array()?;
            let (path, priority) = read_path(cursor.u8()?)?;
            let length = usize::from(cursor.u8()?);
            let name = std::str::from_utf8(cursor.take(length)?).ok()?;
            let whole = cursor.0.is_empty() && name.len() <= MOST_SCHEDULER;
            whole.then(|| Hello {
                session,
                path,
                priority,
                scheduler: name.to_owned(),
            })
        };
        read().ok_or(Malformed("a hello that cannot be"))
    }

    pub fn encode(&self) -> Vec<u8> {
        let name = &self.scheduler.as_bytes()[..self.scheduler.len().min(MOST_SCHEDULER)];
        let mut bytes = self.session.to_vec();
        let path = path_byte(self.path, self.priority);
        bytes.extend_from_slice(&[path, name.len() as u8]);
        bytes.extend_from_slice(name);
        bytes
    }
}
