//! What a file means: units, defaults, directions, grids and overrides.

use std::path::Path;
use std::time::Duration;

use mp_scenario::*;

fn read(text: &str, overrides: &Overrides) -> Experiment {
    parse(
        "wifi.toml",
        text,
        Path::new(""),
        &|_| Ok(b"0\n1\n".to_vec()),
        overrides,
    )
    .expect("a good scenario")
}

fn one(text: &str) -> Scenario {
    read(text, &Overrides::default()).cells.remove(0).scenario
}

const TWO_PATHS: &str = "
[paths.wifi]
rate = '50Mbit'
delay = '5ms'
[paths.lte]
rate = '20Mbit'
delay = '40ms'
";

#[test]
fn the_smallest_file_is_one_download_over_all_paths() {
    let s = one(TWO_PATHS);
    assert_eq!(
        (s.name.as_str(), s.duration, s.seed),
        ("wifi", defaults::DURATION, defaults::SEED)
    );
    assert_eq!(s.paths.keys().collect::<Vec<_>>(), ["wifi", "lte"]);
    let [c] = &s.connections[..] else {
        panic!("{:?}", s.connections)
    };
    assert_eq!(
        (c.protocol, c.direction, c.bytes, c.count),
        (Protocol::Mptcp, TransferDirection::Download, None, 1)
    );
    assert_eq!(c.paths, ["wifi", "lte"]);
    let [v] = &s.variants[..] else {
        panic!("{:?}", s.variants)
    };
    assert_eq!(
        (
            v.controller.as_str(),
            v.path_manager.as_str(),
            v.scheduler.as_str()
        ),
        ("linux-reno", "fullmesh", "default")
    );
}

#[test]
fn a_queue_is_one_bandwidth_delay_product_but_no_less_than_100_packets() {
    let s = one(TWO_PATHS);
    // 50 Mbit/s × 10 ms = 62.5 kB, below the floor; 20 Mbit/s × 80 ms = 200 kB = 134 packets of 1500 bytes.
    assert_eq!(s.paths["wifi"].down.queue.limit, QueueLimit::Packets(100));
    assert_eq!(s.paths["lte"].down.queue.limit, QueueLimit::Packets(134));
    let s = one(&format!("{TWO_PATHS}queue = '0.5bdp'"));
    assert_eq!(s.paths["lte"].down.queue.limit, QueueLimit::Packets(67));
}

#[test]
fn a_link_is_sized_by_the_longest_round_trip_through_it() {
    let s = one("[links.dsl]\nrate = '12Mbit'\ndelay = '10ms'\n[paths.a]\nlink = 'dsl'\ndelay = '5ms'\n[paths.b]\nlink = 'dsl'\ndelay = '90ms'");
    assert_eq!(s.paths["a"].down.rate, Rate::Unlimited);
    // 12 Mbit/s × 200 ms = 300 kB
    assert_eq!(s.links["dsl"].down.queue.limit, QueueLimit::Packets(200));
}

#[test]
fn loss_counts_where_the_data_flows_unless_stated() {
    let lossy = "[paths.a]\nrate = '1Mbit'\nloss = 0.1\n";
    let sides = |text: &str| {
        let s = one(&format!("{lossy}{text}"));
        (s.paths["a"].down.loss.clone(), s.paths["a"].up.loss.clone())
    };
    let bad = Loss::Bernoulli(0.1);
    assert_eq!(sides(""), (bad.clone(), Loss::None));
    assert_eq!(
        sides("[[connections]]\ndirection = 'upload'"),
        (Loss::None, bad.clone())
    );
    assert_eq!(
        sides("[[connections]]\n[[connections]]\ndirection = 'upload'"),
        (bad.clone(), bad.clone())
    );
    assert_eq!(sides("uplink.loss = 0.2"), (bad, Loss::Bernoulli(0.2)));
}

#[test]
fn a_policer_holds_in_both_directions_unless_one_says_otherwise() {
    let sides = |text: &str| {
        let s = one(&format!("[paths.a]\nrate = '100Mbit'\n{text}"));
        (s.paths["a"].down.policer, s.paths["a"].up.policer)
    };
    let policer = |mbit: u64, burst| {
        Some(Policer {
            rate: mbit * 1_000_000,
            burst,
        })
    };
    let both = "policer = { rate = '20Mbit', burst = '50kB' }\n";
    assert_eq!(sides(""), (None, None));
    assert_eq!(sides(both), (policer(20, 50_000), policer(20, 50_000)));
    assert_eq!(
        sides(&format!("{both}uplink = {{ policer = 'none' }}")),
        (policer(20, 50_000), None)
    );
    assert_eq!(
        sides("downlink = { policer = { rate = '5Mbit', burst = '32KiB' } }"),
        (policer(5, 32_768), None)
    );
    // A full segment of the default mss.
    let least = "policer = { rate = '20Mbit', burst = '1500B' }";
    assert_eq!(sides(least), (policer(20, 1500), policer(20, 1500)));
}

