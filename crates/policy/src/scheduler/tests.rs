use proptest::prelude::*;

use super::*;

const MSS: u32 = 1_000;

/// A live subflow with an empty window, a quiet RTT and an ample send buffer.
fn subflow(srtt_us: u32, cwnd: u32) -> SubflowView {
    SubflowView {
        active: true,
        mss: MSS,
        srtt_us,
        min_rtt_us: srtt_us,
        cwnd,
        room: 1 << 20,
        pacing_rate: u64::from(cwnd * MSS) * 1_000_000 / u64::from(srtt_us),
        ..Default::default()
    }
}

fn full(mut s: SubflowView) -> SubflowView {
    s.in_flight = s.cwnd;
    s.queued = u64::from(s.cwnd * s.mss);
    s
}

/// Ample data, ample window.
fn bulk() -> ConnectionView {
    ConnectionView {
        unsent: 1 << 20,
        window_left: 1 << 20,
        ..Default::default()
    }
}

fn build(name: &str) -> Scheduler {
    find(name).expect(name).build()
}

fn first(name: &str, connection: &ConnectionView, subflows: &[SubflowView]) -> Option<usize> {
    build(name).pick(connection, subflows).first()
}

#[test]
fn every_name_is_found_once() {
    for e in all() {
        assert!(std::ptr::eq(find(e.name).unwrap(), e), "{} twice", e.name);
        assert!(!e.summary.is_empty() && !e.source.is_empty());
    }
    assert!(find("no-such").is_none());
}

#[test]
fn default_feeds_the_queue_that_empties_first() {
    // 100 kB at 10 MB/s: 10 ms. 30 kB at 1 MB/s: 30 ms.
    let mut s = [subflow(10_000, 10), subflow(10_000, 10)];
    (s[0].queued, s[0].pacing_rate) = (100_000, 10_000_000);
    (s[1].queued, s[1].pacing_rate) = (30_000, 1_000_000);
    assert_eq!(first("default", &bulk(), &s), Some(0));
    s[0].queued = 400_000; // 40 ms
    assert_eq!(first("default", &bulk(), &s), Some(1));
}

#[test]
fn default_sends_nothing_rather_than_use_the_slower_queue() {
    let mut s = [subflow(10_000, 10), subflow(10_000, 10)];
    (s[0].queued, s[0].room) = (1_000, 0);
    s[1].queued = 1_000_000;
    assert_eq!(first("default", &bulk(), &s), None);
}

#[test]
fn default_ignores_the_congestion_window() {
    assert_eq!(
        first("default", &bulk(), &[full(subflow(10_000, 10))]),
        Some(0)
    );
}

#[test]
fn default_bursts_at_most_its_constant_and_the_receive_window() {
    let s = [subflow(10_000, 10)];
    assert_eq!(build("default").pick(&bulk(), &s), Choice::one(0, 65_428));
    let narrow = ConnectionView {
        window_left: 5_000,
        ..bulk()
    };
    assert_eq!(build("default").pick(&narrow, &s), Choice::one(0, 5_000));
    let closed = ConnectionView {
        window_left: 0,
        ..bulk()
    };
    assert!(build("default").pick(&closed, &s).is_wait());
}

#[test]
fn default_averages_the_pacing_rate_by_bytes() {
    let narrow = ConnectionView {
        window_left: 10_000,
        ..bulk()
    };
    let mut s = [subflow(10_000, 10), subflow(10_000, 10)];
    (s[0].queued, s[0].pacing_rate) = (30_000, 1_000_000);
    (s[1].queued, s[1].pacing_rate) = (40_000, 1_000_000);
    let mut scheduler = build("default");
    assert_eq!(scheduler.pick(&narrow, &s).first(), Some(0)); // 30 ms before 40 ms; average 1 MB/s
    s[0].pacing_rate = 5_000_000;
    assert_eq!(scheduler.pick(&narrow, &s).first(), Some(0)); // average (1·30 + 5·10)/40 = 2 MB/s
    s[0].queued = 79_000; // 39.5 ms at 2 MB/s, before the 40 ms; that pick makes it (2·79 + 5·10)/89 = 2.337 MB/s
    assert_eq!(scheduler.pick(&narrow, &s).first(), Some(0));
    s[0].queued = 94_000; // 40.2 ms
    assert_eq!(scheduler.pick(&narrow, &s).first(), Some(1));
    scheduler.forget(0); // a new subflow in the slot starts from its own rate: 18.8 ms
    assert_eq!(scheduler.pick(&narrow, &s).first(), Some(0));
}

