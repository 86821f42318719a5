//! What holds for every policy.

use proptest::prelude::*;

use super::*;

/// Two features; arm 0 pays where the first is positive, arm 1 where it is negative, both noisily.
struct World(Draw);

impl World {
    /// Context, chances of the arms, and what each would have paid.
    fn round(&mut self) -> (Vec<f64>, [f64; 2], [bool; 2]) {
        let x = vec![self.0.normal(), self.0.normal()];
        let p = logistic::sigmoid(3.0 * x[0]);
        let chances = [p, 1.0 - p];
        let pays = chances.map(|p| self.0.unit() < p);
        (x, chances, pays)
    }
}

fn bandit(policy: Policy, seed: u64) -> Bandit {
    Bandit::new(Settings::new(policy), ["wifi", "lte"], ["a", "b"], seed).unwrap()
}

fn each(mut check: impl FnMut(&str, Bandit)) {
    for (name, policy) in Policy::NAMED {
        check(name, bandit(*policy, 3));
    }
}

/// Regret of each of `rounds` rounds against the arm that pays most in expectation.
fn regrets(b: &mut Bandit, rounds: usize, spoil: impl Fn(usize, &mut Vec<f64>)) -> Vec<f64> {
    let mut world = World(Draw::new(11));
    let round = |t| {
        let (mut x, chances, pays) = world.round();
        spoil(t, &mut x);
        let arm = b.decide(&x).arm;
        b.update(&x, arm, pays[arm]);
        chances[0].max(chances[1]) - chances[arm]
    };
    (0..rounds).map(round).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The same policy with its exploring gone after some thousand rounds: what sublinear regret asks for.
fn fading(policy: Policy) -> Policy {
    const DECAY: f64 = 0.997;
    match policy {
        Policy::EpsilonGreedy { epsilon, until, .. } => Policy::EpsilonGreedy {
            epsilon,
            decay: DECAY,
            until,
        },
        Policy::ActiveExplorer { exploit, by, .. } => Policy::ActiveExplorer {
            exploit,
            decay: DECAY,
            by,
        },
        Policy::AdaptiveGreedy { otherwise, .. } => Policy::AdaptiveGreedy {
            threshold: Threshold::Fixed {
                start: 0.75,
                decay: DECAY,
            },
            otherwise,
        },
        other => other,
    }
}

#[test]
fn regret_grows_slower_than_time() {
    // Choosing blindly costs 0.34 a round, for ever; these end at what a model of noisy data leaves.
    for (name, policy) in Policy::NAMED {
        let regrets = regrets(&mut bandit(fading(*policy), 3), 6000, |_, _| {});
        let (early, late) = (mean(&regrets[..200]), mean(&regrets[5000..]));
        assert!(late < 0.4 * early, "{name}: {early:.3}, then {late:.3}");
        assert!(late < 0.02, "{name}: {late:.3}");
    }
}

#[test]
fn exploring_costs_a_bounded_share() {
    each(|name, mut b| {
        let late = mean(&regrets(&mut b, 4000, |_, _| {})[3000..]);
        assert!(late < 0.1, "{name}: {late:.3}");
    });
}

#[test]
fn batches_alone_and_steps_alone_learn_too() {
    for (refit_every, incremental) in [(50, false), (0, true)] {
        for (name, policy) in Policy::NAMED {
            let settings = Settings {
                refit_every,
                incremental,
                ..Settings::new(*policy)
            };
            let mut b = Bandit::new(settings, ["wifi", "lte"], ["a", "b"], 3).unwrap();
            let late = mean(&regrets(&mut b, 1500, |_, _| {})[1000..]);
            assert!(late < 0.15, "{name}: {late:.3}");
        }
    }
}

#[test]
fn missing_features_are_lived_with() {
    each(|name, mut b| {
        let regrets = regrets(&mut b, 3000, |t, x| {
            x[1] = f64::NAN; // a modem that never reports it
            if t % 4 == 0 {
                x[0] = f64::NAN;
            }
        });
        // A quarter of the rounds is blind: 0.25 × 0.34 is lost for good.
        let late = mean(&regrets[2000..]);
        assert!(late < 0.085 + 0.1, "{name}: {late:.3}");
    });
}

#[test]
fn a_context_is_cut_or_filled_to_its_features() {
    each(|_, mut b| {
        regrets(&mut b, 300, |_, _| {});
        assert_eq!(b.predict(&[0.5]), b.predict(&[0.5, f64::NAN]));
        assert_eq!(b.predict(&[0.5, 1.0, 7.0]), b.predict(&[0.5, 1.0]));
        b.update(&[], 0, true);
        b.update(&[1.0, 2.0, 3.0], 1, false);
        b.update(&[1.0, 2.0], 2, false); // no such arm
        b.decide(&[]);
    });
}

#[test]
fn equal_rewards_leave_every_arm_possible_and_every_number_finite() {
    for reward in [true, false] {
        each(|name, mut b| {
            let mut draw = Draw::new(2);
            for _ in 0..300 {
                let x = [draw.normal(), draw.normal()];
                let arm = b.decide(&x).arm;
                b.update(&x, arm, reward);
                let p = b.predict(&x);
                assert!(p.iter().all(|p| (0.0..=1.0).contains(p)), "{name}: {p:?}");
            }
            let (a, c) = (b.counts(0), b.counts(1));
            assert_eq!(a.0 + a.1 + c.0 + c.1, 300);
        });
    }
}

#[test]
fn an_arm_that_is_down_is_not_chosen() {
    each(|name, mut b| {
        let mut world = World(Draw::new(4));
        for _ in 0..500 {
            let (x, _, pays) = world.round();
            let d = b.decide_among(&x, &[true, false]);
            assert_eq!((d.arm, d.probability), (0, 1.0), "{name}");
            assert_eq!(b.best(&x, &[false, true]), 1);
            b.update(&x, 0, pays[0]);
        }
        assert!(b.decide_among(&[0.0, 0.0], &[false, false]).arm < 2);
    });
}

#[test]
fn an_arm_that_never_pays_is_left() {
    each(|name, mut b| {
        let mut draw = Draw::new(6);
        let mut late = 0;
        for t in 0..2000 {
            let x = [draw.normal(), draw.normal()];
            let arm = b.decide(&x).arm;
            b.update(&x, arm, arm == 1 && draw.unit() < 0.6);
            late += u32::from(t >= 1500 && arm == 0);
        }
        assert!(late < 100, "{name}: {late} of 500");
    });
}

#[test]
fn hostile_contexts_do_no_lasting_harm() {
    let hostile = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        1e8,
        -1e8,
        f64::MIN_POSITIVE,
    ];
    each(|name, mut b| {
        let regrets = regrets(&mut b, 3000, |t, x| {
            if t < 500 && t % 5 == 0 {
                x[0] = hostile[t / 5 % hostile.len()];
                x[1] = hostile[t / 40 % hostile.len()];
            }
        });
        let late = mean(&regrets[2000..]);
        assert!(late < 0.12, "{name}: {late:.3}");
    });
}

