//! What is at work only where the configuration asks for it.

use std::time::{Duration, Instant};

use mp_host::adapter::PathState;

use super::Daemon;
use crate::initial_path::InitialPath;
use crate::log::{self, Priority};
use crate::status;

/// Before another try of what failed.
const PATIENCE: Duration = Duration::from_secs(60);

impl Daemon {
    /// With a bandit: it works over the interfaces that there are.
    pub(super) fn keep_starting(&mut self) {
        let Some(settings) = &self.config.bandit else {
            self.initial_path = None;
            return;
        };
        if self
            .initial_path
            .as_ref()
            .is_some_and(|s| s.fits(&self.config))
        {
            return;
        }
        if Instant::now() < self.starts_at {
            return;
        }
        // What it knows is saved before it is read again.
        self.initial_path = None;
        match InitialPath::begin(&self.config, settings) {
            Ok(chooser) => self.initial_path = chooser,
            Err(e) => {
                self.starts_at = Instant::now() + PATIENCE;
                self.trouble(Some(format!(
                    "connections start as the routing table has it: {e}"
                )));
            }
        }
    }

    /// With the userspace path manager: what each connection's own adapter wants.
    pub(super) fn each_connection(&mut self) {
        let now = self.now_us();
        let Some(connections) = &mut self.connections else {
            return;
        };
        for change in connections.poll(now, &self.adapter, &self.config.paths) {
            let of = |p: &&PathState| p.interface.addresses.contains(&change.address);
            let path = self.adapter.paths.iter().find(of).map(|p| &p.interface);
            let why = path.and_then(|i| connections.reason(now, change.token, i.index));
            log::line(
                Priority::Info,
                &change.what.to_string(),
                &[
                    ("connection", &format!("{:x}", change.token)),
                    ("address", &change.address),
                    ("interface", &path.map_or("", |i| &i.name)),
                    ("why", &why.map_or("", status::why)),
                ],
            );
        }
    }
}
