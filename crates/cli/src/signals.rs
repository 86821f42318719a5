//! Ctrl-C and its kin set a flag that every loop looks at; a second one ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

pub static STOP: AtomicBool = AtomicBool::new(false);

pub fn catch() {
    let handler = || {
        if STOP.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    };
    // Without a handler Ctrl-C still ends the process; what it leaves behind the next run collects.
    let _ = ctrlc::set_handler(handler);
}

pub fn stopped() -> bool {
    STOP.load(Ordering::SeqCst)
}
