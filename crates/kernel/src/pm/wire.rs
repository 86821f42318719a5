//! Attributes of the generic netlink family `mptcp_pm`, and their encoding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use neli::attr::Attribute;
use neli::consts::genl::{Cmd, NlAttrType};
use neli::genl::Nlattr;
use neli::neli_enum;
use neli::types::{Buffer, GenlBuffer};

use super::types::{Endpoint, Flags};
use super::Error;
use crate::netlink::{self, attr};

pub(super) const FAMILY: &str = "mptcp_pm";
pub(super) const EVENTS: &str = "mptcp_pm_events";
pub(super) const VERSION: u8 = 1;

#[neli_enum(serialized_type = "u8")]
pub(super) enum Command {
    Unspec = 0,
    AddAddr = 1,
    DelAddr = 2,
    GetAddr = 3,
    FlushAddrs = 4,
    SetLimits = 5,
    GetLimits = 6,
    SetFlags = 7,
    Announce = 8,
    Remove = 9,
    SubflowCreate = 10,
    SubflowDestroy = 11,
}
impl Cmd for Command {}

/// `MPTCP_PM_ATTR_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum Attr {
    Unspec = 0,
    Addr = 1,
    RcvAddAddrs = 2,
    Subflows = 3,
    Token = 4,
    LocId = 5,
    AddrRemote = 6,
}
impl NlAttrType for Attr {}

/// `MPTCP_PM_ADDR_ATTR_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum AddrAttr {
    Unspec = 0,
    Family = 1,
    Id = 2,
    Addr4 = 3,
    Addr6 = 4,
    /// Host byte order, unlike the ports of events.
    Port = 5,
    Flags = 6,
    IfIdx = 7,
}
impl NlAttrType for AddrAttr {}

/// `MPTCP_ATTR_*` of events
#[neli_enum(serialized_type = "u16")]
pub(super) enum EventAttr {
    Unspec = 0,
    Token = 1,
    Family = 2,
    LocId = 3,
    RemId = 4,
    Saddr4 = 5,
    Saddr6 = 6,
    Daddr4 = 7,
    Daddr6 = 8,
    Sport = 9,
    Dport = 10,
    Backup = 11,
    Error = 12,
    Flags = 13,
    Timeout = 14,
    IfIdx = 15,
    ResetReason = 16,
    ResetFlags = 17,
    ServerSide = 18,
}
impl NlAttrType for EventAttr {}

/// An address attribute (`MPTCP_PM_ATTR_ADDR` or `_ADDR_REMOTE`). An id of 0 means "unset", but for a connection's
/// first subflow, whose address has the id 0 and needs none.
pub(super) fn address(kind: Attr, endpoint: &Endpoint) -> Result<Nlattr<Attr, Buffer>, Error> {
    let mut out = attr(kind, Buffer::new())?;
    let mut push = |a: Nlattr<AddrAttr, Buffer>| -> Result<(), Error> {
        out = out.clone().nest(&a).map_err(netlink::Error::other)?;
        Ok(())
    };
    match endpoint.address {
        IpAddr::V4(ip) => {
            push(attr(AddrAttr::Family, libc::AF_INET as u16)?)?;
            push(attr(AddrAttr::Addr4, Buffer::from(ip.octets().to_vec()))?)?;
        }
        IpAddr::V6(ip) => {
            push(attr(AddrAttr::Family, libc::AF_INET6 as u16)?)?;
            push(attr(AddrAttr::Addr6, Buffer::from(ip.octets().to_vec()))?)?;
        }
    }
    if endpoint.id != 0 {
        push(attr(AddrAttr::Id, endpoint.id)?)?;
    }
    if let Some(port) = endpoint.port {
        push(attr(AddrAttr::Port, port)?)?;
    }
    push(attr(AddrAttr::Flags, endpoint.flags.to_bits())?)?;
    if let Some(interface) = endpoint.interface {
        push(attr(AddrAttr::IfIdx, interface)?)?;
    }
    Ok(out)
}

pub(super) fn parse_address(nested: &GenlBuffer<AddrAttr, Buffer>) -> Option<Endpoint> {
    let mut endpoint = Endpoint::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), Flags::NONE);
    let mut found = false;
    for a in nested.iter() {
        let payload = a.payload().as_ref();
        match a.nla_type().nla_type() {
            AddrAttr::Id => endpoint.id = *payload.first()?,
            AddrAttr::Addr4 => {
                endpoint.address = IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(payload).ok()?));
                found = true;
            }
            AddrAttr::Addr6 => {
                endpoint.address = IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(payload).ok()?));
                found = true;
            }
            AddrAttr::Port => {
                let port = u16::from_ne_bytes(payload.try_into().ok()?);
                endpoint.port = (port != 0).then_some(port);
            }
            AddrAttr::Flags => {
                endpoint.flags = Flags::from_bits(u32::from_ne_bytes(payload.try_into().ok()?))
            }
            AddrAttr::IfIdx => {
                let index = i32::from_ne_bytes(payload.try_into().ok()?);
                endpoint.interface = (index != 0).then_some(index);
            }
            _ => {}
        }
    }
    found.then_some(endpoint)
}
