mod loss;
mod memory;
mod paths;
mod probes;
mod receiver;
mod small_share;
mod world;

use proptest::prelude::*;

use super::*;
use world::*;

#[derive(Debug, Clone)]
enum Step {
    Run {
        ms: u64,
    },
    Model {
        path: usize,
        rate: u64,
        loss: f64,
        rtt_us: u32,
    },
    Up {
        path: usize,
        up: bool,
    },
    Signal {
        path: usize,
        dbm: i32,
    },
    Rule {
        path: usize,
        rule: Rule,
    },
    Refuse(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    let rule = prop_oneof![
        Just(Rule::None),
        Just(Rule::Preferred),
        Just(Rule::Metered),
        Just(Rule::Untrusted)
    ];
    prop_oneof![
        3 => (1u64..5_000).prop_map(|ms| Step::Run { ms }),
        2 => (0usize..4, 0u64..5_000, 0.0f64..1.0, 0u32..2_000_000)
            .prop_map(|(path, rate, loss, rtt_us)| Step::Model { path, rate, loss: loss * loss, rtt_us }),
        2 => (0usize..4, any::<bool>()).prop_map(|(path, up)| Step::Up { path, up }),
        1 => (0usize..4, -100i32..-30).prop_map(|(path, dbm)| Step::Signal { path, dbm }),
        1 => (0usize..4, rule).prop_map(|(path, rule)| Step::Rule { path, rule }),
        1 => any::<bool>().prop_map(Step::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens: while any subflow lives on a path that is up, one of them is normal; a metered one is normal
    /// only where it alone is; an untrusted path is never opened, nor one that is down; and nothing is set twice.
    #[test]
    fn invariants(paths in 1usize..5, signal in any::<bool>(), steps in prop::collection::vec(any_step(), 0..40)) {
        let both = Config { signal: Config::signal_aware().signal, ..Config::loss_aware() };
        let config = if signal { both } else { Config::loss_aware() };
        let mut w = World::started(config, &vec![CLEAN; paths]);
        for step in steps {
            let opened = w.opened.len();
            match step {
                Step::Run { ms } => w.run(ms as f64 / 1e3),
                Step::Model { path, rate, loss, rtt_us } => w.models[path % paths] = Model { rate, loss, rtt_us },
                Step::Up { path, up } => {
                    let path = path % paths;
                    if w.paths[path].up != up {
                        w.paths[path].up = up;
                        w.on(if up { Event::PathUp(path) } else { Event::PathDown(path) });
                    }
                }
                Step::Signal { path, dbm } => w.paths[path % paths].signal_dbm = Some(dbm),
                Step::Rule { path, rule } => w.paths[path % paths].rule = rule,
                Step::Refuse(refuse) => w.refuse = refuse,
            }
            for &(_, path, _) in &w.opened[opened..] {
                prop_assert!(w.paths[path].up && w.paths[path].rule != Rule::Untrusted);
            }
            let live = |s: &&Subflow| s.state == State::Established && w.paths[s.path].up;
            let normal = w.normal();
            prop_assert!(!normal.is_empty() || w.subflows.iter().filter(live).count() == 0, "{:?}", w.subflows);
            for path in 0..paths {
                let n = w.subflows.iter().filter(live).filter(|s| s.path == path).count();
                prop_assert!(n <= 1, "{n} subflows on path {path}");
            }
        }
        w.run(0.2); // rules take hold at the next judgement
        let normal = w.normal();
        let metered = normal.iter().filter(|&&p| w.paths[p].rule == Rule::Metered).count();
        prop_assert!(metered == 0 || normal.len() == 1, "{normal:?}");
    }
}
