//! `awareness.policy = "ms-ucb"` over the relay: one bandit chooses among its links, for all flows together. It sees path
//! connections as it sees subflows of MPTCP, which are none while a relay is on.

use std::collections::BTreeSet;
use std::time::Instant;

use mp_host::adapter::{Adapter, PathState};
use mp_host::links::Interface;
use mp_host::PathSettings;
use mp_kernel::diag::Subflow;
use mp_policy::path_manager::PathPolicy;

use super::{RelaySupervisor, Stage};

/// The bandit, since the relay's first flow: before it a choice would be chance, again and again.
pub struct LinkBandit {
    adapter: Adapter,
    started: Instant,
}

impl LinkBandit {
    fn new(settings: &PathSettings, links: Vec<Interface>) -> LinkBandit {
        let mut adapter = Adapter::new(settings);
        adapter.set_interfaces(0, links, settings);
        adapter.start(0);
        LinkBandit {
            adapter,
            started: Instant::now(),
        }
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn poll(&mut self, settings: &PathSettings, links: Vec<Interface>, subflows: Vec<Subflow>) {
        let now_us = self.now_us();
        self.adapter.set_interfaces(now_us, links, settings);
        if !subflows.is_empty() {
            self.adapter.poll(now_us, subflows, None);
        }
        // The device opens connections by itself, and what it tells the relay arrives.
        self.adapter.again();
    }

    /// Names of the links that it has in backup.
    fn unchosen(&self) -> BTreeSet<String> {
        let backup = self.adapter.paths.iter().filter(|p| p.link().unchosen);
        backup.map(|p| p.interface.name.clone()).collect()
    }
}

impl RelaySupervisor {
    /// Polls the path connections, and has the bandit choose where the settings say so. `host`: all paths of the host.
    pub fn choose(&mut self, host: &[PathState], settings: &PathSettings) {
        match (&self.stage, settings.policy) {
            (Stage::On(running), PathPolicy::MsUcb) => {
                let up = running.device.links();
                let interfaces = host.iter().map(|p| &p.interface);
                let links: Vec<_> = interfaces
                    .filter(|i| up.contains(&i.name))
                    .cloned()
                    .collect();
                let subflows = self.observer.subflows();
                if self.bandit.is_none() && !subflows.is_empty() {
                    self.bandit = Some(LinkBandit::new(settings, links.clone()));
                }
                if let Some(bandit) = &mut self.bandit {
                    bandit.poll(settings, links, subflows);
                }
            }
            _ => self.bandit = None,
        }
        let unchosen = self
            .bandit
            .as_ref()
            .map(LinkBandit::unchosen)
            .unwrap_or_default();
        if unchosen != *self.judge.unchosen() {
            let mut judge = self.judge.clone();
            judge.set_unchosen(unchosen);
            self.judge(judge);
        }
    }

    /// Until the bandit is to be polled, µs; where there is none, for ever.
    pub fn pause_us(&mut self, interval_us: u64) -> u64 {
        let Some(bandit) = &mut self.bandit else {
            return u64::MAX;
        };
        let now_us = bandit.now_us();
        bandit.adapter.pace().pause_us(now_us, interval_us)
    }
}
