use super::federation::{merge, merge_printed, merge_trimmed};
use super::*;

/// Links whose delays are drawn around these means, µs.
struct Links {
    delays: Vec<f64>,
    draw: Xoshiro256PlusPlus,
}

const REFERENCE: f64 = 100_000.0;

impl Links {
    fn new(millis: &[f64], seed: u64) -> Links {
        Links {
            delays: millis.iter().map(|m| m * 1e3).collect(),
            draw: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Uniform within ±half of the mean.
    fn rewards(&mut self, set: SuperArm) -> Vec<(usize, f64)> {
        links(set)
            .map(|link| {
                let unit = (self.draw.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                let delay = self.delays[link] * (0.5 + unit);
                (link, reward(delay, REFERENCE))
            })
            .collect()
    }

    /// Regret of a round in expected reward.
    fn regret(&self, set: SuperArm) -> f64 {
        let mean = |link: usize| reward(self.delays[link], REFERENCE);
        let mut all: Vec<f64> = (0..self.delays.len()).map(mean).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        let n = set.count_ones() as usize;
        all[..n].iter().sum::<f64>() - links(set).map(mean).sum::<f64>()
    }
}

const SEVEN: [f64; 7] = [12.0, 60.0, 18.0, 45.0, 15.0, 55.0, 50.0];
const ALL: SuperArm = (1 << 7) - 1;

/// Regret after each of some numbers of rounds.
fn regrets(policy: &mut MsUcb, world: &mut Links, at: &[usize]) -> Vec<f64> {
    let (mut sum, mut seen) = (0.0, Vec::new());
    for t in 1..=*at.last().unwrap() {
        let set = policy.choose(ALL);
        sum += world.regret(set);
        let rewards = world.rewards(set);
        policy.update(&rewards);
        if at.contains(&t) {
            seen.push(sum);
        }
    }
    seen
}

#[test]
fn the_index_is_that_of_llr() {
    let mut policy = MsUcb::new(3, 2, Past::All, 1);
    assert_eq!(policy.index(0), f64::INFINITY);
    policy.update(&[(0, 0.5), (1, 1.0)]);
    policy.update(&[(0, 0.7), (2, 0.2)]);
    // By hand: t = 2, n = 2, u_0 = 2, v_0 = 0.6: 0.6 + √(3 ln 3 / 2) = 0.6 + 1.283713…
    assert!((policy.index(0) - 1.883_712_8).abs() < 1e-6);
    // u_2 = 1, v_2 = 0.2: 0.2 + √(3 ln 3) = 0.2 + 1.815444…
    assert!((policy.index(2) - 2.015_444_0).abs() < 1e-6);
    // Indices 1.88, 2.82 and 2.02: the best two.
    assert_eq!(policy.choose(0b111), 0b110);
}

#[test]
fn every_link_is_seen_first_and_only_links_that_are_there() {
    let mut policy = MsUcb::new(7, 3, Past::All, 5);
    let mut seen = 0;
    for _ in 0..3 {
        let set = policy.choose(ALL);
        assert_eq!(set.count_ones(), 3);
        assert!(set & !seen != 0, "one that was not seen is among them");
        seen |= set;
        let rewards: Vec<_> = links(set).map(|l| (l, 0.5)).collect();
        policy.update(&rewards);
    }
    assert_eq!(seen, ALL);
    assert_eq!(
        policy.choose(0b0100010),
        0b0100010,
        "fewer than three are there"
    );
    assert_eq!(policy.choose(0), 0);
    assert_eq!(MsUcb::new(0, 3, Past::All, 5).choose(ALL), 0);
}

#[test]
fn regret_grows_like_the_logarithm() {
    let at = [1_000, 10_000, 100_000];
    let mean: Vec<f64> = (0..3)
        .map(|seed| {
            let mut policy = MsUcb::new(7, 3, Past::All, seed);
            regrets(&mut policy, &mut Links::new(&SEVEN, seed ^ 77), &at)
        })
        .reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect())
        .unwrap();
    // Logarithmic: each factor of ten in time adds about as much again; linear growth would add ten times as much.
    let (first, second) = (mean[1] - mean[0], mean[2] - mean[1]);
    assert!(second < 2.0 * first, "{mean:?}");
    assert!(mean[2] / 100_000.0 < 0.2 * mean[0] / 1_000.0, "{mean:?}");
}

#[test]
fn a_changed_link_is_found_by_those_that_forget() {
    let after = |past: Past| {
        let mut policy = MsUcb::new(7, 3, past, 3);
        let mut world = Links::new(&SEVEN, 4);
        regrets(&mut policy, &mut world, &[20_000]);
        // The three best become the worst.
        world.delays = [90.0, 20.0, 90.0, 15.0, 90.0, 12.0, 50.0]
            .map(|m| m * 1e3)
            .to_vec();
        regrets(&mut policy, &mut world, &[2_000])[0]
    };
    let (all, window, discounted) = (
        after(Past::All),
        after(Past::Window(1_000)),
        after(Past::Discounted(0.999)),
    );
    assert!(window < 0.8 * all, "{window} against {all}");
    assert!(discounted < 0.8 * all, "{discounted} against {all}");
}

#[test]
fn a_window_forgets_what_is_older() {
    let mut policy = MsUcb::new(2, 1, Past::Window(2), 1);
    for r in [0.0, 0.4, 0.6] {
        policy.update(&[(0, r)]);
    }
    let arm = policy.arms()[0];
    assert!(
        (arm.mean - 0.5).abs() < 1e-12 && arm.count == 2.0,
        "{arm:?}"
    );
    policy.update(&[(1, 1.0)]);
    policy.update(&[(1, 1.0)]);
    assert_eq!(policy.arms()[0], Arm::default());
}

#[test]
fn the_printed_reward_prefers_bad_company() {
    assert_eq!(printed_reward(10.0, &[10.0, 10.0]), 0.0);
    assert!((printed_reward(10.0, &[10.0, 100.0]) - 0.9).abs() < 1e-12);
    assert!(reward(10.0, 200.0) > reward(100.0, 200.0));
    for (delay, reference) in [
        (f64::NAN, 1.0),
        (f64::INFINITY, 1.0),
        (1.0, 0.0),
        (1.0, f64::NAN),
    ] {
        assert_eq!(reward(delay, reference), 0.0);
    }
}

#[test]
fn federation_equals_central_statistics() {
    let mut world = Links::new(&SEVEN, 9);
    let mut central = MsUcb::new(7, 3, Past::All, 0);
    let mut users: Vec<MsUcb> = (0..10).map(|x| MsUcb::new(7, 3, Past::All, x)).collect();
    for _ in 0..200 {
        for user in &mut users {
            let set = user.choose(ALL);
            let rewards = world.rewards(set);
            user.update(&rewards);
            central.update(&rewards);
        }
    }
    let merged = merge(users.iter().map(|u| u.arms()));
    for (a, b) in merged.iter().zip(central.arms()) {
        assert_eq!(a.count, b.count);
        assert!((a.mean - b.mean).abs() < 1e-12);
    }
    // A newcomer who takes them over decides as the central learner would.
    let mut newcomer = MsUcb::new(7, 3, Past::All, 99);
    newcomer.take_over(&merged);
    assert_eq!(newcomer.choose(ALL), central.choose(ALL));
}

#[test]
fn ten_users_find_the_best_sooner_than_one() {
    let rounds = |users: usize| {
        let mut world = Links::new(&SEVEN, 21);
        let mut known: Vec<Arm> = Vec::new();
        let mut lost = 0.0;
        for _ in 0..200 {
            let mut all: Vec<Vec<Arm>> = vec![known.clone()];
            for x in 0..users {
                let mut user = MsUcb::new(7, 3, Past::All, x as u64);
                user.take_over(&known);
                let set = user.choose(ALL);
                lost += world.regret(set) / users as f64;
                let mut news = MsUcb::new(7, 3, Past::All, 0);
                news.update(&world.rewards(set));
                all.push(news.arms().to_vec());
            }
            known = merge(all.iter().map(Vec::as_slice));
        }
        lost
    };
    let (together, alone) = (rounds(10), rounds(1));
    assert!(together < 0.5 * alone, "{together} against {alone}");
}

#[test]
fn a_poisoned_user_moves_trimmed_means_little() {
    let honest = vec![
        Arm {
            count: 50.0,
            mean: 0.8,
        },
        Arm {
            count: 40.0,
            mean: 0.3,
        },
    ];
    let liar = vec![
        Arm {
            count: 1e9,
            mean: 0.0,
        },
        Arm {
            count: 1e9,
            mean: 1.0,
        },
    ];
    let absurd = vec![
        Arm {
            count: f64::NAN,
            mean: 0.0,
        },
        Arm {
            count: 5.0,
            mean: 7.0,
        },
    ];
    let mut users: Vec<&[Arm]> = vec![&honest; 9];
    users.push(&liar);
    users.push(&absurd);
    let plain = merge(users.iter().copied());
    assert!(plain[0].mean < 0.01, "the plain form believes the liar");
    let trimmed = merge_trimmed(&users, 0.1);
    assert!((trimmed[0].mean - 0.8).abs() < 1e-9 && (trimmed[1].mean - 0.3).abs() < 1e-9);
    assert!(trimmed[0].count <= 550.0);
    // With nobody lying and nothing trimmed both are the same.
    let honest = [honest.as_slice(); 4];
    assert_eq!(merge_trimmed(&honest, 0.0), merge(honest));
    assert_eq!(merge_trimmed(&[], 0.1), Vec::new());
}

#[test]
fn the_printed_federation_shrinks_what_all_agree_on() {
    let same = [Arm {
        count: 5.0,
        mean: 1.0,
    }];
    let users = vec![same.as_slice(); 10];
    assert!((merge_printed(&users)[0].mean - 0.2929).abs() < 1e-4);
    assert_eq!(merge(users)[0].mean, 1.0);
}

#[test]
fn the_same_seed_decides_the_same() {
    let run = || {
        let mut policy = MsUcb::new(7, 3, Past::All, 8);
        let mut world = Links::new(&SEVEN, 8);
        (0..500)
            .map(|_| {
                let set = policy.choose(ALL);
                policy.update(&world.rewards(set));
                set
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
