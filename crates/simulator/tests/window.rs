//! Segments that arrive beyond the announced receive window.

mod common;
use common::*;

use mp_record::Run;
use mp_scenario::{Protocol, Scenario};

/// So many paths of 100 Mbit/s, 40 ms and 5 % loss for 20 s, into a small receive buffer.
fn lossy(paths: usize) -> Scenario {
    let mut s = scenario(vec![path(mbit(100), ms(20), 400, 0.05); paths], ms(20_000));
    s.buffers.receive = 512 << 10;
    s
}

fn overruns(run: &Run) -> u64 {
    let each = run.transfers.iter().map(|t| t.window_overruns.unwrap());
    let sum = each.sum();
    assert_eq!(run.window_overruns, Some(sum));
    sum
}

#[test]
fn a_rate_that_does_not_yield_to_loss_overruns_a_small_window() {
    for seed in 1..5 {
        let run = simulate(&lossy(2), &variant("mpcc"), seed);
        let dropped = overruns(&run);
        assert!(dropped > 0, "seed {seed}");
        // What was dropped had arrived, and the stream is without it.
        let t = &run.transfers[0];
        let arrived: u64 = t.path_bytes.iter().map(|(_, bytes)| bytes).sum();
        assert!(arrived >= t.bytes + dropped * 1420, "{t:?}");
    }
}

#[test]
fn the_data_of_one_subflow_are_in_order_and_overrun_nothing() {
    for controller in ["mpcc", "bbr"] {
        assert_eq!(overruns(&simulate(&lossy(1), &variant(controller), 1)), 0);
    }
}

#[test]
fn what_fits_into_the_first_window_overruns_nothing() {
    let mut s = lossy(2);
    s.connections[0].bytes = Some(60_000);
    assert_eq!(overruns(&simulate(&s, &variant("mpcc"), 1)), 0);
}

#[test]
fn connections_are_counted_apart() {
    let mut s = lossy(2);
    let mut tcp = connection(&["a"]);
    tcp.protocol = Protocol::Tcp;
    tcp.name = "tcp".into();
    s.connections.push(tcp);
    let run = simulate(&s, &variant("mpcc"), 1);
    let [multipath, tcp] = &run.transfers[..] else {
        panic!("{:?}", run.transfers)
    };
    assert_eq!(tcp.window_overruns, Some(0));
    assert_eq!(multipath.window_overruns, run.window_overruns);
    assert!(run.window_overruns > Some(0));
}

/// `pilot` once stood still for five seconds of such a transfer, for its waiting subflows kept the data-level timeout from
/// sending what the receiver had dropped.
#[test]
fn pilot_keeps_no_hole_open() {
    let paths = vec![
        path(mbit(50), ms(5), 100, 0.02),
        path(mbit(50), ms(37), 100, 0.02),
    ];
    let s = scenario(paths, ms(10_000));
    for seed in 1..=16 {
        let run = simulate(&s, &variant("pilot"), seed);
        let mbps = run.transfers[0].bytes as f64 * 8e-6 / 10.0;
        assert!(mbps > 75.0, "seed {seed}: {mbps:.1} Mbit/s");
    }
}
