//! `awareness.policy = "ms-ucb"` over the relay: one bandit chooses among its links, for all flows together. It sees path
//! connections as it sees subflows of MPTCP, which are none while a relay is on.

use std::collections::BTreeSet;
use std::time::Instant;

use mp_host::adapter::{Adapter, PathState};
use mp_host::Settings;
use mp_policy::path_manager::PathPolicy;

use super::{Relay, Stage};

/// The bandit, since the relay is on.
pub struct Arms {
    adapter: Adapter,
    started: Instant,
}

impl Arms {
    fn new(settings: &Settings) -> Arms {
        let mut adapter = Adapter::new(settings);
        adapter.start(0);
        Arms {
            adapter,
            started: Instant::now(),
        }
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }
}

impl Relay {
    /// Polls the path connections, and has the bandit choose where the settings say so. `host`: all paths of the host.
    pub fn choose(&mut self, host: &[PathState], settings: &Settings) {
        let mut unchosen = BTreeSet::new();
        match (&self.stage, settings.policy) {
            (Stage::On(running), PathPolicy::MsUcb) => {
                let links = running.device.links();
                let interfaces = host.iter().map(|p| &p.interface);
                let used = interfaces.filter(|i| links.contains(&i.name)).cloned();
                let subflows = self.observer.subflows();
                let arms = self.arms.get_or_insert_with(|| Arms::new(settings));
                let now_us = arms.now_us();
                arms.adapter
                    .set_interfaces(now_us, used.collect(), settings);
                // Before the first flow a choice would be chance, again and again.
                if !subflows.is_empty() {
                    arms.adapter.poll(now_us, subflows, None);
                    // The device opens connections by itself, and what it tells the relay arrives.
                    arms.adapter.again();
                }
                let paths = arms.adapter.paths.iter();
                let backup = paths.filter(|p| p.link().unchosen);
                unchosen.extend(backup.map(|p| p.interface.name.clone()));
            }
            _ => self.arms = None,
        }
        let mut judge = self.judge.clone();
        judge.set_unchosen(unchosen);
        self.judge(judge);
    }

    /// Until the bandit is to be polled, µs; where there is none, for ever.
    pub fn pause_us(&mut self, interval_us: u64) -> u64 {
        let Some(arms) = &mut self.arms else {
            return u64::MAX;
        };
        let now_us = arms.now_us();
        arms.adapter.pace().pause_us(now_us, interval_us)
    }
}
