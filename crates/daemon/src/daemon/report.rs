//! What `status` answers.

use mp_kernel::fallback::Counts;

use super::Daemon;
use crate::initial_path::InitialPathBandit;
use crate::relay;
use crate::status::{self, DaemonStatus};

impl Daemon {
    pub(super) fn status(&mut self) -> DaemonStatus {
        // What is missing here says nothing false: a poll that fails is in the log.
        let fallbacks = self.diag.fallbacks().unwrap_or_default();
        let counted = Counts::read().unwrap_or_default();
        let interfaces = self.adapter.paths.iter().map(|p| relay::InterfaceState {
            name: &p.interface.name,
            out: status::unfit(p),
        });
        DaemonStatus {
            relay: self.relay.status(interfaces),
            schema: 1,
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            policy: self.config.policy.clone(),
            controller: self.endpoints.controller().map(str::to_owned),
            controller_why: self.refused.clone(),
            mptcpify: self.mptcpify.is_on(),
            mptcpify_why: self.mptcpify.why().to_owned(),
            mptcpify_sessions: self.mptcpify.sessions(),
            connections: status::connections(&self.adapter, &fallbacks),
            fallbacks,
            since_start: counted.since(self.counted),
            polls: self.polls,
            poll_ms: self.adapter.pace().cost_us() as f64 / 1e3,
            paths: status::paths(&self.adapter, self.now_us()),
            path_manager: if self.config.userspace {
                "userspace"
            } else {
                "kernel"
            }
            .into(),
            initial_path: self
                .initial_path
                .as_ref()
                .and_then(InitialPathBandit::offer),
            subflows: status::subflows(&self.adapter, self.connections.as_ref(), self.now_us()),
        }
    }
}
