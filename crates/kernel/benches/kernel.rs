//! What a controller in BPF costs: nanoseconds per ACK, and goodput over unshaped paths beside the kernel's own reno.
//!
//!     cargo bench -p mp-kernel --bench kernel [-- cost] [tcp] [pairs=N] [CONTROLLER[:PARAMETER=N,…]…]
//!
//! Prints one JSON document; progress goes to stderr. Times of programs are the kernel's own (`BPF_STATS_RUN_TIME`) and
//! include two clock readings a call, whose cost is stated beside. Goodput is compared in pairs that follow each other, in alternating order; `tcp` does that over plain TCP.

#[path = "../tests/common/lab.rs"]
#[allow(dead_code)]
mod lab;

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::Lab;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{MapHandle, MapInfo, ObjectBuilder, ProgramInput, ProgramType};
use mp_kernel::controller::{Controller, Options};
use mp_kernel::{check, controller};
use serde_json::{json, Map, Value};
use socket2::Protocol;

include!(concat!(env!("OUT_DIR"), "/proofs.rs"));

const PAIRS: usize = 20;
/// Student's t for 95 %, by degrees of freedom from 1.
const STUDENT: [f64; 19] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
];
const BYTES: u64 = 1 << 30;

fn main() {
    if let Err(missing) = check::check() {
        eprintln!("{missing}");
        std::process::exit(3);
    }
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let cost_only = asked.iter().any(|word| word == "cost");
    let protocol = match asked.iter().any(|word| word == "tcp") {
        true => Protocol::TCP,
        false => Protocol::MPTCP,
    };
    let pairs = asked
        .iter()
        .find_map(|word| word.strip_prefix("pairs="))
        .map_or(PAIRS, |n| {
            n.parse::<usize>().expect("pairs=N").clamp(2, PAIRS)
        });
    let mut names: Vec<&str> = asked
        .iter()
        .map(String::as_str)
        .filter(|word| !["cost", "tcp"].contains(word) && !word.starts_with("pairs="))
        .collect();
    if names.is_empty() {
        names = mp_controllers::all().iter().map(|ours| ours.name).collect();
        names.push("bbr"); // what another controller with short queues has
    }
    let measuring = measuring();
    let mut costs = Map::new();
    let mut goodputs = Map::new();
    // The kernel's own have no counters of ours.
    let ours = |name: &&&str| mp_controllers::kernel_own(name).is_none();
    for name in names.iter().filter(ours) {
        costs.insert((*name).into(), cost(name, measuring));
        eprintln!("{name}: {} ns per ACK", costs[*name]["ns_per_ack"]);
    }
    for name in names.iter().filter(|_| !cost_only) {
        goodputs.insert((*name).into(), goodput(name, protocol, pairs));
        eprintln!("{name}: {}", goodputs[*name]);
    }
    println!(
        "{:#}",
        json!({ "ns_of_measuring_a_call": measuring, "cost": costs, "unshaped_goodput": goodputs, "pairs": pairs, "bytes": BYTES })
    );
}

/// What the two clock readings put on every call: the measured time of a program of two instructions.
fn measuring() -> f64 {
    let (_, bytes) = PROOFS.iter().find(|(name, _)| *name == "reno").unwrap();
    let object = ObjectBuilder::default()
        .open_memory(bytes)
        .and_then(|open| open.load())
        .unwrap();
    let program = object
        .progs_mut()
        .find(|program| program.name() == "proof_close")
        .unwrap();
    let id = libbpf_rs::Program::id_from_fd(program.as_fd()).unwrap();
    // SAFETY: as in `cost`.
    let _counting = unsafe {
        OwnedFd::from_raw_fd(libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME))
    };
    for _ in 0..50_000 {
        program.test_run(ProgramInput::default()).unwrap();
    }
    let told = ProgInfoIter::default()
        .find(|program| program.id == id)
        .unwrap();
    (told.run_time_ns as f64 / told.run_cnt as f64 * 10.0).round() / 10.0
}

/// `NAME` or `NAME:PARAMETER=N,…`
fn private(asked: &str) -> Controller {
    let options = Options {
        private: true,
        ..Options::default()
    };
    let (name, settings) = asked.split_once(':').unwrap_or((asked, ""));
    let settings: Vec<(&str, u64)> = settings
        .split(',')
        .filter_map(|setting| setting.split_once('='))
        .map(|(parameter, value)| (parameter, value.parse().expect("PARAMETER=N")))
        .collect();
    controller::acquire_with(name, &settings, options).unwrap()
}

