//! The first bytes of a path connection, in the clear: who does not know the line's secret gets no answer to them.
//!
//! ```text
//! version u8 = 1, id [8], nonce [16], mac [16]
//! ```
//! The id names the secret, the nonce is random and used once, the mac is HMAC-SHA-256 of all before it, cut to 16 bytes.

use super::Cursor;

pub const ID_LENGTH: usize = 8;
const NONCE_LENGTH: usize = 16;
pub const MAC_LENGTH: usize = 16;
pub const KNOCK_LENGTH: usize = 1 + ID_LENGTH + NONCE_LENGTH + MAC_LENGTH;
const VERSION: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knock {
    pub id: [u8; ID_LENGTH],
    pub nonce: [u8; NONCE_LENGTH],
    pub mac: [u8; MAC_LENGTH],
}

impl Knock {
    /// `None` for another version.
    pub fn decode(bytes: &[u8; KNOCK_LENGTH]) -> Option<Knock> {
        let mut cursor = Cursor(bytes);
        (cursor.u8()? == VERSION).then_some(())?;
        Some(Knock {
            id: cursor.array()?,
            nonce: cursor.array()?,
            mac: cursor.array()?,
        })
    }

    pub fn encode(&self) -> [u8; KNOCK_LENGTH] {
        let mut bytes = [VERSION; KNOCK_LENGTH];
        bytes[1..][..ID_LENGTH].copy_from_slice(&self.id);
        bytes[1 + ID_LENGTH..][..NONCE_LENGTH].copy_from_slice(&self.nonce);
        bytes[KNOCK_LENGTH - MAC_LENGTH..].copy_from_slice(&self.mac);
        bytes
    }

    /// What the mac covers.
    pub fn signed(&self) -> [u8; KNOCK_LENGTH - MAC_LENGTH] {
        let mut bytes = [0; KNOCK_LENGTH - MAC_LENGTH];
        bytes.copy_from_slice(&self.encode()[..KNOCK_LENGTH - MAC_LENGTH]);
        bytes
    }
}

/// The same for the datagram lane: the destination connection ID of a QUIC connection's first packets, which has no room
/// for more.
///
/// ```text
/// id [4] (the front of the knock's), nonce [8], mac [8]
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramKnock {
    pub id: [u8; 4],
    pub nonce: [u8; 8],
    pub mac: [u8; 8],
}

pub const DATAGRAM_KNOCK_LENGTH: usize = 20;

impl DatagramKnock {
    pub fn decode(bytes: &[u8; DATAGRAM_KNOCK_LENGTH]) -> Option<DatagramKnock> {
        let mut cursor = Cursor(bytes);
        Some(DatagramKnock {
            id: cursor.array()?,
            nonce: cursor.array()?,
            mac: cursor.array()?,
        })
    }

    pub fn encode(&self) -> [u8; DATAGRAM_KNOCK_LENGTH] {
        let mut bytes = [0; DATAGRAM_KNOCK_LENGTH];
        bytes[..4].copy_from_slice(&self.id);
        bytes[4..12].copy_from_slice(&self.nonce);
        bytes[12..].copy_from_slice(&self.mac);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_another_version_is_not() {
        let knock = Knock {
            id: [3; ID_LENGTH],
            nonce: [4; NONCE_LENGTH],
            mac: [5; MAC_LENGTH],
        };
        let mut bytes = knock.encode();
        assert_eq!(Knock::decode(&bytes), Some(knock));
        assert_eq!(knock.signed()[..], bytes[..25]);
        bytes[0] = 2;
        assert_eq!(Knock::decode(&bytes), None);
        let knock = DatagramKnock {
            id: [3; 4],
            nonce: [4; 8],
            mac: [5; 8],
        };
        assert_eq!(DatagramKnock::decode(&knock.encode()), Some(knock));
    }
}
