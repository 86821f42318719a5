//! Groups of plain TCP sockets. A controller couples the sockets of a group as it does the subflows of an MPTCP connection,
//! at most [`mp_controllers::MAX_SUBFLOWS`]; a further one runs uncoupled.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use zerocopy::{Immutable, IntoBytes};

use crate::error::{Context, Error};

/// Puts sockets into groups, for one controller.
#[derive(Debug)]
pub struct Groups {
    members: MapHandle,
}

/// struct mp_member, controllers/bpf/settings.h
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Member {
    group: u64,
    backup: u64,
    target_us: u64,
}

impl Member {
    /// `group` is a number that no other group of this host has, not 0: a random one. A `backup` does not count in the
    /// coupling while normal members live.
    pub fn new(group: u64, backup: bool) -> Member {
        Member {
            group,
            backup: backup.into(),
            target_us: 0,
        }
    }

    /// With the target for the queueing delay that a scheduler found, µs
    /// ([`mp_controllers::Entry::scheduled_parameter`]).
    pub fn aiming_at(self, target_us: u64) -> Member {
        Member { target_us, ..self }
    }
}

impl Groups {
    pub(crate) fn open(pins: &Path) -> Result<Groups, Error> {
        let pin = pins.join("members");
        let members = MapHandle::from_pinned_path(&pin).context(pin.display())?;
        Ok(Groups { members })
    }

    /// Says what this socket is from now on. It stays in its first group until it closes; the rest may change. With its next
    /// ACK the controller takes it in, if it is this controller that the socket uses.
    pub fn put(&self, socket: BorrowedFd, member: Member) -> Result<(), Error> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let put = self.members.update(&key, member.as_bytes(), MapFlags::ANY);
        put.context("cannot put a socket into a group")
    }
}

#[cfg(test)]
#[test]
fn member_matches_the_layout_in_c() {
    use crate::layout::{assert_matches, layout_of};
    assert_matches(
        &["kernel.h", "../mp.h", "settings.h"],
        &[("mp_member", layout_of!(Member: group, backup, target_us))],
    );
}
