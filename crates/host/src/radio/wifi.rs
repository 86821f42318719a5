//! Wi-Fi: what the driver says of the access point that an interface is associated with (generic netlink, `nl80211`;
//! Linux include/uapi/linux/nl80211.h).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mp_kernel::netlink::{attr, Answer, Error, Family};
use neli::attr::Attribute;
use neli::consts::genl::{Cmd, NlAttrType};
use neli::genl::Genlmsghdr;
use neli::neli_enum;
use neli::types::{Buffer, GenlBuffer};

use super::Radio;

/// Of the family, which ignores it.
const VERSION: u8 = 0;
/// Drivers average over about so long; asking more often tells nothing new.
const PAUSE: Duration = Duration::from_secs(1);
/// A Wi-Fi stick may be plugged in later.
const ABSENT: Duration = Duration::from_secs(30);

#[neli_enum(serialized_type = "u8")]
enum Command {
    Unspec = 0,
    GetStation = 17,
}
impl Cmd for Command {}

/// `NL80211_ATTR_*`
#[neli_enum(serialized_type = "u16")]
enum Attr {
    Unspec = 0,
    IfIndex = 3,
    StaInfo = 21,
}
impl NlAttrType for Attr {}

/// `NL80211_STA_INFO_*`
#[neli_enum(serialized_type = "u16")]
enum Info {
    Unspec = 0,
    Signal = 7,
    TxPackets = 10,
    TxRetries = 11,
    TxFailed = 12,
    SignalAverage = 13,
}
impl NlAttrType for Info {}

/// What the driver counts of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Station {
    /// Average where the driver keeps one, else that of the last frame; dBm.
    pub signal_dbm: Option<i32>,
    /// Frames to the peer, their retransmissions on the air, and those that were given up.
    pub sent: u64,
    pub retries: u64,
    pub failed: u64,
}

impl Station {
    fn parse(attrs: &GenlBuffer<Info, Buffer>) -> Station {
        let mut station = Station::default();
        let (mut last, mut average) = (None, None);
        for attr in attrs.iter() {
            let payload = attr.payload().as_ref();
            let dbm = payload.first().map(|&byte| i32::from(byte as i8));
            let count = || {
                payload
                    .try_into()
                    .map_or(0, |four| u64::from(u32::from_ne_bytes(four)))
            };
            match attr.nla_type().nla_type() {
                Info::Signal => last = dbm,
                Info::SignalAverage => average = dbm,
                Info::TxPackets => station.sent = count(),
                Info::TxRetries => station.retries = count(),
                Info::TxFailed => station.failed = count(),
                _ => {}
            }
        }
        // Drivers that know no signal leave it out, or say 0.
        station.signal_dbm = average.or(last).filter(|&dbm| dbm < 0);
        station
    }
}

/// Asks the drivers.
#[derive(Default)]
pub struct Wifi {
    family: Option<Family>,
    sought: Option<Instant>,
    known: HashMap<String, (Instant, Option<Station>)>,
}

impl Wifi {
    /// The access point of an interface, as of a second ago at most.
    pub fn station(&mut self, interface: &str) -> Option<Station> {
        let now = Instant::now();
        if let Some((at, station)) = self.known.get(interface) {
            if now < *at + PAUSE {
                return *station;
            }
        }
        let station = self.ask(interface);
        self.known.insert(interface.to_owned(), (now, station));
        station
    }

    fn ask(&mut self, interface: &str) -> Option<Station> {
        let index = nix::net::if_::if_nametoindex(interface).ok()?;
        let stations = stations(self.family()?, index).unwrap_or_default();
        stations.into_iter().next()
    }

    fn family(&mut self) -> Option<&Family> {
        let due = self.sought.is_none_or(|at| at.elapsed() >= ABSENT);
        if self.family.is_none() && due {
            self.sought = Some(Instant::now());
            self.family = Family::open("nl80211", VERSION).ok();
        }
        self.family.as_ref()
    }
}

impl Radio for Wifi {
    fn signal_dbm(&mut self, interface: &str, _: Duration) -> Option<i32> {
        self.station(interface)?.signal_dbm
    }
}

type Reply = Genlmsghdr<Command, Attr>;

/// None where the interface has nobody to talk to; an error where it is no Wi-Fi.
fn stations(family: &Family, index: u32) -> Result<Vec<Station>, Error> {
    let interface = attr(Attr::IfIndex, index)?;
    let replies = family.ask(Command::GetStation, Answer::List, vec![interface])?;
    Ok(replies.iter().filter_map(of_reply).collect())
}

fn of_reply(reply: &Reply) -> Option<Station> {
    let handle = reply.attrs().get_attr_handle();
    let nested = handle.get_attribute(Attr::StaInfo)?;
    let info = nested
        .get_payload_as_with_len::<GenlBuffer<Info, Buffer>>()
        .ok()?;
    Some(Station::parse(&info))
}

#[cfg(test)]
mod tests {
    use super::*;
    use neli::FromBytesWithInput;
    use std::io::Cursor;

    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + payload.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A NEW_STATION as the kernel lays it out: generation, interface, address, and the nested counters.
    fn reply(info: &[(u16, &[u8])]) -> Vec<u8> {
        let nested: Vec<u8> = info.iter().flat_map(|(k, v)| attribute(*k, v)).collect();
        let mut bytes = vec![19, 1, 0, 0];
        bytes.extend(attribute(46, &7u32.to_ne_bytes()));
        bytes.extend(attribute(3, &4u32.to_ne_bytes()));
        bytes.extend(attribute(6, &[2, 0, 0, 0, 1, 0]));
        bytes.extend(attribute(21, &nested));
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Station> {
        let message = Reply::from_bytes_with_input(&mut Cursor::new(bytes), bytes.len());
        of_reply(&message.expect("a whole message"))
    }

    #[test]
    fn a_station_is_read_out_of_the_kernels_message() {
        let signal = [(-67i8) as u8];
        let average = [(-71i8) as u8];
        let count = |n: u32| n.to_ne_bytes();
        let (sent, retries, failed) = (count(1000), count(120), count(3));
        let info: Vec<(u16, &[u8])> = vec![
            (1, &[0, 0, 0, 0]),
            (7, &signal),
            (9, &[9, 0, 0, 0]),
            (10, &sent),
            (11, &retries),
            (12, &failed),
            (8, &[8, 0, 5, 0, 108, 0, 0, 0]),
            (13, &average),
        ];
        let whole = Station {
            signal_dbm: Some(-71),
            sent: 1000,
            retries: 120,
            failed: 3,
        };
        assert_eq!(parse(&reply(&info)), Some(whole));
        assert_eq!(
            parse(&reply(&info[..2])).unwrap().signal_dbm,
            Some(-67),
            "no average"
        );
        assert_eq!(
            parse(&reply(&[(7, &[0])])).unwrap().signal_dbm,
            None,
            "0 is no signal"
        );
        assert_eq!(parse(&reply(&[])), Some(Station::default()));
    }

    #[test]
    fn what_is_no_wifi_has_no_station() {
        let mut wifi = Wifi::default();
        assert_eq!(wifi.station("lo"), None);
        assert_eq!(wifi.station("no-such-interface"), None);
    }

    #[test]
    fn the_driver_is_asked_once_for_all_that_a_look_wants_to_know() {
        let mut wifi = Wifi::default();
        wifi.signal_dbm("lo", Duration::ZERO);
        let asked = wifi.known["lo"].0;
        wifi.station("lo");
        assert_eq!(wifi.known["lo"].0, asked);
    }
}
