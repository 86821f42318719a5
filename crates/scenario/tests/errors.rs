//! Every message that a wrong scenario earns: one line with file, line, column, key, what is wrong, what was expected.

use std::path::Path;

use mp_scenario::*;

fn message(text: &str) -> String {
    let none = |_: &Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    match parse(
        "bad.toml",
        text,
        Path::new(""),
        &none,
        &Overrides::default(),
    ) {
        Ok(_) => panic!("accepted: {text}"),
        Err(e) => e.to_string(),
    }
}

/// `text` follows a good path; the message is given from the line number (counted within `text`) on.
fn check(text: &str, expected: &str) {
    const HEAD: &str = "[paths.wifi]\nrate = '50Mbit'\n";
    let got = message(&format!("{HEAD}{text}"));
    let rest = got
        .strip_prefix("bad.toml:")
        .unwrap_or_else(|| panic!("no place in: {got}"));
    let (line, rest) = rest
        .split_once(':')
        .unwrap_or_else(|| panic!("no line in: {got}"));
    let line: i64 = line.parse().unwrap_or_else(|_| panic!("no line in: {got}"));
    assert_eq!(format!("{}:{rest}", line - 2), expected);
}

#[test]
fn syntax() {
    assert_eq!(
        message("[paths"),
        "bad.toml:1:7: unclosed table, expected `]`"
    );
    assert_eq!(message("a = 1\na = 2"), "bad.toml:2:1: duplicate key");
    for empty in ["x=", "x=\ny = 1"] {
        assert_eq!(
            message(empty),
            "bad.toml:1:3: there is no value; expected one after the ="
        );
    }
    assert_eq!(
        message("queue = droptail"),
        "bad.toml:1:9: droptail has no quotes; expected \"droptail\""
    );
    assert_eq!(
        message("x = 1979-05-27"),
        "bad.toml:1:5: a date has no place here"
    );
    assert_eq!(
        message("seed = 99999999999999999999"),
        "bad.toml:1:8: this integer is out of range"
    );
}