#[test]
fn a_log_replays_to_the_same_decisions() {
    each(|name, fresh| {
        let mut world = World(Draw::new(8));
        let log: Vec<_> = (0..400).map(|_| world.round()).collect();
        let play = |mut b: Bandit, log: &[(Vec<f64>, [f64; 2], [bool; 2])]| {
            let decide = |(x, _, pays): &(Vec<f64>, _, [bool; 2])| {
                let d = b.decide(x);
                b.update(x, d.arm, pays[d.arm]);
                d
            };
            let decisions: Vec<Decision> = log.iter().map(decide).collect();
            (decisions, b)
        };
        let (whole, _) = play(fresh.clone(), &log);
        let (first, half) = play(fresh, &log[..200]);
        let copy = file::decode(name, &file::encode(&half)).unwrap();
        let (second, _) = play(copy, &log[200..]);
        assert_eq!(whole, [first, second].concat(), "{name}");
    });
}

#[test]
fn probabilities_are_the_frequencies_of_decisions() {
    each(|name, mut b| {
        regrets(&mut b, 120, |_, _| {});
        let x = [0.1, 0.0];
        let said = b.probabilities(&x, &[]);
        const N: u32 = 4000;
        let chose = (0..N).filter(|_| b.clone_reseeded().decide(&x).arm == 0);
        let mut seen = 0;
        chose.for_each(|_| seen += 1);
        let seen = f64::from(seen) / f64::from(N);
        assert!((said[0] - seen).abs() < 0.06, "{name}: {said:?}, {seen}");
    });
}