/// Two coupled subflows of 200 Mbit/s each. The median of windows of 50 ms, so that a program that was preempted in the middle does not
/// count with the time it was away.
fn cost(name: &str, measuring: f64) -> Value {
    let lab = Lab::new(Some("200mbit"));
    let loaded = private(name);
    // SAFETY: returns a descriptor of ours; closing it switches the statistics off.
    let _counting = unsafe {
        OwnedFd::from_raw_fd(libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME))
    };
    let done = AtomicBool::new(false);
    let windows = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut windows = Vec::new();
            let mut before = RunTimes::now(loaded.kernel_name());
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                let now = RunTimes::now(loaded.kernel_name());
                windows.push(now.since(&before));
                before = now;
            }
            windows
        });
        let upload = lab.upload(loaded.kernel_name(), 150 << 20, || ());
        done.store(true, Ordering::Relaxed);
        assert!(!upload.fallback);
        watch.join().unwrap()
    });
    let mut each: Vec<f64> = windows
        .iter()
        .filter(|window| window.acks > 100)
        .map(|window| window.ns as f64 / window.acks as f64)
        .collect();
    each.sort_by(f64::total_cmp);
    let tenths = |ns: f64| (ns * 10.0).round() / 10.0;
    let per_ack = each[each.len() / 2];
    json!({
        "ns_per_ack": tenths(per_ack),
        "ns_per_ack_less_measuring": tenths(per_ack - measuring),
        "acks": windows.iter().map(|window| window.acks).sum::<u64>(),
    })
}

/// Run time and calls of the one program that a registered controller runs on an ACK.
struct RunTimes {
    ns: u64,
    acks: u64,
}

impl RunTimes {
    fn now(kernel_name: &str) -> RunTimes {
        let pin = format!("/sys/fs/bpf/multipilot/{kernel_name}/connections");
        let map = MapHandle::from_pinned_path(pin).unwrap();
        let map = MapInfo::new(map.as_fd()).unwrap().info.id;
        let options = ProgInfoQueryOptions::default().include_map_ids(true);
        let of_acks = |program: &ProgramInfo| {
            // The kernel keeps fifteen characters of a name.
            let name = program.name.to_str();
            program.ty == ProgramType::StructOps
                && program.map_ids.contains(&map)
                && matches!(name, Some("glue_cong_avoid" | "glue_cong_contr"))
        };
        let found = ProgInfoIter::with_query_opts(options).find(of_acks);
        let program = found.expect("a registered controller");
        RunTimes {
            ns: program.run_time_ns,
            acks: program.run_cnt,
        }
    }

    fn since(&self, before: &RunTimes) -> RunTimes {
        RunTimes {
            ns: self.ns - before.ns,
            acks: self.acks - before.acks,
        }
    }
}

/// One subflow, nothing shaped: the controller's goodput over that of the kernel's reno.
fn goodput(name: &str, protocol: Protocol, pairs: usize) -> Value {
    let lab = Lab::new(None);
    lab::sh(&format!(
        "ip -n {} mptcp endpoint flush",
        lab.namespace('a')
    ));
    let loaded = private(name);
    let rate = |controller: &str| {
        let start = Instant::now();
        let upload = lab.upload_over(protocol, controller, BYTES, || ());
        let fallback = upload.fallback && protocol == Protocol::MPTCP;
        assert_eq!((upload.received, fallback), (BYTES, false));
        BYTES as f64 * 8e-9 / start.elapsed().as_secs_f64()
    };
    rate(loaded.kernel_name()); // buffers have grown, code is warm
    let (mut logs, mut ours, mut theirs) = (Vec::new(), 0.0, 0.0);
    for pair in 0..pairs {
        let (mine, reno) = if pair % 2 == 0 {
            let mine = rate(loaded.kernel_name());
            (mine, rate("reno"))
        } else {
            let reno = rate("reno");
            (rate(loaded.kernel_name()), reno)
        };
        logs.push((mine / reno).ln());
        ours += mine / pairs as f64;
        theirs += reno / pairs as f64;
    }
    let count = pairs as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = STUDENT[pairs - 2] * (variance / count).sqrt();
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    json!({
        "ratio": round(mean.exp()),
        "low": round((mean - half).exp()),
        "high": round((mean + half).exp()),
        "gbit_per_s": round(ours),
        "reno_gbit_per_s": round(theirs),
    })
}
