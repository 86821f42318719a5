//! Rules and routes that lead TCP and UDP into the TUN. All of ours carry our protocol number, by which leftovers are found.
//!
//! | priority | rule | |
//! | --- | --- | --- |
//! | 27100 | `fwmark MARK goto 27105` | path connections |
//! | 27101 | `ipproto tcp lookup main suppress_prefixlength 0` | what the main table knows better than by default |
//! | 27102 | `from 0.0.0.0/32 ipproto tcp lookup 27101` | sockets that have no address yet; IPv4 |
//! | 27103 | `from HOST ipproto tcp lookup 27101` | and that have the TUN's |
//! | 27104 | `ipproto tcp lookup 27102` (IPv4: `from 0.0.0.0/32`) | with `leak = "block"` |
//! | 27105 | `nop` | |
//!
//! The same for `ipproto udp`, while the datagram lane is up or `leak = "block"`.
//!
//! A socket of a server, or one that its program has bound, has another source address and is left alone.

use std::net::IpAddr;

use futures_util::TryStreamExt;
use rtnetlink::packet_route::address::AddressHeaderFlags;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use rtnetlink::packet_route::{AddressFamily, IpProtocol};
use rtnetlink::{Handle, IpVersion, LinkUnspec, RouteMessageBuilder};

use crate::egress::Prefix;
use crate::Error;

/// Of path connections.
pub const MARK: u32 = 0x6d70;
const FIRST: u32 = 27100;
const LAST: u32 = 27105;
const TABLE: u32 = 27101;
const BLOCKED: u32 = 27102;
/// In /etc/iproute2/rt_protos of nobody.
const PROTOCOL: RouteProtocol = RouteProtocol::Other(177);
/// `FIB_RULE_FIND_SADDR`: the rule fits a socket without an address that would get this one. IPv6 alone knows it.
const FIND_SOURCE: RuleFlags = RuleFlags::from_bits_retain(0x10000);
/// As on the loopback interface, no packet of which leaves the host either.
const MTU: u32 = 65_535;

/// Of one family.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    pub host: IpAddr,
    pub peer: IpAddr,
}

impl Ends {
    fn bits(&self) -> u8 {
        if self.host.is_ipv4() {
            30
        } else {
            126
        }
    }

    fn whole(&self) -> u8 {
        if self.host.is_ipv4() {
            32
        } else {
            128
        }
    }
}

fn failed(what: &'static str) -> impl Fn(rtnetlink::Error) -> Error {
    move |e| Error::failed(what, e)
}

/// Addresses for the interface, which is up afterwards.
pub async fn furnish(handle: &Handle, interface: u32, ends: &[Ends]) -> Result<(), Error> {
    let up = LinkUnspec::new_with_index(interface).mtu(MTU).up().build();
    let set = handle.link().set(up).execute().await;
    set.map_err(failed("bringing the TUN up"))?;
    for ends in ends {
        let mut request = handle.address().add(interface, ends.host, ends.bits());
        // Nobody else could have it.
        request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
        let added = request.execute().await;
        added.map_err(failed("the TUN's address"))?;
    }
    Ok(())
}

/// From now on TCP that would leave this host goes into the interface, except for these prefixes.
pub async fn divert(
    handle: &Handle,
    interface: u32,
    ends: &[Ends],
    direct: &[Prefix],
    block: bool,
) -> Result<(), Error> {
    let table_failed = failed("routes to the TUN");
    for ends in ends {
        let v4 = ends.host.is_ipv4();
        let tables: &[u32] = if block { &[TABLE, BLOCKED] } else { &[TABLE] };
        for table in tables {
            for prefix in direct.iter().filter(|p| p.address().is_ipv4() == v4) {
                let throw = route(v4, *table, prefix.address(), prefix.bits())?
                    .kind(RouteType::Throw)
                    .build();
                let added = handle.route().add(throw).replace().execute().await;
                added.map_err(&table_failed)?;
            }
        }
        let everywhere = if v4 { "0.0.0.0" } else { "::" };
        let everywhere: IpAddr = everywhere.parse().expect("an address");
        let into = route(v4, TABLE, everywhere, 0)?
            .output_interface(interface)
            .pref_source(ends.host)
            .map_err(|e| Error::failed("routes to the TUN", e))?
            .build();
        let added = handle.route().add(into).execute().await;
        added.map_err(&table_failed)?;
        if block {
            let nowhere = route(v4, BLOCKED, everywhere, 0)?
                .kind(RouteType::Unreachable)
                .build();
            let added = handle.route().add(nowhere).execute().await;
            added.map_err(&table_failed)?;
        }
    }
    // The last one first: the mark's jumps to it.
    for ends in ends {
        // With the mark's before those that divert: a path connection is never led back.
        let mut all = frame(ends);
        all.extend(rules(ends, IpProtocol::Tcp, block).into_iter().rev());
        add(handle, all).await?;
    }
    Ok(())
}

