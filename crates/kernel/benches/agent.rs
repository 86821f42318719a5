//! How long a learned controller waits for its agent: from the kernel's record of a monitor interval to the answer in its
//! memory, with 100 subflows at work.
//!
//!     cargo bench -p mp-kernel --bench agent
//!
//! Prints one JSON document.

#[path = "../tests/common/lab.rs"]
#[allow(dead_code)]
mod lab;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lab::Lab;
use mp_kernel::agent::{Agent, Pilots};
use mp_kernel::controller::{self, Options};
use mp_kernel::{check, choose};
use serde_json::json;
use socket2::Protocol;

const CONNECTIONS: usize = 50; // of two subflows each
const LASTING: Duration = Duration::from_secs(10);

fn main() {
    if let Err(missing) = check::check() {
        eprintln!("{missing}");
        std::process::exit(3);
    }
    let lab = Lab::new(Some("200mbit"));
    let options = Options {
        private: true,
        ..Options::default()
    };
    let loaded = controller::acquire_with("ddpg-mpcc", &[], options).unwrap();
    let agent = Agent::start(&loaded, Pilots::default()).unwrap().unwrap();
    let listener = choose::inside(lab.b(), || lab::listen(Protocol::MPTCP)).unwrap();
    let (over, subflows) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            let connect = || lab::connect(Protocol::MPTCP, loaded.kernel_name());
            let mut sender = choose::inside(lab.a(), connect).unwrap();
            let (mut receiver, _) = listener.accept().unwrap();
            let over = &over;
            scope.spawn(move || {
                let chunk = [7u8; 1 << 14];
                while !over.load(Ordering::Relaxed) && sender.write(&chunk).is_ok() {}
            });
            scope.spawn(move || {
                let mut buffer = vec![0u8; 1 << 16];
                while receiver.read(&mut buffer).is_ok_and(|count| count > 0) {}
            });
        }
        std::thread::sleep(LASTING);
        let slots = loaded.connections().unwrap();
        subflows.store(slots.iter().sum(), Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
    });
    let tally = agent.tally();
    let at = |part: f64| {
        let place = (tally.delays_us.len() as f64 * part) as usize;
        let us = tally
            .delays_us
            .get(place.min(tally.delays_us.len().saturating_sub(1)));
        us.map(|us| (us * 10.0).round() / 10.0)
    };
    println!(
        "{:#}",
        json!({
            "subflows": subflows.into_inner(),
            "seconds": LASTING.as_secs(),
            "answers": tally.answered,
            "refused": tally.refused,
            "round_trip_us": { "median": at(0.5), "p99": at(0.99), "p999": at(0.999), "longest": at(1.0) },
        })
    );
}
