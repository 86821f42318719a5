//! ICMP echo in the lane: what a flow's payloads are. One flow is one identifier of one program to one host; the relay asks
//! under an identifier of its own.
//!
//! ```text
//! request  hop limit u8, sequence u16, data
//! reply    0 u8, sequence u16, data
//! error    1 u8, sequence u16, type u8, code u8, information [4], version u8 (4 or 6), address of the router [4] or [16]
//! ```
//! Type, code and information are those of the ICMP error (RFC 792, RFC 4443).

use std::net::IpAddr;

use bytes::BufMut;

use super::packet::{address, put_address};
use crate::wire::Cursor;

/// In front of a request's data.
pub const HEADER: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    pub hop_limit: u8,
    pub sequence: u16,
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    pub fn decode(bytes: &'a [u8]) -> Option<Request<'a>> {
        let mut cursor = Cursor(bytes);
        Some(Request {
            hop_limit: cursor.u8()?,
            sequence: cursor.u16()?,
            data: cursor.0,
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.data.len());
        bytes.put_u8(self.hop_limit);
        bytes.put_u16(self.sequence);
        bytes.put_slice(self.data);
        bytes
    }
}

/// About the request with this sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    Reply {
        sequence: u16,
        data: &'a [u8],
    },
    Error {
        sequence: u16,
        kind: u8,
        code: u8,
        information: [u8; 4],
        router: IpAddr,
    },
}

impl<'a> Answer<'a> {
    pub fn decode(bytes: &'a [u8]) -> Option<Answer<'a>> {
        let mut cursor = Cursor(bytes);
        let (what, sequence) = (cursor.u8()?, cursor.u16()?);
        match what {
            0 => Some(Answer::Reply {
                sequence,
                data: cursor.0,
            }),
            1 => {
                let (kind, code, information) = (cursor.u8()?, cursor.u8()?, cursor.array()?);
                let version = cursor.u8()?;
                let router = address(version, &mut cursor)?;
                cursor.0.is_empty().then_some(Answer::Error {
                    sequence,
                    kind,
                    code,
                    information,
                    router,
                })
            }
            _ => None,
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match *self {
            Answer::Reply { sequence, data } => {
                bytes.put_u8(0);
                bytes.put_u16(sequence);
                bytes.put_slice(data);
            }
            Answer::Error {
                sequence,
                kind,
                code,
                information,
                router,
            } => {
                bytes.put_u8(1);
                bytes.put_u16(sequence);
                bytes.put_slice(&[kind, code]);
                bytes.put_slice(&information);
                put_address(router, 0, &mut bytes);
            }
        }
        bytes
    }
}