async fn add(handle: &Handle, rules: Vec<RuleMessage>) -> Result<(), Error> {
    for rule in rules {
        let mut request = handle.rule().add();
        *request.message_mut() = rule;
        let added = request.execute().await;
        added.map_err(failed("a routing rule (Linux 4.17 or later has ipproto)"))?;
    }
    Ok(())
}

/// UDP goes the same way as TCP from now on, or directly again.
pub async fn divert_udp(
    handle: &Handle,
    ends: &[Ends],
    block: bool,
    divert: bool,
) -> Result<(), Error> {
    for ends in ends {
        let mut all = rules(ends, IpProtocol::Udp, block);
        if divert {
            all.reverse();
            add(handle, all).await?;
        } else {
            for rule in all {
                let removed = handle.rule().del(rule).execute().await;
                removed.map_err(failed("removing a routing rule"))?;
            }
        }
    }
    Ok(())
}

fn route(v4: bool, table: u32, to: IpAddr, bits: u8) -> Result<RouteMessageBuilder<IpAddr>, Error> {
    let mut builder = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(to, bits)
        .map_err(|e| Error::failed(to, e))?
        .table_id(table)
        .protocol(PROTOCOL);
    builder.get_mut().header.address_family = family(v4);
    Ok(builder)
}

fn family(v4: bool) -> AddressFamily {
    if v4 {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

fn rule(
    ends: &Ends,
    priority: u32,
    action: RuleAction,
    mut attributes: Vec<RuleAttribute>,
) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family(ends.host.is_ipv4());
    message.header.action = action;
    attributes.push(RuleAttribute::Priority(priority));
    attributes.push(RuleAttribute::Protocol(PROTOCOL));
    message.attributes = attributes;
    message
}

/// The first rule and the last, of every protocol.
fn frame(ends: &Ends) -> Vec<RuleMessage> {
    let marked = vec![RuleAttribute::FwMark(MARK), RuleAttribute::Goto(LAST)];
    vec![
        rule(ends, LAST, RuleAction::Nop, vec![]),
        rule(ends, FIRST, RuleAction::Goto, marked),
    ]
}

fn rules(ends: &Ends, protocol: IpProtocol, block: bool) -> Vec<RuleMessage> {
    let v4 = ends.host.is_ipv4();
    let lookup = |priority, table, mut more: Vec<RuleAttribute>| {
        more.push(RuleAttribute::Table(table));
        more.push(RuleAttribute::IpProtocol(protocol));
        rule(ends, priority, RuleAction::ToTable, more)
    };
    let from = |mut message: RuleMessage, address: IpAddr| {
        message.header.src_len = ends.whole();
        message.attributes.push(RuleAttribute::Source(address));
        message
    };
    let main = vec![RuleAttribute::SuppressPrefixLen(0)];
    let unbound = IpAddr::from([0, 0, 0, 0]);
    let mut all = vec![lookup(FIRST + 1, 254, main)];
    let mut ours = from(lookup(FIRST + 3, TABLE, vec![]), ends.host);
    if v4 {
        all.push(from(lookup(FIRST + 2, TABLE, vec![]), unbound));
    } else {
        ours.header.flags |= FIND_SOURCE;
    }
    all.push(ours);
    if block {
        let blocked = lookup(FIRST + 4, BLOCKED, vec![]);
        all.push(if v4 { from(blocked, unbound) } else { blocked });
    }
    all
}

/// Takes back all that is ours, of a process that was killed too. Whether there was any.
pub async fn clear(handle: &Handle) -> Result<bool, Error> {
    let mut found = false;
    for version in [IpVersion::V4, IpVersion::V6] {
        // A kernel without IPv6 has none of either.
        let rules: Vec<RuleMessage> = handle
            .rule()
            .get(version.clone())
            .execute()
            .try_collect()
            .await
            .unwrap_or_default();
        let ours = |a: &RuleAttribute| *a == RuleAttribute::Protocol(PROTOCOL);
        for rule in rules.into_iter().filter(|r| r.attributes.iter().any(ours)) {
            found = true;
            let removed = handle.rule().del(rule).execute().await;
            removed.map_err(failed("removing a routing rule"))?;
        }
        let mut any = RouteMessage::default();
        any.header.address_family = family(version == IpVersion::V4);
        let routes: Vec<RouteMessage> = handle
            .route()
            .get(any)
            .execute()
            .try_collect()
            .await
            .unwrap_or_default();
        let ours = |r: &RouteMessage| {
            r.header.protocol == PROTOCOL
                && [TABLE, BLOCKED]
                    .iter()
                    .any(|table| r.attributes.contains(&RouteAttribute::Table(*table)))
        };
        for route in routes.into_iter().filter(ours) {
            found = true;
            let removed = handle.route().del(route).execute().await;
            removed.map_err(failed("removing a route"))?;
        }
    }
    Ok(found)
}
