//! The kernel's MPTCP path manager over generic netlink (family `mptcp_pm`; Linux Documentation/netlink/specs/mptcp_pm.yaml).
//!
//! Endpoints, limits and flags belong to the in-kernel path manager; [`PathManager::create_subflow`] and its like to the
//! userspace one (`net.mptcp.pm_type=1` before the socket exists). Everything acts on one network namespace: the one
//! that the calling thread is in when [`PathManager::new`] or [`Events::new`] is called.

mod events;
#[cfg(test)]
pub(crate) mod tests;
mod types;
mod wire;

use std::net::SocketAddr;

use neli::attr::Attribute;
use neli::genl::{Genlmsghdr, Nlattr};
use neli::types::{Buffer, GenlBuffer};

use crate::netlink::{self, attr, Answer, Family};
pub use events::Events;
pub use types::{Endpoint, Event, EventKind, Flags, Limits};
use wire::{address, parse_address, AddrAttr, Attr, Command};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this kernel has no MPTCP path manager ({0}): it needs CONFIG_MPTCP and net.mptcp.enabled=1")]
    Unavailable(String),
    #[error("MPTCP path manager, {command}: {source}")]
    Refused {
        command: &'static str,
        source: std::io::Error,
    },
    #[error("MPTCP path manager: {0}")]
    Netlink(String),
}

impl Error {
    fn unavailable(e: impl std::fmt::Display) -> Error {
        Error::Unavailable(e.to_string())
    }

    fn of(command: &'static str, error: netlink::Error) -> Error {
        match error {
            netlink::Error::Refused(source) => Error::Refused { command, source },
            netlink::Error::Netlink(why) => Error::Netlink(format!("{command}: {why}")),
        }
    }

    /// The kernel's errno, where it gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Refused { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

impl From<netlink::Error> for Error {
    fn from(error: netlink::Error) -> Error {
        Error::Netlink(error.to_string())
    }
}

/// Commands to the path manager of one network namespace.
pub struct PathManager {
    family: Family,
}

type Reply = Genlmsghdr<Command, Attr>;

impl PathManager {
    pub fn new() -> Result<PathManager, Error> {
        let family = Family::open(wire::FAMILY, wire::VERSION).map_err(Error::unavailable)?;
        Ok(PathManager { family })
    }

    pub fn endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        let replies = self.call("listing endpoints", Command::GetAddr, Answer::List, vec![])?;
        Ok(replies
            .iter()
            .filter_map(|reply| {
                let handle = reply.attrs().get_attr_handle();
                let nested = handle.get_attribute(Attr::Addr)?;
                let attrs = nested
                    .get_payload_as_with_len::<GenlBuffer<AddrAttr, Buffer>>()
                    .ok()?;
                parse_address(&attrs)
            })
            .collect())
    }

    pub fn add_endpoint(&self, endpoint: &Endpoint) -> Result<(), Error> {
        self.order(
            "adding an endpoint",
            Command::AddAddr,
            vec![address(Attr::Addr, endpoint)?],
        )
    }

    pub fn delete_endpoint(&self, endpoint: &Endpoint) -> Result<(), Error> {
        self.order(
            "deleting an endpoint",
            Command::DelAddr,
            vec![address(Attr::Addr, endpoint)?],
        )
    }

    pub fn flush_endpoints(&self) -> Result<(), Error> {
        self.order("flushing the endpoints", Command::FlushAddrs, vec![])
    }

    pub fn limits(&self) -> Result<Limits, Error> {
        let replies = self.call(
            "reading the limits",
            Command::GetLimits,
            Answer::One,
            vec![],
        )?;
        let reply = replies
            .first()
            .ok_or_else(|| Error::Netlink("no answer to a request for the limits".into()))?;
        let handle = reply.attrs().get_attr_handle();
        let read = |a| {
            handle
                .get_attr_payload_as::<u32>(a)
                .map_err(|e| Error::Netlink(e.to_string()))
        };
        Ok(Limits {
            subflows: read(Attr::Subflows)?,
            add_addr_accepted: read(Attr::RcvAddAddrs)?,
        })
    }

