//! Every rule against its formula in floating point, over the whole range of windows and round trips.

mod common;

use common::{
    ack, assert_close, connection, controller, decades, growth, rules, subflow, subflows, unit,
};
use mp_controllers::{Ack, Subflow};
use proptest::prelude::*;

/// Growth of subflow 0 by `acked` packets against `rule` per packet.
fn check(name: &str, subflows: &[Subflow], acked: u64, rule: impl Fn(&[rules::Path]) -> f64) {
    let controller = controller(name);
    let connection = connection(controller, subflows);
    let expected = acked as f64 * rule(&rules::paths(subflows));
    let floor = 2.0 - subflows[0].cwnd as f64;
    assert_close(
        growth(controller, &connection, 0, &ack(acked)),
        expected.max(floor),
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn reno_adds_a_packet_a_window(subflows in subflows(), acked in 1u64..100) {
        check("reno", &subflows, acked, |p| 1.0 / p[0].w);
    }

    #[test]
    fn lia_follows_rfc_6356(subflows in subflows(), acked in 1u64..100) {
        check("lia", &subflows, acked, |p| rules::lia(p, 0));
    }

    #[test]
    fn dalia_follows_its_reconstruction(subflows in subflows(), acked in 1u64..100) {
        check("dalia", &subflows, acked, |p| rules::dalia(p, 0));
    }

    #[test]
    fn balia_increases_as_in_its_paper(subflows in subflows(), acked in 1u64..100) {
        check("balia", &subflows, acked, |p| rules::balia(p, 0));
    }

    #[test]
    fn balia_decreases_as_in_its_paper(subflows in subflows()) {
        let balia = controller("balia");
        let left = balia.on_loss(&mut connection(balia, &subflows), 0, 0) as f64;
        let expected = rules::balia_after_loss(&rules::paths(&subflows), 0);
        let rounded_down = expected - left;
        prop_assert!(left == 2.0 || (-1e-4 * expected..1.0 + 1e-4 * expected).contains(&rounded_down), "{left} for {expected}");
        prop_assert!(left >= 2.0 && (left > 2.0 || expected < 3.001));
    }

    #[test]
    fn olia_follows_its_paper(
        mut subflows in subflows(),
        history in prop::collection::vec((decades(1.0, 1e6), decades(1.0, 1e6)), 8),
        acked in 1u64..100,
    ) {
        let olia = controller("olia");
        let mut c = connection(olia, &subflows);
        let mut l = vec![];
        for (slot, (subflow, (between, since))) in subflows.iter_mut().zip(history).enumerate() {
            c.subflows[slot].delivered += between;
            olia.on_loss(&mut c, slot, 0);
            c.subflows[slot].delivered += since;
            c.subflows[slot].cwnd = subflow.cwnd;
            l.push(between.max(since) as f64 * subflow.mss as f64);
        }
        let paths = rules::paths(&subflows);
        // two qualities so close that only infinite precision could order them
        let quality: Vec<f64> = l.iter().zip(&paths).map(|(l, p)| l / p.t.powi(2)).collect();
        let best = quality.iter().copied().fold(0.0, f64::max);
        prop_assume!(quality.iter().all(|&q| q == best || q < best * (1.0 - 1e-8)));

        let expected = acked as f64 * rules::olia(&paths, &l, 0);
        let floor = 2.0 - subflows[0].cwnd as f64;
        // its two terms may cancel: each is as precise as promised, and no term is above acked/w
        let allowed = 1e-6 * acked as f64 / paths[0].w + 2.0 * unit();
        let got = growth(olia, &c, 0, &ack(acked));
        prop_assert!((got - expected.max(floor)).abs() <= allowed, "got {got:e}, the formula gives {expected:e}");
    }

    #[test]
    fn rsf_db_follows_equation_1(
        cwnd in decades(2.0, 1e6), base in decades(10.0, 1e7), queue in 0u64..1_000_000,
        target in decades(1e3, 1e6), owd in prop::option::of(0u64..1_000_000), acked in 1u64..100,
    ) {
        let rsf = controller("rsf-db");
        let start = Subflow { min_rtt_us: base, queue_owd_us: owd.unwrap_or(u64::MAX), ..subflow(cwnd, base + queue) };
        let mut c = connection(rsf, &[start]);
        c.parameters[rsf.check("target_us", target).unwrap()] = target;
        // a clock of 1 ms ticks serves targets of 50 ms and more
        let q = if target >= 50_000 { owd.unwrap_or(queue) } else { queue };
        let expected = acked as f64 * rules::rsf(cwnd as f64, target as f64, q as f64);
        assert_close(growth(rsf, &c, 0, &ack(acked)), expected.max(2.0 - cwnd as f64));
    }

    #[test]
    fn ld_mpsp_follows_its_text(
        cwnd in decades(2.0, 1e6), base in decades(10.0, 1e7), queue in 0u64..200_000,
        target in decades(1e3, 4.9e4), acked in 1u64..100,
    ) {
        let ld = controller("ld-mpsp");
        let mut c = connection(ld, &[Subflow { min_rtt_us: base, ..subflow(cwnd, base + queue) }]);
        c.parameters[ld.check("target_us", target).unwrap()] = target;
        let expected = acked as f64 * rules::ld_mpsp(cwnd as f64, target as f64, queue as f64);
        assert_close(growth(ld, &c, 0, &ack(acked)), expected.max(2.0 - cwnd as f64));
    }

    #[test]
    fn rsf_lb_follows_equation_2(
        cwnd in decades(2.0, 1e6), srtt in decades(10.0, 1e7), budget in 1u64..1000,
        rounds in prop::collection::vec((1.0f64..40.0, 0u64..50), 1..30), acked in 1u64..100,
    ) {
        let rsf = controller("rsf-lb");
        let mut c = connection(rsf, &[subflow(cwnd, srtt)]);
        c.parameters[rsf.check("loss_budget", budget).unwrap()] = budget;
        // 16 round trips, or as long as ten losses at the budget take
        let memory = (16 * srtt).max(10_000_000 / budget) as f64;
        let (mut now, mut rate) = (0, 0.0);
        for (round_trips, lost) in rounds {
            let elapsed = (round_trips * srtt as f64).ceil() as u64;
            now += elapsed;
            c.subflows[0].lost += lost;
            rsf.on_rtt(&mut c, 0, now);
            rate += (lost as f64 * 1e6 / elapsed as f64 - rate) * (elapsed as f64 / memory).min(1.0);
        }
        // the average is kept in 2^-16 packets/s, each step rounded down
        let coarse = 40.0 / 65536.0;
        let at = |rate: f64| acked as f64 * rules::rsf(cwnd as f64, budget as f64, rate.max(0.0));
        let got = growth(rsf, &c, 0, &ack(acked)).max(2.0 - cwnd as f64);
        let floor = 2.0 - cwnd as f64;
        let slack = 1e-6 * acked as f64 / cwnd as f64;
        let low = at((rate + coarse) * (1.0 + 1e-6)).max(floor) - slack;
        let high = at((rate - coarse) * (1.0 - 1e-6)).max(floor) + slack;
        prop_assert!((low..=high).contains(&got), "{got} outside {low} ... {high}");
    }
}

/// Words of wVegas's state, as wvegas.h orders them.
const WVEGAS_ALPHA: usize = 0;
const WVEGAS_RATE: usize = 1;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn wvegas_moves_by_a_packet_towards_its_share(
        mut subflows in subflows(), rates in prop::collection::vec(decades(1e-6, 1e5), 8),
        alpha in 1u64..20, queued in 0.0f64..1.0,
    ) {
        let wvegas = controller("wvegas");
        let base = subflows[0].min_rtt_us;
        let rtt = base + (base as f64 * queued) as u64;
        subflows[0].rtt_us = rtt;
        subflows[0].srtt_us = rtt;
        subflows[0].cwnd = subflows[0].cwnd.max(4);
        let mut c = connection(wvegas, &subflows);
        // rates in units of 2^-38 packets/us
        for (slot, rate) in rates.iter().enumerate().take(subflows.len()).skip(1) {
            c.subflows[slot].state[WVEGAS_RATE] = rate << 20;
        }
        c.subflows[0].state[WVEGAS_ALPHA] = alpha;
        (0..3).for_each(|_| wvegas.on_rtt(&mut c, 0, rtt));
        wvegas.on_ack(&mut c, 0, &Ack { now_us: rtt, ..ack(1) });

        let w = subflows[0].cwnd;
        let diff = (w * (rtt - base) / rtt) as f64;
        let mut alphas = [alpha as f64; 2];
        if diff >= alpha as f64 {
            let own = w as f64 / rtt as f64 * 2f64.powi(38);
            let others: u64 = rates[1..subflows.len()].iter().map(|rate| rate << 20).sum();
            let share = 10.0 * (own / (own + others as f64));
            // whole packets: next to one, rounding decides which; a lone subflow has exactly all ten
            let slack = if subflows.len() == 1 { 0.0 } else { 1e-4 };
            alphas = [share - slack, share + slack].map(|share| share.floor().max(2.0));
        }
        let expected = alphas.map(|alpha| match diff.total_cmp(&alpha) {
            std::cmp::Ordering::Greater => w - 1,
            std::cmp::Ordering::Equal => w,
            std::cmp::Ordering::Less => w + 1,
        });
        prop_assert!(expected.contains(&c.subflows[0].cwnd), "{} of {w}, expected {expected:?}", c.subflows[0].cwnd);
    }
}

#[test]
fn rsf_lb_takes_no_sample_within_a_round_trip() {
    let rsf = controller("rsf-lb");
    let mut c = connection(rsf, &[subflow(100, 50_000)]);
    c.subflows[0].lost = 1000;
    rsf.on_rtt(&mut c, 0, 49_999);
    assert_close(growth(rsf, &c, 0, &ack(1)), 0.01);
    rsf.on_rtt(&mut c, 0, 50_000);
    assert!(growth(rsf, &c, 0, &ack(1)) < 0.0);
}
