//! What one QUIC datagram carries. Numbers are big-endian.
//!
//! ```text
//! 0 data     flow u32, sequence u32, payload
//! 1 opening  flow u32, sequence u32, target (kind u8: 4 or 6, address [4] or [16], port u16), payload
//! 2 unknown  flow u32 (the relay has no such flow: the device is to send its target again)
//! 3 refused  flow u32, status u8 (the numbers of the stream lane)
//! ```
//! and once on each connection, on a stream: the device's proof [32] and [`Hello`], the relay's status u8.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mp_policy::link::Priority;

use crate::wire::{path_byte, read_path, Cursor, Malformed, Refusal};

/// Of an opening to an IPv6 target, the longest.
pub const MOST_HEADER: usize = DATA_HEADER + 1 + 16 + 2;
const DATA_HEADER: usize = 1 + 4 + 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    Data {
        flow: u32,
        sequence: u32,
        /// From the device, until the relay is known to have the flow.
        target: Option<SocketAddr>,
        payload: &'a [u8],
    },
    Unknown {
        flow: u32,
    },
    Refused {
        flow: u32,
        why: Refusal,
    },
}

impl<'a> Packet<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let short = || Malformed("a datagram that is too short");
        let mut cursor = Cursor(bytes);
        let kind = cursor.u8().ok_or_else(short)?;
        let flow = cursor.u32().ok_or_else(short)?;
        match kind {
            0 | 1 => {
                let sequence = cursor.u32().ok_or_else(short)?;
                let target = match kind {
                    1 => Some(target(&mut cursor).ok_or(Malformed("a target that cannot be"))?),
                    _ => None,
                };
                Ok(Packet::Data {
                    flow,
                    sequence,
                    target,
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
            _ => Err(Malformed("a datagram of no known kind")),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match *self {
            Packet::Data {
                flow,
                sequence,
                target,
                payload,
            } => {
                bytes.reserve_exact(MOST_HEADER + payload.len());
                bytes.push(u8::from(target.is_some()));
                bytes.extend_from_slice(&flow.to_be_bytes());
                bytes.extend_from_slice(&sequence.to_be_bytes());
                if let Some(target) = target {
                    match target.ip() {
                        IpAddr::V4(v4) => {
                            bytes.push(4);
                            bytes.extend_from_slice(&v4.octets());
                        }
                        IpAddr::V6(v6) => {
                            bytes.push(6);
                            bytes.extend_from_slice(&v6.octets());
                        }
                    }
                    bytes.extend_from_slice(&target.port().to_be_bytes());
                }
                bytes.extend_from_slice(payload);
            }
            Packet::Unknown { flow } => {
                bytes.push(2);
                bytes.extend_from_slice(&flow.to_be_bytes());
            }
            Packet::Refused { flow, why } => {
                bytes.push(3);
                bytes.extend_from_slice(&flow.to_be_bytes());
                bytes.push(why as u8);
            }
        }
        bytes
    }
}

fn target(cursor: &mut Cursor) -> Option<SocketAddr> {
    let ip: IpAddr = match cursor.u8()? {
        4 => Ipv4Addr::from(cursor.array::<4>()?).into(),
        6 => Ipv6Addr::from(cursor.array::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, cursor.u16()?))
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

const MOST_SCHEDULER: usize = 32;
