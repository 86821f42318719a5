//! The path manager's events: connections and subflows as they come and go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use neli::attr::Attribute;
use neli::consts::socket::NlFamily;
use neli::genl::Genlmsghdr;
use neli::socket::synchronous::NlSocketHandle;
use neli::utils::Groups;

use super::types::{Event, EventKind};
use super::wire::{self, EventAttr};
use super::Error;
use crate::netlink::Family;

/// Events of one network namespace, from its opening on.
pub struct Events {
    socket: NlSocketHandle,
    queued: std::collections::VecDeque<Event>,
}

impl Events {
    pub fn new() -> Result<Events, Error> {
        let group = Family::group(wire::FAMILY, wire::EVENTS).map_err(Error::unavailable)?;
        let socket = NlSocketHandle::connect(NlFamily::Generic, None, Groups::empty())
            .map_err(Error::unavailable)?;
        socket
            .add_mcast_membership(Groups::new_groups(&[group]))
            .map_err(Error::unavailable)?;
        Ok(Events {
            socket,
            queued: Default::default(),
        })
    }

    /// The next event, or `None` once `timeout` has passed without one.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>, Error> {
        if self.queued.is_empty() && self.wait(timeout)? {
            // Events that the socket's buffer could not hold are ENOBUFS here: an error, never a silent gap.
            let (messages, _) = self
                .socket
                .recv::<u16, Genlmsghdr<u8, EventAttr>>()
                .map_err(|e| Error::Netlink(e.to_string()))?;
            for message in messages {
                let message = message.map_err(|e| Error::Netlink(e.to_string()))?;
                self.queued.extend(message.get_payload().and_then(parse));
            }
        }
        Ok(self.queued.pop_front())
    }

    fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one valid pollfd.
        match unsafe { libc::poll(&mut poll, 1, ms) } {
            -1 => match std::io::Error::last_os_error() {
                e if e.kind() == std::io::ErrorKind::Interrupted => Ok(false),
                e => Err(Error::Netlink(e.to_string())),
            },
            n => Ok(n > 0),
        }
    }
}

/// Readable when an event waits: for an event loop.
impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn parse(message: &Genlmsghdr<u8, EventAttr>) -> Option<Event> {
    let mut event = Event {
        kind: EventKind::from_command(*message.cmd()),
        token: 0,
        local_id: 0,
        remote_id: 0,
        local: None,
        remote: None,
        backup: false,
        error: 0,
        server_side: false,
        interface: None,
    };
    let (mut source, mut destination): (Option<IpAddr>, Option<IpAddr>) = (None, None);
    let (mut sport, mut dport) = (0, 0);
    for attr in message.attrs().iter() {
        let payload = attr.payload().as_ref();
        let v4 = |p: &[u8]| Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(p).ok()?)));
        let v6 = |p: &[u8]| Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(p).ok()?)));
        match attr.nla_type().nla_type() {
            EventAttr::Token => event.token = u32::from_ne_bytes(payload.try_into().ok()?),
            EventAttr::LocId => event.local_id = *payload.first()?,
            EventAttr::RemId => event.remote_id = *payload.first()?,
            EventAttr::Saddr4 => source = v4(payload),
            EventAttr::Saddr6 => source = v6(payload),
            EventAttr::Daddr4 => destination = v4(payload),
            EventAttr::Daddr6 => destination = v6(payload),
            EventAttr::Sport => sport = u16::from_be_bytes(payload.try_into().ok()?),
            EventAttr::Dport => dport = u16::from_be_bytes(payload.try_into().ok()?),
            EventAttr::Backup => event.backup = *payload.first()? != 0,
            EventAttr::Error => event.error = *payload.first()?,
            EventAttr::ServerSide => event.server_side = *payload.first()? != 0,
            EventAttr::IfIdx => {
                event.interface = Some(i32::from_ne_bytes(payload.try_into().ok()?))
            }
            _ => {}
        }
    }
    event.local = source.map(|ip| SocketAddr::new(ip, sport));
    event.remote = destination.map(|ip| SocketAddr::new(ip, dport));
    Some(event)
}
