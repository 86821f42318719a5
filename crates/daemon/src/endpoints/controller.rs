//! The congestion controller that new sockets get, and the one that they got before.

use std::fs::{self, File};
use std::os::fd::AsFd;

use mp_kernel::controller;

use super::Endpoints;
use crate::Error;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

fn failed(error: std::io::Error) -> Error {
    Error::Failed(format!("{DEFAULT}: {error}"))
}

impl Endpoints {
    /// The congestion controller of new sockets, with settings of its own; `None` goes back to the one from before.
    pub fn choose(&mut self, name: Option<&str>, settings: &[(String, u64)]) -> Result<(), Error> {
        let Some(name) = name else {
            if let Some(before) = &self.before.controller {
                fs::write(DEFAULT, before).map_err(failed)?;
            }
            (self.before.controller, self.before.ours) = (None, None);
            if let Some(controller) = self.controller.take() {
                controller.unkeep()?;
            }
            return self.save();
        };
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
        if let Some(old) = self.controller.replace(controller) {
            if self.controller.as_ref().map(|c| c.kernel_name()) != Some(old.kernel_name()) {
                old.unkeep()?;
            }
        }
        Ok(())
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
