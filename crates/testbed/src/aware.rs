//! The path managers `loss-aware`, `mptcp-la`, `signal-aware` and `ms-ucb` on the kernel, by [`mp_host`] in the client's
//! namespace. The server knows nothing of them but MP_PRIO.

use std::sync::Arc;
use std::time::Duration;

use mp_host::adapter::Adapter;
use mp_host::endpoints::Endpoints;
use mp_host::links::Links;
use mp_host::probe::Prober;
use mp_host::radio::{Signal, SignalTrace};
use mp_host::{InterfaceRule, Settings};
use mp_kernel::diag::Diag;
use mp_policy::awareness;
use mp_policy::path_manager::PathPolicy;
use mp_scenario::{Change, Scenario};
use rattan_env::netns::NetNs;
use tokio::sync::watch;

use crate::network::address;
use crate::plan::{Group, Policy};
use crate::traffic::Recorder;
use crate::worker::{self, Worker};
use crate::Error;

/// Watches over the client host of one group.
pub struct Aware {
    pub number: usize,
    pub group: Group,
    pub policy: Policy,
    pub signals: SignalTrace,
    pub rules: Vec<InterfaceRule>,
    pub recorder: Arc<Recorder>,
}

/// What the scenario says of the radios.
pub fn signals(scenario: &Scenario, interface: impl Fn(usize) -> String) -> SignalTrace {
    let signals = scenario.events.iter().filter_map(|e| match e.change {
        Change::Signal(dbm) => Some(Signal {
            at: e.at,
            interface: interface(scenario.paths.get_index_of(&e.path)?),
            dbm,
        }),
        _ => None,
    });
    SignalTrace(signals.collect())
}

impl Aware {
    /// Ends when `stop` turns true.
    pub fn start(
        self,
        namespace: Arc<NetNs>,
        stop: watch::Receiver<bool>,
    ) -> Result<Worker, Error> {
        worker::start("aware", namespace, move || async move {
            let watched = self.watch(stop).await;
            watched.map_err(|e| Error::Network(format!("path awareness: {e}")))
        })
    }

    async fn watch(mut self, mut stop: watch::Receiver<bool>) -> Result<(), mp_host::Error> {
        let (policy, awareness) = match self.policy {
            Policy::Loss => (PathPolicy::Awareness, awareness::Config::loss_aware()),
            Policy::Signal => (PathPolicy::Awareness, awareness::Config::signal_aware()),
            Policy::MptcpLa(config) => {
                (PathPolicy::MptcpLa(config), awareness::Config::loss_aware())
            }
            Policy::SuperArm => (PathPolicy::MsUcb, awareness::Config::loss_aware()),
        };
        let settings = Settings {
            policy,
            awareness,
            ignore: Vec::new(),
            rules: std::mem::take(&mut self.rules),
        };
        let (mut endpoints, mut diag) = (Endpoints::open()?, Diag::new()?);
        let mut prober = Prober::default();
        let mut adapter = Adapter::new(&settings);
        adapter.set_interfaces(0, Links::new()?.list().await?, &settings);
        for endpoint in endpoints.list()? {
            adapter.take_over(endpoint.address, endpoint.flags.backup);
        }
        adapter.start(0);
        adapter.again();
        let mut tick = tokio::time::interval(Duration::from_micros(awareness.interval_us));
        // Missed polls are not made up for: the next one sees all.
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
            let now_us = (self.recorder.now().max(0.0) * 1e6) as u64;
            let subflows = diag.subflows()?;
            adapter.poll(now_us, subflows.clone(), Some(&mut self.signals));
            prober.serve(&mut adapter);
            let (wanted, again) = (adapter.wanted(), adapter.again());
            if !again.is_empty() || endpoints.differ(&wanted) {
                endpoints.apply(&wanted, &again, &subflows)?;
                for &path in &self.group.paths {
                    let own = address(self.number, path);
                    let backup = wanted.iter().any(|w| w.address == own && w.backup);
                    self.recorder.set_backup(path, backup);
                }
            }
        }
        // The files that lead back go with it; the namespace goes anyway.
        endpoints.restore(&[]).map(|_| ())
    }
}
