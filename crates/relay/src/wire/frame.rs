//! Frames inside a path connection, in both directions. Numbers are big-endian.
//!
//! ```text
//! 1 data    offset u64, flags u8 (1: the stream ends behind it), length u16, bytes
//! 2 ack     next u64 (all before it has arrived in order), limit u64 (the sender may send up to here)
//! 3 opened  status u8 (0: the target is connected)
//! 4 reset
//! 5 gone    path u8 (this path's link has gone down at the sender of the frame)
//! 6 welcome status u8 (0: the relay knows the device's key)
//! 7 priority u8 (0, 128: backup, 64: preferred; of the path that the frame is on, in both directions)
//! ```

use mp_policy::link::Priority;

use super::{path_byte, read_path, Cursor, Malformed};

/// With its header a full data frame fits into one TLS record of 2^14 bytes.
pub const MOST_PAYLOAD: usize = (1 << 14) - DATA_HEADER;
const DATA_HEADER: usize = 12;
const MOST_HEADER: usize = 17;
const END: u8 = 1;

/// Why the relay did not connect to a target, or did not take a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    Failed = 1,
    /// The relay's rules do not allow the target.
    Forbidden = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TimedOut = 6,
    /// The name does not resolve.
    NoSuchName = 7,
    /// The device has as many flows as it may have.
    Busy = 8,
    /// The line was used by another key, or it is too old.
    UnknownKey = 9,
}

impl Refusal {
    const ALL: [Refusal; 9] = [
        Refusal::Failed,
        Refusal::Forbidden,
        Refusal::NetworkUnreachable,
        Refusal::HostUnreachable,
        Refusal::ConnectionRefused,
        Refusal::TimedOut,
        Refusal::NoSuchName,
        Refusal::Busy,
        Refusal::UnknownKey,
    ];

    /// An unknown number, of a newer relay, is a failure.
    pub(crate) fn from(status: u8) -> Result<(), Refusal> {
        match status {
            0 => Ok(()),
            n => Err(Self::ALL
                .into_iter()
                .find(|r| *r as u8 == n)
                .unwrap_or(Refusal::Failed)),
        }
    }
}

fn number(status: Result<(), Refusal>) -> u8 {
    status.err().map_or(0, |refusal| refusal as u8)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    Data {
        offset: u64,
        end: bool,
        payload: &'a [u8],
    },
    Ack {
        next: u64,
        limit: u64,
    },
    Opened(Result<(), Refusal>),
    Reset,
    Gone(u8),
    Welcome(Result<(), Refusal>),
    /// In place of the opener's.
    Priority(Priority),
}

/// A frame's bytes before its payload.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    bytes: [u8; MOST_HEADER],
    length: usize,
}

impl Header {
    /// Of a data frame, whose payload the caller has elsewhere: `length` bytes, [`MOST_PAYLOAD`] at most.
    pub fn data(offset: u64, end: bool, length: usize) -> Header {
        debug_assert!(length <= MOST_PAYLOAD);
        Header::new(1)
            .put(&offset.to_be_bytes())
            .put(&[u8::from(end) * END])
            .put(&(length as u16).to_be_bytes())
    }

    pub fn of(frame: &Frame) -> Header {
        match *frame {
            Frame::Data {
                offset,
                end,
                payload,
            } => Header::data(offset, end, payload.len()),
            Frame::Ack { next, limit } => Header::new(2)
                .put(&next.to_be_bytes())
                .put(&limit.to_be_bytes()),
            Frame::Opened(status) => Header::new(3).put(&[number(status)]),
            Frame::Reset => Header::new(4),
            Frame::Gone(path) => Header::new(5).put(&[path]),
            Frame::Welcome(status) => Header::new(6).put(&[number(status)]),
            Frame::Priority(priority) => Header::new(7).put(&[path_byte(0, priority)]),
        }
    }

    fn new(kind: u8) -> Header {
        let mut bytes = [0; MOST_HEADER];
        bytes[0] = kind;
        Header { bytes, length: 1 }
    }

