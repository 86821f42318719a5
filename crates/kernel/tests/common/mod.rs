//! What the tests on the real kernel share: whether they can run, and two hosts joined by two paths.
#![allow(dead_code)] // each test binary uses its part

pub mod lab;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether this machine can run kernel tests. If not, the test is skipped visibly; with CI=true it fails.
pub fn kernel_ready() -> bool {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let Err(missing) = mp_kernel::check::check() else {
        return true;
    };
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{missing}");
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    // Not eprintln: the harness would hide it.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED, the {count}. kernel test of this binary: {missing}"
    );
    false
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
