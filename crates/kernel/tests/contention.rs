//! Two CPUs at one connection: subflows join, work and leave as fast as they can. The state stays right; and the same
//! test on a build without compare-and-swap must fail, else it would prove nothing.

mod common;

use std::os::fd::{AsFd, AsRawFd};

use common::kernel_ready;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};

const PROTECTED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/contention.o"));
const UNPROTECTED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/contention-without-cas.o"));
const RUNS: usize = 20_000; // of 64 joins each

#[derive(Debug)]
struct Outcome {
    joined: u64,
    /// Vanished, stolen, unclean, overwritten, window: struct mp_violations of contention.bpf.c.
    violations: Vec<u64>,
    /// Entries left after the last subflow has gone.
    leaked: usize,
}

impl Outcome {
    fn is_right(&self) -> bool {
        self.violations.iter().all(|count| *count == 0) && self.leaked == 0
    }
}

#[test]
fn two_cpus_on_one_connection_keep_its_state_right() {
    if !kernel_ready() || !two_cpus() {
        return;
    }
    let outcome = contend(PROTECTED);
    assert!(outcome.joined > 100_000, "{outcome:?}");
    assert!(outcome.is_right(), "{outcome:?}");
}

#[test]
fn without_compare_and_swap_the_same_test_fails() {
    if !kernel_ready() || !two_cpus() {
        return;
    }
    // Two threads that others' work keeps from running at the same time cannot race: on a busy machine it takes more than one.
    let mut outcomes = (0..10).map(|_| contend(UNPROTECTED));
    assert!(outcomes.any(|o| !o.is_right()), "the race was not hit");
}

fn contend(bytes: &[u8]) -> Outcome {
    let object = ObjectBuilder::default()
        .open_memory(bytes)
        .and_then(|open| open.load())
        .unwrap();
    let program = object
        .progs_mut()
        .find(|program| program.name() == "contend")
        .unwrap();
    let descriptor = program.as_fd().as_raw_fd();
    std::thread::scope(|scope| {
        for cpu in 0..2 {
            scope.spawn(move || {
                pin_to(cpu);
                for _ in 0..RUNS {
                    run(descriptor);
                }
            });
        }
    });
    let words = value(&object, ".data.violations");
    let connections = object
        .maps()
        .find(|map| map.name() == "mp_connections")
        .unwrap();
    let leaked = connections.keys().count();
    Outcome {
        joined: words[0],
        violations: words[2..7].to_vec(),
        leaked,
    }
}

fn value(object: &Object, name: &str) -> Vec<u64> {
    let map = object.maps().find(|map| map.name() == name).unwrap();
    let value = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .unwrap()
        .unwrap();
    value
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
        .collect()
}

fn run(program: i32) {
    // SAFETY: all zero but for its size is a valid call without input.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as _;
    // SAFETY: the object, and with it the descriptor, outlives the threads.
    let failed = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &mut options) };
    assert_eq!(failed, 0);
}

fn pin_to(cpu: usize) {
    // SAFETY: an initialised set, and its size.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    assert_eq!(failed, 0, "cannot run on CPU {cpu}");
}

#[track_caller]
fn two_cpus() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2);
    mp_testing::runs((!enough).then_some("one CPU cannot contend with itself"))
}