#[test]
fn top_level() {
    assert_eq!(
        message(""),
        "bad.toml:1:1: paths: missing; expected at least one [paths.NAME]"
    );
    assert_eq!(
        message("[paths]"),
        "bad.toml:1:1: paths: there are none; expected at least one [paths.NAME]"
    );
    assert_eq!(
        message("durration = '5s'"),
        "bad.toml:1:1: durration: unknown key (did you mean \"duration\"?); expected one of name, title, description, \
         duration, seed, sample_interval, segment_train, mss, buffers, links, paths, connections, events, variants, grid, cases, radio"
    );
    assert_eq!(message("duration = 30\n[paths.a]\nrate = '1Mbit'"), "bad.toml:1:12: duration: 30 has no unit; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"");
    assert_eq!(message("duration = '0s'\n[paths.a]\nrate = '1Mbit'"), "bad.toml:1:12: duration: is zero; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"");
    assert_eq!(
        message("duration = '25h'\n[paths.a]\nrate = '1Mbit'"),
        "bad.toml:1:12: duration: is too long; expected at most \"24h\""
    );
    assert_eq!(
        message("seed = -1\n[paths.a]\nrate = '1Mbit'"),
        "bad.toml:1:8: seed: -1 is out of range; expected an integer from 0 to 9223372036854775807"
    );
    assert_eq!(
        message("segment_train = 65\n[paths.a]\nrate = '1Mbit'"),
        "bad.toml:1:17: segment_train: 65 is out of range; expected an integer from 1 to 64"
    );
    assert_eq!(
        message("sample_interval = '1us'\n[paths.a]\nrate = '1Mbit'"),
        "bad.toml:1:19: sample_interval: is too short; expected at least \"100us\""
    );
    assert_eq!(
        message("buffers = { send = '1kB' }\n[paths.a]\nrate = '1Mbit'"),
        "bad.toml:1:20: buffers.send: is out of range; expected a size from \"4KiB\" to less than \"2GiB\""
    );
    assert_eq!(
        message("title = 5\n[paths.a]\nrate = '1Mbit'"),
        "bad.toml:1:9: title: is an integer; expected a string"
    );
    assert_eq!(message("[paths.'a b']\nrate = '1Mbit'"), "bad.toml:1:8: paths.a b: is no usable name; expected up to 32 letters, digits, dashes and underscores");
}

#[test]
fn paths() {
    assert_eq!(message("[paths.a]\ndelay = '5ms'"), "bad.toml:1:1: paths.a.rate: missing; expected a rate such as \"50Mbit\", or a trace (for downlink too)");
    check("delay = 5", "1:9: paths.wifi.delay: 5 has no unit; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"");
    check("delay = '5'", "1:9: paths.wifi.delay: \"5\" has no unit; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"");
    check("delay = '5m'", "1:9: paths.wifi.delay: \"5m\" has the unknown unit \"m\"; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"");
    check("delay = '-5ms'", "1:9: paths.wifi.delay: \"-5ms\" is negative; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"");
    check(
        "delay = '2h'",
        "1:9: paths.wifi.delay: is above an hour; expected less",
    );
    check("dellay = '5ms'", "1:1: paths.wifi.dellay: unknown key (did you mean \"delay\"?); expected one of link, rule, rate, trace, radio, delay, jitter, reorder, loss, policer, queue, downlink, uplink");
    check("rule = 'meterd'", "1:8: paths.wifi.rule: \"meterd\" is unknown (did you mean \"metered\"?); expected \"none\" or \"preferred\" or \"metered\" or \"untrusted\"");
    check("uplink = { rule = 'metered' }", "1:12: paths.wifi.uplink.rule: unknown key; expected one of rate, trace, radio, delay, jitter, reorder, loss, policer, queue");
    check("uplink = { rate = '0Mbit' }", "1:19: paths.wifi.uplink.rate: is zero; expected a rate such as \"300kbit\", \"50Mbit\" or \"1Gbit\" (per second)");
    check("uplink = { rate = '5Mb' }", "1:19: paths.wifi.uplink.rate: \"5Mb\" has the unknown unit \"Mb\"; expected a rate such as \"300kbit\", \"50Mbit\" or \"1Gbit\" (per second)");
    check(
        "uplink = 5",
        "1:10: paths.wifi.uplink: is an integer; expected a table",
    );
    check(
        "trace = 'x.mahi'",
        "1:9: paths.wifi.trace: stands beside another source of the rate; expected one of them",
    );
    check("uplink.trace = 'x.mahi'", "1:16: paths.wifi.uplink.trace: cannot read x.mahi: entity not found; expected a Mahimahi or CSV trace");
    check(
        "jitter = '5ms'",
        "1:10: paths.wifi.jitter: \"5ms\" is not a range; expected a range such as \"0..5ms\"",
    );
    check(
        "jitter = '5..1ms'",
        "1:10: paths.wifi.jitter: \"5..1ms\" runs backwards; expected a range such as \"0..5ms\"",
    );
    check(
        "reorder = 'no'",
        "1:11: paths.wifi.reorder: is a string; expected true or false",
    );
    check(
        "loss = 5",
        "1:8: paths.wifi.loss: 5 is impossible; expected a probability from 0 to 1 (0.05 is 5 %)",
    );
    check("loss = nan", "1:8: paths.wifi.loss: NaN is no number; expected a probability from 0 to 1 (0.05 is 5 %), or { gilbert-elliott = { p = 0.001, r = 0.1 } }");
    check("loss = '1%'", "1:8: paths.wifi.loss: is a string; expected a probability from 0 to 1 (0.05 is 5 %), or { gilbert-elliott = { p = 0.001, r = 0.1 } }");
    check("loss = { gilbert = 1 }", "1:8: paths.wifi.loss: is no loss; expected a probability from 0 to 1 (0.05 is 5 %), or { gilbert-elliott = { p = 0.001, r = 0.1 } }");
    check("loss = { gilbert-elliott = { p = 0.1 } }", "1:28: paths.wifi.loss.gilbert-elliott.r: missing; expected the probability to go from bad to good");
    check("policer = '20Mbit'", "1:11: paths.wifi.policer: is no policer; expected { rate = \"20Mbit\", burst = \"50kB\" }, or \"none\"");
    check("policer = { rate = '20Mbit' }", "1:11: paths.wifi.policer.burst: missing; expected a size such as \"64kB\", \"4MB\" or \"1GiB\"");
    check("policer = { burst = '50kB' }", "1:11: paths.wifi.policer.rate: missing; expected a rate such as \"300kbit\", \"50Mbit\" or \"1Gbit\" (per second)");
    check("policer = { rate = 20, burst = '50kB' }", "1:20: paths.wifi.policer.rate: 20 has no unit; expected a rate such as \"300kbit\", \"50Mbit\" or \"1Gbit\" (per second)");
    check("policer = { rate = '0Mbit', burst = '50kB' }", "1:20: paths.wifi.policer.rate: is zero; expected a rate such as \"300kbit\", \"50Mbit\" or \"1Gbit\" (per second)");
    check("uplink.policer = { rate = '20Mbit', burst = 50 }", "1:45: paths.wifi.uplink.policer.burst: 50 has no unit; expected a size such as \"64kB\", \"4MB\" or \"1GiB\"");
    check("policer = { rate = '20Mbit', burst = '1kB' }", "1:38: paths.wifi.policer.burst: lets no packet of 1500 bytes through; expected at least \"1500B\": mss and 80 bytes of headers");
    check(
        "policer = { rate = '20Mbit', burst = '50kB', queue = '9p' }",
        "1:46: paths.wifi.policer.queue: unknown key; expected one of rate, burst",
    );
    check("queue = 100", "1:9: paths.wifi.queue: 100 has no unit; expected a queue such as \"100p\" (packets), \"150kB\" or \"1bdp\" (one bandwidth-delay product)");
    check("queue = '0p'", "1:9: paths.wifi.queue: holds nothing; expected a queue such as \"100p\" (packets), \"150kB\" or \"1bdp\" (one bandwidth-delay product)");
    check("queue = { ecn = true }", "1:9: paths.wifi.queue: a droptail queue marks nothing; expected ecn with \"codel\" or \"red\"");
    check("queue = { discipline = 'fifo' }", "1:24: paths.wifi.queue.discipline: \"fifo\" is unknown; expected \"droptail\" or \"codel\" or \"red\"");
    check("queue = { discipline = 'codel', min = 5 }", "1:39: paths.wifi.queue.min: does not belong to this discipline; expected target and interval with \"codel\"; min, max and probability with \"red\"");
    check("queue = { discipline = 'red' }", "1:9: paths.wifi.queue.min: missing; expected thresholds in packets, above zero, min below max");
    check("queue = { discipline = 'red', min = 9, max = 3 }", "1:9: paths.wifi.queue: min 9 is not below max 3; expected thresholds in packets, above zero, min below max");
    check(
        "link = 'dsl'",
        "1:8: paths.wifi.link: there is no [links.dsl]; expected the name of a shared link",
    );
    check(
        "[links.wifi]\nrate = '1Mbit'",
        "-1:1: paths.wifi: \"wifi\" is the name of a link too; expected a name of its own",
    );
}

#[test]
fn connections() {
    check("[paths.lte]\nrate = '1Mbit'\n[[connections]]\npaths = ['wify']", "4:10: connections.0.paths.0: there is no [paths.wify] (did you mean \"wifi\"?); expected one of wifi, lte");
    check(
        "[paths.lte]\nrate = '1Mbit'\n[[connections]]\nprotocol = 'tcp'",
        "3:1: connections.0: plain TCP over which path; expected paths = [\"NAME\"]",
    );
    check("[paths.lte]\nrate = '1Mbit'\n[[connections]]\nprotocol = 'tcp'\npaths = ['wifi', 'lte']", "5:9: connections.0.paths: plain TCP takes one path; expected one name, or protocol = \"mptcp\"");
    check(
        "[[connections]]\nprotocol = 'udp'",
        "2:12: connections.0.protocol: \"udp\" is unknown; expected \"mptcp\" or \"tcp\"",
    );
    check(
        "[[connections]]\npaths = []",
        "2:9: connections.0.paths: is an empty list; expected at least one path",
    );
    check(
        "[[connections]]\npaths = ['wifi', 'wifi']",
        "2:18: connections.0.paths.1: names \"wifi\" twice; expected each path once",
    );
    check(
        "[[connections]]\ncount = 0",
        "2:9: connections.0.count: 0 is out of range; expected an integer from 1 to 100000",
    );
    check("[[connections]]\nbytes = 4000", "2:9: connections.0.bytes: 4000 has no unit; expected a size such as \"64kB\", \"4MB\" or \"1GiB\"");
    check(
        "[[connections]]\nbytes = '4MB'\nlasting = '5s'",
        "1:1: connections.0: has both bytes and lasting; expected either of them",
    );
    check("[[connections]]\narrivals = '8/s'", "1:1: connections.0: has arrivals of transfers that never end; expected bytes or lasting beside arrivals");
    check("[[connections]]\narrivals = 8\nbytes = '1MB'", "2:12: connections.0.arrivals: 8 has no unit; expected arrivals such as \"8/s\" or \"30/min\"");
    check("[[connections]]\ncommand = 'true'\ncount = 2", "1:1: connections.0: runs its command more than once; expected one [[connections]] for each, without count and arrivals");
    check("[[connections]]\nlasting = '0s'", "2:11: connections.0.lasting: is zero; expected a duration or a range, such as \"5s\" or \"1s..30s\"");
    check("[[connections]]\nprotocol = 'tcp'\nscheduler = 'ecf'", "3:13: connections.0.scheduler: plain TCP has none; expected this key on an MPTCP connection");
    check(
        "[[connections]]\nname = 'a'\n[[connections]]\nname = 'a'",
        "3:1: connections.1: the name \"a\" is taken; expected a name of its own",
    );
    assert_eq!(
        message("connections = []\n[paths.a]\nrate = '1Mbit'"),
        "bad.toml:1:15: connections: there are no connections; expected at least one [[connections]]"
    );
}

#[test]
fn a_connection_takes_no_more_paths_than_the_kernel() {
    let paths: String = (0..9)
        .map(|i| format!("[paths.p{i}]\nrate = '1Mbit'\n"))
        .collect();
    assert_eq!(
        message(&paths),
        "bad.toml:1:1: more than 8 paths and no connections; expected [[connections]] that name at most 8 paths each (the kernel's limit)"
    );
    assert_eq!(
        message(&format!("{paths}[[connections]]\nname = 'all'")),
        "bad.toml:19:1: connections.0: has more than 8 paths, all of the file's; expected paths = [\"NAME\", ...], at most 8 (the kernel's limit)"
    );
    let named = (0..9)
        .map(|i| format!("'p{i}'"))
        .collect::<Vec<_>>()
        .join(", ");
    assert_eq!(
        message(&format!("{paths}[[connections]]\npaths = [{named}]")),
        "bad.toml:20:9: connections.0.paths: has more than 8 paths; expected at most 8 (the kernel's limit)"
    );
}

#[test]
fn a_key_of_another_name_before_names_the_new_one() {
    let event = "[[events]]\nat = '1s'\npath = 'wifi'\ndown = true";
    for (text, name, new) in [
        ("up = { rate = '1Mbit' }", "paths.wifi.up", "uplink"),
        ("down.delay = '5ms'", "paths.wifi.down", "downlink"),
        (event, "events.0.down", "outage"),
    ] {
        let line = message(&format!("[paths.wifi]\nrate = '50Mbit'\n{text}"));
        let expected = format!("{name}: unknown key (it is called \"{new}\" now); expected one of");
        assert!(line.contains(&expected), "{line}");
    }
}

#[test]
fn events_and_variants() {
    check(
        "[[events]]\npath = 'wifi'\noutage = true",
        "1:1: events.0.at: missing; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"",
    );
    check(
        "[[events]]\nat = '1s'\noutage = true",
        "1:1: events.0.path: missing; expected the name of a path or link",
    );
    check("[[events]]\nat = '1s'\npath = 'wfi'\noutage = true", "3:8: events.0.path: there is no path or link \"wfi\" (did you mean \"wifi\"?); expected a path or link of this scenario");
    check(
        "[[events]]\nat = '1s'\npath = 'wifi'",
        "1:1: events.0: changes nothing; expected outage, rate, delay, loss, backup, signal or readings",
    );
    check("[links.dsl]\nrate = '1Mbit'\n[[events]]\nat = '1s'\npath = 'dsl'\nbackup = true", "6:10: events.0.backup: \"dsl\" is a link; expected a path: subflows have priorities, links have none");
    check("[paths.a]\nrate = '1Mbit'\n[[events]]\nat = '1s'\npath = 'a'\nsignal = '-80'", "6:10: events.0.signal: \"-80\" is none; expected a received power from \"-150dBm\" to \"0dBm\"");
    check("[links.dsl]\nrate = '1Mbit'\n[[events]]\nat = '1s'\npath = 'dsl'\nsignal = '-80dBm'", "6:10: events.0.signal: \"dsl\" is a link; expected a path: a radio receives on an interface");
    check("[paths.a]\nrate = '1Mbit'\n[[events]]\nat = '1s'\npath = 'a'\nreadings = { snr = 1 }", "6:20: events.0.readings.snr: there is no reading \"snr\" (did you mean \"snr_db\"?); expected one of rtt_ms, loss, dns_ms, udp_delta_ms, signal_dbm, link_speed_mbps, signal_level, rsrq_db, cqi, snr_db");
    check(
        "[[variants]]\ncontroller = []",
        "2:14: variants.0.controller: is an empty list; expected at least one value",
    );
    check(
        "[[variants]]\ncontroller = 5",
        "2:14: variants.0.controller: is an integer; expected a string",
    );
    check("[[variants]]\ncontroler = 'lia'", "2:1: variants.0.controler: unknown key (did you mean \"controller\"?); expected one of name, controller, path_manager, initial_path, scheduler, carrier, parameters, path_manager_parameters, agent");
    check("[[variants]]\ncontroller = ['lia', 'lia']", "1:1: variants.0: there is another variant \"lia\"; expected each combination once, or a name of its own");
    check("[[variants]]\ncontroller = 'lea'", "2:14: variants.0.controller: \"lea\" is unknown (did you mean \"lia\"?); expected one of linux-reno, cubic, bbr, pilot, reno, lia, olia, balia, wvegas, rsf-db, rsf-lb, ld-mpsp, dalia, mpcc, mpcc-loss, mpcc-code, pcc, ddpg-mpcc");
    check(
        "[[variants]]\ncontroller = 'lia'\nagent = false",
        "1:1: variants.0: agent = false: lia asks none; expected controller = \"ddpg-mpcc\"",
    );
    check("[[variants]]\npath_manager = 'bandit'", "2:16: variants.0.path_manager: \"bandit\" is no path manager: it chooses the initial path; expected initial_path = \"lin-ucb\" (--initial-paths)");
    check("[[connections]]\nprimary = 'lin-ucb'", "2:1: connections.0.primary: unknown key (it is called \"initial_path\" now); expected one of name, protocol, paths, client, count, direction, command, bytes, start, lasting, arrivals, controller, path_manager, initial_path, scheduler");
    check("[[connections]]\npath_manager = 'bandit-lin-ucb'", "2:16: connections.0.path_manager: \"bandit-lin-ucb\" is no path manager: it chooses the initial path; expected initial_path = \"lin-ucb\" (--initial-paths)");
}

#[test]
fn parameters_of_controllers() {
    let of = |controller: &str, parameter: &str, line: &str| {
        check(
            &format!("[[variants]]\ncontroller = '{controller}'\nparameters.{parameter}"),
            line,
        );
    };
    of("rsf-db", "target_us = '50MB'", "3:24: variants.0.parameters.target_us: \"50MB\" is no duration; expected a duration from \"100us\" to \"60s\"");
    of("rsf-db", "target_us = ['50ms', 0]", "3:33: variants.0.parameters.target_us.1: 0 is out of range; expected a duration from \"100us\" to \"60s\"");
    of("rsf-db", "target = '50ms'", "3:21: variants.0.parameters.target: rsf-db has no parameter \"target\" (did you mean \"target_us\"?); expected target_us");
    of(
        "cubic",
        "d = 5",
        "3:16: variants.0.parameters.d: cubic has no parameter \"d\"; expected no parameters",
    );
    of("wvegas", "gamma = '1ms'", "3:20: variants.0.parameters.gamma: \"1ms\" is no whole number; expected a whole number from 0 to 1000 (packets)");
    of(
        "mpcc",
        "coupled = 2",
        "3:22: variants.0.parameters.coupled: 2 is out of range; expected 0 or 1",
    );
    of("mpcc", "step = '1ms'", "3:19: variants.0.parameters.step: \"1ms\" is no rate; expected a rate from \"8bit\" to \"10Gbit\"");
    of("mpcc", "utility_unit = -1", "3:27: variants.0.parameters.utility_unit: -1 is no rate; expected a rate from \"1bit\" to \"1Gbit\"");
}

#[test]
fn grids_and_cases() {
    check(
        "[grid]\n'paths.wifi.loss' = []",
        "2:21: grid.paths.wifi.loss: is an empty list; expected at least one value",
    );
    check(
        "[grid]\n'paths.wifi.loss' = [0, 2]",
        "2:25: paths.wifi.loss: 2 is impossible; expected a probability from 0 to 1 (0.05 is 5 %)",
    );
    check(
        "[grid]\n'paths..loss' = [0]",
        "2:18: grid.paths..loss.0: has an empty part; expected a dotted key such as paths.wifi.loss",
    );
    check(
        "[grid]\n'connections.1.bytes' = ['1MB']",
        "2:26: connections: is a table; expected a list",
    );
    check(
        "[[cases]]\npaths.wifi.loss = 0.1",
        "1:1: cases.0.name: missing; expected a name for the case",
    );
    check(
        "[[cases]]\nname = 'a'\n[[cases]]\nname = 'a'",
        "3:1: cases.1: there is another case \"a\"; expected a name of its own",
    );
    check(
        "[[cases]]\nname = 'a'\ngrid.seed = [1, 2]",
        "3:1: cases.0.grid: stands in a case; expected a setting of the scenario; [grid] and [[cases]] stand at the top of the file",
    );
    check(
        "[grid]\ncases.0.seed = [1, 2]",
        "2:16: grid.cases.0.seed: stands in a grid; expected a setting of the scenario; [grid] and [[cases]] stand at the top of the file",
    );
    check(
        "[[cases]]\nname = 'a'\nduration = 5",
        "3:12: duration: 5 has no unit; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"",
    );
}

#[test]
fn settings_of_the_command_line() {
    let text = "[paths.wifi]\nrate = '50Mbit'\n[[connections]]\n";
    let with = |overrides: Overrides| {
        parse(
            "bad.toml",
            text,
            Path::new(""),
            &|_| Ok(Vec::new()),
            &overrides,
        )
        .map(|_| ())
        .unwrap_err()
        .to_string()
    };
    let set = |s: &str| {
        with(Overrides {
            set: vec![s.into()],
            ..Overrides::default()
        })
    };
    assert_eq!(
        set("mss"),
        "--set mss: has no \"=\"; expected KEY=VALUE, e.g. paths.wifi.loss=0.02"
    );
    assert_eq!(set("paths.wifi.loss=2"), "--set paths.wifi.loss=2: paths.wifi.loss: 2 is impossible; expected a probability from 0 to 1 (0.05 is 5 %)");
    assert!(set("paths.wifi.los=0.2").starts_with(
        "--set paths.wifi.los=0.2: paths.wifi.los: unknown key (did you mean \"loss\"?)"
    ));
    assert_eq!(set("connections.5.count=2"), "--set connections.5.count=2: connections.5.count: \"5\" is none of the 1 entries there; expected a number from 0, or the name of an entry");
    assert_eq!(set("paths.wifi.rate.x=2"), "--set paths.wifi.rate.x=2: paths.wifi.rate.x: leads through a string, at \"x\"; expected a key that the scenario has");
    let duration = with(Overrides {
        duration: Some("5".into()),
        ..Overrides::default()
    });
    assert_eq!(duration, "--duration 5: duration: \"5\" has no unit; expected a duration such as \"250us\", \"5ms\" or \"1.5s\"");
}

/// What is said of a file with these overrides; `None` where it is accepted.
fn laid(text: &str, set: &[&str]) -> Option<String> {
    let overrides = Overrides {
        set: set.iter().map(|s| (*s).to_owned()).collect(),
        ..Overrides::default()
    };
    let none = |_: &Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    let read = parse("bad.toml", text, Path::new(""), &none, &overrides);
    read.err().map(|e| e.to_string())
}

const TWO: &str = "[paths.wifi]\nrate = '50Mbit'\n[paths.dsl]\nrate = '9Mbit'\n";

#[test]
fn a_misspelt_path_of_an_override_is_no_path_of_its_own() {
    const NEW: &str =
        "wifi, dsl, or a new one that the paths of a connection name (connections.0.paths)";
    let said = |set: &str, problem: &str| {
        let line = laid(TWO, &[set]).unwrap_or_else(|| panic!("accepted: {set}"));
        let (key, _) = set.split_once('=').unwrap();
        let (key, _) = key.rsplit_once('.').unwrap();
        assert_eq!(
            line,
            format!("--set {set}: {key}: there is no [{key}]{problem}; expected {NEW}")
        );
    };
    said("paths.wfi.rate=3Mbit", " (did you mean \"wifi\"?)");
    said("paths.wify.loss=0.2", " (did you mean \"wifi\"?)");
    said("paths.cellular.rate=3Mbit", "");
    // A connection over other paths does not make it right.
    let named = format!("{TWO}[[connections]]\npaths = ['wifi', 'dsl']\n");
    assert!(laid(&named, &["paths.wfi.rate=3Mbit"]).is_some());
    assert_eq!(
        message(&format!("{TWO}[grid]\npaths.dls.rate = ['1Mbit', '2Mbit']\n")),
        format!("bad.toml:6:19: paths.dls: there is no [paths.dls] (did you mean \"dsl\"?); expected {NEW}")
    );
    // Paths of a radio stand in no file.
    let radio =
        "[radio]\n[radio.aps]\na = { at = [8, 0, 5] }\n[radio.devices.phone]\nat = [0, 0, 5]\n";
    let line = laid(radio, &["paths.phon-0.rate=3Mbit"]).unwrap();
    assert!(line.contains("there is no [paths.phon-0] (did you mean \"phone-0\"?); expected phone-0, or a new one"), "{line}");
    assert_eq!(laid(radio, &["paths.phone-0.rate=3Mbit"]), None);
}

#[test]
fn a_misspelt_link_of_an_override_is_no_link_of_its_own() {
    const NEW: &str = "a new one that a path names (paths.NAME.link)";
    let shared = format!("{TWO}link = 'home'\n[links.home]\nrate = '5Mbit'\n");
    assert_eq!(
        laid(&shared, &["links.hmoe.rate=3Mbit"]),
        Some(format!("--set links.hmoe.rate=3Mbit: links.hmoe: there is no [links.hmoe] (did you mean \"home\"?); expected home, or {NEW}"))
    );
    assert_eq!(
        laid(TWO, &["links.home.rate=3Mbit"]),
        Some(format!(
            "--set links.home.rate=3Mbit: links.home: there is no [links.home]; expected {NEW}"
        ))
    );
    let used = ["links.home.rate=3Mbit", "paths.dsl.link=home"];
    assert_eq!(laid(TWO, &used), None);
}

#[test]
fn overrides_may_bring_in_paths_that_something_uses() {
    let both = [
        "paths.lte.rate=3Mbit",
        "connections.0.paths=['wifi', 'lte']",
    ];
    assert_eq!(laid(TWO, &both), None);
    // A whole network by overrides.
    let whole = [
        "paths.a.rate=3Mbit",
        "paths.b.rate=5Mbit",
        "paths.b.delay=9ms",
    ];
    assert_eq!(laid("duration = '4s'", &whole), None);
    assert_eq!(laid(TWO, &["paths={ a = { rate = '1Mbit' } }"]), None);
    // One that only a case has, and the grid changes.
    let case = "[[cases]]\nname = 'three'\npaths.lte = { rate = '3Mbit' }\n";
    let grid = "[grid]\npaths.lte.rate = ['1Mbit', '2Mbit']\n";
    assert_eq!(laid(&format!("{TWO}{case}{grid}"), &[]), None);
    assert_eq!(
        laid(TWO, &["paths.lte.delay=9ms", "connections.0.paths=['wifi', 'lte']"]),
        Some("--set paths.lte.delay=9ms: paths.lte.rate: missing; expected a rate such as \"50Mbit\", or a trace (for downlink too)".into())
    );
}

#[test]
fn files() {
    let missing = load(Path::new("/nonexistent/x.toml"), &Overrides::default())
        .unwrap_err()
        .to_string();
    assert_eq!(missing, "/nonexistent/x.toml: cannot read the scenario: No such file or directory (os error 2); expected a readable TOML file");
    let binary = std::env::current_exe().unwrap();
    let refused = load(&binary, &Overrides::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        format!(
            "{}: is no text (UTF-8); expected a TOML file",
            binary.display()
        )
    );
}
