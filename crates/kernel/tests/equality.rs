//! The kernel's build of every controller header against the native one: the same calls, the same bits.

mod common;

use std::os::fd::{AsFd, AsRawFd};

use common::{call_natively, kernel_ready};
use libbpf_rs::{MapCore, Object, ObjectBuilder, ProgramInput, ProgramMut};
use mp_controllers::{Connection, Controller, Kind, INFINITE_SSTHRESH, MAX_SUBFLOWS, UNKNOWN};
use mp_kernel::Call;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

include!(concat!(env!("OUT_DIR"), "/proofs.rs"));

const CALLS: usize = 40_000;
const HOOKS: [&str; 7] = ["init", "rtt", "ack", "loss", "undo", "close", "interval"];

#[test]
fn random_call_sequences_leave_the_same_bits() {
    if !kernel_ready() {
        return;
    }
    for controller in mp_controllers::all() {
        let (_, bytes) = PROOFS
            .iter()
            .find(|(name, _)| *name == controller.name)
            .expect(controller.name);
        let object = ObjectBuilder::default()
            .open_memory(bytes)
            .and_then(|open| open.load());
        let kernel =
            InKernel::new(object.unwrap_or_else(|error| panic!("{}: {error}", controller.name)));
        for seed in 0..4 {
            compare(controller, &kernel, seed);
        }
    }
}

fn compare(controller: &Controller, kernel: &InKernel, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut sequence = Sequence {
        now_us: random.random_range(0..1 << 40),
        wide: seed.is_multiple_of(2),
    };
    let mut native = controller.connection();
    kernel.call().connection = native.clone();
    let mut changed = 0;
    for step in 0..CALLS / 4 {
        let earlier = native.clone();
        let (hook, slot) = sequence.next(&mut random, controller, &mut native);
        let call = kernel.call();
        // Facts are the stack's: both sides get the same.
        call.connection.subflows[slot] = native.subflows[slot];
        (call.hook, call.slot, call.now_us, call.result) =
            (hook as u64, slot as u64, sequence.now_us, 0);
        call.ack = mp_controllers::Ack {
            now_us: sequence.now_us,
            acked: sequence.acked(&mut random),
            is_cwnd_limited: random.random_range(0..=1),
            max_packets_out: random.random_range(0..=2 * native.subflows[slot].cwnd),
        };
        let call = call.clone();
        let result = call_natively(controller, &mut native, &call);
        kernel.run(hook);
        if hook == 5 {
            kernel.call().connection.subflows[slot] = native.subflows[slot]; // the glue clears it, not the controller
        }
        let call = kernel.call();
        assert_eq!(
            call.result, result,
            "{}: {} of step {step}, seed {seed}",
            controller.name, HOOKS[hook]
        );
        for (k, (ours, theirs)) in native
            .subflows
            .iter()
            .zip(&call.connection.subflows)
            .enumerate()
        {
            assert_eq!(
                ours, theirs,
                "{}: {} of slot {slot}, step {step}, seed {seed}: slot {k} differs, native left, kernel right; before: {:?}",
                controller.name, HOOKS[hook], earlier.subflows[k]
            );
        }
        assert_eq!(native.parameters, call.connection.parameters);
        changed += usize::from(native != earlier);
    }
    assert!(
        changed > CALLS / 16,
        "{}: the sequence hardly moves anything ({changed} changes)",
        controller.name
    );
}

/// What a stack may do to a connection, in any order.
struct Sequence {
    now_us: u64,
    /// Windows of 1 to 10^6 packets and RTTs of 10 us to 10 s; else the narrow ranges in which rules balance.
    wide: bool,
}

