//! Any scenario prints to a text that parses back to the same scenario.

use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use mp_scenario::*;
use proptest::prelude::*;
use proptest::{collection, option, sample};

/// What every trace file of these scenarios holds.
const TRACE: &[u8] = b"0\n2\n5\n";

fn duration(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    // Nanoseconds now and then, else rounder values as people write them.
    prop_oneof![
        range.clone().prop_map(Duration::from_nanos),
        range.prop_map(|n| Duration::from_millis(n / 1_000_000))
    ]
}

fn delay() -> impl Strategy<Value = Duration> {
    duration(0..1_000_000_000_000)
}

fn probability() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..=1.0f64, Just(1e-9), Just(1.0)]
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (1e-9..=1.0f64).prop_map(Loss::Bernoulli),
        (probability(), probability(), probability(), probability())
            .prop_map(|(p, r, good, bad)| Loss::GilbertElliott { p, r, good, bad }),
    ]
}

fn rate() -> impl Strategy<Value = Rate> {
    let trace = |file: String| {
        let times = [0, 2, 5].map(Duration::from_millis).to_vec();
        let kind = TraceKind::Opportunities {
            times,
            period: Duration::from_millis(5),
        };
        Rate::Trace(Arc::new(Trace {
            file: PathBuf::from(format!("/traces/{file}")),
            kind,
        }))
    };
    prop_oneof![
        Just(Rate::Unlimited),
        (1..u64::MAX).prop_map(Rate::Constant),
        (1..1_000u64).prop_map(|m| Rate::Constant(m * 1_000_000)),
        "[a-z\"\\\\ é]{1,8}".prop_map(trace),
    ]
}

/// Bursts hold a packet of any mss.
fn policer() -> impl Strategy<Value = Policer> {
    let rate = prop_oneof![1..u64::MAX, (1..1_000u64).prop_map(|m| m * 1_000_000)];
    let burst = prop_oneof![65_080..u64::MAX, (66..1_000u64).prop_map(|k| k * 1_000)];
    (rate, burst).prop_map(|(rate, burst)| Policer { rate, burst })
}

fn queue() -> impl Strategy<Value = Queue> {
    let limit = prop_oneof![
        (1..u64::MAX).prop_map(QueueLimit::Packets),
        (1..u64::MAX).prop_map(QueueLimit::Bytes)
    ];
    let managed = prop_oneof![
        (delay(), duration(1_000_000..1_000_000_000))
            .prop_map(|(target, interval)| Discipline::CoDel { target, interval }),
        (0.1..100.0f64, 100.1..1e6f64, probability()).prop_map(|(min, max, probability)| {
            Discipline::Red {
                min,
                max,
                probability,
            }
        }),
    ];
    (limit, option::of((managed, any::<bool>()))).prop_map(|(limit, managed)| match managed {
        None => Queue {
            limit,
            discipline: Discipline::DropTail,
            ecn: false,
        },
        Some((discipline, ecn)) => Queue {
            limit,
            discipline,
            ecn,
        },
    })
}

fn jitter() -> impl Strategy<Value = Option<(Duration, Duration)>> {
    option::of((delay(), delay()).prop_map(|(a, b)| (a.min(b), a.max(b))))
}

fn direction() -> impl Strategy<Value = Direction> {
    let police = option::of(policer());
    (
        rate(),
        delay(),
        jitter(),
        any::<bool>(),
        loss(),
        police,
        queue(),
    )
        .prop_map(
            |(rate, delay, jitter, reorder, loss, policer, queue)| Direction {
                rate,
                delay,
                jitter,
                reorder,
                loss,
                policer,
                queue,
            },
        )
}

