//! Microseconds per decision, per outcome learnt and per refit of each bandit policy, over the contexts of two paths: what
//! a connection's set-up waits for (aim: 10 µs), and what follows it (aim: 20 µs). Prints one JSON document.

use std::hint::black_box;
use std::time::Instant;

use mp_policy::bandit::{context, Bandit, Policy, Settings};
use serde_json::{json, Map, Value};

const CALLS: usize = 20_000;
const ROUNDS: usize = 5;
/// Outcomes remembered when a refit is timed.
const REMEMBERED: usize = 1_000;

/// The fastest of some rounds: what else runs on the machine only adds.
fn micros(calls: usize, mut work: impl FnMut(usize)) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..calls).for_each(&mut work);
        start.elapsed().as_secs_f64() * 1e6 / calls as f64
    };
    (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
}

fn main() {
    let features = context::names(["wifi", "lte"]);
    let contexts: Vec<Vec<f64>> = (0..997u32)
        .map(|i| {
            (0..features.len() as u32)
                .map(|f| f64::from((i * (f + 3)) % 101))
                .collect()
        })
        .collect();
    let mut found = Map::<String, Value>::new();
    for (name, policy) in Policy::NAMED {
        let settings = Settings {
            refit_every: 0,
            memory: REMEMBERED,
            ..Settings::new(*policy)
        };
        let mut bandit = match Bandit::new(settings, ["wifi", "lte"], features.clone(), 1) {
            Ok(bandit) => bandit,
            Err(error) => return eprintln!("{name}: {error}"),
        };
        let update = |b: &mut Bandit, i: usize| {
            let x = &contexts[i % contexts.len()];
            b.update(x, i % 2, i.is_multiple_of(3));
        };
        (0..REMEMBERED).for_each(|i| update(&mut bandit, i));
        bandit.refit();
        let decision = micros(CALLS, |i| {
            black_box(bandit.decide(black_box(&contexts[i % contexts.len()])));
        });
        let learnt = micros(CALLS, |i| update(&mut bandit, i));
        let refit = micros(3, |_| bandit.refit());
        let micros = json!({"decision_us": decision, "update_us": learnt, "refit_us": refit});
        found.insert((*name).to_owned(), micros);
    }
    println!("{}", Value::from(found));
}
