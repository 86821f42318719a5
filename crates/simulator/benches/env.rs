//! Steps a second of the environment: one subflow at 100 Mbit/s, a question every 60 ms (about 500 packets), packet by packet
//! and with segment trains, on one thread and on two; and how far trains are from the truth. Prints one JSON document.

use std::time::Instant;

use mp_scenario::{Overrides, Scenario};
use mp_simulator::env::{Lanes, Range, Task};

/// Mbit/s, delay in ms, queue in packets, random loss, and the part of full utility that the agent holds.
type Path = (u32, u32, u32, f64, f64);

/// An interval of 1.5 round trips and one more for its acknowledgements: 60 ms. Held near capacity, so that all cases do
/// the same.
const PATH: Path = (100, 12, 400, 0.0, 0.95);

/// Others, for the error of trains: with short and long queues, loss, and rates above what the path carries.
const OTHERS: [Path; 9] = [
    (100, 12, 100, 0.0, 1.05),
    (100, 12, 30, 0.0, 0.9),
    (100, 40, 400, 0.01, 0.95),
    (30, 12, 60, 0.0, 0.95),
    (30, 12, 20, 0.0, 1.02),
    (30, 40, 100, 0.01, 0.8),
    (10, 20, 30, 0.0, 0.95),
    (10, 40, 60, 0.02, 1.05),
    (100, 5, 80, 0.0, 0.95),
];

fn scenario(train: u32, (rate, delay, queue, loss, _): Path) -> Scenario {
    let text = format!(
        "duration = \"10h\"\nsegment_train = {train}\nvariants = [{{ controller = \"ddpg-mpcc\" }}]\n\
         [paths.a]\nrate = \"{rate}Mbit\"\ndelay = \"{delay}ms\"\nqueue = \"{queue}p\"\nloss = {loss}\n"
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
    loss: f64,
}

fn measure(train: u32, path: Path, lanes: usize, threads: usize, steps: u64) -> Figure {
    let held = Range {
        low: path.4,
        high: path.4,
    };
    let task = Task {
        start: Some(held),
        ..Task::new(scenario(train, path))
    };
    let mut lanes = Lanes::new(task, lanes, 1, 1, u32::MAX, 1);
    let mut answers = lanes.step(&[], threads).expect("a question");
    let mut act = |lanes: &mut Lanes, n: u64| {
        let (mut sums, begun) = ([0.0; 4], answers.facts[0][0]);
        for _ in 0..n {
            answers = lanes.step(&[], threads).expect("a question");
            let facts = answers.facts[0];
            for (sum, k) in sums.iter_mut().zip([2, 4, 5, 3]) {
                *sum += facts[k];
            }
        }
        (sums, answers.facts[0][0] - begun)
    };
    act(&mut lanes, 100);
    let start = Instant::now();
    let ([packets, elapsed_us, rtt_us, lost], seconds) = act(&mut lanes, steps);
    let count = lanes.len() as f64 * steps as f64;
    Figure {
        steps_per_s: count / start.elapsed().as_secs_f64(),
        packets_per_step: packets / elapsed_us * 1e6 * seconds / steps as f64,
        interval_ms: seconds / steps as f64 * 1e3,
        goodput_mbps: packets * 1420.0 * 8.0 / elapsed_us,
        rtt_ms: rtt_us / steps as f64 / 1e3,
        loss: lost / (packets + lost),
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
    let mut parts: Vec<String> = cases
        .iter()
        .map(|&(name, train, lanes, threads)| {
            let f = measure(train, PATH, lanes, threads, steps / lanes as u64);
            format!(
                "  {{\"case\": \"{name}\", \"steps_per_s\": {:.0}, \"packets_per_step\": {:.0}, \"interval_ms\": {:.1}, \
                 \"goodput_mbps\": {:.2}, \"rtt_ms\": {:.2}}}",
                f.steps_per_s, f.packets_per_step, f.interval_ms, f.goodput_mbps, f.rtt_ms
            )
        })
        .collect();
    for path in [PATH].into_iter().chain(OTHERS) {
        let [packets, trains] = [1, 64].map(|train| measure(train, path, 1, 1, 1_500));
        let (rate, delay, queue, loss, part) = path;
        let off = |of: fn(&Figure) -> f64| of(&trains) / of(&packets) - 1.0;
        parts.push(format!(
            "  {{\"error\": \"{rate} Mbit/s, {delay} ms, {queue} packets, {} % loss, at {part}\", \"goodput\": {:.4}, \
             \"rtt\": {:.4}, \"interval\": {:.4}, \"loss\": {:.4}, \"loss_by_packets\": {:.4}}}",
            loss * 100.0,
            off(|f| f.goodput_mbps),
            off(|f| f.rtt_ms),
            off(|f| f.interval_ms),
            trains.loss,
            packets.loss,
        ));
    }
    println!("[\n{}\n]", parts.join(",\n"));
}
