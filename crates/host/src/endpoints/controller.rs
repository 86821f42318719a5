//! The congestion controller that new sockets get, and the one that they got before.

use std::fs::{self, File};
use std::os::fd::AsFd;

use mp_kernel::controller;

use super::left::let_go;
use super::Endpoints;
use crate::Error;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

fn failed(error: std::io::Error) -> Error {
    Error::Failed(format!("{DEFAULT}: {error}"))
}

impl Endpoints {
    /// Makes a congestion controller that of new sockets, with these of its parameters; `None`: the one from before.
    pub fn choose(
        &mut self,
        name: Option<&str>,
        parameters: &[(String, u64)],
    ) -> Result<(), Error> {
        match name {
            Some(name) => self.make_chosen(name, parameters),
            None => self.leave_controller(),
        }
    }

    /// Goes back to the controller from before.
    pub(super) fn leave_controller(&mut self) -> Result<(), Error> {
        if let Some(before) = &self.before.controller {
            let gone = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
            // One that was loaded may be gone; every kernel has this one.
            fs::write(DEFAULT, before)
                .or_else(|e| {
                    if gone(&e) {
                        fs::write(DEFAULT, "reno")
                    } else {
                        Err(e)
                    }
                })
                .map_err(failed)?;
        }
        self.before.controller = None;
        let ours = self.before.ours.take();
        drop(self.controller.take());
        self.save()?;
        // Also that of a daemon that was killed.
        ours.map_or(Ok(()), |name| let_go(&name))
    }

    /// With settings of its own.
    fn make_chosen(&mut self, name: &str, settings: &[(String, u64)]) -> Result<(), Error> {
        let settings: Vec<(&str, u64)> = settings.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let controller = controller::acquire(name, &settings)?;
        // It outlives the daemon, as the endpoints do.
        let ours_alone = controller.keep()?;
        let before = (self.before.controller.clone(), self.before.ours.clone());
        if let Err(e) = self.make_default(controller.kernel_name()) {
            (self.before.controller, self.before.ours) = before;
            // What went wrong first is the better message.
            let _ = self.save();
            if ours_alone {
                let _ = controller.unkeep();
            }
            return Err(e);
        }
        drop(self.controller.replace(controller));
        match before.1 {
            Some(old) if Some(old.as_str()) != self.controller() => let_go(&old),
            _ => Ok(()),
        }
    }

    /// First the way back, then the change.
    fn make_default(&mut self, kernel_name: &str) -> Result<(), Error> {
        let now = fs::read_to_string(DEFAULT).map_err(failed)?;
        if self.before.controller.is_none() && now.trim() != kernel_name {
            self.before.controller = Some(now.trim().to_owned());
        }
        self.before.ours = Some(kernel_name.to_owned());
        self.save()?;
        let namespace = File::open("/proc/thread-self/ns/net").map_err(failed)?;
        Ok(mp_kernel::choose::for_namespace(
            namespace.as_fd(),
            kernel_name,
        )?)
    }

    /// The name by which the kernel knows the controller that was chosen.
    pub fn controller(&self) -> Option<&str> {
        self.controller.as_ref().map(|c| c.kernel_name())
    }
}
