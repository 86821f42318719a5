//! MS-UCB: microseconds per decision and per outcome (aim: 5 µs for 7 links), the slope of its regret against ln t, and how
//! many rounds a device needs until its super-arms are within 5 % of the best, alone and federated.

use std::hint::black_box;
use std::time::Instant;

use mp_policy::super_arm::federation::merge;
use mp_policy::super_arm::{links, reward, Arm, MsUcb, Past, SuperArm};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{json, Value};

const CALLS: usize = 100_000;
const SIZE: usize = 3;
/// Mean delays of seven links, ms; drawn uniformly within half of that around it.
const DELAYS: [f64; 7] = [12.0, 60.0, 18.0, 45.0, 15.0, 55.0, 50.0];
const REFERENCE_MS: f64 = 100.0;

/// The fastest of some rounds: what else runs on the machine only adds.
fn micros(mut work: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| work());
        start.elapsed().as_secs_f64() * 1e6 / CALLS as f64
    };
    (0..5).map(round).fold(f64::MAX, f64::min)
}

struct World(Xoshiro256PlusPlus);

impl World {
    fn play(&mut self, bandit: &mut MsUcb) -> (SuperArm, Vec<(usize, f64)>) {
        let set = bandit.choose(u64::MAX);
        let rewards: Vec<(usize, f64)> = links(set)
            .map(|link| {
                let unit = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                (link, reward(DELAYS[link] * (0.5 + unit), REFERENCE_MS))
            })
            .collect();
        bandit.update(&rewards);
        (set, rewards)
    }
}

/// Expected reward of a super-arm.
fn worth(set: SuperArm) -> f64 {
    links(set).map(|l| reward(DELAYS[l], REFERENCE_MS)).sum()
}

const BEST: SuperArm = 0b001_0101;

fn decision() -> Vec<Value> {
    let one = |links: usize| {
        let mut bandit = MsUcb::new(links, SIZE, Past::Discounted(0.99), 1);
        let outcome: Vec<(usize, f64)> = (0..SIZE).map(|l| (l, 0.5)).collect();
        (0..links).for_each(|l| bandit.update(&[(l, 0.5)]));
        let choose = micros(|| {
            black_box(bandit.choose(black_box(u64::MAX)));
        });
        let learn = micros(|| bandit.update(black_box(&outcome)));
        json!({"links": links, "decision_us": choose, "update_us": learn})
    };
    [3, 7, 16, 64].map(one).to_vec()
}

/// Mean regret at powers of ten, and the least-squares slope of regret against ln t over them.
fn regret(seeds: u64) -> Value {
    let at: Vec<usize> = (2..=5).map(|e| 10usize.pow(e)).collect();
    let mut mean = vec![0.0; at.len()];
    for seed in 0..seeds {
        let mut bandit = MsUcb::new(DELAYS.len(), SIZE, Past::All, seed);
        let mut world = World(Xoshiro256PlusPlus::seed_from_u64(seed ^ 77));
        let mut sum = 0.0;
        for t in 1..=at[at.len() - 1] {
            sum += worth(BEST) - worth(world.play(&mut bandit).0);
            if let Some(i) = at.iter().position(|a| *a == t) {
                mean[i] += sum / seeds as f64;
            }
        }
    }
    let x: Vec<f64> = at.iter().map(|t| (*t as f64).ln()).collect();
    let (mx, my) = (
        x.iter().sum::<f64>() / x.len() as f64,
        mean.iter().sum::<f64>() / mean.len() as f64,
    );
    let up: f64 = x.iter().zip(&mean).map(|(x, y)| (x - mx) * (y - my)).sum();
    let down: f64 = x.iter().map(|x| (x - mx).powi(2)).sum();
    json!({"rounds": at, "regret": mean, "slope": up / down})
}

/// Rounds until the mean of a device's next 20 super-arms is within 5 % of the best, the median of the seeds.
fn rounds_to_best(seeds: u64, before: usize) -> usize {
    const SPAN: usize = 20;
    let mut all: Vec<usize> = (0..seeds)
        .map(|seed| {
            let told: Vec<Vec<Arm>> = (0..before as u64)
                .map(|device| {
                    let mut bandit = MsUcb::new(DELAYS.len(), SIZE, Past::All, seed ^ device << 20);
                    let mut world =
                        World(Xoshiro256PlusPlus::seed_from_u64(seed ^ device << 32 ^ 5));
                    (0..200).for_each(|_| drop(world.play(&mut bandit)));
                    bandit.arms().to_vec()
                })
                .collect();
            let mut bandit = MsUcb::new(DELAYS.len(), SIZE, Past::All, seed);
            bandit.take_over(&merge(told.iter().map(Vec::as_slice)));
            let mut world = World(Xoshiro256PlusPlus::seed_from_u64(seed ^ 77));
            let worths: Vec<f64> = (0..20_000)
                .map(|_| worth(world.play(&mut bandit).0))
                .collect();
            worths
                .windows(SPAN)
                .position(|w| w.iter().sum::<f64>() / SPAN as f64 >= 0.95 * worth(BEST))
                .unwrap_or(worths.len())
        })
        .collect();
    all.sort_unstable();
    all[all.len() / 2]
}

/// Seconds to merge what so many devices have seen.
fn population(devices: usize) -> f64 {
    let mut draw = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut told = Vec::new();
    for _ in 0..devices {
        let mut arm = || Arm {
            count: (draw.next_u64() % 1000 + 1) as f64,
            mean: (draw.next_u64() >> 11) as f64 / (1u64 << 53) as f64,
        };
        told.push(DELAYS.map(|_| arm()));
    }
    let start = Instant::now();
    black_box(merge(told.iter().map(|t| t.as_slice())));
    start.elapsed().as_secs_f64()
}

fn main() {
    let federated: Vec<Value> = [0, 1, 4, 16, 64]
        .map(|before| json!({"devices_before": before, "rounds": rounds_to_best(21, before)}))
        .to_vec();
    let found = json!({
        "decision": decision(),
        "regret": regret(5),
        "federated": federated,
        "merge_10000_ms": population(10_000) * 1e3,
    });
    println!("{found}");
}
