//! The congestion controller of path connections. One of ours couples those of a flow.

use std::os::fd::AsFd;
use std::sync::Arc;

use mp_kernel::controller::{self, Controller, DEFAULT};
use mp_kernel::groups::{Groups, Member};
use tokio::net::TcpStream;

use crate::keys;
use crate::Error;

/// Which controller path connections have. That of `Control::default()` is BBR where the kernel has it, else the system's.
#[derive(Debug, Clone, Default)]
pub struct Control {
    name: Option<String>,
    groups: Option<Arc<Groups>>,
    /// Loaded as long as this, where it was loaded for it.
    _held: Option<Arc<Controller>>,
}

impl Control {
    /// The one of this name; without a name [`DEFAULT`] if this process may load it, else that of `Control::default()`.
    pub fn choose(name: Option<&str>) -> Result<Control, Error> {
        let controller = match name {
            Some(name) => controller::acquire(name, &[])?,
            None => match controller::acquire(DEFAULT, &[]) {
                Ok(controller) => controller,
                Err(_) => return Ok(Control::default()),
            },
        };
        let control = Control::of(&controller)?;
        Ok(Control {
            _held: Some(Arc::new(controller)),
            ..control
        })
    }

    /// This one, which its owner keeps loaded.
    pub fn of(controller: &Controller) -> Result<Control, Error> {
        Ok(Control {
            name: Some(controller.kernel_name().to_owned()),
            groups: controller.groups()?.map(Arc::new),
            _held: None,
        })
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Of a new flow; `None` where the controller is none of ours.
    pub(crate) fn group(&self) -> Option<Group> {
        let groups = self.groups.clone()?;
        Some(Group {
            groups,
            // Random, because other processes have groups too; 0 is none.
            number: u64::from_ne_bytes(keys::random()) | 1,
            target_us: None,
        })
    }
}

/// The path connections of a flow, as their controller knows them.
#[derive(Debug)]
pub(crate) struct Group {
    groups: Arc<Groups>,
    number: u64,
    target_us: Option<u64>,
}

impl Group {
    /// Says what a path connection is. Where the kernel has no memory for it, it runs uncoupled.
    pub fn put(&self, stream: &TcpStream, backup: bool) {
        let member = Member::new(self.number, backup);
        let member = match self.target_us {
            Some(target) => member.aiming_at(target),
            None => member,
        };
        let _ = self.groups.put(stream.as_fd(), member);
    }

    /// The scheduler's target for the queueing delay, µs; whether it is another one than before.
    pub fn aim(&mut self, target_us: Option<u64>) -> bool {
        std::mem::replace(&mut self.target_us, target_us) != target_us
    }
}
