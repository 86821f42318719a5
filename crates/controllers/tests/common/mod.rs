//! Connections to order, and the rules as their papers print them, in floating point.
#![allow(dead_code)] // each test binary uses its part

pub mod fluid;
pub mod rules;

use mp_controllers::{find, Ack, Connection, Controller, Subflow, FRACTION_BITS};
use proptest::prelude::*;

pub fn controller(name: &str) -> &'static Controller {
    find(name).unwrap_or_else(|| panic!("{name} is not registered"))
}

/// In congestion avoidance, with a history without loss.
pub fn subflow(cwnd: u64, srtt_us: u64) -> Subflow {
    Subflow {
        owner: 1,
        mss: 1460,
        rtt_us: srtt_us,
        srtt_us,
        min_rtt_us: srtt_us,
        cwnd,
        ssthresh: 1,
        ..Default::default()
    }
}

/// With each subflow announced to the controller.
pub fn connection(controller: &Controller, subflows: &[Subflow]) -> Connection {
    let mut connection = controller.connection();
    for (slot, subflow) in subflows.iter().enumerate() {
        connection.subflows[slot] = Subflow {
            owner: slot as u64 + 1,
            ..*subflow
        };
        controller.init(&mut connection, slot, 0);
    }
    connection
}

pub fn ack(acked: u64) -> Ack {
    Ack {
        now_us: 0,
        acked,
        is_cwnd_limited: 1,
        max_packets_out: u64::from(u32::MAX),
    }
}

/// Window with its fraction, in packets.
pub fn window(subflow: &Subflow) -> f64 {
    subflow.cwnd as f64 + unit() * subflow.cwnd_fraction as f64
}

/// What one ACK adds to the window of `slot`, exactly: a difference of `window` would round a small growth away.
pub fn growth(controller: &Controller, connection: &Connection, slot: usize, ack: &Ack) -> f64 {
    let mut after = connection.clone();
    controller.on_ack(&mut after, slot, ack);
    let (before, after) = (connection.subflows[slot], after.subflows[slot]);
    let whole = (after.cwnd as i64 - before.cwnd as i64) << FRACTION_BITS;
    (whole + after.cwnd_fraction as i64 - before.cwnd_fraction as i64) as f64 * unit()
}

/// One fixed-point unit of growth.
pub fn unit() -> f64 {
    (-f64::from(FRACTION_BITS)).exp2()
}

/// Within 10^-6, a ten-thousandth of what is promised, or two units (each of two terms is rounded once).
pub fn assert_close(got: f64, expected: f64) {
    let allowed = (1e-6 * expected.abs()).max(2.0 * unit());
    assert!(
        (got - expected).abs() <= allowed,
        "got {got:e}, the formula gives {expected:e}"
    );
}

/// Evenly spread over decades.
pub fn decades(from: f64, to: f64) -> impl Strategy<Value = u64> {
    (from.log10()..=to.log10())
        .prop_map(move |exponent| 10f64.powf(exponent).round().clamp(from, to) as u64)
}

/// One to eight subflows, mixed freely over the whole range: windows 2 to 10^6, round trips 10 us to 10 s.
pub fn subflows() -> impl Strategy<Value = Vec<Subflow>> {
    prop::collection::vec((decades(2.0, 1e6), decades(10.0, 1e7)), 1..=8).prop_map(|pairs| {
        pairs
            .into_iter()
            .map(|(cwnd, srtt_us)| subflow(cwnd, srtt_us))
            .collect()
    })
}