    fn put(mut self, value: &[u8]) -> Header {
        self.bytes[self.length..self.length + value.len()].copy_from_slice(value);
        self.length += value.len();
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<'a> Frame<'a> {
    /// The first frame and the bytes that it takes; `None` where it is not there as a whole.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>, Malformed> {
        let mut cursor = Cursor(bytes);
        let frame = Self::read(&mut cursor)?;
        Ok(frame.map(|frame| (frame, bytes.len() - cursor.0.len())))
    }

    fn read(cursor: &mut Cursor<'a>) -> Result<Option<Frame<'a>>, Malformed> {
        let Some(kind) = cursor.u8() else {
            return Ok(None);
        };
        match kind {
            1 => return Self::read_data(cursor),
            2..=6 => {}
            7 => return Self::read_priority(cursor),
            _ => return Err(Malformed("a frame of an unknown kind")),
        }
        Ok((|| {
            Some(match kind {
                2 => Frame::Ack {
                    next: cursor.u64()?,
                    limit: cursor.u64()?,
                },
                3 => Frame::Opened(Refusal::from(cursor.u8()?)),
                4 => Frame::Reset,
                5 => Frame::Gone(cursor.u8()?),
                _ => Frame::Welcome(Refusal::from(cursor.u8()?)),
            })
        })())
    }

    fn read_priority(cursor: &mut Cursor<'a>) -> Result<Option<Frame<'a>>, Malformed> {
        let Some(byte) = cursor.u8() else {
            return Ok(None);
        };
        match read_path(byte) {
            Some((0, priority)) => Ok(Some(Frame::Priority(priority))),
            _ => Err(Malformed("a priority that cannot be")),
        }
    }

    fn read_data(cursor: &mut Cursor<'a>) -> Result<Option<Frame<'a>>, Malformed> {
        let (Some(offset), Some(flags), Some(length)) = (cursor.u64(), cursor.u8(), cursor.u16())
        else {
            return Ok(None);
        };
        let length = usize::from(length);
        if flags & !END != 0
            || length > MOST_PAYLOAD
            || offset.checked_add(length as u64 + 1).is_none()
        {
            return Err(Malformed("a data frame that cannot be"));
        }
        Ok(cursor.take(length).map(|payload| Frame::Data {
            offset,
            end: flags & END != 0,
            payload,
        }))
    }

    /// For tests and small frames; the data path writes header and payload by themselves.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Header::of(self).bytes().to_vec();
        if let Frame::Data { payload, .. } = self {
            bytes.extend_from_slice(payload);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::opener::tests::priority;
    use super::*;
    use proptest::prelude::*;

    fn status() -> impl Strategy<Value = Result<(), Refusal>> {
        (0u8..=9).prop_map(Refusal::from)
    }

    fn encoded() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            (
                0..u64::MAX / 2,
                any::<bool>(),
                prop::collection::vec(any::<u8>(), 0..50)
            )
                .prop_map(|(offset, end, payload)| Frame::Data {
                    offset,
                    end,
                    payload: &payload
                }
                .encode()),
            (any::<u64>(), any::<u64>())
                .prop_map(|(next, limit)| Frame::Ack { next, limit }.encode()),
            status().prop_map(|s| Frame::Opened(s).encode()),
            status().prop_map(|s| Frame::Welcome(s).encode()),
            any::<u8>().prop_map(|p| Frame::Gone(p).encode()),
            priority().prop_map(|p| Frame::Priority(p).encode()),
            Just(Frame::Reset.encode()),
        ]
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written_and_never_from_a_part(bytes in encoded(), more in encoded()) {
            let mut both = bytes.clone();
            both.extend_from_slice(&more);
            let (frame, used) = Frame::decode(&both).unwrap().unwrap();
            prop_assert_eq!(used, bytes.len());
            prop_assert_eq!(frame.encode(), bytes.clone());
            for part in 0..bytes.len() {
                prop_assert_eq!(Frame::decode(&bytes[..part]), Ok(None));
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read_and_then_written_alike(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some((frame, used))) = Frame::decode(&bytes) {
                prop_assert!(used <= bytes.len());
                let again = frame.encode();
                // A status of a newer peer is read as a failure.
                prop_assert_eq!(Frame::decode(&again), Ok(Some((frame, again.len()))));
            }
        }
    }

    #[test]
    fn a_full_frame_is_one_tls_record() {
        let payload = vec![7; MOST_PAYLOAD];
        let frame = Frame::Data {
            offset: 1,
            end: true,
            payload: &payload,
        };
        assert_eq!(frame.encode().len(), 1 << 14);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(Frame::decode(&[0]).is_err());
        assert!(Frame::decode(&[8]).is_err());
        assert!(Frame::decode(&[7, 0xc0]).is_err() && Frame::decode(&[7, 1]).is_err());
        let mut long = Header::data(0, false, 0).bytes().to_vec();
        long[10..12].copy_from_slice(&u16::MAX.to_be_bytes());
        assert!(Frame::decode(&long).is_err());
        let beyond = Header::data(u64::MAX, false, 0);
        assert!(Frame::decode(beyond.bytes()).is_err());
    }
}