#[test]
fn min_rtt_takes_the_lowest_srtt_with_room() {
    let s = [
        subflow(50_000, 10),
        subflow(10_000, 10),
        subflow(20_000, 10),
    ];
    assert_eq!(first("min-rtt", &bulk(), &s), Some(1));
    assert_eq!(
        first("min-rtt", &bulk(), &[s[0], full(s[1]), s[2]]),
        Some(2)
    );
    assert_eq!(
        first("min-rtt", &bulk(), &[full(s[0]), full(s[1]), full(s[2])]),
        None
    );
}

#[test]
fn round_robin_visits_each_in_turn_and_skips_full_ones() {
    let mut s = vec![
        subflow(50_000, 10),
        subflow(10_000, 10),
        subflow(20_000, 10),
    ];
    let mut scheduler = build("round-robin");
    let mut turn = |s: &[SubflowView]| scheduler.pick(&bulk(), s).first();
    assert_eq!(
        [turn(&s), turn(&s), turn(&s), turn(&s)],
        [Some(0), Some(1), Some(2), Some(0)]
    );
    s[1] = full(s[1]);
    assert_eq!([turn(&s), turn(&s), turn(&s)], [Some(2), Some(0), Some(2)]);
}

/// A caller reads little ahead for those that say so.
#[test]
fn what_waits_decides_only_with_schedulers_that_plan_ahead() {
    let s = [
        subflow(50_000, 10),
        full(subflow(10_000, 10)),
        subflow(20_000, 10),
    ];
    for entry in all() {
        let choices = [1u64 << 14, 1 << 18, 1 << 24].map(|unsent| {
            let mut scheduler = entry.build();
            let connection = ConnectionView { unsent, ..bulk() };
            (0..20)
                .map(|_| scheduler.pick(&connection, &s))
                .collect::<Vec<_>>()
        });
        let alike = choices.iter().all(|of| *of == choices[0]);
        assert!(
            alike || entry.build().plans_ahead(),
            "{}: {choices:?}",
            entry.name
        );
    }
    let plans = all().iter().filter(|entry| entry.build().plans_ahead());
    let names: Vec<_> = plans.map(|entry| entry.name).collect();
    assert_eq!(names, ["ecf", "delay-balance", "cloning", "ld-mpsp"]);
}

#[test]
fn redundant_takes_every_ready_one() {
    let s = [
        subflow(50_000, 10),
        full(subflow(10_000, 10)),
        subflow(20_000, 10),
    ];
    let choice = build("redundant").pick(&bulk(), &s);
    assert_eq!(choice.iter().collect::<Vec<_>>(), [0, 2]);
    assert!(build("redundant").replicates() && !build("default").replicates());
}

#[test]
fn blest_skips_a_slow_subflow_that_would_block_the_window() {
    // rtts = 50/10 = 5; X = 1000 · (10 + 2) · 5 = 60,000; λX = 72,000.
    // Window less one segment on the slow one: blocked at 72,999 − 1,000, free at 73,000 − 1,000.
    let s = [full(subflow(10_000, 10)), subflow(50_000, 10)];
    let view = |window: u64| ConnectionView {
        in_flight: 10_000,
        window_left: window - 10_000,
        ..bulk()
    };
    assert_eq!(first("blest", &view(72_999), &s), None);
    assert_eq!(first("blest", &view(73_000), &s), Some(1));
    // With 3 packets in flight on the slow one, 3,000 bytes more are needed.
    let mut busy = s;
    busy[1].in_flight = 3;
    assert_eq!(first("blest", &view(75_999), &busy), None);
    assert_eq!(first("blest", &view(76_000), &busy), Some(1));
    // The fast one free: no question.
    assert_eq!(
        first("blest", &view(20_000), &[subflow(10_000, 10), s[1]]),
        Some(0)
    );
}

#[test]
fn blest_lambda_follows_reinjections_within_its_bounds() {
    let s = [full(subflow(10_000, 10)), subflow(50_000, 10)];
    let mut blest = Blest::default();
    let mut at = |now_us, reinjected| {
        blest.pick(
            &ConnectionView {
                now_us,
                reinjected,
                ..bulk()
            },
            &s,
        );
        blest.lambda()
    };
    assert_eq!(at(49_999, 0), 1200); // not yet an RTT of the slow one
    assert_eq!(at(50_000, 0), 1190);
    assert_eq!(at(100_000, 1), 1230);
    let up = (3..20).map(|k| at(k * 50_000, k)).last();
    assert_eq!(up, Some(1300));
    let down = (20..80).map(|k| at(k * 50_000, 19)).last();
    assert_eq!(down, Some(1000));
}

