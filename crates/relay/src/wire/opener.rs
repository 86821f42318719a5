//! The device's word of what a path connection is for: the flow that it belongs to, and that flow's target. Every path
//! connection of a flow brings the same, so whichever arrives first begins the flow. Once the relay has connected to the
//! target, openers say so: a relay that knows no such flow does not begin it again.
//!
//! ```text
//! length u16 (of the rest), session [16], flow u64, path u8 (slot, priority, + 32: resumes), scheduler (length u8, bytes),
//! target (kind u8: 4, 6 or 0; address [4] or [16], or a name (length u8, bytes)), port u16
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mp_policy::link::Priority;

use super::{path_byte, read_path, Cursor, Malformed, RESUMES};

/// With its length.
pub const MOST_OPENER: usize = 2 + 16 + 8 + 1 + 1 + MOST_SCHEDULER + 1 + 1 + 255 + 2;
pub(crate) const MOST_SCHEDULER: usize = 32;

/// Where a flow leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    Address(IpAddr, u16),
    /// Resolved by the relay. 1 to 255 bytes without control characters.
    Name(String, u16),
}

impl Target {
    pub fn name(name: &str, port: u16) -> Result<Target, Malformed> {
        let plain = |c: char| !c.is_control() && !c.is_whitespace();
        match name.len() {
            1..=255 if name.chars().all(plain) => Ok(match name.parse() {
                Ok(address) => Target::Address(address, port),
                Err(_) => Target::Name(name.to_owned(), port),
            }),
            _ => Err(Malformed("a name that cannot be")),
        }
    }

    pub fn port(&self) -> u16 {
        match self {
            Target::Address(_, port) | Target::Name(_, port) => *port,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Address(ip @ IpAddr::V6(_), port) => write!(f, "[{ip}]:{port}"),
            Target::Address(ip, port) => write!(f, "{ip}:{port}"),
            Target::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// Of the device's process, random.
    pub session: [u8; 16],
    /// Unique in the session.
    pub flow: u64,
    /// The slot of this connection, below [`mp_policy::MAX_SUBFLOWS`].
    pub path: u8,
    /// Of that path, in both directions.
    pub priority: Priority,
    /// The relay has had this flow: it knows it, or it is over.
    pub resumes: bool,
    /// By name; a relay that does not know it uses its default.
    pub scheduler: String,
    pub target: Target,
}

impl Opener {
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(64);
        body.extend_from_slice(&self.session);
        body.extend_from_slice(&self.flow.to_be_bytes());
        let resumes = if self.resumes { RESUMES } else { 0 };
        body.push(path_byte(self.path, self.priority) | resumes);
        put_text(
            &mut body,
            &self.scheduler[..self.scheduler.len().min(MOST_SCHEDULER)],
        );
        match &self.target {
            Target::Address(IpAddr::V4(ip), _) => {
                body.push(4);
                body.extend_from_slice(&ip.octets());
            }
            Target::Address(IpAddr::V6(ip), _) => {
                body.push(6);
                body.extend_from_slice(&ip.octets());
            }
            Target::Name(name, _) => {
                body.push(0);
                put_text(&mut body, name);
            }
        }
        body.extend_from_slice(&self.target.port().to_be_bytes());
        let mut bytes = (body.len() as u16).to_be_bytes().to_vec();
        bytes.append(&mut body);
        bytes
    }

    /// The opener and the bytes that it takes; `None` where it is not there as a whole.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Opener, usize)>, Malformed> {
        let mut cursor = Cursor(bytes);
        let Some(length) = cursor.u16().map(usize::from) else {
            return Ok(None);
        };
        if length + 2 > MOST_OPENER {
            return Err(Malformed("an opener that is too long"));
        }
        let Some(body) = cursor.take(length) else {
            return Ok(None);
        };
        let mut body = Cursor(body);
        let opener = read(&mut body).ok_or(Malformed("an opener that cannot be"))?;
        if !body.0.is_empty() {
            return Err(Malformed("an opener that cannot be"));
        }
        Ok(Some((opener, 2 + length)))
    }
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    body.push(text.len() as u8);
    body.extend_from_slice(text.as_bytes());
}

fn read_text<'a>(body: &mut Cursor<'a>) -> Option<&'a str> {
    let length = body.u8()?;
    std::str::from_utf8(body.take(usize::from(length))?).ok()
}

fn read(body: &mut Cursor) -> Option<Opener> {
    let session = body.array()?;
    let flow = body.u64()?;
    let byte = body.u8()?;
    let (path, priority) = read_path(byte & !RESUMES)?;
    let scheduler = read_text(body)
        .filter(|name| name.len() <= MOST_SCHEDULER)?
        .to_owned();
    enum Where<'a> {
        Ip(IpAddr),
        Name(&'a str),
    }
    let place = match body.u8()? {
        4 => Where::Ip(Ipv4Addr::from(body.array::<4>()?).into()),
        6 => Where::Ip(Ipv6Addr::from(body.array::<16>()?).into()),
        0 => Where::Name(read_text(body)?),
        _ => return None,
    };
    let port = body.u16()?;
    let target = match place {
        Where::Ip(ip) => Target::Address(ip, port),
        Where::Name(name) => Target::name(name, port).ok()?,
    };
    Some(Opener {
        session,
        flow,
        path,
        priority,
        resumes: byte & RESUMES != 0,
        scheduler,
        target,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target() -> impl Strategy<Value = Target> {
        prop_oneof![
            (any::<[u8; 4]>(), any::<u16>())
                .prop_map(|(ip, port)| Target::Address(IpAddr::from(ip), port)),
            (any::<[u8; 16]>(), any::<u16>())
                .prop_map(|(ip, port)| Target::Address(IpAddr::from(ip), port)),
            ("[a-z][a-z0-9.-]{0,200}", any::<u16>())
                .prop_map(|(name, port)| Target::name(&name, port).unwrap()),
        ]
    }

    pub fn priority() -> impl Strategy<Value = Priority> {
        let all = [Priority::Preferred, Priority::Normal, Priority::Backup];
        prop::sample::select(all.to_vec())
    }

    proptest! {
        #[test]
        fn an_opener_is_read_as_it_was_written_and_never_from_a_part(
            session: [u8; 16], flow: u64, path in 0u8..8, priority in priority(), resumes: bool,
            scheduler in "[a-z-]{0,32}", target in target(),
        ) {
            let opener = Opener { session, flow, path, priority, resumes, scheduler, target };
            let bytes = opener.encode();
            prop_assert!(bytes.len() <= MOST_OPENER);
            for part in 0..bytes.len() {
                prop_assert_eq!(Opener::decode(&bytes[..part]), Ok(None));
            }
            prop_assert_eq!(Opener::decode(&bytes), Ok(Some((opener, bytes.len()))));
        }

        #[test]
        fn any_bytes_are_refused_or_read_and_then_written_alike(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(Some((opener, used))) = Opener::decode(&bytes) {
                prop_assert!(used <= bytes.len());
                let again = opener.encode();
                prop_assert_eq!(Opener::decode(&again), Ok(Some((opener, again.len()))));
            }
        }
    }

    #[test]
    fn names_with_control_characters_are_none() {
        assert!(Target::name("a\nb", 1).is_err() && Target::name("", 1).is_err());
        assert_eq!(Target::name("::1", 1).unwrap().to_string(), "[::1]:1");
    }
}
