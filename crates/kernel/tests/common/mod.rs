//! What the tests on the real kernel share: whether they can run, and two hosts joined by two paths.
#![allow(dead_code)] // each test binary uses its part

pub mod lab;

use mp_kernel::controller::{self, Controller, Options};
use mp_testing::{Turn, Turns};

/// Whether this machine can run kernel tests.
#[track_caller]
pub fn kernel_ready() -> bool {
    mp_testing::runs(mp_kernel::check::check().err())
}

/// One transfer at a time: the tests share two CPUs, and shares are measured.
#[track_caller]
pub fn turn() -> Option<Turn<'static>> {
    static TURNS: Turns = Turns::new(1);
    TURNS.take(mp_kernel::check::check().err())
}

/// Runs a hook natively as `mp_hook` of controllers/bpf/settings.h numbers them; returns what it returns.
pub fn call_natively(
    controller: &mp_controllers::Controller,
    connection: &mut mp_controllers::Connection,
    call: &mp_kernel::Call,
) -> u64 {
    let slot = call.slot as usize;
    match call.hook {
        0 => controller.init(connection, slot, call.now_us),
        1 => controller.on_rtt(connection, slot, call.now_us),
        2 => controller.on_ack(connection, slot, &call.ack),
        3 => return controller.on_loss(connection, slot, call.now_us),
        4 => return controller.on_undo(connection, slot),
        5 => controller.on_close(connection, slot),
        6 => controller.on_interval(connection, slot, call.now_us),
        hook => panic!("there is no hook {hook}"),
    }
    call.result
}

/// Others may use the same controllers at the same time: ours alone have their counters for themselves.
pub fn private(name: &str, log_calls: bool) -> Controller {
    let options = Options {
        private: true,
        log_calls,
    };
    controller::acquire_with(name, &[], options).unwrap()
}

/// Every subflow had a slot.
#[track_caller]
pub fn assert_all_had_slots(controller: &Controller) {
    let counters = controller.counters().unwrap().unwrap();
    assert_eq!(
        (
            counters.slots_full,
            counters.entries_full,
            counters.without_slot
        ),
        (0, 0, 0),
        "{}: {counters:?}",
        controller.kernel_name()
    );
}

pub fn is_idle(controller: &Controller) -> bool {
    controller.connections().unwrap().is_empty()
        && controller.counters().unwrap().unwrap().sockets == 0
}