#[test]
fn ecf_waits_for_the_fast_subflow_when_it_finishes_first() {
    // f: 10 ms, cwnd 10; s: 100 ms, cwnd 10; δ = 0.
    let s = [full(subflow(10_000, 10)), subflow(100_000, 10)];
    let k = |packets: u64| ConnectionView {
        unsent: packets * u64::from(MSS),
        ..bulk()
    };
    // k = 20: n·RTT_f = 30 < 100, and 20/10 · 100 ≥ 20: wait.
    assert_eq!(first("ecf", &k(20), &s), None);
    // k = 100: n·RTT_f = 110 ≥ 100: even the slow one helps.
    assert_eq!(first("ecf", &k(100), &s), Some(1));
    // k = 1: n·RTT_f = 11 < 100, but 1/10 · 100 = 10 < 20: a last packet may go.
    assert_eq!(first("ecf", &k(1), &s), Some(1));
}

#[test]
fn ecf_goes_on_waiting_until_the_hysteresis_is_overcome() {
    let s = [full(subflow(10_000, 10)), subflow(100_000, 10)];
    let k = |packets: u64| ConnectionView {
        unsent: packets * u64::from(MSS),
        ..bulk()
    };
    let mut ecf = build("ecf");
    assert!(ecf.pick(&k(20), &s).is_wait());
    assert!(ecf.pick(&k(100), &s).is_wait()); // 110 < 1.25 · 100
    assert_eq!(ecf.pick(&k(115), &s).first(), Some(1)); // 125 = 125
    assert_eq!(ecf.pick(&k(100), &s).first(), Some(1)); // no longer waiting
}

#[test]
fn ecf_allows_for_rtt_deviation() {
    let mut s = [full(subflow(10_000, 10)), subflow(100_000, 10)];
    s[1].rttvar_us = 20_000;
    let k = ConnectionView {
        unsent: 100 * u64::from(MSS),
        ..bulk()
    };
    assert_eq!(first("ecf", &k, &s), None); // 110 < 100 + 20, and 1,000 ≥ 20 + 20
}

#[test]
fn edpf_weighs_delay_against_the_queue() {
    // Both drain 1 packet/ms. Path 0: 5 ms away; path 1: 37 ms away.
    let fast = subflow(10_000, 10);
    let slow = subflow(74_000, 74);
    assert_eq!(first("edpf", &bulk(), &[fast, slow]), Some(0));
    // 41 packets beyond the first's own 10 in the pipe: 5 + 41 + 1 = 47 ms against 37 + 1.
    let mut queued = fast;
    queued.queued = 51_000;
    assert_eq!(first("edpf", &bulk(), &[queued, slow]), Some(1));
    // 31 packets: 5 + 31 + 1 = 37 ms.
    queued.queued = 41_000;
    assert_eq!(first("edpf", &bulk(), &[queued, slow]), Some(0));
    // Its buffer full: the next earliest.
    queued.room = 0;
    assert_eq!(first("edpf", &bulk(), &[queued, slow]), Some(1));
}

#[test]
fn reinjection_spares_backup_until_all_are_stuck_twice() {
    let idle = subflow(10_000, 10);
    let busy = full(idle);
    let spare = SubflowView {
        backup: true,
        ..idle
    };
    assert_eq!(pick_reinjection(&[busy, idle, spare], 0), Some(1));
    assert_eq!(pick_reinjection(&[busy, spare], 1), None);
    assert_eq!(pick_reinjection(&[busy, spare], 2), Some(1));
    assert_eq!(pick_reinjection(&[busy, busy], 9), None);
}

