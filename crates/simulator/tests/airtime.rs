//! Links of a radio share the airtime of access points with those in use.

use std::path::Path;

use mp_record::Run;
use mp_scenario::Scenario;

fn scenario(text: &str) -> Scenario {
    let none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let overrides = mp_scenario::Overrides::default();
    let read = mp_scenario::parse("test.toml", text, Path::new(""), &none, &overrides);
    read.expect("a scenario").cells.remove(0).scenario
}

fn simulate(scenario: &Scenario) -> Run {
    seeded(scenario, 1)
}

fn seeded(scenario: &Scenario, seed: u64) -> Run {
    mp_simulator::simulate(scenario, &scenario.variants[0], seed).expect("a run")
}

/// Four drones among five access points, never out of reach.
fn drones(radio: &str, variant: &str) -> Scenario {
    scenario(&format!(
        r#"
        duration = "6s"
        segment_train = 32
        sample_interval = "500ms"
        [radio]
        phy = "dmg"
        blockage = {{ every = "2s", lasting = "300ms", loss_db = 10 }}
        {radio}
        [radio.aps]
        a = {{ at = [20, 0, 5] }}
        b = {{ at = [6, 19, 5] }}
        c = {{ at = [-16, 12, 5] }}
        d = {{ at = [-16, -12, 5] }}
        e = {{ at = [6, -19, 5] }}
        [radio.devices.drone]
        orbit = {{ centre = [0, 0, 10], semi_axes = [15, 10], speed_mps = 15 }}
        count = 4
        [[connections]]
        each_device = true
        [[variants]]
        {variant}
        "#
    ))
}

/// The rates of the radio with all links in use, replayed as they are in the other worlds.
fn replayed(scenario: &Scenario) -> Scenario {
    let tuned = scenario.tuned().into_owned();
    assert!(tuned.radio.is_none());
    tuned
}

#[test]
fn links_that_are_all_in_use_have_the_rates_of_the_trace() {
    for radio in [
        "chains = 2",
        "chains = 2\nallocation = \"bush\"",
        "chains = 2\nlinks = \"all\"",
        "chains = 1\nselect = 2",
    ] {
        let drones = drones(radio, "controller = \"lia\"");
        // Not assert_eq: runs are long.
        assert!(simulate(&drones) == simulate(&replayed(&drones)), "{radio}");
    }
}

/// With BBR, which takes up a rate within a round of the bandit.
#[test]
fn links_that_ms_ucb_leaves_out_take_no_airtime() {
    let variant = "controller = \"bbr\"\npath_manager = \"ms-ucb\"";
    let drones = drones("chains = 1\nlinks = \"all\"", variant);
    let bytes = |scenario: &Scenario| -> u64 {
        let transfers = (1..=3).flat_map(|seed| seeded(scenario, seed).transfers);
        transfers.map(|t| t.bytes).sum()
    };
    let (shared, all) = (bytes(&drones), bytes(&replayed(&drones)));
    assert!(
        shared > all,
        "{shared}, {all} of links that all take airtime"
    );
}

/// Two devices at one distance from the access point. The path `x-0` is in backup from 2 to 4 s.
fn two(direction: &str) -> Scenario {
    scenario(&format!(
        r#"
        duration = "6s"
        segment_train = 8
        sample_interval = "250ms"
        buffers = {{ send = "64MiB", receive = "64MiB", autotune = false }}
        events = [
          {{ at = "2s", path = "x-0", backup = true }},
          {{ at = "4s", path = "x-0", backup = false }},
        ]
        [radio]
        phy = "dmg"
        links = 1
        tx_power_dbm = -8
        mpdu_error = 0
        [radio.path]
        queue = "4000p"
        [radio.aps]
        a = {{ at = [0, 0, 5] }}
        [radio.devices]
        x = {{ at = [5, 0, 5] }}
        y = {{ at = [5, 0, 5] }}
        [paths.wire]
        rate = "1Mbit"
        delay = "6ms"
        [[connections]]
        name = "x"
        paths = ["x-0", "wire"]
        direction = "{direction}"
        [[connections]]
        name = "y"
        paths = ["y-0"]
        direction = "{direction}"
        [[variants]]
        controller = "linux-reno"
        "#
    ))
}

#[test]
fn a_link_has_twice_the_rate_while_the_other_is_in_backup() {
    for direction in ["download", "upload"] {
        let two = two(direction);
        let air = two.radio.clone().expect("a radio");
        let half = air.sample(0, 1).1.rate as f64;
        assert_eq!(air.sample(0, 0).1.rate as f64, half);
        let run = simulate(&two);
        // Share of the rate that is payload: 1420 bytes in packets of 1500.
        let rate = |path: &str, from: f64, to: f64| {
            let at = |time: f64| {
                let sample = |s: &&mp_record::Sample| s.path == path && s.time_s == time;
                run.samples
                    .iter()
                    .find(sample)
                    .expect("a sample")
                    .delivered_bytes as f64
            };
            (at(to) - at(from)) * 8.0 / (to - from) * 1500.0 / 1420.0
        };
        for (path, from, to, share) in [
            ("y-0", 1.0, 2.0, 1.0),
            // The queue of the other drains, and the next interval begins.
            ("y-0", 2.5, 4.0, 2.0),
            ("y-0", 4.25, 5.75, 1.0),
            ("x-0", 2.5, 4.0, 0.0),
        ] {
            let found = rate(path, from, to) / half;
            println!("{direction} {path} {from} to {to}: {found}");
            assert!(
                (found - share).abs() < 0.02,
                "{direction} {path} {from} to {to}: {found}"
            );
        }
    }
}
