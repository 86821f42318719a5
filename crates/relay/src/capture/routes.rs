//! Rules and routes that lead packets into the TUN, to be set by `netlink`. All of ours carry our protocol number, by which
//! leftovers are found.
//!
//! | priority | rule | |
//! | --- | --- | --- |
//! | 27100 | `fwmark MARK goto 27111` | path connections |
//! | 27101 | `fwmark CAPTURED lookup 27104` | connections of programs, from their SYN-ACK on |
//! | 27101 | `from HOST iif TUN ipproto tcp lookup 27104` | their SYNs, which come back |
//! | 27102 | `fwmark CAPTURED blackhole` | when the TUN is gone |
//! | 27103 | IPv6: `from HOST lookup 27101` | with users that stay direct: resets of other users' connections |
//! | 27104 | `from 0.0.0.0/32 iif lo uidrange USER-USER goto 27111` | sockets of users that stay direct, without an address yet |
//! | 27105 | `from 0.0.0.0/32 to RESOLVER ipproto udp dport 53 lookup 27103` | DNS, and the same `from HOST`; caught |
//! | 27105 | `from HOST to RESOLVER ipproto icmp lookup 27103` | errors about DNS; caught |
//! | 27106 | those about DNS of 27105, `unreachable` (IPv6: from everywhere) | with `leak = "block"`, when the TUN's routes are gone |
//! | 27107 | `ipproto tcp lookup main suppress_prefixlength 0` | what the main table knows better than by default |
//! | 27108 | `from 0.0.0.0/32 ipproto tcp lookup 27101` | sockets that have no address yet; caught |
//! | 27109 | `from HOST ipproto tcp lookup 27101` | and that have the TUN's |
//! | 27110 | `lookup 27102` (IPv4: `from 0.0.0.0/32`, `from HOST`) | with `leak = "block"` |
//! | 27111 | `nop` | |
//!
//! The order of rules of one priority counts for nothing, so that any of them can be set again by itself.
//!
//! The same for `ipproto udp` and for ICMP, and of 27108 and 27110 with `iif LAN` in place of `from`. With `leak = "block"`
//! 27107 is for every protocol, as 27110 is. The rules that catch come and go with the relay and its datagram lane; the others
//! stay, so that flows of before keep their way.
//!
//! Table 27104 has every address for one of this host's; the rules for it are there with a transparent listener alone.
//!
//! A socket of a server, or one that its program has bound, has another source address and is left alone.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rtnetlink::packet_route::route::{RouteMessage, RouteProtocol, RouteScope, RouteType};
use rtnetlink::packet_route::rule::{
    RuleAction, RuleAttribute, RuleFlags, RuleMessage, RulePortRange, RuleUidRange,
};
use rtnetlink::packet_route::{AddressFamily, IpProtocol};
use rtnetlink::RouteMessageBuilder;

use super::bypass::User;
use crate::egress::Prefix;
use crate::links::{unspecified, TUN};
use crate::Error;

/// Of path connections, and of programs in cgroups that stay direct.
pub const MARK: u32 = 0x6d70;
/// Of both ends of a connection that a transparent listener has taken.
pub const CAPTURED: u32 = 0x6d71;
/// Priorities of rules.
const OWN: u32 = 27100;
const TAKEN: u32 = 27101;
const TAKEN_NO_MORE: u32 = 27102;
const RESETS: u32 = 27103;
const USERS: u32 = 27104;
const QUERIES: u32 = 27105;
const QUERIES_BLOCKED: u32 = 27106;
const MAIN: u32 = 27107;
const UNBOUND: u32 = 27108;
const BOUND: u32 = 27109;
const REST: u32 = 27110;
const LAST: u32 = 27111;
/// `RT_TABLE_MAIN`.
const MAIN_TABLE: u32 = 254;
const TABLE: u32 = 27101;
pub const BLOCKED: u32 = 27102;
/// Leads everything into the TUN.
const ALL: u32 = 27103;
/// Every address is local.
const LOCAL: u32 = 27104;
pub const TABLES: [u32; 4] = [TABLE, BLOCKED, ALL, LOCAL];
const DNS: u16 = 53;
/// In /etc/iproute2/rt_protos of nobody.
pub const PROTOCOL: RouteProtocol = RouteProtocol::Other(177);
/// `FIB_RULE_FIND_SADDR`: the rule fits a socket without an address that would get this one. IPv6 alone knows it.
const FIND_SOURCE: RuleFlags = RuleFlags::from_bits_retain(0x10000);

