//! The path that connections start on, learnt within a run.
mod common;
use common::*;

use mp_record::{Decision, Run};
use mp_scenario::{Change, Event, Scenario, Variant};

/// Many short downloads, one after the other, over a first path that is bad and a second that is good.
fn short_flows(first_mbit: f64, second_mbit: f64) -> Scenario {
    let rate = |mbit: f64| (mbit * 1e6) as u64;
    let mut s = scenario(
        vec![
            path(rate(first_mbit), ms(60), 50, 0.0),
            path(rate(second_mbit), ms(15), 50, 0.0),
        ],
        ms(300_000),
    );
    s.connections[0].bytes = Some(40_000);
    s.connections[0].arrivals = Some(2.0);
    s.connections[0].count = 1;
    s
}

fn by(s: &Scenario, initial: &str) -> Run {
    let v = Variant {
        initial_path: initial.into(),
        ..variant("reno")
    };
    simulate(s, &v, 1)
}

fn share<'a>(decisions: impl Iterator<Item = &'a Decision>, arm: &str) -> f64 {
    let all: Vec<&Decision> = decisions.collect();
    all.iter().filter(|d| d.arm == arm).count() as f64 / all.len() as f64
}

fn completion(run: &Run, from: f64) -> f64 {
    let late = run.transfers.iter().filter(|t| t.start_s >= from);
    let times: Vec<f64> = late
        .filter_map(|t| t.end_s.map(|end| end - t.start_s))
        .collect();
    times.iter().sum::<f64>() / times.len() as f64
}

#[test]
fn a_bad_first_path_no_longer_starts_the_connections() {
    let s = short_flows(1.0, 20.0);
    let (stock, learnt) = (by(&s, "first"), by(&s, "active-explorer"));
    assert!(stock.decisions.is_empty());
    assert_eq!(learnt.decisions.len(), learnt.transfers.len());
    let late = learnt.decisions.iter().filter(|d| d.time_s >= 150.0);
    assert!(share(late, "b") > 0.8);
    let (before, after) = (completion(&stock, 150.0), completion(&learnt, 150.0));
    assert!(after < 0.7 * before, "{before:.3} s, then {after:.3} s");
}

#[test]
fn every_bandit_learns_within_a_run() {
    let s = short_flows(1.0, 20.0);
    for entry in mp_policy::initial_path::all() {
        if entry.build().is_some() {
            let run = by(&s, entry.name);
            let late = run.decisions.iter().filter(|d| d.time_s >= 200.0);
            let share = share(late, "b");
            // Explore-first still explores then.
            let least = if entry.name == "explore-first" {
                0.3
            } else {
                0.6
            };
            assert!(share > least, "{}: {share:.2}", entry.name);
        }
    }
}

#[test]
fn a_run_with_a_bandit_depends_on_its_seed_alone() {
    let s = short_flows(5.0, 5.0);
    assert_eq!(by(&s, "active-explorer"), by(&s, "active-explorer"));
}

#[test]
fn decisions_carry_what_was_known() {
    let mut s = short_flows(10.0, 10.0);
    let event = |at: u64, path: &str, change| Event {
        at: ms(at),
        path: path.into(),
        change,
    };
    s.events = vec![
        event(0, "a", Change::Signal(-71)),
        event(
            0,
            "b",
            Change::Readings(vec![("cqi".into(), 9.0), ("rtt_ms".into(), 33.0)]),
        ),
        event(100_000, "b", Change::Readings(vec![("cqi".into(), 4.0)])),
    ];
    let run = by(&s, "active-explorer");
    let read = |d: &Decision, name: &str| {
        let found = d.features.iter().find(|(n, _)| n == name);
        found.expect(name).1
    };
    let (first, second) = (&run.decisions[0], &run.decisions[1]);
    let last = &run.decisions[run.decisions.len() - 2];
    assert_eq!(
        read(first, "a.rtt_ms"),
        None,
        "nothing has been measured yet"
    );
    assert_eq!(read(second, "a.signal_dbm"), Some(-71.0));
    assert_eq!(read(second, "b.cqi"), Some(9.0));
    assert_eq!(read(last, "b.cqi"), Some(4.0));
    // What is told goes before what is measured.
    assert_eq!(read(last, "b.rtt_ms"), Some(33.0));
    let rtt = read(last, "a.rtt_ms").expect("the connections before saw it");
    assert!((rtt - 120.0).abs() < 40.0, "{rtt}");
    assert!(last.reward.is_some() && last.throughput_mbps > Some(0.0));
    assert!(last.latency_ms.is_some_and(|l| l > 20.0));
}
