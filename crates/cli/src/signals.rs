//! Ctrl-C and its kin set a flag that every loop reads; a second one ends the process at once.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{signal, SignalKind};
use tokio::time::sleep;

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

/// Until [`stopped`].
pub async fn until_stopped() {
    while !stopped() {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Until SIGINT or SIGTERM comes, also where those of before went to a child.
pub async fn next() {
    let caught = |kind| signal(kind).ok();
    let (int, term) = (SignalKind::interrupt(), SignalKind::terminate());
    let (Some(mut int), Some(mut term)) = (caught(int), caught(term)) else {
        return pending().await;
    };
    tokio::select! {
        _ = int.recv() => {}
        _ = term.recv() => {}
    }
}

pub fn stopped() -> bool {
    STOP.load(Ordering::SeqCst)
}
