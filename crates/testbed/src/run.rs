//! One run from the first namespace to the last.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mp_controllers::learned;
use mp_host::{Glob, InterfaceRule};
use mp_kernel::agent::{Agent, Log, Logged, Pilots};
use mp_kernel::controller::{self, Controller, Options};
use mp_kernel::pm::{Endpoint, Flags, PathManager};
use mp_policy::link::Priority;
use mp_record::Run;
use mp_relay::flow::Observer;
use mp_relay::links::Rules;
use mp_scenario::{Change, Scenario, Variant};
use tokio::sync::watch;

use crate::aware::{self, Aware};
use crate::emulator::{Emulator, Impairments, PathCounts, Report};
use crate::error::Context;
use crate::initial_path::InitialPath;
use crate::network::{address, inside, interface, Network, SERVER};
use crate::overruns::Overruns;
use crate::plan::{Flow, Multipath, PathManagement, Plan};
use crate::relay::{self, Pair};
use crate::traffic::{Body, Client, Recorder, Server, Service};
use crate::worker::Worker;
use crate::Error;

/// The clients wait so long for every thread to be at its place.
const SETTLE: Duration = Duration::from_millis(50);
pub const TICK: Duration = Duration::from_millis(20);
/// Between two calls of the progress function.
const PROGRESS: Duration = Duration::from_millis(100);
/// More late packets than this, and the user should know.
const NOTICEABLY_LATE: f64 = 0.02;

