//! MPCC: its power function, its utility by hand, its states over a fluid path, and where it comes to rest.

mod common;

use common::fluid::{Path, World, MSS};
use common::{connection, controller, decades, subflow};
use mp_controllers::Connection;
use proptest::prelude::*;

#[repr(C)]
struct Sample {
    packets: u64,
    lost: u64,
    elapsed_us: u64,
    rise_us: i64,
}

extern "C" {
    fn mp_test_power(numerator: u64, denominator: u64, thousandths: u64, bits: i64) -> u64;
    fn mp_test_mpcc_utility(connection: &Connection, total: u64, sample: &Sample) -> i64;
}

fn utility(name: &str, total: u64, sample: Sample) -> f64 {
    // SAFETY: reads both structs, whose layout is the C one's (the connection's is tested in layout.rs).
    unsafe {
        mp_test_mpcc_utility(&controller(name).connection(), total, &sample) as f64
            / f64::from(1 << 20)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn powers_are_right_to_a_hundred_millionth(numerator in decades(1.0, 1e12), denominator in decades(1.0, 1e9), thousandths in 0u64..=1000) {
        let expected = (numerator as f64 / denominator as f64).powf(thousandths as f64 / 1000.0);
        // as many fractional bits as fit, so that the fixed point's own rounding does not count
        let bits = 61 - expected.log2().ceil() as i64;
        // SAFETY: plain arithmetic.
        let got = unsafe { mp_test_power(numerator, denominator, thousandths, bits) } as f64 * (-bits as f64).exp2();
        prop_assert!((got / expected - 1.0).abs() < 1e-8, "{got} for {expected}");
    }
}

#[test]
fn utility_by_hand() {
    let clean = |packets| Sample {
        packets,
        lost: 0,
        elapsed_us: 60_000,
        rise_us: 0,
    };
    // 100 Mbit/s: 100^0.9
    assert!((utility("mpcc", 12_500_000, clean(500)) - 63.095_734).abs() < 1e-4);
    // 2 % lost: less 11.35 * 0.02 * 100
    assert!(
        (utility(
            "mpcc",
            12_500_000,
            Sample {
                lost: 10,
                ..clean(500)
            }
        ) - (63.095_734 - 22.7))
            .abs()
            < 1e-4
    );
    // the round trip grows by 3 ms in 60 ms: less 900 * 0.05 * 100; and back
    assert!(
        (utility(
            "mpcc",
            12_500_000,
            Sample {
                rise_us: 3_000,
                ..clean(500)
            }
        ) - (63.095_734 - 4500.0))
            .abs()
            < 1e-3
    );
    assert!(
        (utility(
            "mpcc",
            12_500_000,
            Sample {
                rise_us: -3_000,
                ..clean(500)
            }
        ) - (63.095_734 + 4500.0))
            .abs()
            < 1e-3
    );
    assert!(
        (utility(
            "mpcc-loss",
            12_500_000,
            Sample {
                rise_us: 3_000,
                ..clean(500)
            }
        ) - 63.095_734)
            .abs()
            < 1e-4
    );
    // in bytes/s: 12,500,000^0.9 - 11 * 0.02 * 12,500,000 - 0.05 * 12,500,000
    let bytes = utility(
        "mpcc-code",
        12_500_000,
        Sample {
            lost: 10,
            rise_us: 3_000,
            ..clean(500)
        },
    );
    let by_hand = 12_500_000f64.powf(0.9) - 2_750_000.0 - 625_000.0;
    assert!((bytes - by_hand).abs() < 1.0, "{bytes} {by_hand}");
}

#[test]
fn start_doubles_until_the_path_is_full() {
    let mut world = World::new("mpcc-loss", vec![Path::new(40, 100.0, 20.0, 0.0)]);
    let mut rates = vec![];
    for _ in 0..1200 {
        world.run(1);
        if rates.last() != Some(&world.mbps(0)) {
            rates.push(world.mbps(0));
        }
    }
    assert_eq!(rates[..6], [4.0, 8.0, 16.0, 32.0, 64.0, 128.0], "Mbit/s");
    assert!(
        (rates[6] / 64.0 - 1.0).abs() < 0.051,
        "128 is more than the path carries: back, and probing, {}",
        rates[6]
    );
}

#[test]
fn start_forgives_losses_under_fifteen_per_cent() {
    for (loss, expected) in [(0.0, true), (0.14, true), (0.2, false)] {
        let mut world = World::new("mpcc-loss", vec![Path::new(40, 1e5, 20.0, loss)]);
        world.run(1000);
        assert_eq!(
            world.mbps(0) > 50.0,
            expected,
            "{} at {loss}",
            world.mbps(0)
        );
    }
}

#[test]
fn a_clean_path_is_filled() {
    for name in ["mpcc", "mpcc-loss", "mpcc-code", "pcc"] {
        let mut world = World::new(name, vec![Path::new(40, 100.0, 40.0, 0.0)]);
        world.run(10_000);
        let goodput = world.goodput(20_000)[0];
        assert!(
            (85.0..=100.1).contains(&goodput),
            "{name}: {goodput} Mbit/s of 100"
        );
    }
}

/// X* = (a/(b L))^(1/(1 - a)) in the utility's unit.
fn resting_rate(alpha: f64, beta: f64, loss: f64) -> f64 {
    (alpha / (beta * loss)).powf(1.0 / (1.0 - alpha))
}

#[test]
fn random_loss_decides_where_it_rests() {
    for (name, beta, unit_mbps, loss) in [
        ("mpcc-loss", 11.35, 1.0, 0.05),
        ("mpcc-loss", 11.35, 1.0, 0.06),
        ("mpcc", 11.35, 1.0, 0.055),
        ("mpcc-code", 11.0, 8e-6, 0.02),
        ("mpcc-code", 11.0, 8e-6, 0.016),
    ] {
        let mut world = World::new(name, vec![Path::new(40, 300.0, 40.0, loss)]);
        world.run(200_000);
        let expected = resting_rate(0.9, beta, loss) * unit_mbps;
        let got = world.mean_rate(100_000);
        assert!(
            (got / expected - 1.0).abs() < 0.15,
            "{name} at {loss}: {got} Mbit/s, closed form {expected}"
        );
    }
}

#[test]
fn what_the_paper_claims_and_what_its_code_does() {
    // 100 Mbit/s bears 5 % in Mbit/s, 1.6 % in bytes/s; at 2 % the code holds 10.5 Mbit/s
    assert!((resting_rate(0.9, 11.35, 0.05) - 100.0).abs() < 2.0);
    assert!((resting_rate(0.9, 11.0, 0.016) * 8e-6 - 100.0).abs() < 5.0);
    assert!((resting_rate(0.9, 11.0, 0.02) * 8e-6 - 10.5).abs() < 0.1);
}

#[test]
fn two_subflows_fill_two_paths() {
    let mut world = World::new(
        "mpcc-loss",
        vec![
            Path::new(40, 50.0, 40.0, 0.0),
            Path::new(60, 20.0, 60.0, 0.0),
        ],
    );
    world.run(20_000);
    let goodput = world.goodput(20_000);
    assert!(
        goodput[0] > 40.0 && goodput[1] > 15.0,
        "{goodput:?} of 50 and 20"
    );
}

#[test]
fn a_sibling_with_a_clean_path_relieves_a_lossy_one() {
    // U falls in x where a*X^(a-1) < b*L: with 80 Mbit/s on the other path 5.5 % is too much for this one
    let lossy = || Path::new(40, 1e5, 40.0, 0.055);
    let mut alone = World::new("mpcc-loss", vec![lossy()]);
    let mut pair = World::new("mpcc-loss", vec![lossy(), Path::new(40, 80.0, 40.0, 0.0)]);
    let mut uncoupled = World::new("pcc", vec![lossy(), Path::new(40, 80.0, 40.0, 0.0)]);
    for world in [&mut alone, &mut pair, &mut uncoupled] {
        world.run(90_000);
    }
    let (alone, pair, uncoupled) = (
        alone.mean_rate(30_000),
        pair.mean_rate(30_000),
        uncoupled.mean_rate(30_000),
    );
    assert!(alone > 30.0, "{alone}");
    assert!(pair < 10.0, "{pair}");
    assert!(uncoupled > 30.0, "{uncoupled}");
}

#[test]
fn loss_over_thirty_per_cent_halves_the_rate() {
    let mut world = World::new("mpcc-loss", vec![Path::new(40, 1000.0, 40.0, 0.0)]);
    world.run(3_000);
    let before = world.mbps(0);
    world.paths[0].loss = 0.5;
    world.run(400);
    assert!(
        world.mbps(0) < before / 2.0,
        "{} after {before}",
        world.mbps(0)
    );
    world.run(10_000);
    assert_eq!(world.mbps(0), 0.2, "the floor, 25 kB/s");
}

#[test]
fn an_application_that_sends_little_does_not_raise_the_rate() {
    let mut world = World::new("mpcc-loss", vec![Path::new(40, 1000.0, 40.0, 0.0)]);
    world.run(2_000);
    let before = world.mbps(0);
    // a tenth of the rate is used from here on
    for now_ms in 2_001..12_000u64 {
        let subflow = &mut world.connection.subflows[0];
        subflow.delivered += subflow.pacing_rate / 10_000 / MSS;
        world
            .controller
            .on_rtt(&mut world.connection, 0, now_ms * 1000);
        world
            .controller
            .on_interval(&mut world.connection, 0, now_ms * 1000);
    }
    assert!(
        world.mbps(0) <= 1.1 * before,
        "{} after {before}",
        world.mbps(0)
    );
}

#[test]
fn the_window_is_twice_what_the_rate_needs() {
    let mut world = World::new("mpcc-loss", vec![Path::new(40, 100.0, 40.0, 0.0)]);
    world.run(300);
    let subflow = &world.connection.subflows[0];
    let needed = subflow.pacing_rate * subflow.srtt_us;
    assert_eq!(subflow.cwnd, 2 * needed / 1_000_000 / MSS);
}

#[test]
fn a_loss_event_alone_changes_nothing() {
    let mpcc = controller("mpcc");
    let mut c = connection(mpcc, &[subflow(40, 20_000)]);
    let rate = c.subflows[0].pacing_rate;
    assert_eq!(mpcc.on_loss(&mut c, 0, 0), 40);
    assert_eq!((c.subflows[0].pacing_rate, c.subflows[0].cwnd), (rate, 40));
}

#[test]
fn only_the_cost_of_delay_keeps_queues_short() {
    let queue_ms = |name| {
        let mut world = World::new(name, vec![Path::new(40, 100.0, 200.0, 0.0)]);
        world.run(10_000);
        let rounds = 20_000;
        let total: f64 = (0..rounds)
            .map(|_| {
                world.run(1);
                world.connection.subflows[0].rtt_us as f64 / 1000.0 - 40.0
            })
            .sum();
        total / f64::from(rounds)
    };
    let (with, without) = (queue_ms("mpcc"), queue_ms("mpcc-loss"));
    assert!(
        with < 20.0 && without > 100.0,
        "{with} ms with, {without} ms without, of 200"
    );
}
