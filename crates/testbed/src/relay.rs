//! Relays on the server host, and a device on each client host whose flows they carry: the ends that `multipilot relay` and
//! `multipilot run --relay` have, on emulated paths.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mp_kernel::controller::Controller;
use mp_policy::scheduler;
use mp_relay::capture::{self, Capture};
use mp_relay::control::Control;
use mp_relay::device::{self, Device};
use mp_relay::devices::Store;
use mp_relay::egress::{Egress, Prefix};
use mp_relay::flow::Observer;
use mp_relay::front::{self, Protocol};
use mp_relay::links::Rules;
use mp_relay::relay;
use mp_relay::wire::Line;
use mp_relay::Transport;
use mp_scenario::{Rate, Scenario, Step, Trace, TraceKind};
use rattan_env::netns::NetNs;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::error::Context;
use crate::network::{interface, PROXY, SERVER};
use crate::plan::Group;
use crate::traffic::Recorder;
use crate::worker::{self, Worker};
use crate::Error;

/// Of group number 0's relay.
const FIRST_PORT: u16 = 4430;
const DEVICE_KEY: &str = "relay-device.key";

/// The device connects to its relay before the run begins: TCP, TLS and welcome, with a packet lost in each.
pub fn head_start(scenario: &Scenario) -> Duration {
    let delays = scenario.paths.values().map(|path| {
        let link = path.link.as_ref().and_then(|l| scenario.links.get(l));
        let both = |p: &mp_scenario::Path| p.down.delay + p.up.delay;
        both(path) + link.map_or(Duration::ZERO, both)
    });
    Duration::from_secs(1) + 6 * delays.max().unwrap_or_default()
}

/// The network with what changes over time so much later: until then it is as at the beginning.
pub fn delayed(scenario: &Scenario, by: Duration) -> Scenario {
    let mut later = scenario.clone();
    for event in &mut later.events {
        event.at += by;
    }
    for path in later.paths.values_mut().chain(later.links.values_mut()) {
        for direction in [&mut path.down, &mut path.up] {
            if let Rate::Trace(trace) = &mut direction.rate {
                let kind = delayed_trace(&trace.kind, by);
                *trace = Arc::new(Trace {
                    kind,
                    ..Trace::clone(trace)
                });
            }
        }
    }
    later
}

fn delayed_trace(kind: &TraceKind, by: Duration) -> TraceKind {
    match kind {
        TraceKind::Steps(steps) => {
            let later = |step: &Step| Step {
                at: step.at + by,
                ..*step
            };
            TraceKind::Steps(steps.iter().map(later).collect())
        }
        TraceKind::Opportunities { times, period } => {
            // They repeat: as late as they are, they are those of an earlier round. A time of 0 is one of the period too.
            let round = period.as_nanos().max(1);
            let later = |time: &Duration| {
                let within = (time.as_nanos() + by.as_nanos() + round - 1) % round + 1;
                Duration::from_nanos(within as u64)
            };
            let mut times: Vec<Duration> = times.iter().map(later).collect();
            times.sort();
            TraceKind::Opportunities {
                times,
                period: *period,
            }
        }
        TraceKind::Radio(link) => TraceKind::Radio(link.clone()),
    }
}

/// A relay and its device.
pub struct Pair {
    folder: Arc<TempDir>,
    line: Line,
    scheduler: &'static str,
    carrier: Transport,
    controller: Control,
    target: Ipv4Addr,
    links: Vec<(String, String)>,
}

impl Pair {
    /// `target`: what devices may connect to. Without a controller both ends have that of `multipilot relay` and
    /// `multipilot run --relay`.
    pub fn new(
        scenario: &Scenario,
        number: usize,
        group: &Group,
        controller: Option<&Controller>,
        target: Ipv4Addr,
    ) -> Result<Option<Pair>, Error> {
        let Some(device) = &group.device else {
            return Ok(None);
        };
        let control = controller.map_or_else(|| Control::choose(None), Control::of);
        let folder = tempfile::tempdir().context("cannot make a folder for the relay's keys")?;
        let line = Store::open(folder.path())
            .and_then(|store| store.add("device", &SERVER.to_string(), FIRST_PORT + number as u16))
            .map_err(failed)?;
        let name = |&path: &usize| scenario.paths.get_index(path).map(|(name, _)| name.clone());
        let links = group.paths.iter();
        Ok(Some(Pair {
            folder: Arc::new(folder),
            line,
            scheduler: device.scheduler,
            carrier: device.carrier,
            controller: control.map_err(failed)?,
            target,
            links: links
                .filter_map(|path| Some((interface(scenario, *path), name(path)?)))
                .collect(),
        }))
    }

