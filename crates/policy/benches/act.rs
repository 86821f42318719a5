//! What one answer of the shipped actor costs: microseconds, observation included. Prints one JSON document.

use std::hint::black_box;
use std::time::Instant;

use mp_policy::actor::{Pilot, Record};

const CALLS: u64 = 200_000;
const ROUNDS: usize = 5;

fn main() {
    let mut pilot = Pilot::shipped();
    // The fastest of some rounds: what else runs on the machine only adds.
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for k in 0..CALLS {
            let record = Record {
                rate: 10_000_000 + k,
                mss: 1420,
                delivered: 400,
                lost: k % 5,
                elapsed_us: 60_000,
                rtt_us: 45_000,
                min_rtt_us: 40_000,
            };
            black_box(pilot.answer(black_box(&record)));
        }
        best = best.min(start.elapsed().as_secs_f64() / CALLS as f64 * 1e6);
    }
    println!("{{\"answer_us\": {best:.3}}}");
}
