//! What each rule of a path manager is worth, over cells of `multipilot paper loss-aware`: a sample, or `--grid`, all.
//!
//!     cargo run --profile tune -p mp-simulator --example ablation -- [--seeds N] [--cells] [--grid]
//!         [--only TEXT] [--controllers NAME,NAME] MANAGER[:key=value] …
//!
//! Each cell is run with a cold start (30 s), and with a warm start: 15 s over the same paths, 5 s of rest, then the 30 s that
//! count; and cells whose paths change during the run, up and down. A row is a path manager with its settings: the cells that
//! are significantly below −0.039 (the 95 % interval of the benefit over the seeds lies below it: more than MPTCP's header
//! of 1.9 % of the payload, and 2 % for noise), and the mean benefit; against the first row the cells that are
//! significantly worse and better. The number of harmed cells grows with the seeds: compare rows of the same number only.
//! `--cells` prints a line for each cell. `--only` keeps those whose name contains the text.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use mp_scenario::{Connection, Overrides, Protocol, Scenario, TransferDirection, Variant};

const CONTROLLERS: &str = "balia,linux-reno,cubic";
const HARM: f64 = -0.039;
/// When the transfer that counts begins after the one before it, s.
const WARM_S: f64 = 20.0;
/// Student's t for 95 %, two-sided, from 1 degree of freedom on.
const T: [f64; 9] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
];

/// Files whose paths change during the run: a cold start only.
const CHANGING: [&str; 3] = ["5-dynamic-loss", "6-path-failure", "7-handover"];

/// File, and the values of its grid that are kept.
const SAMPLE: [(&str, &[(&str, &str)]); 4] = [
    (
        "verdict-wifi-loss",
        &[
            ("grid.paths.wifi.loss", "[0.001, 0.01, 0.1]"),
            ("grid.paths.wifi.rate", "[\"10Mbit\", \"50Mbit\"]"),
            ("grid.paths.lte.rate", "[\"10Mbit\", \"50Mbit\"]"),
        ],
    ),
    (
        "verdict-lte-loss",
        &[
            ("grid.paths.lte.loss", "[0.001, 0.01, 0.1]"),
            ("grid.paths.wifi.rate", "[\"10Mbit\", \"50Mbit\"]"),
            ("grid.paths.lte.rate", "[\"10Mbit\", \"50Mbit\"]"),
        ],
    ),
    (
        "verdict-both-lossy",
        &[
            ("grid.paths.wifi.loss", "[0.001, 0.05]"),
            ("grid.paths.lte.loss", "[0.001, 0.05]"),
        ],
    ),
    (
        "verdict-no-loss",
        &[("grid.paths.slow.rate", "[\"2Mbit\", \"8Mbit\", \"40Mbit\"]")],
    ),
];

/// Values of that grid which the sample leaves out: `*` in a key is each path there, so that no override names them.
const LEFT_OUT: [&str; 2] = ["*.queue=100p", "*.queue=1000p"];

struct Cell {
    name: String,
    scenario: Scenario,
    controller: String,
    /// One of [`CHANGING`].
    changing: bool,
    /// Median goodput of plain TCP on each path, Mbit/s.
    singles: Vec<f64>,
}

#[derive(Clone)]
struct Manager {
    spelled: String,
    name: String,
    settings: Vec<(String, u64)>,
}

impl Manager {
    fn parse(text: &str) -> Manager {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default().to_owned();
        let setting = |s: &str| {
            let (key, value) = s.split_once('=').expect("key=value");
            (key.to_owned(), value.parse().expect("a whole number"))
        };
        let settings = parts.map(setting).collect();
        let spelled = text.to_owned();
        Manager {
            spelled,
            name,
            settings,
        }
    }

    fn variant(&self, controller: &str) -> Variant {
        Variant {
            name: self.spelled.clone(),
            controller: controller.into(),
            parameters: Default::default(),
            path_manager: self.name.clone(),
            initial_path: "first".into(),
            path_manager_parameters: self.settings.iter().cloned().collect(),
            scheduler: "default".into(),
            carrier: "tcp".into(),
            agent: true,
        }
    }
}

