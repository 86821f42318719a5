//! How fast the simulator is: data packets a second of one core's time, cost against the number of flows and links, memory a
//! flow, and what several cores add. Prints one JSON document; `--quick` for a first look, `--only NAME` for one part.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mp_scenario::*;

/// Counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        System.dealloc(pointer, layout)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[path = "../tests/common/mod.rs"]
mod common;

fn path(mbit: f64, delay: u64, queue: u64) -> Path {
    common::path((mbit * 1e6) as u64, common::ms(delay), queue, 0.0)
}

fn connection(paths: &[String], count: u32) -> Connection {
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    Connection {
        count,
        ..common::connection(&paths)
    }
}

fn scenario(paths: Vec<(String, Path)>, connections: Vec<Connection>, seconds: f64) -> Scenario {
    Scenario {
        buffers: Buffers {
            send: 16 << 20,
            receive: 16 << 20,
            autotune: true,
        },
        paths: paths.into_iter().collect(),
        connections,
        ..common::scenario(Vec::new(), Duration::from_secs_f64(seconds))
    }
}

fn variant() -> Variant {
    common::variant("lia")
}

/// Two paths of 100 and 50 Mbit/s that `count` connections share.
fn two_paths(count: u32, seconds: f64) -> Scenario {
    let names = ["a".to_owned(), "b".to_owned()];
    let paths = vec![
        ("a".to_owned(), path(100.0, 10, 200)),
        ("b".to_owned(), path(50.0, 20, 200)),
    ];
    scenario(paths, vec![connection(&names, count)], seconds)
}

/// Seconds of CPU that this thread has had (the first number of schedstat is in ns).
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|n| n.parse::<f64>().ok())
        .unwrap_or(f64::NAN)
        * 1e-9
}

/// Best of `times`: packets, and seconds of this thread's CPU, so that what else the machine does counts less.
fn best(scenario: &Scenario, times: u32) -> (u64, f64) {
    let mut best = (0, f64::INFINITY);
    for _ in 0..times {
        let start = cpu();
        let (_, effort) = mp_simulator::measure(scenario, &variant(), 1).unwrap();
        let spent = cpu() - start;
        if spent < best.1 {
            best = (effort.packets, spent);
        }
    }
    best
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let quick = arguments.iter().any(|a| a == "--quick");
    let only = arguments
        .iter()
        .position(|a| a == "--only")
        .and_then(|i| arguments.get(i + 1));
    let wanted = |name: &str| only.is_none_or(|o| o == name);
    let times = if quick { 2 } else { 5 };
    let mut parts = Vec::new();
    if wanted("connections") {
        for count in [1u32, 10, 100] {
            let seconds = if quick { 60.0 } else { 200.0 };
            let s = two_paths(count, seconds);
            let calls = CALLS.load(Ordering::Relaxed);
            let (packets, spent) = best(&s, times);
            let calls = (CALLS.load(Ordering::Relaxed) - calls) as f64 / f64::from(times);
            parts.push(format!(
                r#"{{"bench": "connections", "connections": {count}, "packets": {packets}, "packets_per_s": {:.0}, "simulated_s_per_s": {:.0}, "allocations_per_packet": {:.6}}}"#,
                packets as f64 / spent,
                seconds / spent,
                calls / packets as f64
            ));
        }
    }
    if wanted("flows") {
        for count in [1u32, 10, 100, 1_000, 10_000] {
            // The same load in all: 1 Gbit/s, so that only the number of flows grows.
            let seconds = if quick { 2.0 } else { 10.0 };
            let paths = vec![
                ("a".to_owned(), path(500.0, 10, 20_000)),
                ("b".to_owned(), path(500.0, 20, 20_000)),
            ];
            let s = scenario(
                paths,
                vec![connection(&["a".into(), "b".into()], count)],
                seconds,
            );
            let before = IN_USE.load(Ordering::Relaxed);
            PEAK.store(before, Ordering::Relaxed);
            let (packets, spent) = best(&s, times.min(2));
            let memory = PEAK.load(Ordering::Relaxed) - before;
            parts.push(format!(
                r#"{{"bench": "flows", "flows": {}, "packets": {packets}, "ns_per_packet": {:.1}, "bytes_per_flow": {}}}"#,
                2 * count,
                spent * 1e9 / packets as f64,
                memory / (2 * count as usize)
            ));
        }
    }
    if wanted("links") {
        for count in [1usize, 10, 100, 1_000, 5_000] {
            // Each path has one connection of its own; the load in all stays the same.
            let seconds = if quick { 2.0 } else { 10.0 };
            let names: Vec<String> = (0..count).map(|i| format!("p{i}")).collect();
            let paths = names
                .iter()
                .map(|n| (n.clone(), path(1000.0 / count as f64, 10, 100)))
                .collect();
            let connections = names
                .iter()
                .map(|n| connection(std::slice::from_ref(n), 1))
                .collect();
            let s = scenario(paths, connections, seconds);
            let (packets, spent) = best(&s, times.min(2));
            parts.push(format!(
                r#"{{"bench": "links", "links": {}, "packets": {packets}, "ns_per_packet": {:.1}}}"#,
                2 * count,
                spent * 1e9 / packets as f64
            ));
        }
    }
    if wanted("trains") {
        // Of goodput, against packet by packet.
        let mut exact = f64::NAN;
        for train in [1u32, 4, 16, 44] {
            let names = vec!["a".to_owned(), "b".to_owned()];
            let paths = vec![
                ("a".into(), path(10_000.0, 5, 20_000)),
                ("b".into(), path(5_000.0, 10, 20_000)),
            ];
            let mut s = scenario(
                paths,
                vec![connection(&names, 1)],
                if quick { 2.0 } else { 10.0 },
            );
            s.buffers = Buffers {
                send: 1 << 30,
                receive: 1 << 30,
                autotune: true,
            };
            s.segment_train = train;
            let (run, _) = mp_simulator::measure(&s, &variant(), 1).unwrap();
            let (packets, spent) = best(&s, times.min(2));
            let goodput = common::goodput(&run);
            if train == 1 {
                exact = goodput;
            }
            parts.push(format!(
                r#"{{"bench": "trains", "segment_train": {train}, "packets": {packets}, "packets_per_s": {:.0}, "goodput_mbps": {goodput:.1}, "error": {:.4}}}"#,
                packets as f64 / spent,
                goodput / exact - 1.0
            ));
        }
    }
    if wanted("seeds") {
        let mut s = two_paths(1, if quick { 20.0 } else { 60.0 });
        for path in s.paths.values_mut() {
            path.down.loss = Loss::Bernoulli(0.0001);
        }
        let seeds: Vec<u64> = (0..16).collect();
        let mut wall = [0.0; 2];
        for (threads, wall) in [1, 2].into_iter().zip(&mut wall) {
            let mut best = f64::INFINITY;
            for _ in 0..times {
                let start = Instant::now();
                for run in mp_simulator::simulate_many(&s, &variant(), &seeds, threads) {
                    run.unwrap();
                }
                best = best.min(start.elapsed().as_secs_f64());
            }
            *wall = best;
        }
        parts.push(format!(
            r#"{{"bench": "seeds", "threads": 2, "speed_up": {:.2}}}"#,
            wall[0] / wall[1]
        ));
    }
    println!("[{}]", parts.join(",\n "));
}
