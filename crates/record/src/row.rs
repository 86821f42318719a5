//! One line of a comparison: a run of one variant with one seed, reduced to its figures.

use indexmap::IndexMap;
use mp_scenario::{Connection, Protocol, Scenario, Variant};
use serde::{Deserialize, Serialize};

use crate::metrics;
use crate::run::{Run, Transfer};

/// Times in seconds, rates in Mbit/s; a column without a value is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub variant: String,
    pub controller: String,
    pub path_manager: String,
    /// Records of before this column have none.
    #[serde(default = "first")]
    pub initial_path: String,
    pub scheduler: String,
    pub seed: u64,
    /// Of the connections under test, over the time that at least one of their transfers was active.
    pub goodput_mbps: f64,
    /// Mean over the transfers of a given size; null where one of them did not end in time (those of Poisson arrivals that
    /// the end of the run cut off are left out).
    pub completion_s: Option<f64>,
    /// A connection under test went on as plain TCP.
    pub fallback: bool,
    /// Fairness among the transfers under test, by goodput.
    pub jain: Option<f64>,
    /// Aggregation benefit; null unless the single paths were measured too.
    pub ben: Option<f64>,
    /// What a publication prints for this row.
    pub paper: Option<f64>,
    /// Goodput of the flows that compete with those under test.
    pub competing_mbps: Option<f64>,
    pub completion_median_s: Option<f64>,
    pub completion_p95_s: Option<f64>,
    /// Mean goodput of a transfer under test over its own time.
    pub transfer_mbps: Option<f64>,
    pub transfers: u32,
    /// Transfers of a given size that did not end in time.
    pub unfinished: u32,
    /// What arrived on each path under test, Mbit/s, duplicates included.
    pub path_mbps: IndexMap<String, f64>,
    /// Of all connections of the run, those that compete included; null where the kernel does not count them
    /// ([`Transfer::window_overruns`]).
    pub window_overruns: Option<u64>,
    /// Seconds that the run covered.
    pub elapsed_s: f64,
    pub notes: Vec<String>,
    /// Dotted key and value of each axis of the scenario's grid.
    #[serde(default)]
    pub cell: IndexMap<String, String>,
}

fn first() -> String {
    mp_scenario::defaults::INITIAL_PATH.into()
}

impl Row {
    /// Reduces a run.
    pub fn of(scenario: &Scenario, variant: &Variant, seed: u64, run: &Run) -> Row {
        let tested: Vec<&Transfer> = of_connections(run, scenario, |c| is_under_test(scenario, c));
        let rivals: Vec<&Transfer> = of_connections(run, scenario, |c| !is_under_test(scenario, c));
        let end = run.elapsed_s;
        let per_transfer: Vec<f64> = tested
            .iter()
            .map(|t| metrics::transfer_mbps(t, end))
            .collect();
        let completion = Completion::of(scenario, &tested);
        Row {
            variant: variant.name.clone(),
            controller: variant.controller.clone(),
            path_manager: variant.path_manager.clone(),
            initial_path: variant.initial_path.clone(),
            scheduler: variant.scheduler.clone(),
            seed,
            goodput_mbps: metrics::goodput_mbps(tested.iter().copied(), end),
            completion_s: completion
                .complete()
                .then(|| mean(&completion.times))
                .flatten(),
            fallback: tested.iter().any(|t| t.fallback),
            jain: metrics::jain(&per_transfer),
            competing_mbps: (!rivals.is_empty())
                .then(|| metrics::goodput_mbps(rivals.iter().copied(), end)),
            completion_median_s: completion
                .complete()
                .then(|| metrics::median(&completion.times))
                .flatten(),
            completion_p95_s: completion
                .complete()
                .then(|| metrics::quantile(&completion.times, 0.95))
                .flatten(),
            transfer_mbps: mean(&per_transfer),
            transfers: tested.len() as u32,
            unfinished: completion.unfinished,
            path_mbps: path_mbps(scenario, &tested, end),
            window_overruns: run.window_overruns,
            elapsed_s: end,
            notes: run.notes.clone(),
            ..Row::default()
        }
    }
}

/// Whether a connection takes the variant's choices. Where no MPTCP connection does, plain TCP without a controller of its
/// own does, and where there is none either, all are under test.
pub fn is_under_test(scenario: &Scenario, connection: &Connection) -> bool {
    let mptcp = |c: &Connection| {
        c.protocol == Protocol::Mptcp
            && c.controller.is_none()
            && c.path_manager.is_none()
            && c.initial_path.is_none()
            && c.scheduler.is_none()
    };
    let tcp = |c: &Connection| c.protocol == Protocol::Tcp && c.controller.is_none();
    let any = |takes: fn(&Connection) -> bool| scenario.connections.iter().any(takes);
    if any(mptcp) {
        mptcp(connection)
    } else if any(tcp) {
        tcp(connection)
    } else {
        true
    }
}

fn of_connections<'a>(
    run: &'a Run,
    scenario: &Scenario,
    wanted: impl Fn(&Connection) -> bool,
) -> Vec<&'a Transfer> {
    let of = |t: &Transfer| scenario.connections.iter().find(|c| c.name == t.connection);
    run.transfers
        .iter()
        .filter(|t| of(t).is_some_and(&wanted))
        .collect()
}

fn path_mbps(scenario: &Scenario, tested: &[&Transfer], end: f64) -> IndexMap<String, f64> {
    let seconds = metrics::active_s(tested.iter().copied(), end);
    let mut bytes: IndexMap<&str, u64> = scenario
        .paths
        .keys()
        .map(|name| (name.as_str(), 0))
        .collect();
    for (path, count) in tested.iter().flat_map(|t| &t.path_bytes) {
        *bytes.entry(path).or_default() += count;
    }
    bytes
        .into_iter()
        .map(|(path, count)| (path.to_owned(), metrics::mbps(count, seconds)))
        .collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    metrics::Interval::of(values).map(|i| i.mean)
}

struct Completion {
    times: Vec<f64>,
    unfinished: u32,
    /// Unfinished ones whose absence would make the mean too good.
    missed: u32,
}

impl Completion {
    fn of(scenario: &Scenario, tested: &[&Transfer]) -> Completion {
        let mut out = Completion {
            times: Vec::new(),
            unfinished: 0,
            missed: 0,
        };
        for transfer in tested {
            let Some(connection) = scenario
                .connections
                .iter()
                .find(|c| c.name == transfer.connection)
            else {
                continue;
            };
            if connection.bytes.is_none() {
                continue;
            }
            match transfer.end_s {
                Some(end) => out.times.push(end - transfer.start_s),
                None => {
                    out.unfinished += 1;
                    out.missed += u32::from(connection.arrivals.is_none());
                }
            }
        }
        out
    }

    fn complete(&self) -> bool {
        self.missed == 0
    }
}