/// Of the sample, or of the whole grid.
fn cells(controllers: &str, grid: bool) -> Vec<Cell> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/loss-aware");
    let mut all = Vec::new();
    let changing = CHANGING.map(|file| (file, &[][..]));
    for (file_name, sets) in SAMPLE.into_iter().chain(changing) {
        let sets = if grid { &[][..] } else { sets };
        let set = sets.iter().map(|(key, value)| format!("{key}={value}"));
        let overrides = Overrides {
            set: set.collect(),
            ..Overrides::default()
        };
        let file = folder.join(file_name).with_extension("toml");
        let experiment = mp_scenario::load(&file, &overrides).unwrap_or_else(|e| panic!("{e}"));
        let kept = |label: &str| grid || !LEFT_OUT.iter().any(|value| label.contains(value));
        for cell in experiment.cells.iter().filter(|c| kept(&c.label)) {
            let mut push = |scenario: &Scenario, direction: &str| {
                let name = format!("{} {}{direction}", experiment.name, cell.label);
                all.extend(controllers.split(',').map(|controller| Cell {
                    name: format!("{controller} {name}"),
                    scenario: scenario.clone(),
                    controller: controller.into(),
                    changing: CHANGING.contains(&file_name),
                    singles: Vec::new(),
                }));
            };
            push(&cell.scenario, "");
            if CHANGING.contains(&file_name) {
                let mut down = cell.scenario.clone();
                down.connections[0].direction = TransferDirection::Download;
                push(&down, " down");
            }
        }
    }
    all
}

/// Mbit/s of the transfers that start at `from_s` or later.
fn goodput(scenario: &Scenario, variant: &Variant, seed: u64, from_s: f64) -> f64 {
    let run = mp_simulator::simulate(scenario, variant, seed).unwrap_or_else(|e| panic!("{e}"));
    let measured = run.transfers.iter().filter(|t| t.start_s >= from_s);
    let bytes: u64 = measured.map(|t| t.bytes).sum();
    bytes as f64 * 8e-6 / (scenario.duration.as_secs_f64() - from_s)
}

fn warm(scenario: &Scenario) -> Scenario {
    let mut warm = scenario.clone();
    warm.duration = Duration::from_secs(50);
    warm.connections[0].start = Duration::from_secs_f64(WARM_S);
    let lasting = Duration::from_secs(15);
    warm.connections.push(Connection {
        name: "before".into(),
        lasting: Some((lasting, lasting)),
        start: Duration::ZERO,
        ..scenario.connections[0].clone()
    });
    warm
}

fn benefit(goodput: f64, singles: &[f64]) -> f64 {
    let best = singles.iter().copied().fold(0.0, f64::max);
    let rest = singles.iter().sum::<f64>() - best;
    let gain = goodput - best;
    gain / if gain >= 0.0 { rest } else { best }
}

/// Mean, and half of the 95 % interval.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let t = T[(values.len() - 2).min(T.len() - 1)];
    (mean, t * (squares / (n - 1.0) / n).sqrt())
}

/// Runs all jobs on all cores, in order of their number.
fn parallel<T: Send>(count: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= count {
                    break;
                }
                let value = job(i);
                done.lock().expect("no panic").insert(i, value);
            });
        }
    });
    done.into_inner().expect("no panic").into_values().collect()
}

