//! Queue disciplines and links that change.

mod common;
use common::*;

use mp_record::Run;
use mp_scenario::{Discipline, Loss, Scenario};

fn median_srtt_ms(run: &Run) -> f64 {
    let mut all: Vec<u32> = run
        .samples
        .iter()
        .filter(|s| s.time_s > 5.0)
        .map(|s| s.srtt_us)
        .collect();
    all.sort_unstable();
    f64::from(all[all.len() / 2]) / 1000.0
}

fn lost(run: &Run) -> u32 {
    run.samples.iter().map(|s| s.lost).max().unwrap_or(0)
}

/// 10 Mbit/s, 40 ms, and room for 600 ms of queue.
fn bloated(discipline: Discipline, ecn: bool) -> Scenario {
    let mut s = scenario(vec![path(mbit(10), ms(20), 500, 0.0)], ms(60_000));
    s.paths[0].down.queue.discipline = discipline;
    s.paths[0].down.queue.ecn = ecn;
    s.sample_interval = ms(100);
    s
}

const CODEL: Discipline = Discipline::CoDel {
    target: ms5(),
    interval: std::time::Duration::from_millis(100),
};
const RED: Discipline = Discipline::Red {
    min: 10.0,
    max: 60.0,
    probability: 0.1,
};

const fn ms5() -> std::time::Duration {
    std::time::Duration::from_millis(5)
}

#[test]
fn droptail_fills_and_active_management_does_not() {
    let run = |d| simulate(&bloated(d, false), &variant("reno"), 1);
    let (tail, codel, red) = (run(Discipline::DropTail), run(CODEL), run(RED));
    assert!(median_srtt_ms(&tail) > 300.0, "{}", median_srtt_ms(&tail));
    assert!(median_srtt_ms(&codel) < 80.0, "{}", median_srtt_ms(&codel));
    assert!(median_srtt_ms(&red) < 120.0, "{}", median_srtt_ms(&red));
    for run in [&tail, &codel, &red] {
        assert!(goodput(run) > 8.0, "{}", goodput(run));
    }
}

#[test]
fn marks_take_the_place_of_drops() {
    for discipline in [CODEL, RED] {
        let dropped = simulate(&bloated(discipline, false), &variant("reno"), 1);
        let marked = simulate(&bloated(discipline, true), &variant("reno"), 1);
        assert!(lost(&dropped) > 10, "{discipline:?}: {}", lost(&dropped));
        assert_eq!(lost(&marked), 0, "{discipline:?}");
        assert!(goodput(&marked) > 7.5 && median_srtt_ms(&marked) < 130.0);
    }
}

#[test]
fn jitter_keeps_the_order_unless_asked() {
    let mut s = scenario(vec![path(mbit(20), ms(10), 200, 0.0)], ms(20_000));
    s.paths[0].down.jitter = Some((ms(0), ms(8)));
    let kept = simulate(&s, &variant("reno"), 1);
    s.paths[0].down.reorder = true;
    let mixed = simulate(&s, &variant("reno"), 1);
    assert!(
        goodput(&kept) > 17.0 && goodput(&mixed) > 10.0,
        "{} {}",
        goodput(&kept),
        goodput(&mixed)
    );
}

/// Bursts hurt less than single losses of the same number: one window holds a whole burst.
#[test]
fn bursts_of_loss_cost_fewer_reductions() {
    let with = |loss| {
        let mut s = scenario(vec![path(mbit(100), ms(20), 400, 0.0)], ms(200_000));
        s.paths[0].down.loss = loss;
        goodput(&simulate(&s, &variant("reno"), 1))
    };
    let single = with(Loss::Bernoulli(0.005));
    // Stationary loss p / (p + r) = 0.5 %, four packets at a time.
    let bursts = with(Loss::GilbertElliott {
        p: 0.25 / 199.0,
        r: 0.25,
        good: 0.0,
        bad: 1.0,
    });
    assert!(bursts > 1.3 * single, "{bursts:.2} {single:.2}");
}