/// Runs a variant of a scenario once, in real time. `progress` is told the elapsed seconds; `stop` ends the run early,
/// with [`Error::Stopped`].
pub fn run(
    scenario: &Scenario,
    variant: &Variant,
    seed: u64,
    progress: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<Run, Error> {
    run_with(
        scenario,
        variant,
        seed,
        &Impairments::default(),
        progress,
        stop,
    )
    .map(|(run, _)| run)
}

/// The same with our relay in place of MPTCP: its stream lane carries the connections that are MPTCP by the scenario.
pub fn run_over_relay(
    scenario: &Scenario,
    variant: &Variant,
    seed: u64,
    progress: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<Run, Error> {
    let none = Impairments::default();
    run_in(
        Multipath::Relay,
        scenario,
        variant,
        seed,
        &none,
        progress,
        stop,
    )
    .map(|(run, _)| run)
}

/// Whether the relay can carry this variant's connections.
pub fn fits_relay(scenario: &Scenario, variant: &Variant) -> Result<(), Error> {
    Plan::new(scenario, variant, scenario.seed, Multipath::Relay).map(drop)
}

/// As [`run`], over a network that is not kind to MPTCP; tells also what became of the packets on each path and link.
pub fn run_with(
    scenario: &Scenario,
    variant: &Variant,
    seed: u64,
    impairments: &Impairments,
    progress: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<(Run, Vec<PathCounts>), Error> {
    run_in(
        Multipath::Mptcp,
        scenario,
        variant,
        seed,
        impairments,
        progress,
        stop,
    )
}

fn run_in(
    multipath: Multipath,
    scenario: &Scenario,
    variant: &Variant,
    seed: u64,
    impairments: &Impairments,
    progress: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<(Run, Vec<PathCounts>), Error> {
    check(multipath)?;
    let scenario = &*scenario.tuned();
    let plan = Plan::new(scenario, variant, seed, multipath)?;
    if plan.needs_mptcp() {
        check(Multipath::Mptcp)?;
    }
    // Given back last, when no socket uses them any more.
    let controllers = plan
        .flows
        .iter()
        .map(|f| congestion(f, variant))
        .collect::<Result<Vec<_>, _>>()?;
    // They answer for as long as the run lasts.
    let asked = Log::default();
    let agents = plan
        .flows
        .iter()
        .zip(&controllers)
        .map(|(flow, c)| {
            let answers = variant.agent || !flow.is_variants;
            let mind = answers.then(Pilots::default);
            Agent::start(c, Logged::new(mind, asked.clone()))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let services: Vec<Service> = plan
        .flows
        .iter()
        .zip(&controllers)
        .map(|(flow, c)| Service {
            flow: flow.clone(),
            congestion: c.kernel_name().to_owned(),
        })
        .collect();
    let lengths = plan.flows.iter().filter_map(|f| f.bytes);
    let hashes = Body::hashes(seed, lengths, stop).ok_or(Error::Stopped)?;
    let hashes = Arc::new(hashes);
    let (network, ports) = Network::new(scenario, &plan.groups)?;
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Stopped);
    }

    let (begun, settle) = match multipath {
        // Packets that are early leave the network when it begins.
        Multipath::Mptcp => (SETTLE, SETTLE),
        Multipath::Relay => (Duration::ZERO, relay::head_start(scenario)),
    };
    let now = Instant::now();
    let epoch = now + settle;
    let recorder = Recorder::new(
        epoch,
        scenario.sample_interval,
        scenario.paths.keys().cloned().collect(),
    );
    mark_backups(&plan, &recorder);
    let emulated = (begun < settle).then(|| relay::delayed(scenario, settle - begun));
    let emulated = emulated.as_ref().unwrap_or(scenario);
    let emulator = Emulator::start(emulated, seed, impairments, ports, now + begun)
        .context("cannot start the emulator")?;
    let mut threads = Threads::default();
    let at_relays = Arc::new(Observer::with_closed());
    let server = Server {
        observer: at_relays.clone(),
        services: services.clone(),
        recorder: recorder.clone(),
        seed,
        hashes: hashes.clone(),
        speaks_mptcp: !impairments.server_without_mptcp,
    };
    threads
        .others
        .push(server.start(network.server.clone(), threads.stop.subscribe())?);
    for (number, group) in plan.groups.iter().enumerate() {
        let observer = Arc::new(Observer::with_closed());
        let (rules, told) = watch::channel(Rules::new(|_| Some(Priority::Normal)));
        if let Some(policy) = group.policy() {
            let aware = Aware {
                device: (group.device.as_ref()).map(|_| (observer.clone(), rules)),
                number,
                group: group.clone(),
                policy,
                signals: aware::signals(scenario, |path| interface(scenario, path)),
                rules: scenario
                    .paths
                    .values()
                    .enumerate()
                    .map(|(path, said)| InterfaceRule {
                        interface: Glob::new(interface(scenario, path)),
                        rule: said.rule,
                    })
                    .collect(),
                recorder: recorder.clone(),
            };
            threads
                .others
                .push(aware.start(network.clients[number].clone(), threads.stop.subscribe())?);
        }
        let pair = Pair::new(
            scenario,
            number,
            group,
            controller_of(number, &plan, &controllers),
            SERVER,
        )?;
        if let Some(pair) = pair {
            let relay = pair.start_relay(
                network.server.clone(),
                at_relays.clone(),
                threads.stop.subscribe(),
            )?;
            threads.others.push(relay);
            let device = pair.start_device(
                network.clients[number].clone(),
                observer.clone(),
                told,
                recorder.clone(),
                threads.stop.subscribe(),
            )?;
            threads.others.push(device);
        }
        let initial_path = group.initial_path.map(|policy| {
            InitialPath::new(scenario, group, policy, seed.wrapping_add(number as u64))
        });
        let client = Client {
            number,
            initial_path,
            group: group.clone(),
            services: services.clone(),
            recorder: recorder.clone(),
            observer,
            seed,
            hashes: hashes.clone(),
            traffic: group
                .paths
                .iter()
                .filter_map(|&path| Some((path, emulator.traffic(address(number, path).octets())?)))
                .collect(),
        };
        threads
            .clients
            .push(client.start(network.clients[number].clone(), threads.stop.subscribe())?);
    }

    let stopped = watch_over(
        scenario, &plan, &network, &recorder, &threads, progress, stop,
    );
    let elapsed_s = recorder.now().min(scenario.duration.as_secs_f64()).max(0.0);
    let overruns = Overruns::read(&network)?;
    threads.join()?;
    let report = emulator.finish().context("the emulator failed")?;
    drop(network);
    drop(agents);
    drop(controllers);
    stopped?;

    let asked = std::mem::take(&mut *asked.lock().unwrap_or_else(|e| e.into_inner()));
    let mut recorded = recorder.finish(&asked);
    overruns.attribute(&plan, &mut recorded.transfers);
    let mut notes: Vec<String> = recorded.notes.into_iter().collect();
    notes.extend(remarks(&report, &recorded.transfers));
    let run = Run {
        transfers: recorded.transfers,
        samples: recorded.samples,
        decisions: recorded.decisions,
        intervals: recorded.intervals,
        window_overruns: overruns.total(),
        elapsed_s,
        notes,
    };
    Ok((run, report.paths))
}

/// Events that the hosts must be told, until all is done.
fn watch_over(
    scenario: &Scenario,
    plan: &Plan,
    network: &Network,
    recorder: &Recorder,
    threads: &Threads,
    progress: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<(), Error> {
    let mut backups = scenario.events.iter().filter_map(|e| match e.change {
        Change::Backup(backup) => Some((e.at, scenario.paths.get_index_of(&e.path)?, backup)),
        _ => None,
    });
    let mut next = backups.next();
    let mut told = Instant::now();
    loop {
        let elapsed = recorder.epoch.elapsed();
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        if elapsed >= scenario.duration || threads.clients.iter().all(JoinHandle::is_finished) {
            return Ok(());
        }
        while let Some((_, path, backup)) = next.filter(|(at, ..)| *at <= elapsed) {
            set_backup(plan, network, recorder, path, backup)?;
            next = backups.next();
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            progress(elapsed.as_secs_f64());
        }
        std::thread::sleep(TICK.min(scenario.duration - elapsed));
    }
}

/// The run's threads; dropping it ends them.
pub struct Threads {
    pub stop: watch::Sender<bool>,
    pub clients: Vec<Worker>,
    pub others: Vec<Worker>,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            stop: watch::Sender::new(false),
            clients: Vec::new(),
            others: Vec::new(),
        }
    }
}

impl Threads {
    pub fn join(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stop.send_replace(true);
        let mut result = Ok(());
        for thread in self.clients.drain(..).chain(self.others.drain(..)) {
            let panicked = |_| Err(Error::Network("a host's thread panicked".into()));
            result = result.and(thread.join().unwrap_or_else(panicked));
        }
        result
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Only on the way out of an error that is being reported already.
        let _ = self.end();
    }
}

/// The congestion control of a group's flows: those of a device have one.
fn controller_of<'a>(
    number: usize,
    plan: &Plan,
    controllers: &'a [Controller],
) -> Option<&'a Controller> {
    let own = plan.flows.iter().position(|f| f.group == number)?;
    controllers.get(own)
}

pub fn check(multipath: Multipath) -> Result<(), Error> {
    if multipath == Multipath::Mptcp {
        mp_kernel::check::mptcp().map_err(|lack| {
            Error::Missing(format!(
                "this machine lacks {lack}; --world sim works without"
            ))
        })?;
    }
    lacks_for_relay()
}

/// What this machine lacks for [`run_over_relay`]: it needs no MPTCP.
pub fn lacks_for_relay() -> Result<(), Error> {
    match nix::unistd::geteuid().is_root() {
        true => Ok(()),
        false => Err(Error::Missing(
            "this machine lacks root for this user (network namespaces need it: run it with sudo)"
                .into(),
        )),
    }
}

fn congestion(flow: &Flow, variant: &Variant) -> Result<Controller, Error> {
    let parameters: Vec<(&str, u64)> = match flow.is_variants {
        true => variant
            .parameters
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect(),
        false => Vec::new(),
    };
    // With an agent of its own, that hears of no other run's subflows.
    let options = Options {
        private: flow.controller == learned::NAME,
        ..Options::default()
    };
    Ok(controller::acquire_with(
        &flow.controller,
        &parameters,
        options,
    )?)
}

fn mark_backups(plan: &Plan, recorder: &Recorder) {
    for (g, group) in plan.groups.iter().enumerate() {
        if group.management == PathManagement::Backup {
            for &path in &group.paths[1..] {
                recorder.set_backup(g, path, true);
            }
        }
    }
}

fn set_backup(
    plan: &Plan,
    network: &Network,
    recorder: &Recorder,
    path: usize,
    backup: bool,
) -> Result<(), Error> {
    for (g, group) in plan.groups.iter().enumerate() {
        let fullmesh = match group.management {
            PathManagement::Fullmesh | PathManagement::Aware(..) => true,
            PathManagement::Backup => false,
            // One path: there is nothing that it could be a backup of.
            PathManagement::None | PathManagement::Userspace => continue,
        };
        if group.paths.contains(&path) {
            let flags = Flags {
                backup,
                fullmesh,
                ..Flags::SUBFLOW
            };
            inside(&network.clients[g], || {
                PathManager::new()?
                    .set_endpoint_flags(&Endpoint::new(address(g, path).into(), flags))?;
                Ok(())
            })?;
            recorder.set_backup(g, path, backup);
        }
    }
    Ok(())
}

/// What the user should know of the run.
fn remarks(report: &Report, transfers: &[mp_record::Transfer]) -> Vec<String> {
    let mut notes = Vec::new();
    let fallbacks = transfers.iter().filter(|t| t.fallback).count();
    if fallbacks > 0 {
        let of = transfers.iter().filter(|t| t.multipath).count();
        notes.push(format!(
            "{fallbacks} of {of} MPTCP connections fell back to plain TCP"
        ));
    }
    let corrupt = transfers.iter().filter(|t| t.intact == Some(false)).count();
    if corrupt > 0 {
        notes.push(format!("{corrupt} transfers arrived with a wrong hash"));
    }
    notes.extend(shortcomings(report));
    notes
}

/// Of the emulation on a busy machine.
pub fn shortcomings(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.overflows > 0 {
        notes.push(format!(
            "the emulator missed {} packets: this machine is too busy for these rates",
            report.overflows
        ));
    }
    if report.late > NOTICEABLY_LATE {
        let share = report.late * 100.0;
        notes.push(format!("{share:.0} % of the packets left the emulator over 5 ms late: this machine is too busy"));
    }
    notes
}