impl Bandit {
    /// The same knowledge with other dice each time.
    fn clone_reseeded(&mut self) -> Bandit {
        let seed = self.draw.bits();
        let mut other = self.clone();
        other.draw = Draw::new(seed);
        other
    }
}

#[test]
fn a_child_begins_where_its_parent_is() {
    each(|name, mut parent| {
        regrets(&mut parent, 1500, |_, _| {});
        let mut child = parent.child(1);
        let x = [1.5, 0.0];
        assert_eq!(child.predict(&x), parent.predict(&x), "{name}");
        assert_eq!(child.counts(0), (0, 0));
        child.refit();
        assert_eq!(child.predict(&x), parent.predict(&x), "{name}: refitted");
        let first = mean(&regrets(&mut child, 300, |_, _| {}));
        assert!(first < 0.2, "{name}: {first:.3}");
    });
}

#[test]
fn a_file_with_a_strange_name_is_refused_in_one_line() {
    let text = String::from_utf8(file::encode(&bandit(Policy::NAMED[0].1, 1))).unwrap();
    let spoilt = text.replace("\"name\":\"", "\"name\":\"a\\nb\\r");
    assert_ne!(spoilt, text);
    let error = file::decode("learnt.json", spoilt.as_bytes()).unwrap_err();
    let line = error.to_string();
    assert!(
        line.starts_with("learnt.json: ") && line.contains("a b "),
        "{line}"
    );
}

#[test]
fn impossible_settings_are_refused_in_one_line() {
    let with = |policy| Bandit::new(Settings::new(policy), ["a"], ["x"], 0).unwrap_err();
    let policy = Policy::EpsilonGreedy {
        epsilon: 1.5,
        decay: 1.0,
        until: None,
    };
    assert_eq!(
        with(policy).to_string(),
        "epsilon is 1.5; expected a number from 0 to 1"
    );
    let none: [&str; 0] = [];
    assert_eq!(
        Bandit::new(Settings::default(), none, ["x"], 0),
        Err(Invalid::NoArms)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is fed to it, a bandit answers with an arm there is, and a copy from its file is the same bandit.
    #[test]
    fn nothing_breaks_a_bandit(
        policy in 0..Policy::NAMED.len(),
        seed: u64,
        rounds in prop::collection::vec((prop::collection::vec(any::<f64>(), 0..5), 0..4usize, any::<bool>()), 0..80),
    ) {
        let policy = Policy::NAMED[policy].1;
        let mut b = Bandit::new(Settings::new(policy), ["a", "b", "c"], ["x", "y", "z"], seed).unwrap();
        for (context, arm, reward) in &rounds {
            let d = b.decide_among(context, &[true, *reward, arm % 2 == 0]);
            prop_assert!(d.arm < 3 && (0.0..=1.0).contains(&d.probability));
            prop_assert!(d.scores.iter().all(|s| s.is_finite()));
            let p = b.probabilities(context, &[]);
            prop_assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            b.update(context, *arm, *reward);
        }
        let mut copy = file::decode("copy", &file::encode(&b)).unwrap();
        prop_assert_eq!(file::encode(&copy), file::encode(&b));
        prop_assert_eq!(copy.decide(&[1.0]), b.decide(&[1.0]));
    }
}
