//! The configuration, read again while the daemon is at work.

use serde_json::{json, Value};

use super::settle::{choose_controller, load};
use super::{relayed, Daemon};
use crate::config::Config;
use crate::log::{self, Level};
use crate::metrics::MetricsServer;
use crate::relay::RelaySettings;
use crate::Error;

impl Daemon {
    /// A wrong file leaves all as it is.
    pub(super) async fn reload(&mut self) -> Value {
        match self.reconfigure().await {
            Ok(()) => {
                log::line(
                    Level::Info,
                    "configuration read again",
                    &[("policy", &self.config.policy)],
                );
                json!({"reloaded": true})
            }
            Err(e) => {
                log::line(
                    Level::Error,
                    "the old configuration stays",
                    &[("error", &e)],
                );
                json!({"error": format!("the old configuration stays: {e}"), "code": e.exit_code()})
            }
        }
    }

    async fn reconfigure(&mut self) -> Result<(), Error> {
        let new = load(self.file.as_deref(), self.socket.as_deref())?;
        if new.socket != self.config.socket || new.group != self.config.group {
            return Err(Error::Usage(
                "the control socket cannot move while the daemon is at work: start it again".into(),
            ));
        }
        if new.userspace != self.config.userspace {
            return Err(Error::Usage(
                "path-manager cannot change while the daemon is at work: start it again".into(),
            ));
        }
        if new.federation != self.config.federation {
            return Err(Error::Usage(
                "federation cannot change while the daemon is at work: start it again".into(),
            ));
        }
        let relay = relayed::effective(&new, self.asked.as_ref())?;
        let relay = RelaySettings::of(&new, &relay)?;
        // What is likely to fail comes first, and leaves the old configuration in force.
        let metrics = match new.metrics {
            unchanged if unchanged == self.config.metrics => None,
            changed => Some(MetricsServer::start(changed, &self.sender).await?),
        };
        let interfaces = self.links.list().await?;
        let settled = |c: &Config| (c.controller.clone(), c.parameters.clone());
        // What could not be loaded may be now.
        if settled(&new) != settled(&self.config) || !self.refused.is_empty() {
            self.refused = choose_controller(&new, &mut self.endpoints)?;
        }
        self.endpoints
            .set_limits(new.subflows, new.add_addr_accepted)?;
        if let Some(metrics) = metrics {
            self._metrics = metrics;
        }
        self.radio.set_file(new.radio_file.clone());
        let old = std::mem::replace(&mut self.config, new);
        self.keep_backups(&interfaces);
        let now = self.now_us();
        if old.bandit != self.config.bandit {
            self.initial_path = None;
            self.initial_path_at = self.started;
        }
        self.relay.set(&self.config, relay).await?;
        // What could not be attached may be now.
        if old.mptcpify != self.config.mptcpify || !self.mptcpify.is_on() {
            self.keep_mptcpify();
        }
        self.keep_initial_path();
        self.adapter
            .reconfigure(now, &old.paths, &self.config.paths);
        if let Some(connections) = &mut self.connections {
            connections.reconfigure(now, &old.paths, &self.config.paths);
        }
        self.take_in(interfaces);
        Ok(())
    }
}