/// Of one family.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    pub host: IpAddr,
    pub peer: IpAddr,
}

impl Ends {
    pub fn bits(&self) -> u8 {
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

/// What is set together, in this order.
#[derive(Debug, Clone, Default)]
pub struct Set {
    pub routes: Vec<RouteMessage>,
    pub rules: Vec<RuleMessage>,
}

impl Set {
    pub fn extend(&mut self, more: Set) {
        self.routes.extend(more.routes);
        self.rules.extend(more.rules);
    }
}

/// What the rules catch; with `leak = "block"` the rest of that goes nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caught {
    pub tcp: bool,
    /// UDP and ICMP.
    pub datagrams: bool,
    /// Interfaces whose hosts have this one forward their packets: those are caught too.
    pub lans: Vec<String>,
    /// Queries to these, of what is caught.
    pub resolvers: Vec<IpAddr>,
    /// The queries go nowhere when the TUN is gone: the main table, which comes next, has a route to a router on a link.
    pub block: bool,
}

impl Caught {
    fn protocols(&self, v4: bool) -> Vec<IpProtocol> {
        let tcp = [IpProtocol::Tcp];
        let datagrams = datagrams(v4);
        let tcp = tcp.into_iter().filter(|_| self.tcp);
        tcp.chain(datagrams.into_iter().filter(|_| self.datagrams))
            .collect()
    }

    pub fn set(&self, ends: &[Ends]) -> Set {
        Set {
            routes: Vec::new(),
            rules: ends.iter().flat_map(|ends| self.rules(ends)).collect(),
        }
    }

