//! The path connections of a flow, as their congestion controller sees them.

use std::io::{Read, Write};

use mp_kernel::controller::{self, Controller};
use mp_kernel::{check, Shared};

use crate::hosts::{until, Hosts, ALLOWED, SERVER};

/// Of the other relay, whose downloads have a controller of ours.
const OTHER: &str = "10.99.0.1:4433";

/// Both ends use this controller; `None` where this machine cannot have that.
#[track_caller]
fn hosts(name: &str, scheduler: &str) -> Option<(Hosts, Controller)> {
    let mut hosts = Hosts::new("20mbit")?;
    if !mp_testing::runs(check::check().err()) {
        return None;
    }
    let held = controller::acquire(name, &[]).unwrap();
    let settings = [&ALLOWED[..], &["--controller", name]].concat();
    hosts.line = hosts.start_relay(OTHER, &settings);
    hosts.socks(&["--controller", name, "--scheduler", scheduler]);
    Some((hosts, held))
}

/// Those with two path connections.
fn pairs(controller: &Controller) -> Vec<Shared> {
    let mut all = controller.shared().unwrap();
    all.retain(|shared| shared.subflows == 2);
    all
}

#[test]
fn path_connections_of_a_flow_are_coupled_at_both_ends() {
    let Some((hosts, lia)) = hosts("lia", "round-robin") else {
        return;
    };
    let mut stream = hosts.through_socks(SERVER).unwrap();
    until("both ends couple two", || pairs(&lia).len() == 2);
    // And stay so while they carry something.
    writeln!(stream, "get 2000000").unwrap();
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    assert_eq!(body.len(), 2_000_000);
    drop(stream);
    until("the flow is over", || lia.shared().unwrap().is_empty());
    let counters = lia.counters().unwrap().unwrap();
    assert_eq!((counters.slots_full, counters.without_slot), (0, 0));
}

#[test]
fn delay_balancing_sets_ld_mpsps_target_for_the_flow() {
    for scheduler in ["delay-balance", "ld-mpsp"] {
        let Some((hosts, ld_mpsp)) = hosts("ld-mpsp", scheduler) else {
            return;
        };
        let set = mp_controllers::entry("ld-mpsp").unwrap().parameters[0].default;
        let mut stream = hosts.through_socks(SERVER).unwrap();
        until("both ends couple two", || pairs(&ld_mpsp).len() == 2);
        writeln!(stream, "get 1000000000").unwrap();
        let reading = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while matches!(stream.read(&mut buffer), Ok(1..)) {}
        });
        // The relay's end alone has a stream to balance.
        until("the scheduler sets the target", || {
            let targets = pairs(&ld_mpsp).into_iter().map(|s| s.parameters[0]);
            targets.filter(|target| *target != set).count() == 1
        });
        drop(hosts);
        reading.join().unwrap();
    }
}
