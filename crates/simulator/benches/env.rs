//! Steps a second of the environment: one subflow at 100 Mbit/s, a question every 60 ms (about 500 packets), packet by packet
//! and with segment trains, on one thread and on two; and how far trains are from the truth. Prints one JSON document.

use std::time::Instant;

use mp_scenario::{Overrides, Scenario};
use mp_simulator::env::{Lanes, Range, Task};

fn scenario(train: u32) -> Scenario {
    // An interval of 1.5 round trips and one more for its acknowledgements: 60 ms.
    let text = format!(
        "duration = \"10h\"\nsegment_train = {train}\nvariants = [{{ controller = \"ddpg-mpcc\" }}]\n\
         [paths.a]\nrate = \"100Mbit\"\ndelay = \"12ms\"\nqueue = \"400p\"\n"
    );
    let none = |_: &std::path::Path| Err(std::io::Error::other("no files"));
    let here = std::path::Path::new(".");
    let found = mp_scenario::parse("bench", &text, here, &none, &Overrides::default());
    found.expect("a scenario").cells.remove(0).scenario
}

struct Figure {
    steps_per_s: f64,
    packets_per_step: f64,
    interval_ms: f64,
    goodput_mbps: f64,
    rtt_ms: f64,
}

fn measure(train: u32, lanes: usize, threads: usize, steps: u64) -> Figure {
    // Held near capacity, so that all cases do the same.
    let held = Range {
        low: 0.95,
        high: 0.95,
    };
    let task = Task {
        start: Some(held),
        ..Task::new(scenario(train))
    };
    let mut lanes = Lanes::new(task, lanes, 1, 1, u32::MAX, 1);
    let mut answers = lanes.step(&[], threads).expect("a question");
    let mut act = |lanes: &mut Lanes, n: u64| {
        let (mut sums, begun) = ([0.0; 3], answers.facts[0][0]);
        for _ in 0..n {
            answers = lanes.step(&[], threads).expect("a question");
            let facts = answers.facts[0];
            for (sum, k) in sums.iter_mut().zip([2, 4, 5]) {
                *sum += facts[k];
            }
        }
        (sums, answers.facts[0][0] - begun)
    };
    act(&mut lanes, 100);
    let start = Instant::now();
    let ([packets, elapsed_us, rtt_us], seconds) = act(&mut lanes, steps);
    let count = lanes.len() as f64 * steps as f64;
    Figure {
        steps_per_s: count / start.elapsed().as_secs_f64(),
        packets_per_step: packets / elapsed_us * 1e6 * seconds / steps as f64,
        interval_ms: seconds / steps as f64 * 1e3,
        goodput_mbps: packets * 1420.0 * 8.0 / elapsed_us,
        rtt_ms: rtt_us / steps as f64 / 1e3,
    }
}

fn main() {
    let quick = std::env::args().any(|a| a == "--quick");
    let steps = if quick { 2_000 } else { 30_000 };
    let cases = [
        ("packet by packet", 1, 1, 1),
        ("packet by packet, two threads", 1, 16, 2),
        ("trains of 8", 8, 1, 1),
        ("trains of 64", 64, 1, 1),
        ("trains of 64, two threads", 64, 64, 2),
    ];
    let parts: Vec<String> = cases
        .iter()
        .map(|&(name, train, lanes, threads)| {
            let f = measure(train, lanes, threads, steps / lanes as u64);
            format!(
                "  {{\"case\": \"{name}\", \"steps_per_s\": {:.0}, \"packets_per_step\": {:.0}, \"interval_ms\": {:.1}, \
                 \"goodput_mbps\": {:.2}, \"rtt_ms\": {:.2}}}",
                f.steps_per_s, f.packets_per_step, f.interval_ms, f.goodput_mbps, f.rtt_ms
            )
        })
        .collect();
    println!("[\n{}\n]", parts.join(",\n"));
}