/// Often both directions alike, as most files have it.
fn path() -> impl Strategy<Value = Path> {
    (direction(), option::of(direction())).prop_map(|(down, up)| Path {
        link: None,
        rule: Rule::None,
        up: up.unwrap_or_else(|| down.clone()),
        down,
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    sample::select(RULES).prop_map(|(_, rule)| rule)
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é\n\t\"\\\\]{0,20}"
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9 ./'\"-]{0,10}[a-z0-9]"
}

fn connection(index: usize, paths: Vec<String>) -> impl Strategy<Value = Connection> {
    let tcp = any::<bool>();
    let span = (
        duration(1..1_000_000_000_000),
        duration(1_000_000..1_000_000_000_000),
    )
        .prop_map(|(a, b)| (a.min(b), a.max(b)));
    let size = prop_oneof![
        Just((None, None, None)),
        (1..u64::MAX, option::of(1e-6..1e5f64)).prop_map(|(b, a)| (Some(b), None, a)),
        (span, option::of(1e-6..1e5f64)).prop_map(|(l, a)| (None, Some(l), a)),
    ];
    let count = paths.len();
    let own = (
        option::of(controller()),
        option::of(path_manager()),
        option::of(initial_path()),
        option::of(scheduler()),
    );
    let used = sample::subsequence(paths, 1..=count).prop_shuffle();
    (
        tcp,
        used,
        name(),
        1..=100_000u32,
        any::<bool>(),
        size,
        delay(),
        own,
    )
        .prop_map(
            move |(
                tcp,
                mut paths,
                client,
                count,
                upload,
                (bytes, lasting, arrivals),
                start,
                own,
            )| {
                paths.truncate(if tcp { 1 } else { 8 });
                Connection {
                    name: format!("c{index}"),
                    protocol: if tcp { Protocol::Tcp } else { Protocol::Mptcp },
                    paths,
                    client,
                    command: (count == 1 && arrivals.is_none())
                        .then(|| "wget -qO- \"$MULTIPILOT_URL\" \\ > 'x'\n".into()),
                    count,
                    direction: if upload {
                        TransferDirection::Upload
                    } else {
                        TransferDirection::Download
                    },
                    bytes,
                    start,
                    lasting,
                    arrivals,
                    controller: own.0.map(|entry| entry.name.into()),
                    path_manager: own.1.filter(|_| !tcp),
                    initial_path: own.2.filter(|_| !tcp),
                    scheduler: own.3.filter(|_| !tcp),
                }
            },
        )
}

fn event(paths: Vec<String>) -> impl Strategy<Value = Event> {
    let change = prop_oneof![
        Just(Change::Down),
        Just(Change::Up),
        (1..u64::MAX).prop_map(Change::Rate),
        delay().prop_map(Change::Delay),
        loss().prop_map(Change::Loss),
        any::<bool>().prop_map(Change::Backup),
        (-150..=0).prop_map(Change::Signal),
        (-90.0..0.0f64).prop_map(|v| Change::Readings(vec![("signal_dbm".into(), v)])),
    ];
    (delay(), sample::select(paths), change).prop_map(|(at, path, change)| Event {
        at,
        path,
        change,
    })
}

fn controller() -> impl Strategy<Value = &'static mp_controllers::Entry> {
    sample::select(mp_controllers::entries().collect::<Vec<_>>())
}

fn path_manager() -> impl Strategy<Value = String> {
    let all = mp_policy::path_manager::all().iter();
    sample::select(all.map(|e| e.name.to_owned()).collect::<Vec<_>>())
}

fn initial_path() -> impl Strategy<Value = String> {
    let all = mp_policy::initial_path::all().iter();
    sample::select(all.map(|e| e.name.to_owned()).collect::<Vec<_>>())
}

fn scheduler() -> impl Strategy<Value = String> {
    let all = mp_policy::scheduler::all().iter();
    sample::select(all.map(|e| e.name.to_owned()).collect::<Vec<_>>())
}

fn variant(index: usize) -> impl Strategy<Value = Variant> {
    let settings = controller().prop_flat_map(|controller| {
        let values = controller.parameters.iter();
        let values = values
            .map(|p| option::of(p.least..=p.most))
            .collect::<Vec<_>>();
        (Just(controller), values)
    });
    let choices = (
        path_manager(),
        initial_path(),
        scheduler(),
        sample::select(vec!["tcp", "mptcp"]),
        any::<bool>(),
    );
    (settings, choices).prop_map(
        move |((controller, values), (path_manager, initial_path, scheduler, carrier, agent))| {
            Variant {
                path_manager_parameters: Default::default(),
                name: format!("v{index} {}", controller.name),
                controller: controller.name.into(),
                parameters: (controller.parameters.iter().zip(values))
                    .filter_map(|(p, value)| Some((p.name.to_owned(), value?)))
                    .collect(),
                path_manager,
                initial_path,
                scheduler,
                carrier: carrier.into(),
                // Only this one asks an agent.
                agent: agent || controller.name != "ddpg-mpcc",
            }
        },
    )
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let names = sample::subsequence(vec!["wifi", "lte", "dsl-2", "a_b"], 1..=4).prop_shuffle();
    let network = (names, option::of(path())).prop_flat_map(|(names, link)| {
        let count = names.len();
        (
            Just(names),
            Just(link),
            collection::vec((path(), any::<bool>(), rule()), count),
        )
    });
    let network = network.prop_map(|(names, link, paths)| {
        let links: IndexMap<String, Path> =
            link.into_iter().map(|l| ("trunk".to_owned(), l)).collect();
        let joins = |(path, through, rule): (Path, bool, Rule)| Path {
            link: (through && !links.is_empty()).then(|| "trunk".into()),
            rule,
            ..path
        };
        let paths: IndexMap<String, Path> = names
            .iter()
            .map(|n| n.to_string())
            .zip(paths.into_iter().map(joins))
            .collect();
        (links, paths)
    });
    let head = (
        text(),
        text(),
        duration(1_000_000..80_000_000_000_000),
        0..=i64::MAX as u64,
        duration(1_000_000..9_000_000_000),
    );
    let sizes = (
        1..=64u32,
        88..=65_000u32,
        4096..=2u64 << 30,
        4096..=2u64 << 30,
        any::<bool>(),
    );
    (network, head, sizes).prop_flat_map(|((links, paths), head, sizes)| {
        let names: Vec<String> = paths.keys().cloned().collect();
        let connections = (1..4usize).prop_flat_map({
            let names = names.clone();
            move |n| {
                (0..n)
                    .map(|i| connection(i, names.clone()))
                    .collect::<Vec<_>>()
            }
        });
        let variants = (1..4usize).prop_flat_map(|n| (0..n).map(variant).collect::<Vec<_>>());
        let events = collection::vec(event(names), 0..4);
        (
            Just((links, paths, head, sizes)),
            connections,
            events,
            variants,
        )
            .prop_map(
                |((links, paths, head, sizes), connections, mut events, variants)| {
                    events.sort_by_key(|e| e.at);
                    Scenario {
                        name: "any".into(),
                        title: head.0,
                        description: head.1,
                        duration: head.2,
                        seed: head.3,
                        sample_interval: head.4,
                        segment_train: sizes.0,
                        mss: sizes.1,
                        buffers: Buffers {
                            send: sizes.2,
                            receive: sizes.3,
                            autotune: sizes.4,
                        },
                        links,
                        paths,
                        connections,
                        events,
                        variants,
                        radio: None,
                    }
                },
            )
    })
}

proptest! {
    #[test]
    fn print_then_parse_is_the_identity(scenario in scenario()) {
        let text = print(&scenario);
        let read = |_: &FsPath| Ok(TRACE.to_vec());
        let again = parse("x.toml", &text, FsPath::new(""), &read, &Overrides::default());
        let again = again.map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&again.cells[0].scenario, &scenario, "{}", text);
        // Order matters too, which equality of maps does not see: the first path is the initial one.
        prop_assert!(again.cells[0].scenario.paths.keys().eq(scenario.paths.keys()));
    }
}
