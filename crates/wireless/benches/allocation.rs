//! Time of the greedy allocation against |I|, |R| and |B|, and what it loses against the optimum in small cases.

use std::hint::black_box;
use std::time::Instant;

use mp_wireless::allocation::{exhaustive, greedy, Problem};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn random(rng: &mut Xoshiro256PlusPlus, chains: usize, beams: usize, devices: usize) -> Problem {
    let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    Problem {
        chains,
        beams,
        devices,
        // SNRs from −10 to 30 dB.
        power: (0..chains * beams * devices)
            .map(|_| 10f64.powf(uniform() * 4.0 - 1.0))
            .collect(),
        noise: 1.0,
        streams: chains,
    }
}

fn main() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut ratios: Vec<f64> = (0..1000)
        .map(|_| {
            let problem = random(&mut rng, 3, 4, 3);
            problem.throughput(&greedy(&problem)) / problem.throughput(&exhaustive(&problem))
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let times: Vec<String> = [
        (5, 4, 27),
        (10, 4, 27),
        (20, 4, 27),
        (40, 4, 27),
        (10, 2, 27),
        (10, 8, 27),
        (10, 4, 54),
        (10, 4, 108),
    ]
    .map(|(devices, chains, beams)| {
        let problem = random(&mut rng, chains, beams, devices);
        let best = (0..20)
            .map(|_| {
                let start = Instant::now();
                black_box(greedy(black_box(&problem)));
                start.elapsed().as_secs_f64()
            })
            .fold(f64::MAX, f64::min);
        let us = best * 1e6;
        format!(r#"{{"devices": {devices}, "chains": {chains}, "beams": {beams}, "us": {us:.1}}}"#)
    })
    .to_vec();
    println!(
        r#"{{"cases": {}, "mean": {mean:.4}, "q05": {:.4}, "least": {:.4}, "times": [{}]}}"#,
        ratios.len(),
        ratios[50],
        ratios[0],
        times.join(", ")
    );
}