    pub fn set_limits(&self, limits: Limits) -> Result<(), Error> {
        let attrs = vec![
            attr(Attr::RcvAddAddrs, limits.add_addr_accepted)?,
            attr(Attr::Subflows, limits.subflows)?,
        ];
        self.order("setting the limits", Command::SetLimits, attrs)
    }

    /// Changes the endpoint's backup and fullmesh flags, and with them every subflow from its address: each connection
    /// sends one MP_PRIO.
    pub fn set_endpoint_flags(&self, endpoint: &Endpoint) -> Result<(), Error> {
        self.order(
            "changing an endpoint's flags",
            Command::SetFlags,
            vec![address(Attr::Addr, endpoint)?],
        )
    }

    /// Sends MP_PRIO for one subflow of one connection. Userspace path manager only; both addresses with their ports.
    pub fn set_subflow_backup(
        &self,
        token: u32,
        local: SocketAddr,
        remote: SocketAddr,
        backup: bool,
    ) -> Result<(), Error> {
        // The local port must stay out: the kernel looks the subflow up by address.
        let local = Endpoint::new(
            local.ip(),
            Flags {
                backup,
                ..Flags::NONE
            },
        );
        let attrs = vec![
            attr(Attr::Token, token)?,
            address(Attr::Addr, &local)?,
            address(Attr::AddrRemote, &with_port(remote))?,
        ];
        self.order("changing a subflow's priority", Command::SetFlags, attrs)
    }

    /// Opens a subflow. Userspace path manager only. `local.id` must not be 0 and must be the same for the same address;
    /// `local.flags.backup` opens it as a backup.
    pub fn create_subflow(
        &self,
        token: u32,
        local: &Endpoint,
        remote: SocketAddr,
    ) -> Result<(), Error> {
        let attrs = vec![
            attr(Attr::Token, token)?,
            address(Attr::Addr, local)?,
            address(Attr::AddrRemote, &with_port(remote))?,
        ];
        self.order("opening a subflow", Command::SubflowCreate, attrs)
    }

    /// Closes a subflow. Userspace path manager only.
    pub fn destroy_subflow(
        &self,
        token: u32,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(), Error> {
        let attrs = vec![
            attr(Attr::Token, token)?,
            address(Attr::Addr, &with_port(local))?,
            address(Attr::AddrRemote, &with_port(remote))?,
        ];
        self.order("closing a subflow", Command::SubflowDestroy, attrs)
    }

    /// Announces an address to one connection's peer (ADD_ADDR). Userspace path manager only.
    pub fn announce(&self, token: u32, endpoint: &Endpoint) -> Result<(), Error> {
        let mut endpoint = endpoint.clone();
        endpoint.flags.signal = true;
        let attrs = vec![attr(Attr::Token, token)?, address(Attr::Addr, &endpoint)?];
        self.order("announcing an address", Command::Announce, attrs)
    }

    /// Withdraws an announced address (REMOVE_ADDR) and closes its subflows. Userspace path manager only.
    pub fn remove(&self, token: u32, local_id: u8) -> Result<(), Error> {
        let attrs = vec![attr(Attr::Token, token)?, attr(Attr::LocId, local_id)?];
        self.order("withdrawing an address", Command::Remove, attrs)
    }

    fn order(
        &self,
        what: &'static str,
        command: Command,
        attrs: Vec<Nlattr<Attr, Buffer>>,
    ) -> Result<(), Error> {
        self.call(what, command, Answer::One, attrs).map(drop)
    }

    fn call(
        &self,
        what: &'static str,
        command: Command,
        answer: Answer,
        attrs: Vec<Nlattr<Attr, Buffer>>,
    ) -> Result<Vec<Reply>, Error> {
        let replies = self.family.ask(command, answer, attrs);
        replies.map_err(|e| Error::of(what, e))
    }
}

fn with_port(address: SocketAddr) -> Endpoint {
    Endpoint {
        port: Some(address.port()),
        ..Endpoint::new(address.ip(), Flags::NONE)
    }
}
