//! TCP options on the wire: those of RFC 9293, RFC 7323 and RFC 2018, and MPTCP's (RFC 8684 section 3).

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::network::Sack;

const MPTCP: u8 = 30;
const MP_CAPABLE: u8 = 0;
const MP_JOIN: u8 = 1;
const DSS: u8 = 2;
const ADD_ADDR: u8 = 3;
const MP_PRIO: u8 = 5;

/// Most that a TCP header holds, bytes.
pub const MOST: usize = 40;

/// What the two ends of a connection agreed on (RFC 8684 section 3.1), index 0 the client.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    pub key: [u64; 2],
    /// First 32 bits of the key's SHA-256.
    pub token: [u32; 2],
    /// Initial data sequence number: its last 64 bits.
    pub idsn: [u64; 2],
}

impl Keys {
    pub fn new(key: [u64; 2]) -> Keys {
        let hash = key.map(|k| Sha256::digest(k.to_be_bytes()));
        let part =
            |h: &[u8], at: usize| u64::from_be_bytes(h[at..at + 8].try_into().expect("8 bytes"));
        Keys {
            key,
            token: [0, 1].map(|i| (part(&hash[i], 0) >> 32) as u32),
            idsn: [0, 1].map(|i| part(&hash[i], 24)),
        }
    }

    /// HMAC-SHA256 by end `from`, whose key comes first.
    fn hmac(&self, from: usize, message: &[u8]) -> [u8; 32] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.key[from].to_be_bytes());
        key[8..].copy_from_slice(&self.key[1 - from].to_be_bytes());
        let mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length will do");
        mac.chain_update(message).finalize().into_bytes().into()
    }
}

/// One header's options, written in order.
#[derive(Debug, Clone, Default)]
pub struct Options(Vec<u8>);

impl Options {
    /// Padded to whole words.
    pub fn bytes(mut self) -> Vec<u8> {
        while !self.0.len().is_multiple_of(4) {
            self.0.push(1); // NOP
        }
        self.0
    }

    pub fn room(&self) -> usize {
        MOST - self.0.len()
    }

    fn mptcp(&mut self, subtype: u8, low: u8, rest: &[&[u8]]) {
        let len = 3 + rest.iter().map(|r| r.len()).sum::<usize>();
        self.0.extend([MPTCP, len as u8, subtype << 4 | low]);
        rest.iter().for_each(|r| self.0.extend_from_slice(r));
    }

    /// Maximum segment size, SACK permitted, timestamps and window scale, in the order of Linux.
    pub fn syn(&mut self, mss: u16, timestamps: [u32; 2], scale: u8) {
        let [high, low] = mss.to_be_bytes();
        self.0.extend([2, 4, high, low, 4, 2, 8, 10]);
        timestamps
            .iter()
            .for_each(|t| self.0.extend(t.to_be_bytes()));
        self.0.extend([1, 3, 3, scale]);
    }

    /// RFC 7323, in ms.
    pub fn timestamps(&mut self, value: u32, echo: u32) {
        self.0.extend([1, 1, 8, 10]);
        self.0.extend(value.to_be_bytes());
        self.0.extend(echo.to_be_bytes());
    }

    /// RFC 2018: as many of the blocks as there is room for.
    pub fn sack(&mut self, sack: &Sack, sequence: impl Fn(u64) -> u32) {
        let blocks = (self.room().saturating_sub(4) / 8).min(usize::from(sack.len));
        if blocks > 0 {
            self.0.extend([1, 1, 5, 2 + 8 * blocks as u8]);
            for &(start, end) in &sack.blocks[..blocks] {
                self.0.extend(sequence(start).to_be_bytes());
                self.0.extend(sequence(end).to_be_bytes());
            }
        }
    }

    /// Version 1, HMAC-SHA256: no key in the SYN, the server's in the SYN/ACK, both in the third packet, where data
    /// carried along state their length.
    pub fn mp_capable(&mut self, keys: &[u64], data: Option<u16>) {
        let keys: Vec<u8> = keys.iter().flat_map(|k| k.to_be_bytes()).collect();
        let data = data.map(u16::to_be_bytes);
        self.mptcp(
            MP_CAPABLE,
            1,
            &[&[1], &keys, data.as_ref().map_or(&[], |d| &d[..])],
        );
    }

