//! `[radio]`: moving devices in place of rates.

use std::path::Path;

use mp_scenario::{parse, Error, Experiment, Overrides, QueueLimit, Rate, Scenario, TraceKind};

const ORBIT: &str = r#"
duration = "10s"
[radio]
chains = 4
[radio.aps]
west = { at = [-40, 0, 5] }
east = { at = [40, 0, 5] }
[radio.devices]
drone = { orbit = { centre = [0, 0, 15], semi_axes = [35, 20], speed_mps = 15 }, count = 3 }
[radio.path]
queue = "500p"
[[connections]]
each_device = true
bytes = "5MB"
"#;

fn load(text: &str) -> Result<Experiment, Error> {
    let read = |file: &Path| match file.file_name().and_then(|f| f.to_str()) {
        Some("way.csv") => Ok(b"0,0,0,5\n10,20,0,5\n".to_vec()),
        Some("loss.csv") => Ok(b"0,d,a,80\n5,d,a,300\n".to_vec()),
        Some("stray.csv") => Ok(b"0,d,a,80\n0,dd,a,90\n".to_vec()),
        Some("bad.csv") => Ok(b"0,0,0,5\n0,20,0,5\n".to_vec()),
        _ => Err(std::io::Error::other("no such file")),
    };
    parse(
        "radio.toml",
        text,
        Path::new("/files"),
        &read,
        &Overrides::default(),
    )
}

fn error(text: &str) -> String {
    load(text).unwrap_err().to_string()
}

#[test]
fn each_link_of_each_device_is_a_path_with_a_trace() {
    let experiment = load(ORBIT).unwrap();
    let scenario = &*experiment.cells[0].scenario.tuned();
    let names: Vec<&str> = scenario.paths.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["drone0-0", "drone0-1", "drone1-0", "drone1-1", "drone2-0", "drone2-1"]
    );
    for path in scenario.paths.values() {
        let Rate::Trace(trace) = &path.down.rate else {
            panic!("{path:?}")
        };
        let TraceKind::Steps(steps) = &trace.kind else {
            panic!("{trace:?}")
        };
        assert!(steps.len() > 3 && steps.iter().any(|s| s.rate > 1_000_000_000));
        assert_eq!(path.up, path.down);
        assert_eq!(path.down.delay.as_millis(), 6, "queues are sized by it");
    }
    let of = |i: usize| &scenario.connections[i];
    assert_eq!(scenario.connections.len(), 3);
    assert_eq!(
        (of(1).name.as_str(), of(1).client.as_str()),
        ("drone1", "drone1")
    );
    assert_eq!(of(1).paths, ["drone1-0", "drone1-1"]);
}

#[test]
fn it_prints_to_what_it_was() {
    for text in [
        ORBIT.to_owned(),
        format!("{ORBIT}[grid]\nradio.seed = [1, 2]\n"),
        ORBIT.replace(
            "orbit = { centre = [0, 0, 15], semi_axes = [35, 20], speed_mps = 15 }",
            "waypoints = \"way.csv\"",
        ),
    ] {
        let first = load(&text).unwrap();
        let again = load(&first.to_toml()).unwrap_or_else(|e| panic!("{e}\n{}", first.to_toml()));
        assert_eq!(again.cells, first.cells);
    }
}

#[test]
fn a_radio_runs_when_it_is_asked_for_and_once() {
    // Hours of ninety devices: reading them alone takes no time.
    let text = ORBIT
        .replace("\"10s\"", "\"3h\"")
        .replace("count = 3", "count = 90");
    let cells = load(&format!("{text}[grid]\nseed = [1, 2]\n"))
        .unwrap()
        .cells;
    let air = |i: usize| cells[i].scenario.radio.clone().unwrap();
    assert!(
        std::sync::Arc::ptr_eq(&air(0), &air(1)),
        "equal radios are one"
    );
    let Rate::Trace(trace) = &cells[0].scenario.paths["drone0-0"].down.rate else {
        panic!()
    };
    assert!(matches!(trace.kind, TraceKind::Radio(_)), "{trace:?}");
}

#[test]
fn a_queue_in_bandwidth_delay_products_waits_for_the_radio() {
    for (queue, least) in [("", 100), ("queue = \"0.5bdp\"", 2)] {
        let text = ORBIT.replace("queue = \"500p\"", queue);
        let first = load(&text).unwrap();
        let again = load(&first.to_toml()).unwrap_or_else(|e| panic!("{e}\n{}", first.to_toml()));
        assert_eq!(again.cells, first.cells);
        let limit = |s: &Scenario| s.paths["drone0-0"].down.queue.limit;
        let scenario = &first.cells[0].scenario;
        assert_eq!(limit(scenario), QueueLimit::Packets(least));
        let QueueLimit::Packets(packets) = limit(&scenario.tuned()) else {
            panic!()
        };
        assert!(packets > 1000, "{packets}: gigabits times 12 ms");
    }
}

