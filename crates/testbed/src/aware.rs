//! The path managers `loss-aware`, `mptcp-la`, `signal-aware` and `ms-ucb` on the kernel, and `ms-ucb` over the relay, by
//! [`mp_host`] in the client's namespace. The server knows nothing of them but MP_PRIO, the relay nothing but the priority of
//! each path.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mp_host::adapter::{Adapter, PathState};
use mp_host::endpoints::Endpoints;
use mp_host::events::{self, BURST};
use mp_host::links::Links;
use mp_host::probe::Prober;
use mp_host::radio::{Signal, SignalTrace};
use mp_host::{InterfaceRule, PathSettings};
use mp_kernel::diag::{Diag, Subflow};
use mp_policy::awareness;
use mp_policy::link::{decide, Link};
use mp_policy::path_manager::PathPolicy;
use mp_relay::flow::Observer;
use mp_relay::links::Rules;
use mp_scenario::{Change, Scenario};
use rattan_env::netns::NetNs;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, Instant};

use crate::network::address;
use crate::plan::Group;
use crate::traffic::Recorder;
use crate::worker::{self, Worker};
use crate::Error;

/// Watches over the client host of one group.
pub struct Aware {
    /// Of the relay's device: its open flows, and the rules that it follows. `None`: the kernel's MPTCP is watched.
    pub device: Option<(Arc<Observer>, watch::Sender<Rules>)>,
    pub number: usize,
    pub group: Group,
    pub policy: (PathPolicy, awareness::Config),
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
        let (policy, awareness) = self.policy;
        let settings = PathSettings {
            policy,
            awareness,
            ignore: Vec::new(),
            rules: std::mem::take(&mut self.rules),
        };
        let mut connections = match self.device {
            None => Connections::Mptcp(Box::new(Endpoints::open()?), Diag::new()?),
            Some((observer, rules)) => Connections::Relay {
                observer,
                rules,
                links: HashMap::new(),
            },
        };
        let mut news = connections.news()?;
        let mut prober = Prober::default();
        let mut adapter = Adapter::new(&settings);
        adapter.set_interfaces(0, Links::new()?.list().await?, &settings);
        connections.hand_over(&mut adapter)?;
        adapter.start(0);
        adapter.again();
        let mut poll_at = Instant::now();
        let now_us = |recorder: &Recorder| (recorder.now().max(0.0) * 1e6) as u64;
        loop {
            tokio::select! {
                () = sleep_until(poll_at) => {}
                Some(()) = news.recv() => {
                    // A new connection will soon move data.
                    if adapter.pace().begins(now_us(&self.recorder)) {
                        poll_at = poll_at.min(Instant::now() + BURST);
                    }
                    continue;
                }
                _ = stop.wait_for(|stop| *stop) => break,
            }
            let (began, now_us) = (Instant::now(), now_us(&self.recorder));
            let subflows = connections.subflows()?;
            adapter.poll(now_us, subflows.clone(), Some(&mut self.signals));
            prober.serve(&mut adapter);
            if connections.apply(&mut adapter, &subflows)? {
                for &path in &self.group.paths {
                    let own = IpAddr::from(address(self.number, path));
                    let on = |p: &&PathState| p.interface.addresses.contains(&own);
                    let backup = adapter
                        .paths
                        .iter()
                        .find(on)
                        .is_some_and(|p| !p.is_normal());
                    self.recorder.set_backup(self.number, path, backup);
                }
                adapter.pace().changed(now_us);
            }
            let pace = adapter.pace();
            pace.took(began.elapsed().as_micros() as u64);
            let pause_us = pace.pause_us(now_us, awareness.interval_us);
            poll_at = Instant::now() + Duration::from_micros(pause_us);
        }
        connections.end()
    }
}

/// What is watched, and set to backup: by endpoints, or by the rules of links.
enum Connections {
    Mptcp(Box<Endpoints>, Diag),
    Relay {
        observer: Arc<Observer>,
        rules: watch::Sender<Rules>,
        /// By name, as the device was told last.
        links: HashMap<String, Link>,
    },
}

impl Connections {
    /// The paths that there are before the path manager asks for any.
    fn hand_over(&self, adapter: &mut Adapter) -> Result<(), mp_host::Error> {
        if let Connections::Mptcp(endpoints, _) = self {
            for endpoint in endpoints.list()? {
                adapter.take_over(endpoint.address, endpoint.flags.backup);
            }
        }
        Ok(())
    }

    /// Connections that begin; the relay's device tells of none.
    fn news(&self) -> Result<mpsc::Receiver<()>, mp_host::Error> {
        match self {
            Connections::Mptcp(..) => events::watch(),
            Connections::Relay { .. } => Ok(mpsc::channel(1).1),
        }
    }

    fn subflows(&mut self) -> Result<Vec<Subflow>, mp_host::Error> {
        match self {
            Connections::Mptcp(_, diag) => Ok(diag.subflows()?),
            Connections::Relay { observer, .. } => Ok(observer.subflows()),
        }
    }

    /// Does what the path manager asks for. Whether that has changed anything.
    fn apply(
        &mut self,
        adapter: &mut Adapter,
        subflows: &[Subflow],
    ) -> Result<bool, mp_host::Error> {
        match self {
            Connections::Mptcp(endpoints, _) => {
                let (wanted, again) = (adapter.wanted(), adapter.again());
                let changes = !again.is_empty() || endpoints.differ(&wanted);
                if changes {
                    let applied = endpoints.apply(&wanted, &again, subflows)?;
                    applied.refused.map_or(Ok(()), Err)?;
                }
                Ok(changes)
            }
            Connections::Relay { rules, links, .. } => {
                let link = |p: &PathState| (p.interface.name.clone(), p.link());
                let now: HashMap<_, _> = adapter.paths.iter().map(link).collect();
                // The device opens connections by itself, and what it tells the relay arrives.
                adapter.again();
                let changes = *links != now;
                if changes {
                    links.clone_from(&now);
                    rules.send_replace(Rules::new(move |name| {
                        decide(&now.get(name).copied().unwrap_or_default()).priority
                    }));
                }
                Ok(changes)
            }
        }
    }

    fn end(self) -> Result<(), mp_host::Error> {
        match self {
            // The files that lead back go with it; the namespace goes anyway.
            Connections::Mptcp(endpoints, _) => endpoints.restore(&[]).map(|_| ()),
            Connections::Relay { .. } => Ok(()),
        }
    }
}