#[test]
fn a_preferred_subflow_is_filled_before_others_whichever_scheduler_asks() {
    let quick = subflow(10_000, 10);
    let preferred = SubflowView {
        preferred: true,
        ..subflow(90_000, 10)
    };
    let mut views = [SubflowView::default(); MAX_SUBFLOWS];
    (views[0], views[1]) = (quick, preferred);
    for entry in all().iter().filter(|entry| !entry.build().replicates()) {
        let mut scheduler = entry.build();
        let first = |scheduler: &mut Scheduler, views| scheduler.pick(&bulk(), &shown(views)[..2]);
        let choice = first(&mut scheduler, &views);
        assert_eq!(choice.subflows, 0b10, "{}", entry.name);
    }
    views[1] = full(preferred);
    assert_eq!(first("min-rtt", &bulk(), &shown(&views)[..2]), Some(0));
}

prop_compose! {
    fn any_subflow()(
        active in prop::bool::weighted(0.8), stale in prop::bool::weighted(0.2), backup in prop::bool::weighted(0.3),
        mss in 500u32..9_000, srtt_us in 0u32..1_000_000, rttvar_us in 0u32..500_000, cwnd in 0u32..5_000,
        in_flight in 0u32..5_000, unsent in 0u32..100, queued in 0u64..10_000_000,
        room in prop_oneof![Just(0u64), 1u64..1_000_000], pacing_rate in 0u64..10_000_000_000,
    ) -> SubflowView {
        SubflowView {
            active, stale, backup, mss, srtt_us, rttvar_us, min_rtt_us: srtt_us, cwnd, in_flight, unsent, queued, room,
            pacing_rate, ..Default::default()
        }
    }
}

prop_compose! {
    fn any_connection()(
        now_us in 0u64..1_000_000_000, unsent in 1u64..100_000_000, in_flight in 0u64..10_000_000,
        window_left in prop_oneof![Just(0u64), 1u64..10_000_000], reinjected in 0u64..1_000,
    ) -> ConnectionView {
        ConnectionView { now_us, unsent, in_flight, window_left, reinjected }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever the scheduler and whatever came before: a chosen subflow is alive, has buffer, has window where the
    /// scheduler minds it, and is a backup one only where no normal one lives; the burst keeps to the receive window.
    #[test]
    fn picks_are_admissible(
        rounds in prop::collection::vec((any_connection(), prop::collection::vec(any_subflow(), 0..=MAX_SUBFLOWS)), 1..8),
    ) {
        for entry in all() {
            let mut scheduler = entry.build();
            for (connection, subflows) in &rounds {
                let choice = scheduler.pick(connection, subflows);
                let normal_lives = subflows.iter().any(|s| s.alive() && !s.backup);
                for i in choice.iter() {
                    let s = &subflows[i];
                    prop_assert!(s.alive() && s.room > 0, "{}: {s:?}", entry.name);
                    prop_assert!(!(s.backup && normal_lives), "{}: backup {s:?}", entry.name);
                    // These queue in the subflow's send buffer on purpose.
                    if !matches!(entry.name, "default" | "edpf" | "cloning" | "ld-mpsp") {
                        prop_assert!(s.window() > 0, "{}: {s:?}", entry.name);
                    }
                }
                if !choice.is_wait() {
                    // Only its copies do.
                    if matches!(entry.name, "cloning" | "ld-mpsp") {
                        prop_assert!(choice.iter().any(|i| subflows[i].window() > 0));
                    }
                    prop_assert!(choice.burst > 0);
                    prop_assert!(scheduler.replicates() || u64::from(choice.burst) <= connection.window_left);
                }
            }
        }
    }

    /// Nobody starves: with a single ready subflow and an open window, every scheduler uses it.
    #[test]
    fn the_only_subflow_is_used(mut s in any_subflow(), mut connection in any_connection()) {
        s.active = true;
        s.stale = false;
        s.cwnd = s.in_flight + s.unsent + 1;
        s.room = s.room.max(1);
        s.pacing_rate = s.pacing_rate.max(1);
        connection.window_left = connection.window_left.max(1);
        for entry in all() {
            prop_assert_eq!(entry.build().pick(&connection, &[s]).first(), Some(0), "{}", entry.name);
        }
    }

    /// With all windows and buffers empty and the receive window wide open nobody waits.
    #[test]
    fn an_idle_connection_sends(rtts in prop::collection::vec(1_000u32..500_000, 1..=MAX_SUBFLOWS)) {
        let subflows: Vec<_> = rtts.iter().map(|&r| subflow(r, 10)).collect();
        let connection = ConnectionView { unsent: 1, window_left: 1 << 30, ..Default::default() };
        for entry in all() {
            prop_assert!(!entry.build().pick(&connection, &subflows).is_wait(), "{}", entry.name);
        }
    }
}