#[test]
fn a_grid_over_the_radio_changes_its_traces() {
    let experiment = load(&format!(
        "{ORBIT}[grid]\nradio.phy = [\"edmg-sc\", \"dmg\"]\n"
    ))
    .unwrap();
    let rate = |i: usize| match &experiment.cells[i].scenario.tuned().paths["drone0-0"]
        .down
        .rate
    {
        Rate::Trace(t) => t.kind.clone(),
        other => panic!("{other:?}"),
    };
    assert_ne!(rate(0), rate(1));
}

#[test]
fn a_measured_channel_is_that_of_a_device_and_an_access_point() {
    let text = |device: &str, ap: &str| {
        format!("[radio]\nchannel = \"stray.csv\"\naps.{ap}.at = [0, 0, 5]\ndevices.{device}.at = [5, 0, 5]\n")
    };
    assert_eq!(
        error(&text("d", "a")),
        "radio.toml:2:11: radio.channel: /files/stray.csv: there is no device \"dd\" (did you mean \"d\"?); expected d"
    );
    assert_eq!(
        error(&text("d", "b")),
        "radio.toml:2:11: radio.channel: /files/stray.csv: there is no access point \"a\"; expected b"
    );
}

#[test]
fn an_exhaustive_allocation_is_for_small_cases() {
    let text = |count: u32, chains: u32| {
        format!("duration = \"20s\"\n[radio]\nallocation = \"exhaustive\"\nchains = {chains}\naps.a.at = [0, 0, 5]\ndevices.d = {{ at = [5, 0, 5], count = {count} }}\n")
    };
    assert!(load(&text(2, 2)).is_ok());
    let said = error(&text(8, 4));
    assert!(
        said.contains("radio: tries too many allocations; expected fewer devices or chains"),
        "{said}"
    );
}

#[test]
fn a_measured_channel_and_one_plain_path_stand_beside_it() {
    let text = r#"
duration = "10s"
[radio]
links = 1
channel = "loss.csv"
aps.a.at = [0, 0, 5]
devices.d.at = [5, 0, 5]
[paths.lte]
rate = "20Mbit"
"#;
    let read = load(text).unwrap().cells.remove(0).scenario;
    let scenario = read.tuned();
    let Rate::Trace(trace) = &scenario.paths["d-0"].down.rate else {
        panic!()
    };
    let TraceKind::Steps(steps) = &trace.kind else {
        panic!()
    };
    assert_eq!(
        (steps.len(), steps[1].at.as_secs(), steps[1].rate),
        (2, 5, 0)
    );
    assert_eq!(scenario.connections[0].paths, ["lte", "d-0"]);
}

#[test]
fn says_what_is_wrong_and_where() {
    let with = |from: &str, to: &str| error(&ORBIT.replace(from, to));
    assert!(with("chains = 4", "chain = 4").contains("radio.chain: unknown key (did you mean"));
    assert!(with("at = [40, 0, 5]", "at = [40, 0]").contains("has 2 numbers"));
    assert!(with("speed_mps = 15", "").contains("speed_mps: missing"));
    assert!(with("chains = 4", "interval = 5").contains("5 has no unit"));
    assert!(with("chains = 4", "allocation = \"best\"").contains("is unknown"));
    assert!(with("chains = 4", "phy = \"dmg\"\nchannels = 2").contains("out of range"));
    assert!(with(
        "orbit = { centre = [0, 0, 15], semi_axes = [35, 20], speed_mps = 15 }",
        "waypoints = \"bad.csv\""
    )
    .contains("bad.csv:2"));
    let lost = error("[paths.a]\nradio = { device = \"x\" }\n");
    assert!(lost.contains("there is no [radio]"), "{lost}");
    let twice = error(&format!(
        "{ORBIT}[paths.x]\nrate = \"1Mbit\"\nradio = {{ device = \"drone0\" }}\n"
    ));
    assert!(twice.contains("stands beside another source"), "{twice}");
    let nobody = error(&format!(
        "{ORBIT}[paths.x]\nradio = {{ device = \"drone\" }}\n"
    ));
    assert!(
        nobody.contains("there is no device \"drone\" (did you mean"),
        "{nobody}"
    );
}