fn main() {
    let (mut seeds, mut list, mut grid, mut managers) = (4usize, false, false, Vec::new());
    let (mut controllers, mut only) = (CONTROLLERS.to_owned(), String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => {
                seeds = arguments
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("a number")
            }
            "--controllers" => controllers = arguments.next().expect("names"),
            "--cells" => list = true,
            "--only" => only = arguments.next().expect("a text"),
            "--grid" => grid = true,
            other => managers.push(Manager::parse(other)),
        }
    }
    assert!(
        seeds >= 2 && !managers.is_empty(),
        "two seeds, and a path manager"
    );
    let mut cells = cells(&controllers, grid);
    cells.retain(|c| c.name.contains(&only));
    let singles = parallel(cells.len(), |i| {
        let cell = &cells[i];
        let alone = |path: &String| {
            let mut scenario = cell.scenario.clone();
            scenario.connections[0].protocol = Protocol::Tcp;
            scenario.connections[0].paths = vec![path.clone()];
            let variant = Manager::parse("single").variant(&cell.controller);
            let each = (0..seeds).map(|s| goodput(&scenario, &variant, 1 + s as u64, 0.0));
            let mut each: Vec<f64> = each.collect();
            each.sort_by(f64::total_cmp);
            (each[(seeds - 1) / 2] + each[seeds / 2]) / 2.0
        };
        cell.scenario.connections[0]
            .paths
            .iter()
            .map(alone)
            .collect()
    });
    cells
        .iter_mut()
        .zip(singles)
        .for_each(|(c, s)| c.singles = s);
    println!(
        "{} cells, {seeds} seeds; cells significantly below {HARM}, mean benefit, against the first row worse and better",
        cells.len()
    );
    let mut first: Option<[Vec<Vec<f64>>; 3]> = None;
    for manager in &managers {
        let found = parallel(cells.len(), |i| {
            let cell = &cells[i];
            let variant = manager.variant(&cell.controller);
            let later = warm(&cell.scenario);
            let runs = |scenario: &Scenario, from_s: f64| -> Vec<f64> {
                (0..seeds)
                    .map(|s| goodput(scenario, &variant, 1 + s as u64, from_s))
                    .map(|mbps| benefit(mbps, &cell.singles))
                    .collect()
            };
            let warm = match cell.changing {
                true => Vec::new(),
                false => runs(&later, WARM_S),
            };
            (cell.changing, runs(&cell.scenario, 0.0), warm)
        });
        let mut columns = format!("{:32}", manager.spelled);
        let columns_of = |changing: bool, warm: bool| -> Vec<Vec<f64>> {
            let rows = found.iter().filter(|f| f.0 == changing);
            rows.map(|f| if warm { f.2.clone() } else { f.1.clone() })
                .collect()
        };
        let by_start = [
            columns_of(false, false),
            columns_of(false, true),
            columns_of(true, false),
        ];
        for (k, start) in ["cold", "warm", "changing"].into_iter().enumerate() {
            let names: Vec<&str> = (cells.iter().filter(|c| c.changing == (k == 2)))
                .map(|c| c.name.as_str())
                .collect();
            let all: Vec<(f64, f64)> = by_start[k].iter().map(|v| mean(v)).collect();
            let harmed = all.iter().filter(|(m, half)| m + half < HARM).count();
            let average = all.iter().map(|(m, _)| m).sum::<f64>() / all.len().max(1) as f64;
            let (mut worse, mut better) = (0, 0);
            for (i, now) in by_start[k].iter().enumerate() {
                let Some(then) = first.as_ref().map(|f| &f[k][i]) else {
                    continue;
                };
                // The same seeds: differences in pairs.
                let pairs: Vec<f64> = now.iter().zip(then).map(|(a, b)| a - b).collect();
                let (difference, half) = mean(&pairs);
                worse += usize::from(difference + half < -0.01);
                better += usize::from(difference - half > 0.01);
                if list && (difference.abs() > half.max(0.01)) {
                    println!(
                        "  {start} {:60} {:+.3} against {:+.3}",
                        names[i],
                        all[i].0,
                        mean(then).0
                    );
                }
            }
            if list && first.is_none() {
                for (name, (m, half)) in names.iter().zip(&all) {
                    println!("  {start} {name:60} {m:+.3} ± {half:.3}");
                }
            }
            columns += &format!("  {start} {harmed:3} {average:+.3} −{worse} +{better}");
        }
        println!("{columns}");
        first.get_or_insert(by_start);
    }
}
