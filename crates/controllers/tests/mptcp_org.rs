//! Where the mptcp.org kernel's arithmetic gives other numbers than ours, and where the same. Its `srtt` is 8 times the
//! round trip in us; its sums are integers of few bits. Reference for readers who compare results with that kernel.

mod common;

use common::{ack, connection, controller, growth, rules, subflow};
use mp_controllers::Subflow;

/// ACKs of one packet until the window grows by one.
fn lia_reference_acks(subflows: &[Subflow], i: usize) -> u64 {
    let srtt = |s: &Subflow| 8 * s.srtt_us;
    let best = subflows
        .iter()
        .max_by_key(|s| (s.cwnd << 32) / srtt(s).pow(2))
        .unwrap();
    let sum: u64 = subflows
        .iter()
        .map(|s| (s.cwnd << 10) * srtt(best) / srtt(s))
        .sum();
    let alpha = ((best.cwnd << 32) / (sum * sum)).max(1);
    (4096 / alpha).max(subflows[i].cwnd)
}

/// Growth per ACK, before it is gathered into whole packets at 1023/1024.
fn olia_reference(subflows: &[Subflow], i: usize, (epsilon_num, epsilon_den): (i64, i64)) -> f64 {
    let own = &subflows[i];
    let sum: u64 = subflows
        .iter()
        .map(|s| (s.cwnd << 10) * own.srtt_us / s.srtt_us)
        .sum();
    let rate = (1 + sum).pow(2) as i64;
    let scaled = (own.cwnd as i64) << 10;
    let step = ((epsilon_num * rate + epsilon_den * scaled * scaled) << 10)
        / (epsilon_den * own.cwnd as i64 * rate);
    step as f64 / 1024.0
}

/// ACKs of one packet until the window grows by one, and what a loss leaves.
fn balia_reference(subflows: &[Subflow], i: usize) -> (u64, u64) {
    let x = |s: &Subflow| (s.cwnd << 10) * 1_000_000 / (8 * s.srtt_us);
    let own = x(&subflows[i]);
    let (largest, sum) = (
        subflows.iter().map(x).max().unwrap(),
        subflows.iter().map(x).sum::<u64>(),
    );
    let cwnd = subflows[i].cwnd;
    // wide: the kernel scales these down before they overflow
    let increase = 10 * u128::from(sum).pow(2) / u128::from(own + largest) * u128::from(cwnd)
        / u128::from(4 * own + largest);
    let alpha = largest / own;
    let decrease = ((cwnd >> 1) * (alpha << 10).min(1536)) >> 10;
    (increase as u64, cwnd - decrease)
}

fn ours(name: &str, subflows: &[Subflow], i: usize) -> f64 {
    let controller = controller(name);
    growth(controller, &connection(controller, subflows), i, &ack(1))
}

#[test]
fn lia_agrees_on_middling_windows() {
    for subflows in [
        [subflow(20, 20_000), subflow(30, 60_000)],
        [subflow(100, 50_000), subflow(60, 40_000)],
    ] {
        for i in 0..2 {
            let ratio = ours("lia", &subflows, i) * lia_reference_acks(&subflows, i) as f64;
            assert!((0.85..1.15).contains(&ratio), "{ratio}");
        }
    }
}

#[test]
fn lia_of_the_reference_is_too_fast_where_windows_are_large() {
    // alpha/W = 1/40000 is 0.1/4096, and the reference has nothing below 1/4096
    let subflows = [subflow(10_000, 50_000); 2];
    assert_eq!(lia_reference_acks(&subflows, 0), 10_000);
    assert!((ours("lia", &subflows, 0) - 1.0 / 40_000.0).abs() < 1e-9);
    // it cannot even tell best paths apart: every (cwnd << 32)/srtt^2 is 0 from about 0.3 s on
    let slow = [subflow(10, 500_000), subflow(1000, 300_000)];
    assert!(slow
        .iter()
        .all(|s| (s.cwnd << 32) / (8 * s.srtt_us).pow(2) <= 1));
}

#[test]
fn lia_of_the_reference_rounds_alpha_down() {
    // alpha/W = 1/400 is 10.24/4096, taken as 10: 409 ACKs in place of 400
    let subflows = [subflow(100, 50_000); 2];
    assert_eq!(lia_reference_acks(&subflows, 0), 409);
    assert!((ours("lia", &subflows, 0) * 400.0 - 1.0).abs() < 1e-6);
}

#[test]
fn olia_agrees_on_small_windows_and_the_reference_stops_on_large_ones() {
    let small = [subflow(10, 50_000), subflow(10, 50_000)];
    let (reference, ours_small) = (olia_reference(&small, 0, (0, 1)), ours("olia", &small, 0));
    assert!(
        (reference / ours_small - 1.0).abs() < 0.03,
        "{reference} {ours_small}"
    );
    // 1/(4w) below 1/1024: the reference adds nothing at all
    let large = [subflow(300, 50_000), subflow(300, 50_000)];
    assert_eq!(olia_reference(&large, 0, (0, 1)), 0.0);
    assert!((ours("olia", &large, 0) * 1200.0 - 1.0).abs() < 1e-6);
}

#[test]
fn olia_of_the_reference_loses_the_slower_of_two_unlike_paths() {
    // as one part in 1024 of the faster path's window, 20 packets over 2 s beside 2000 over 20 ms still count: the
    // first term agrees, but is below what the reference can add
    let subflows = [subflow(20, 2_000_000), subflow(2000, 20_000)];
    let rule = rules::olia(&rules::paths(&subflows), &[0.0, 1.0], 0);
    assert!(rule > 0.0 && rule < 1.0 / 1024.0);
    assert_eq!(olia_reference(&subflows, 0, (0, 1)), 0.0);
}

#[test]
fn balia_increases_agree() {
    for subflows in [
        [subflow(20, 20_000), subflow(30, 60_000)],
        [subflow(500, 50_000), subflow(60, 40_000)],
    ] {
        for i in 0..2 {
            let (acks, _) = balia_reference(&subflows, i);
            let ratio = ours("balia", &subflows, i) * acks as f64;
            assert!((0.9..1.1).contains(&ratio), "{ratio}");
        }
    }
}

#[test]
fn balia_of_the_reference_takes_a_half_or_three_quarters_only() {
    let balia = controller("balia");
    for (other, reference, exact) in [
        (100, 50, 50),
        (110, 50, 45),
        (140, 50, 30),
        (199, 50, 25),
        (200, 25, 25),
        (900, 25, 25),
    ] {
        let subflows = [subflow(100, 50_000), subflow(other, 50_000)];
        assert_eq!(balia_reference(&subflows, 0).1, reference, "beside {other}");
        let ours = balia.on_loss(&mut connection(balia, &subflows), 0, 0);
        assert!(ours.abs_diff(exact) <= 1, "{ours} beside {other}");
    }
}
