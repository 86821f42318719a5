//! Sets rules and routes of [`super::routes`], takes them back, and hears when others do.

use std::collections::HashSet;
use std::future::pending;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload, Nla};
use rtnetlink::packet_route::address::AddressHeaderFlags;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage};
use rtnetlink::packet_route::rule::{RuleAttribute, RuleMessage};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::{Handle, IpVersion, LinkUnspec, MulticastGroup};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, Instant};

use super::addresses::enable_ipv6;
use super::routes::{self, family, Ends, Set, BLOCKED, PROTOCOL, TABLES};
use crate::links::TUN;
use crate::Error;

/// As on the loopback interface, no packet of which leaves the host either.
const MTU: u32 = 65_535;
/// Between two reports of what others have removed: they remove one rule after the other.
const TOGETHER: Duration = Duration::from_millis(100);

pub struct Netlink {
    pub handle: Handle,
    connection: JoinHandle<()>,
}

impl Netlink {
    pub fn open() -> Result<Netlink, Error> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|e| Error::failed("netlink", e))?;
        Ok(Netlink {
            handle,
            connection: tokio::spawn(connection),
        })
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn failed(what: &'static str) -> impl Fn(rtnetlink::Error) -> Error {
    move |e| Error::failed(what, e)
}

/// Whether something was done that this error does not say was done before.
fn unless(
    before: nix::errno::Errno,
    done: Result<(), rtnetlink::Error>,
) -> Result<bool, rtnetlink::Error> {
    match done {
        Ok(()) => Ok(true),
        Err(rtnetlink::Error::NetlinkError(e)) if e.raw_code() == -(before as i32) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Addresses for the interface, which is up afterwards; some it may have already.
pub async fn furnish(handle: &Handle, interface: u32, ends: &[Ends]) -> Result<(), Error> {
    let up = LinkUnspec::new_with_index(interface).mtu(MTU).up().build();
    let set = handle.link().set(up).execute().await;
    set.map_err(failed("bringing the TUN up"))?;
    if ends.iter().any(|ends| ends.host.is_ipv6()) {
        enable_ipv6();
    }
    for ends in ends {
        let mut request = handle.address().add(interface, ends.host, ends.bits());
        // Nobody else could have it.
        request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
        let added = unless(nix::errno::Errno::EEXIST, request.execute().await);
        added.map_err(failed("the TUN's address"))?;
    }
    Ok(())
}

/// Adds what does not stand yet; whether there was any. What fails keeps nothing else from being added.
pub async fn set(handle: &Handle, all: &Set) -> Result<bool, Error> {
    let (mut any, mut failure) = (false, None);
    for route in &all.routes {
        let added = handle.route().add(route.clone()).execute().await;
        match unless(nix::errno::Errno::EEXIST, added) {
            Ok(new) => any |= new,
            Err(e) => drop(failure.get_or_insert(failed("routes to the TUN")(e))),
        }
    }
    for rule in &all.rules {
        let mut request = handle.rule().add();
        *request.message_mut() = rule.clone();
        match unless(nix::errno::Errno::EEXIST, request.execute().await) {
            Ok(new) => any |= new,
            Err(e) => {
                let failed = failed("a routing rule (Linux 4.17 or later has ipproto)");
                failure.get_or_insert(failed(e));
            }
        }
    }
    failure.map_or(Ok(any), Err)
}

/// A rule that is gone already is none to remove.
pub async fn remove(handle: &Handle, rule: RuleMessage) -> Result<(), Error> {
    let removed = handle.rule().del(rule).execute().await;
    let removed = unless(nix::errno::Errno::ENOENT, removed);
    removed.map(drop).map_err(failed("removing a routing rule"))
}

/// Somebody may have removed it before.
pub async fn remove_link(handle: &Handle, interface: u32) -> Result<(), Error> {
    let removed = handle.link().del(interface).execute().await;
    let removed = unless(nix::errno::Errno::ENODEV, removed);
    removed
        .map(drop)
        .map_err(|e| Error::failed(format!("removing {TUN}"), e))
}

/// Takes back all that is ours, of a process that was killed too. Whether there was any.
pub async fn clear(handle: &Handle) -> Result<bool, Error> {
    clear_but(handle, &Set::default()).await
}

/// As [`clear`], but for what is in this set.
pub async fn clear_but(handle: &Handle, kept: &Set) -> Result<bool, Error> {
    let mut found = false;
    let rules: HashSet<_> = kept.rules.iter().map(rule_key).collect();
    let routes: HashSet<_> = kept.routes.iter().map(route_key).collect();
    for version in [IpVersion::V4, IpVersion::V6] {
        let is_stale = |rule: &RuleMessage| !rules.contains(&rule_key(rule));
        for rule in ours(handle, version.clone())
            .await
            .into_iter()
            .filter(is_stale)
        {
            found = true;
            remove(handle, rule).await?;
        }
        let mut any = RouteMessage::default();
        any.header.address_family = family(version == IpVersion::V4);
        let there: Vec<RouteMessage> = handle
            .route()
            .get(any)
            .execute()
            .try_collect()
            .await
            .unwrap_or_default();
        let is_stale =
            |route: &RouteMessage| is_our_route(route) && !routes.contains(&route_key(route));
        for route in there.into_iter().filter(is_stale) {
            found = true;
            let removed = handle.route().del(route).execute().await;
            let removed = unless(nix::errno::Errno::ESRCH, removed);
            removed.map_err(failed("removing a route"))?;
        }
    }
    Ok(found)
}

/// Whether rules of ours, or of a process that was killed, cut connections off.
pub async fn blocks(handle: &Handle) -> bool {
    let rules = ours(handle, IpVersion::V4).await;
    let blocks = RuleAttribute::Table(BLOCKED);
    rules.iter().any(|rule| rule.attributes.contains(&blocks))
}

/// Resolvers whose queries rules of ours, or of a process that was killed, lead to the relay.
pub async fn resolvers(handle: &Handle) -> Vec<IpAddr> {
    let mut all = ours(handle, IpVersion::V4).await;
    all.extend(ours(handle, IpVersion::V6).await);
    all.iter().filter_map(routes::resolver).collect()
}

async fn ours(handle: &Handle, version: IpVersion) -> Vec<RuleMessage> {
    // A kernel without IPv6 has none.
    let rules = handle.rule().get(version).execute();
    let mut rules: Vec<RuleMessage> = rules.try_collect().await.unwrap_or_default();
    rules.retain(is_our_rule);
    rules
}

fn is_our_rule(rule: &RuleMessage) -> bool {
    rule.attributes.contains(&RuleAttribute::Protocol(PROTOCOL))
}

fn is_our_route(route: &RouteMessage) -> bool {
    let ours = |table: &u32| route.attributes.contains(&RouteAttribute::Table(*table));
    route.header.protocol == PROTOCOL && TABLES.iter().any(ours)
}

type Attributes = Vec<(u16, Vec<u8>)>;

fn attributes<'a, T: Nla + 'a>(all: impl Iterator<Item = &'a T>) -> Attributes {
    let mut all: Attributes = all
        .map(|attribute| {
            let mut value = vec![0; attribute.value_len()];
            attribute.emit_value(&mut value);
            (attribute.kind(), value)
        })
        .collect();
    all.sort();
    all
}

/// What a rule is known by: the kernel's list has attributes that ours do without.
fn rule_key(rule: &RuleMessage) -> (u8, u8, Attributes) {
    let own = rule.attributes.iter().filter(|attribute| match attribute {
        RuleAttribute::SuppressPrefixLen(bits) => *bits != u32::MAX,
        RuleAttribute::Table(table) => *table != 0,
        RuleAttribute::Destination(_)
        | RuleAttribute::Source(_)
        | RuleAttribute::Iifname(_)
        | RuleAttribute::Goto(_)
        | RuleAttribute::Priority(_)
        | RuleAttribute::FwMark(_)
        | RuleAttribute::UidRange(_)
        | RuleAttribute::IpProtocol(_)
        | RuleAttribute::DestinationPortRange(_) => true,
        _ => false,
    });
    (
        rule.header.family.into(),
        rule.header.action.into(),
        attributes(own),
    )
}

fn route_key(route: &RouteMessage) -> (u8, u8, u8, Attributes) {
    let header = &route.header;
    let own = route.attributes.iter().filter(|attribute| match attribute {
        RouteAttribute::Destination(_) => header.destination_prefix_length > 0,
        attribute => matches!(attribute, RouteAttribute::Table(_)),
    });
    (
        header.address_family.into(),
        header.kind.into(),
        header.destination_prefix_length,
        attributes(own),
    )
}

/// Hears of rules and routes of ours that go, whoever removes them.
pub struct Removals {
    messages: Pin<Box<dyn Stream<Item = NetlinkMessage<RouteNetlinkMessage>> + Send>>,
    connection: JoinHandle<()>,
    heard: bool,
    next: Instant,
}

impl Removals {
    pub fn watch() -> Result<Removals, Error> {
        let groups = [
            MulticastGroup::Ipv4Rule,
            MulticastGroup::Ipv6Rule,
            MulticastGroup::Ipv4Route,
            MulticastGroup::Ipv6Route,
        ];
        let watched = rtnetlink::new_multicast_connection(&groups);
        let (connection, _, messages) = watched.map_err(|e| Error::failed("netlink", e))?;
        Ok(Removals {
            messages: Box::pin(messages.map(|(message, _)| message)),
            connection: tokio::spawn(connection),
            heard: false,
            next: Instant::now(),
        })
    }

    /// May be dropped and called again without a loss.
    pub async fn next(&mut self) {
        while !self.heard {
            match self.messages.next().await {
                Some(message) => self.heard = is_removal(&message),
                None => pending().await,
            }
        }
        sleep_until(self.next).await;
        while let Some(Some(_)) = self.messages.next().now_or_never() {}
        self.heard = false;
        self.next = Instant::now() + TOGETHER;
    }
}

impl Drop for Removals {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn is_removal(message: &NetlinkMessage<RouteNetlinkMessage>) -> bool {
    match &message.payload {
        // Some were lost.
        NetlinkPayload::Overrun(_) => true,
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelRule(rule)) => is_our_rule(rule),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelRoute(route)) => is_our_route(route),
        _ => false,
    }
}