    fn rules(&self, ends: &Ends) -> Vec<RuleMessage> {
        let v4 = ends.host.is_ipv4();
        let protocols = self.protocols(v4);
        let all = protocols.iter();
        let mut all: Vec<RuleMessage> = all
            .map(|protocol| unbound(ends, UNBOUND, TABLE, *protocol))
            .collect();
        for (lan, protocol) in self
            .lans
            .iter()
            .flat_map(|l| protocols.iter().map(move |p| (l, *p)))
        {
            all.push(forwarded(ends, UNBOUND, TABLE, protocol, lan));
        }
        let resolvers = self.resolvers.iter().filter(|r| r.is_ipv4() == v4);
        for (resolver, protocol) in resolvers.flat_map(|r| protocols.iter().map(move |p| (r, *p))) {
            let asks = [IpProtocol::Tcp, IpProtocol::Udp].contains(&protocol);
            let mut rules = Vec::new();
            if asks {
                rules.push(unbound(ends, QUERIES, ALL, protocol));
            }
            // Errors about answers that nobody waits for any more quote them.
            if v4 || !asks {
                rules.push(from(ends, ends.host, QUERIES, ALL, protocol));
            }
            if self.block && asks {
                rules.extend(unreachable(ends, QUERIES_BLOCKED, protocol));
            }
            for mut rule in rules {
                rule.header.dst_len = ends.whole();
                rule.attributes.push(RuleAttribute::Destination(*resolver));
                if asks {
                    let ports = RulePortRange {
                        start: DNS,
                        end: DNS,
                    };
                    let ports = RuleAttribute::DestinationPortRange(ports);
                    rule.attributes.push(ports);
                }
                all.push(rule);
            }
        }
        all
    }
}

/// Of [`Caught::resolvers`], the one that this rule is for.
pub fn resolver(rule: &RuleMessage) -> Option<IpAddr> {
    let of_query = rule.attributes.contains(&RuleAttribute::Priority(QUERIES));
    let to = |a: &RuleAttribute| match a {
        RuleAttribute::Destination(ip) => Some(*ip),
        _ => None,
    };
    rule.attributes.iter().find_map(to).filter(|_| of_query)
}

/// UDP, and ICMP or ICMPv6.
fn datagrams(v4: bool) -> [IpProtocol; 2] {
    let icmp = if v4 {
        IpProtocol::Icmp
    } else {
        IpProtocol::Other(58)
    };
    [IpProtocol::Udp, icmp]
}

/// Connections of the TUN's own address are taken by transparent listeners. A process that is killed takes the route with it:
/// what is left of its connections goes nowhere.
pub fn local(interface: u32, ends: &[Ends]) -> Result<Set, Error> {
    let mut set = Set::default();
    for ends in ends {
        let local = route(ends.host.is_ipv4(), LOCAL, unspecified(ends.host), 0)?
            .kind(RouteType::Local)
            .scope(RouteScope::Host)
            .output_interface(interface)
            .build();
        set.routes.push(local);
        let captured = || RuleAttribute::FwMark(CAPTURED);
        let marked = vec![captured(), RuleAttribute::Table(LOCAL)];
        let back = vec![RuleAttribute::Iifname(TUN.into())];
        let mut back = lookup(ends, TAKEN, LOCAL, IpProtocol::Tcp, back);
        back.header.src_len = ends.whole();
        back.attributes.push(RuleAttribute::Source(ends.host));
        set.rules.extend([
            rule(ends, TAKEN, RuleAction::ToTable, marked),
            rule(ends, TAKEN_NO_MORE, RuleAction::Blackhole, vec![captured()]),
            back,
        ]);
    }
    Ok(set)
}

/// Packets to these prefixes go neither into the TUN nor, with `block`, into the block.
pub fn direct(ends: &[Ends], prefixes: &[Prefix], block: bool) -> Result<Set, Error> {
    let mut set = Set::default();
    let tables: &[u32] = if block { &[TABLE, BLOCKED] } else { &[TABLE] };
    let families = ends.iter().map(|ends| ends.host.is_ipv4());
    for (v4, table) in families.flat_map(|v4| tables.iter().map(move |table| (v4, *table))) {
        for prefix in prefixes.iter().filter(|p| p.address().is_ipv4() == v4) {
            let throw = route(v4, table, prefix.address(), prefix.bits())?;
            set.routes.push(throw.kind(RouteType::Throw).build());
        }
    }
    Ok(set)
}

/// What stands whether the relay answers or not, and needs no TUN. Nothing is caught by it, but for packets of the TUN's own
/// address; with `block` nothing gets out.
pub fn standing(
    ends: &[Ends],
    direct: &[Prefix],
    users: &[User],
    block: bool,
    lans: &[String],
) -> Result<Set, Error> {
    let mut set = self::direct(ends, direct, block)?;
    for ends in ends {
        let v4 = ends.host.is_ipv4();
        if block {
            let nowhere = route(v4, BLOCKED, unspecified(ends.host), 0)?;
            set.routes
                .push(nowhere.kind(RouteType::Unreachable).build());
        }
        // The last one first: the mark's jumps to it. Then the mark's, before those that divert: a path connection is never
        // led back.
        set.rules.extend(frame(ends));
        if ends.host.is_ipv6() {
            set.rules.push(any_protocol(ends, BOUND));
        }
        set.rules.extend(of_users(ends, users));
        for protocol in [IpProtocol::Tcp].into_iter().chain(datagrams(v4)) {
            set.rules
                .push(from(ends, ends.host, BOUND, TABLE, protocol));
            if !block {
                set.rules.push(known(ends, Some(protocol)));
            }
        }
        if block {
            set.rules.push(known(ends, None));
            set.rules.extend(rest(ends, lans));
        }
    }
    Ok(set)
}

/// Without the rules for the TUN's IPv6 address, which is another one in every process.
pub fn barrier(mut all: Set, ends: &[Ends]) -> Set {
    let own = |ip: &IpAddr| ip.is_ipv6() && ends.iter().any(|e| e.host == *ip);
    let of_own = |a: &RuleAttribute| matches!(a, RuleAttribute::Source(ip) if own(ip));
    all.rules.retain(|rule| !rule.attributes.iter().any(of_own));
    all
}

/// The ways into the TUN, which rules look up.
pub fn ways(interface: u32, ends: &[Ends]) -> Result<Set, Error> {
    let mut set = Set::default();
    for ends in ends {
        for table in [TABLE, ALL] {
            let into = route(ends.host.is_ipv4(), table, unspecified(ends.host), 0)?
                .output_interface(interface)
                .pref_source(ends.host)
                .map_err(|e| Error::failed("routes to the TUN", e))?
                .build();
            set.routes.push(into);
        }
    }
    Ok(set)
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

pub fn family(v4: bool) -> AddressFamily {
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
        rule(ends, OWN, RuleAction::Goto, marked),
    ]
}

fn lookup(
    ends: &Ends,
    priority: u32,
    table: u32,
    protocol: impl Into<Option<IpProtocol>>,
    mut more: Vec<RuleAttribute>,
) -> RuleMessage {
    more.push(RuleAttribute::Table(table));
    more.extend(protocol.into().map(RuleAttribute::IpProtocol));
    rule(ends, priority, RuleAction::ToTable, more)
}

/// The kernel looks up whose path MTU an ICMPv6 message is about without a protocol (ip6_update_pmtu): it would find no route of
/// ours, and go on with packets that do not fit.
fn any_protocol(ends: &Ends, priority: u32) -> RuleMessage {
    from(ends, ends.host, priority, TABLE, None)
}

/// Sockets of these users pass by the rules that catch. The kernel's own packets count as root's: with `iif lo` those that come in
/// do not match.
fn of_users(ends: &Ends, users: &[User]) -> Vec<RuleMessage> {
    let mut all = Vec::new();
    if ends.host.is_ipv6() && !users.is_empty() {
        // No rule of IPv6 is for sockets without an address alone: resets of other users' connections keep their way.
        all.push(any_protocol(ends, RESETS));
    }
    // The kernel refuses a rule that is there.
    let users: BTreeSet<u32> = users.iter().map(|User(number)| *number).collect();
    for user in users {
        let range = RuleUidRange {
            start: user,
            end: user,
        };
        let own = vec![
            RuleAttribute::Iifname("lo".into()),
            RuleAttribute::UidRange(range),
            RuleAttribute::Goto(LAST),
        ];
        let mut message = rule(ends, USERS, RuleAction::Goto, own);
        if ends.host.is_ipv4() {
            message.header.src_len = ends.whole();
            message
                .attributes
                .push(RuleAttribute::Source(unspecified(ends.host)));
        }
        all.push(message);
    }
    all
}

fn from(
    ends: &Ends,
    source: IpAddr,
    priority: u32,
    table: u32,
    protocol: impl Into<Option<IpProtocol>>,
) -> RuleMessage {
    let source = vec![RuleAttribute::Source(source)];
    let mut message = lookup(ends, priority, table, protocol, source);
    message.header.src_len = ends.whole();
    message
}

/// For sockets that have no address yet. In IPv6 it is for those with the TUN's too.
fn unbound(ends: &Ends, priority: u32, table: u32, protocol: IpProtocol) -> RuleMessage {
    if ends.host.is_ipv4() {
        let none = IpAddr::from([0, 0, 0, 0]);
        return from(ends, none, priority, table, protocol);
    }
    let mut message = from(ends, ends.host, priority, table, protocol);
    message.header.flags |= FIND_SOURCE;
    message
}

/// For sockets that have no address or the TUN's; in IPv6 for all, because the rule of those without has no use for a route that
/// is none.
fn unreachable(ends: &Ends, priority: u32, protocol: IpProtocol) -> Vec<RuleMessage> {
    let of = |source: Option<IpAddr>| {
        let mut attributes = vec![RuleAttribute::IpProtocol(protocol)];
        attributes.extend(source.map(RuleAttribute::Source));
        let mut message = rule(ends, priority, RuleAction::Unreachable, attributes);
        message.header.src_len = source.map_or(0, |_| ends.whole());
        message
    };
    match ends.host.is_ipv4() {
        true => [unspecified(ends.host), ends.host].map(Some).map(of).into(),
        false => vec![of(None)],
    }
}

/// For packets that came in over this interface and go on.
fn forwarded(
    ends: &Ends,
    priority: u32,
    table: u32,
    protocol: impl Into<Option<IpProtocol>>,
    lan: &str,
) -> RuleMessage {
    let over = vec![RuleAttribute::Iifname(lan.to_owned())];
    lookup(ends, priority, table, protocol, over)
}

/// What the main table knows better than by default goes its way.
fn known(ends: &Ends, protocol: Option<IpProtocol>) -> RuleMessage {
    let not_by_default = vec![RuleAttribute::SuppressPrefixLen(0)];
    lookup(ends, MAIN, MAIN_TABLE, protocol, not_by_default)
}

/// Into the block, of every protocol: also of those that no relay carries. In IPv6 whatever its source.
fn rest(ends: &Ends, lans: &[String]) -> Vec<RuleMessage> {
    if ends.host.is_ipv6() {
        return vec![lookup(ends, REST, BLOCKED, None, vec![])];
    }
    let sources = [unspecified(ends.host), ends.host].into_iter();
    let own = sources.map(|source| from(ends, source, REST, BLOCKED, None));
    let lans = lans.iter();
    own.chain(lans.map(|lan| forwarded(ends, REST, BLOCKED, None, lan)))
        .collect()
}