impl Sequence {
    fn next(
        &mut self,
        random: &mut SmallRng,
        controller: &Controller,
        connection: &mut Connection,
    ) -> (usize, usize) {
        let slot = random.random_range(0..MAX_SUBFLOWS);
        self.now_us += random.random_range(0..if self.wide { 1_000_000 } else { 3_000 });
        let wide = self.wide;
        let subflow = &mut connection.subflows[slot];
        if subflow.owner == 0 {
            subflow.owner = random.random_range(1..u64::MAX);
            subflow.mss = random.random_range(500..9000);
            subflow.cwnd = 10;
            subflow.ssthresh = INFINITE_SSTHRESH;
            return (0, slot);
        }
        subflow.delivered += random.random_range(0..100);
        subflow.lost += random.random_range(0..3u64).saturating_sub(1);
        subflow.ce += random.random_range(0..30u64).saturating_sub(20);
        subflow.in_flight = random.random_range(0..=2 * subflow.cwnd);
        subflow.phase = random.random_range(0..5);
        subflow.app_limited = random.random_range(0..=1);
        subflow.unsacked = subflow.in_flight + random.random_range(0..10);
        // Data sequence numbers wrap in the middle of a run.
        let una = (self.now_us.wrapping_mul(64)).wrapping_sub(1 << 32);
        subflow.data_una = una;
        subflow.data_next = una.wrapping_add(random.random_range(0..1 << 22));
        subflow.data_end = una.wrapping_add(random.random_range(0..1 << 22));
        subflow.data_window = random.random_range(0..2) * random.random_range(0..1u64 << 22);
        match random.random_range(0..1000) {
            0..300 => {
                let rtt = if wide {
                    log_uniform(random, 10.0, 1e7)
                } else {
                    random.random_range(20_000..30_000)
                };
                subflow.rtt_us = rtt;
                subflow.srtt_us = if subflow.srtt_us == 0 {
                    rtt
                } else {
                    (7 * subflow.srtt_us + rtt) / 8
                };
                subflow.min_rtt_us = subflow.min_rtt_us.min(rtt);
                subflow.backup = u64::from(random.random_range(0..20) == 0);
                let bound = rtt - subflow.min_rtt_us + 1000;
                subflow.queue_owd_us = if random.random() {
                    UNKNOWN
                } else {
                    random.random_range(0..=bound)
                };
                (1, slot)
            }
            300..940 if controller.kind == Kind::Window => {
                if wide && random.random_range(0..50) == 0 {
                    subflow.cwnd = log_uniform(random, 1.0, 1e6);
                }
                (2, slot)
            }
            300..940 => (6, slot),
            940..980 => (3, slot),
            980..998 => {
                subflow.cwnd = (subflow.cwnd / 2).max(1);
                (4, slot)
            }
            _ => (5, slot),
        }
    }

    fn acked(&self, random: &mut SmallRng) -> u64 {
        if self.wide {
            log_uniform(random, 1.0, 1e5)
        } else {
            random.random_range(1..4)
        }
    }
}

fn log_uniform(random: &mut SmallRng, from: f64, to: f64) -> u64 {
    random.random_range(from.ln()..=to.ln()).exp() as u64
}

/// proof.bpf.c, loaded.
struct InKernel {
    object: Object,
    call: *mut Call,
}

impl InKernel {
    fn new(object: Object) -> InKernel {
        let map = object
            .maps()
            .find(|map| map.name() == ".data.proof")
            .unwrap();
        assert_eq!(map.value_size() as usize, size_of::<Call>());
        // SAFETY: libbpf makes its data maps mappable; the mapping outlives the test on purpose.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Call>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        InKernel {
            object,
            call: memory.cast(),
        }
    }

    #[allow(clippy::mut_from_ref)]
    fn call(&self) -> &mut Call {
        // SAFETY: mapped for good; programs run only inside `run`, and no reference is kept across it.
        unsafe { &mut *self.call }
    }

    fn run(&self, hook: usize) {
        let name = format!("proof_{}", HOOKS[hook]);
        let program: ProgramMut<'_> = self
            .object
            .progs_mut()
            .find(|program| *program.name() == *name)
            .unwrap();
        program.test_run(ProgramInput::default()).unwrap();
    }
}
