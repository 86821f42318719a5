//! This host's interfaces and their addresses, and word of every change (rtnetlink).

use std::net::IpAddr;

use futures_util::{StreamExt, TryStreamExt};
use mp_kernel::interfaces::sources_first;
use rtnetlink::packet_core::NetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressScope};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::MulticastGroup;

use crate::Error;

/// An interface that could carry subflows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// `ifindex`
    pub index: i32,
    pub name: String,
    /// Switched on, and with a carrier.
    pub up: bool,
    /// Of global scope, usable as a source; of each family first the one that connections get
    /// ([`sources_first`]).
    pub addresses: Vec<IpAddr>,
}

/// Listens from [`Links::new`] on.
pub struct Links {
    handle: rtnetlink::Handle,
    changes: Box<dyn futures_util::Stream<Item = NetlinkMessage<RouteNetlinkMessage>> + Unpin>,
    task: tokio::task::JoinHandle<()>,
}

impl Links {
    /// In the network namespace of the calling thread. Needs a Tokio runtime.
    ///
    /// # Errors
    /// [`Error::Failed`] where the kernel gives no netlink socket.
    pub fn new() -> Result<Links, Error> {
        let (connection, handle, messages) = rtnetlink::new_multicast_connection(&[
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
        ])
        .map_err(|e| Error::Failed(format!("cannot watch this host's interfaces: {e}")))?;
        Ok(Links {
            handle,
            changes: Box::new(messages.map(|(message, _)| message)),
            task: tokio::spawn(connection),
        })
    }

    /// Returns when something may have changed. `false`: the kernel had more to say than the socket could hold, or it
    /// broke; open another one.
    pub async fn changed(&mut self) -> bool {
        self.changes.next().await.is_some()
    }

    /// As they are now, without loopback.
    ///
    /// # Errors
    /// [`Error::Failed`] where the kernel refuses the dump.
    pub async fn list(&self) -> Result<Vec<Interface>, Error> {
        let failed = |e| Error::Failed(format!("cannot list this host's interfaces: {e}"));
        let mut found = Vec::new();
        let mut links = self.handle.link().get().execute();
        while let Some(link) = links.try_next().await.map_err(failed)? {
            let flags = link.header.flags;
            let name = link.attributes.iter().find_map(|a| match a {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            });
            if let (Some(name), false) = (name, flags.contains(LinkFlags::Loopback)) {
                found.push(Interface {
                    index: link.header.index as i32,
                    name,
                    up: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
                    addresses: Vec::new(),
                });
            }
        }
        let mut addresses = self.handle.address().get().execute();
        while let Some(message) = addresses.try_next().await.map_err(failed)? {
            let unusable = AddressHeaderFlags::Tentative
                | AddressHeaderFlags::Dadfailed
                | AddressHeaderFlags::Deprecated;
            if message.header.scope != AddressScope::Universe
                || message.header.flags.intersects(unusable)
            {
                continue;
            }
            // On a point-to-point link the plain address is the peer's.
            let local = message.attributes.iter().find_map(|a| match a {
                AddressAttribute::Local(ip) => Some(*ip),
                _ => None,
            });
            let any = message.attributes.iter().find_map(|a| match a {
                AddressAttribute::Address(ip) => Some(*ip),
                _ => None,
            });
            let of = found
                .iter_mut()
                .find(|i| i.index == message.header.index as i32);
            if let (Some(interface), Some(address)) = (of, local.or(any)) {
                interface.addresses.push(address);
            }
        }
        for interface in found.iter_mut().filter(|i| i.up) {
            sources_first(&interface.name, &mut interface.addresses);
        }
        Ok(found)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.task.abort();
    }
}