    pub fn join_syn(&mut self, keys: &Keys, backup: bool, address: u8, nonce: u32) {
        let token = keys.token[1].to_be_bytes();
        self.mptcp(
            MP_JOIN,
            u8::from(backup),
            &[&[address], &token, &nonce.to_be_bytes()],
        );
    }

    pub fn join_syn_ack(&mut self, keys: &Keys, backup: bool, address: u8, nonces: [u32; 2]) {
        let hmac = keys.hmac(1, &concat(nonces[1], nonces[0]));
        self.mptcp(
            MP_JOIN,
            u8::from(backup),
            &[&[address], &hmac[..8], &nonces[1].to_be_bytes()],
        );
    }

    pub fn join_third(&mut self, keys: &Keys, nonces: [u32; 2]) {
        let hmac = keys.hmac(0, &concat(nonces[0], nonces[1]));
        self.mptcp(MP_JOIN, 0, &[&[0], &hmac[..20]]);
    }

    /// A data acknowledgement of 64 bits.
    pub fn data_ack(&mut self, ack: u64) {
        self.mptcp(DSS, 0, &[&[0x03], &ack.to_be_bytes()]);
    }

    /// A mapping without checksum, with an acknowledgement: both data sequences of 64 bits, as Linux sends them; sequence
    /// relative to the subflow's first byte, length.
    pub fn mapping(&mut self, ack: u64, data_sequence: u64, subflow_sequence: u32, len: u16) {
        let rest = [&subflow_sequence.to_be_bytes()[..], &len.to_be_bytes()].concat();
        let sequences = [ack.to_be_bytes(), data_sequence.to_be_bytes()].concat();
        self.mptcp(DSS, 0, &[&[0x0f], &sequences, &rest]);
    }

    /// Truncated HMAC over address identifier, address and port 0; none in the echo.
    pub fn add_addr(&mut self, keys: &Keys, from: usize, id: u8, address: [u8; 4], echo: bool) {
        let message = [&[id][..], &address, &[0, 0]].concat();
        let hmac = keys.hmac(from, &message);
        let hmac = if echo { &[] } else { &hmac[24..] };
        self.mptcp(ADD_ADDR, u8::from(echo), &[&[id], &address, hmac]);
    }

    pub fn mp_prio(&mut self, backup: bool) {
        self.mptcp(MP_PRIO, u8::from(backup), &[]);
    }
}

fn concat(a: u32, b: u32) -> [u8; 8] {
    (u64::from(a) << 32 | u64::from(b)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_and_initial_sequence_are_parts_of_the_hash() {
        // printf '\0\0\0\0\0\0\0\0' | sha256sum
        let keys = Keys::new([0, 1]);
        assert_eq!(keys.token[0], 0xaf55_70f5);
        assert_eq!(keys.idsn[0], 0xe5b2_328d_e0e8_3dfc);
    }

    #[test]
    fn lengths_are_those_of_the_rfc() {
        let keys = Keys::new([1, 2]);
        let len = |write: &dyn Fn(&mut Options)| {
            let mut options = Options::default();
            write(&mut options);
            assert_eq!(options.0[0], MPTCP);
            assert_eq!(usize::from(options.0[1]), options.0.len());
            options.0.len()
        };
        assert_eq!(len(&|o| o.mp_capable(&[], None)), 4);
        assert_eq!(len(&|o| o.mp_capable(&keys.key[1..], None)), 12);
        assert_eq!(len(&|o| o.mp_capable(&keys.key, None)), 20);
        assert_eq!(len(&|o| o.mp_capable(&keys.key, Some(100))), 22);
        assert_eq!(len(&|o| o.join_syn(&keys, false, 1, 7)), 12);
        assert_eq!(len(&|o| o.join_syn_ack(&keys, false, 1, [7, 8])), 16);
        assert_eq!(len(&|o| o.join_third(&keys, [7, 8])), 24);
        assert_eq!(len(&|o| o.data_ack(1)), 12);
        assert_eq!(len(&|o| o.mapping(1, 2, 3, 4)), 26);
        assert_eq!(len(&|o| o.add_addr(&keys, 1, 1, [10, 2, 2, 1], false)), 16);
        assert_eq!(len(&|o| o.add_addr(&keys, 1, 1, [10, 2, 2, 1], true)), 8);
        assert_eq!(len(&|o| o.mp_prio(true)), 3);
    }
}