    /// Returns once the relay listens. It ends when `stop` turns true.
    pub fn start_relay(
        &self,
        namespace: Arc<NetNs>,
        observer: Arc<Observer>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Worker, Error> {
        let settings = relay::Settings {
            listen: SocketAddr::new(SERVER.into(), self.line.port),
            store: Store::open(self.folder.path()).map_err(failed)?,
            egress: Egress {
                allow: vec![Prefix::whole(self.target.into())],
                ..Egress::default()
            },
            controller: self.controller.clone(),
            hold: relay::HOLD,
            rate: None,
            observer: Some(observer),
        };
        let folder = self.folder.clone();
        worker::start_and_wait("relay", namespace, move |ready| async move {
            let _folder = folder;
            let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
            relay::run(settings, |_| ready(), stopped)
                .await
                .map_err(failed)
        })
    }

    fn device(&self) -> device::Settings {
        device::Settings {
            line: self.line.clone(),
            scheduler: scheduler::find(self.scheduler).expect("the plan has asked"),
            links: self.links.iter().map(|(link, _)| link.clone()).collect(),
            transport: self.carrier,
            controller: self.controller.clone(),
            mark: None,
            hold: device::HOLD,
            observer: None,
            rules: None,
        }
    }

    /// Once it returns, all TCP and UDP of programs on the device's host goes to the relay. It ends when `stop` turns true.
    pub fn start_capture(
        &self,
        namespace: Arc<NetNs>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Worker, Error> {
        let settings = device::Settings {
            mark: Some(capture::MARK),
            ..self.device()
        };
        let folder = self.folder.clone();
        worker::start_and_wait("device", namespace, move |ready| async move {
            let capture = taken(settings, &folder.path().join(DEVICE_KEY)).await?;
            ready();
            let _ = stop.wait_for(|stop| *stop).await;
            capture.stop().await.map_err(failed)
        })
    }

    /// Programs on the device's host may connect to [`PROXY`] once it returns. `rules` say which links it uses, and how. It
    /// ends when `stop` turns true.
    pub fn start_device(
        &self,
        namespace: Arc<NetNs>,
        observer: Arc<Observer>,
        rules: watch::Receiver<Rules>,
        recorder: Arc<Recorder>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Worker, Error> {
        let settings = device::Settings {
            observer: Some(observer),
            rules: Some(rules),
            ..self.device()
        };
        let folder = self.folder.clone();
        let links = match self.carrier {
            Transport::Tcp => self.links.clone(),
            // One connection, whose subflows the kernel opens.
            Transport::Mptcp => Vec::from([("mptcp".to_owned(), String::new())]),
        };
        worker::start_and_wait("device", namespace, move |ready| async move {
            let listener = TcpListener::bind(PROXY).await;
            let listener = listener.context(format!("cannot listen on {PROXY}"))?;
            ready();
            let key = folder.path().join(DEVICE_KEY);
            let work = async {
                let device = Device::connect(settings, &key).await.map_err(failed)?;
                tokio::join!(
                    front::serve(listener, Protocol::Socks, device.clone()),
                    look_at_the_start(&device, &links, &recorder),
                );
                Ok(())
            };
            tokio::select! {
                done = work => done,
                _ = stop.wait_for(|stop| *stop) => Ok(()),
            }
        })
    }
}

/// Whether what carries the whole host does so, or why not.
async fn taken(device: device::Settings, key: &Path) -> Result<Capture, Error> {
    let device = Device::connect(device, key).await.map_err(failed)?;
    let settings = capture::Settings::default();
    let capture = Capture::start(device, &settings).await.map_err(failed)?;
    match capture
        .report()
        .not_captured
        .iter()
        .any(|what| what == "UDP")
    {
        true => Err(Error::Network("the relay does not answer over UDP".into())),
        false => Ok(capture),
    }
}

/// A flow that begins without ready connections waits for handshakes, which costs it several round trips.
async fn look_at_the_start(device: &Device, links: &[(String, String)], recorder: &Recorder) {
    tokio::time::sleep_until(recorder.epoch.into()).await;
    let ready = device.report(|_| None, |_| 0);
    for (link, path) in links {
        if !ready.iter().any(|r| r.link == *link && r.ready > 0) {
            let place = match path.as_str() {
                "" => "there was".to_owned(),
                path => format!("path {path} had"),
            };
            recorder.note(format!(
                "{place} no ready connection to the relay when the run began"
            ));
        }
    }
}

fn failed(error: mp_relay::Error) -> Error {
    Error::Network(format!("relay: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_repeating_trace_begins_later_with_the_end_of_a_round() {
        let trace = |times: &[u64]| TraceKind::Opportunities {
            times: times.iter().copied().map(MS).collect(),
            period: MS(10),
        };
        for (by, expected) in [
            (0, [2, 3, 10]),
            (4, [4, 6, 7]),
            (7, [7, 9, 10]),
            (12, [2, 4, 5]),
        ] {
            assert_eq!(
                delayed_trace(&trace(&[2, 3, 10]), MS(by)),
                trace(&expected),
                "by {by} ms"
            );
        }
    }

    #[test]
    fn steps_and_events_come_later_and_what_holds_from_the_beginning_stays() {
        let text = "[paths.a]\nrate = '9Mbit'\ndelay = '20ms'\n[[events]]\nat = '2s'\npath = 'a'\noutage = true\n";
        let scenario = crate::scenario(text);
        assert_eq!(head_start(&scenario), MS(1240));
        let later = delayed(&scenario, MS(500));
        assert_eq!(later.events[0].at, MS(2500));
        assert_eq!(later.paths, scenario.paths);
        let step = |at| Step {
            at: MS(at),
            rate: 5,
            delay: None,
            loss: None,
        };
        assert_eq!(
            delayed_trace(&TraceKind::Steps(vec![step(0), step(70)]), MS(500)),
            TraceKind::Steps(vec![step(500), step(570)])
        );
    }
}
