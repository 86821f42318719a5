//! Questions over generic netlink (Linux Documentation/userspace-api/netlink/intro.rst), answered in the thread that asks.
//! With a second thread that reads, as neli's router has one, the end of a list races the kernel: `netlink_dump` in
//! `net/netlink/af_netlink.c` finds nothing to go on with, and the next answer is EINVAL.

use std::io;
use std::sync::{Mutex, PoisonError};

use neli::consts::genl::{Cmd, CtrlAttr, CtrlAttrMcastGrp, CtrlCmd, Index, NlAttrType};
use neli::consts::nl::{GenlId, NlmF, Nlmsg};
use neli::consts::socket::NlFamily;
use neli::err::SocketError;
use neli::genl::{
    AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, Nlattr, NlattrBuilder, NoUserHeader,
};
use neli::nl::{NlPayload, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::{Buffer, GenlBuffer};
use neli::utils::Groups;
use neli::{Size, ToBytes};

/// Of the family that knows the others.
const CONTROL_VERSION: u8 = 2;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the kernel answered.
    #[error("{0}")]
    Refused(io::Error),
    #[error("netlink: {0}")]
    Netlink(String),
}

impl Error {
    pub(crate) fn other(e: impl std::fmt::Display) -> Error {
        Error::Netlink(e.to_string())
    }
}

/// What a question is for.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// One thing, or an order that is carried out.
    One,
    List,
}

/// A family in the network namespace that the calling thread was in when it was opened.
pub struct Family {
    socket: NlSocketHandle,
    id: u16,
    version: u8,
    /// Of the last question. Held until its answer is here.
    number: Mutex<u32>,
}

impl Family {
    pub fn open(name: &str, version: u8) -> Result<Family, Error> {
        let control = Family::control()?;
        let id = control.describe(name)?.iter().find_map(|reply| {
            let handle = reply.attrs().get_attr_handle();
            handle.get_attr_payload_as::<u16>(CtrlAttr::FamilyId).ok()
        });
        Ok(Family {
            id: id.ok_or_else(|| Error::other(format!("no family {name}")))?,
            version,
            ..control
        })
    }

    /// What the family tells of itself to everybody who listens: the group's number.
    pub fn group(family: &str, name: &str) -> Result<u32, Error> {
        let replies = Family::control()?.describe(family)?;
        let number = |reply: &Genlmsghdr<CtrlCmd, CtrlAttr>| {
            let handle = reply.attrs().get_attr_handle();
            let groups = handle.get_nested_attributes::<Index>(CtrlAttr::McastGroups);
            groups.ok()?.iter().find_map(|group| {
                let group = group.get_attr_handle::<CtrlAttrMcastGrp>().ok()?;
                let called = group.get_attr_payload_as_with_len::<String>(CtrlAttrMcastGrp::Name);
                let number = group.get_attr_payload_as::<u32>(CtrlAttrMcastGrp::Id);
                number
                    .ok()
                    .filter(|_| called.is_ok_and(|called| called == name))
            })
        };
        let missing = || Error::other(format!("no group {name} of the family {family}"));
        replies.iter().find_map(number).ok_or_else(missing)
    }

    fn control() -> Result<Family, Error> {
        let socket = NlSocketHandle::connect(NlFamily::Generic, None, Groups::empty());
        Ok(Family {
            socket: socket.map_err(Error::other)?,
            id: GenlId::Ctrl.into(),
            version: CONTROL_VERSION,
            number: Mutex::default(),
        })
    }

    fn describe(&self, family: &str) -> Result<Vec<Genlmsghdr<CtrlCmd, CtrlAttr>>, Error> {
        let named = attr(CtrlAttr::FamilyName, family)?;
        self.ask(CtrlCmd::Getfamily, Answer::One, vec![named])
    }

    pub fn ask<C, A>(
        &self,
        command: C,
        answer: Answer,
        attrs: Vec<Nlattr<A, Buffer>>,
    ) -> Result<Vec<Genlmsghdr<C, A>>, Error>
    where
        C: Cmd + Copy,
        A: NlAttrType,
    {
        // What has the kernel end its answer with a message that says so.
        let flags = match answer {
            Answer::One => NlmF::ACK,
            Answer::List => NlmF::DUMP,
        };
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        *number = number.wrapping_add(1);
        let question = GenlmsghdrBuilder::<C, A, NoUserHeader>::default()
            .cmd(command)
            .version(self.version)
            .attrs(attrs.into_iter().collect::<GenlBuffer<_, _>>())
            .build()
            .map_err(Error::other)?;
        let question = NlmsghdrBuilder::default()
            .nl_type(self.id)
            .nl_flags(flags | NlmF::REQUEST)
            .nl_pid(self.socket.pid())
            .nl_seq(*number)
            .nl_payload(NlPayload::Payload(question))
            .build()
            .map_err(Error::other)?;
        self.socket.send(&question).map_err(of_socket)?;
        let mut replies = Vec::new();
        loop {
            let (messages, _) = match self.socket.recv::<u16, Genlmsghdr<C, A>>() {
                Err(SocketError::Io(e)) if e.kind() == io::ErrorKind::Interrupted => continue,
                received => received.map_err(of_socket)?,
            };
            for message in messages {
                let message = message.map_err(of_socket)?;
                // The rest of an answer that an error cut short.
                if message.nl_seq() != &*number {
                    continue;
                }
                match message.nl_payload() {
                    NlPayload::Payload(reply) => replies.push(reply.clone()),
                    NlPayload::Err(e) => return Err(refused(*e.error())),
                    NlPayload::DumpExtAck(e) if *e.error() != 0 => return Err(refused(*e.error())),
                    NlPayload::Ack(_) => return Ok(replies),
                    NlPayload::DumpExtAck(_) | NlPayload::Empty => {}
                }
                if *message.nl_type() == u16::from(Nlmsg::Done) {
                    return Ok(replies);
                }
            }
        }
    }
}

fn refused(errno: i32) -> Error {
    Error::Refused(io::Error::from_raw_os_error(errno.abs()))
}

fn of_socket(e: SocketError) -> Error {
    match e {
        SocketError::Io(e) => match e.raw_os_error() {
            Some(errno) => refused(errno),
            None => Error::other(e),
        },
        e => Error::other(e),
    }
}

/// An attribute of any family.
pub fn attr<T, P>(kind: T, payload: P) -> Result<Nlattr<T, Buffer>, Error>
where
    T: NlAttrType + Size,
    P: Size + ToBytes,
{
    let kind = AttrTypeBuilder::default()
        .nla_type(kind)
        .build()
        .map_err(Error::other)?;
    NlattrBuilder::default()
        .nla_type(kind)
        .nla_payload(payload)
        .build()
        .map_err(Error::other)
}