#[test]
fn a_grid_takes_a_policer_away() {
    let grid = "[paths.a]\nrate = '100Mbit'\n[grid]\n'paths.a.policer' = ['none', { rate = '20Mbit', burst = '50kB' }]";
    let cells = read(grid, &Overrides::default()).cells;
    let policed = cells.iter().map(|c| c.scenario.paths["a"].down.policer);
    assert_eq!(
        policed.map(|p| p.is_some()).collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn a_direction_overrides_the_whole_path() {
    let s = one("[paths.a]\nrate = '10Mbit'\ndelay = '5ms'\njitter = '0..2ms'\nuplink = { rate = '1Mbit' }\ndownlink = { trace = 'lte' }");
    assert_eq!(s.paths["a"].up.rate, Rate::Constant(1_000_000));
    assert!(matches!(&s.paths["a"].down.rate, Rate::Trace(t) if t.file == Path::new("lte")));
    assert_eq!(
        s.paths["a"].up.jitter,
        Some((Duration::ZERO, Duration::from_millis(2)))
    );
}

#[test]
fn variants_multiply_and_are_named_by_what_differs() {
    let names = |text: &str| {
        one(&format!("{TWO_PATHS}{text}"))
            .variants
            .into_iter()
            .map(|v| v.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names("[[variants]]\ncontroller = ['lia', 'rsf-db']"),
        ["lia", "rsf-db"]
    );
    assert_eq!(
        names("[[variants]]\ncontroller = ['lia', 'olia']\nscheduler = ['default', 'blest']"),
        ["lia/default", "lia/blest", "olia/default", "olia/blest"]
    );
    assert_eq!(
        names("[[variants]]\ncontroller = 'lia'\n[[variants]]\ncontroller = 'rsf-db'\nparameters.target_us = ['50ms', '100ms']"),
        ["lia", "rsf-db target_us=50ms", "rsf-db target_us=100ms"]
    );
    assert_eq!(
        names("[[variants]]\nname = 'ours'\ncontroller = 'lia'"),
        ["ours"]
    );
}

#[test]
fn settings_arrive_in_the_units_of_the_controllers() {
    let s = one(&format!("{TWO_PATHS}[[variants]]\ncontroller = 'mpcc'\nparameters = {{ gamma = 4, floor = '8Mbit', utility_unit = '1Mbit', step = 1000 }}\n[[variants]]\ncontroller = 'ld-mpsp'\nparameters.target_us = '100ms'"));
    let values: Vec<_> = s.variants[0]
        .parameters
        .iter()
        .map(|(k, v)| (k.as_str(), *v))
        .collect();
    assert_eq!(
        values,
        [
            ("gamma", 4),
            ("floor", 1_000_000),
            ("utility_unit", 1_000_000),
            ("step", 1000)
        ]
    );
    assert_eq!(s.variants[1].parameters["target_us"], 100_000);
}

#[test]
fn events_are_sorted_and_may_change_several_things() {
    let s = one(&format!("{TWO_PATHS}[[events]]\nat = '9s'\npath = 'wifi'\noutage = false\n[[events]]\nat = '3s'\npath = 'wifi'\noutage = true\nloss = 0.5"));
    let changes: Vec<_> = s
        .events
        .into_iter()
        .map(|e| (e.at.as_secs(), e.change))
        .collect();
    assert_eq!(
        changes,
        [
            (3, Change::Loss(Loss::Bernoulli(0.5))),
            (3, Change::Down),
            (9, Change::Up)
        ]
    );
}

#[test]
fn a_grid_is_a_cross_product_and_labels_the_variants() {
    let text = format!(
        "{TWO_PATHS}[grid]\n'paths.wifi.loss' = [0, 0.01]\npaths.lte.rate = ['5Mbit', '20Mbit']"
    );
    let cells = read(&text, &Overrides::default()).cells;
    let labels: Vec<_> = cells
        .iter()
        .map(|c| c.scenario.variants[0].name.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "linux-reno wifi.loss=0 lte.rate=5Mbit",
            "linux-reno wifi.loss=0 lte.rate=20Mbit",
            "linux-reno wifi.loss=0.01 lte.rate=5Mbit",
            "linux-reno wifi.loss=0.01 lte.rate=20Mbit"
        ]
    );
    assert_eq!(
        cells[2].scenario.paths["wifi"].down.loss,
        Loss::Bernoulli(0.01)
    );
    assert_eq!(
        cells[2].values[0],
        ("paths.wifi.loss".to_owned(), "0.01".to_owned())
    );
}

#[test]
fn cases_are_laid_over_the_file() {
    let text = format!("{TWO_PATHS}[[cases]]\nname = 'equal'\npaths.lte.rate = '50Mbit'\n[[cases]]\nname = 'short'\nduration = '3s'\n[grid]\nmss = [1420, 1000]");
    let cells = read(&text, &Overrides::default()).cells;
    let seen: Vec<_> = cells
        .iter()
        .map(|c| {
            (
                c.label.as_str(),
                &c.scenario.paths["lte"].down.rate,
                c.scenario.duration.as_secs(),
            )
        })
        .collect();
    let (fast, slow) = (&Rate::Constant(50_000_000), &Rate::Constant(20_000_000));
    assert_eq!(
        seen,
        [
            ("equal mss=1420", fast, 20),
            ("equal mss=1000", fast, 20),
            ("short mss=1420", slow, 3),
            ("short mss=1000", slow, 3)
        ]
    );
}

#[test]
fn the_command_line_overrides_the_file() {
    let text = format!("{TWO_PATHS}[[connections]]\nname = 'bulk'\n[[variants]]\ncontroller = ['lia', 'olia']\n[[variants]]\ncontroller = 'rsf-db'\nparameters.target_us = '50ms'");
    let set = |items: &[&str]| Overrides {
        set: items.iter().map(|s| s.to_string()).collect(),
        ..Overrides::default()
    };
    let s = read(
        &text,
        &set(&[
            "paths.wifi.loss=0.02",
            "paths.*.queue=50p",
            "connections.bulk.bytes=4MB",
            "mss = 1000",
        ]),
    );
    let s = &s.cells[0].scenario;
    assert_eq!(s.paths["wifi"].down.loss, Loss::Bernoulli(0.02));
    assert_eq!(s.paths["lte"].up.queue.limit, QueueLimit::Packets(50));
    assert_eq!((s.connections[0].bytes, s.mss), (Some(4_000_000), 1000));

    let wanted = Overrides {
        controllers: vec!["rsf-db".into(), "cubic".into()],
        schedulers: vec!["blest".into(), "ecf".into()],
        duration: Some("3s".into()),
        ..Overrides::default()
    };
    let s = &read(&text, &wanted).cells[0].scenario;
    let names: Vec<_> = s.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(
        names,
        ["rsf-db/blest", "rsf-db/ecf", "cubic/blest", "cubic/ecf"]
    );
    assert_eq!(
        s.variants[0].parameters["target_us"], 50_000,
        "a controller that the file names keeps its settings"
    );
    assert!(s.variants[2].parameters.is_empty());
    assert_eq!(s.duration, Duration::from_secs(3));
}

#[test]
fn an_experiment_prints_to_what_loads_to_the_same_cells() {
    for tail in ["", "[grid]\n'paths.wifi.loss' = [0, 0.01]\n", "[[cases]]\nname = 'x'\npaths.lte.trace = 'a b.mahi'\npaths.wifi.loss = { gilbert-elliott = { p = 0.1, r = 0.2 } }\n"] {
        let text = format!("{TWO_PATHS}[paths.third]\ntrace = 'lte.mahi'\n{tail}").replace("rate = '20Mbit'", if tail.contains("cases") { "" } else { "rate = '20Mbit'" });
        let folder = Path::new("/somewhere");
        let files = |_: &Path| Ok(b"0\n1\n".to_vec());
        let first = parse("wifi.toml", &text, folder, &files, &Overrides::default()).expect("good");
        let again = parse("scenario.toml", &first.to_toml(), Path::new("/elsewhere"), &files, &Overrides::default());
        assert_eq!(again.map(|e| e.cells), Ok(first.cells.clone()), "{}", first.to_toml());
    }
}

#[test]
fn a_trace_is_read_once_however_many_name_it() {
    let reads = std::cell::Cell::new(0);
    let read = |_: &Path| {
        reads.set(reads.get() + 1);
        Ok(b"0\n1\n".to_vec())
    };
    let text =
        "[paths.a]\ntrace = 'x'\n[paths.b]\ntrace = 'x'\n[grid]\npaths.a.loss = [0, 0.1, 0.2]";
    let experiment =
        parse("x.toml", text, Path::new(""), &read, &Overrides::default()).expect("good");
    assert_eq!((experiment.cells.len(), reads.get()), (3, 1));
}

#[test]
fn an_override_reaches_the_default_connection() {
    let text = "[paths.a]\nrate = '1Mbit'\n[grid]\nconnections.0.bytes = ['1MB', '2MB']\n";
    let bytes = |cell: &Cell| cell.scenario.connections[0].bytes;
    let cells = read(text, &Overrides::default()).cells;
    assert_eq!(
        cells.iter().map(bytes).collect::<Vec<_>>(),
        [Some(1_000_000), Some(2_000_000)]
    );
    assert_eq!(cells[0].scenario.connections[0].paths, ["a"]);
}
