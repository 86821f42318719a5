use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn varying(changes: &[(u64, Capacity)]) -> Server {
    let mut capacity = Schedule::new(changes[0].1.clone());
    for (at, value) in changes {
        capacity.set(*at, value.clone());
    }
    Server::new(capacity)
}

fn steps(changes: &[(u64, u64)]) -> Server {
    let changes: Vec<_> = changes
        .iter()
        .map(|(at, bits)| (*at, Capacity::Constant(*bits)))
        .collect();
    varying(&changes)
}

fn trace(ms: &[u64]) -> Capacity {
    let times = ms.iter().map(|m| m * MS).collect();
    Capacity::Opportunities(Opportunities::new(times).expect("a trace that leaves 0"))
}

fn opportunities(ms: &[u64]) -> Server {
    varying(&[(0, trace(ms))])
}

#[test]
fn a_constant_rate_is_exact_for_round_numbers() {
    assert_eq!(Server::constant(100_000_000).serve(0, 1500), 120_000);
    assert_eq!(Server::constant(8).serve(0, 1), SECOND);
    assert_eq!(Server::constant(0).serve(0, 1), NEVER);
    assert_eq!(steps(&[(0, 8_000_000)]).serve(5 * MS, 1000), 6 * MS);
}

#[test]
fn steps_pause_at_zero_and_hold_the_last_rate() {
    let mut s = steps(&[(0, 8_000_000), (MS, 0), (5 * MS, 16_000_000)]);
    assert_eq!(s.serve(0, 500), 500_000);
    // Half before the outage, half after it.
    assert_eq!(s.serve(500_000, 1000), 5 * MS + 250_000);
    assert_eq!(s.serve(20 * MS, 2000), 21 * MS);
    assert_eq!(steps(&[(0, 8_000_000), (MS, 0)]).serve(0, 2000), NEVER);
}

#[test]
fn what_passes_until_a_packet_has_left_is_the_packet() {
    let mut s = steps(&[(0, 8_000_000), (MS, 0), (5 * MS, 16_000_000)]);
    let depart = s.serve(500_000, 1000);
    assert_eq!(s.passes(500_000, depart), Some(1000));
    // A quarter was sent by then.
    assert_eq!(s.passes(750_000, depart), Some(750));
    assert_eq!(s.passes(2 * MS, depart), Some(500));
    assert_eq!(opportunities(&[1, 2]).passes(0, MS), None);
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_need_two() {
    let mut s = opportunities(&[1, 2, 2, 10]);
    assert_eq!(s.serve(0, 700), MS);
    assert_eq!(s.serve(MS, 700), MS);
    // 100 bytes are left at 1 ms; the rest comes at 2 ms, where two opportunities are.
    assert_eq!(s.serve(MS, 1500), 2 * MS);
    assert_eq!(s.serve(2 * MS, 1600), 2 * MS);
    assert_eq!(s.serve(2 * MS, 1500), 10 * MS);
    // The trace repeats, and an opportunity that finds the queue empty is gone.
    assert_eq!(s.serve(11 * MS + 1, 100), 12 * MS);
    assert_eq!(s.serve(13 * MS, 100), 20 * MS);
    assert_eq!(s.serve(20 * MS + 1, 100), 21 * MS);
    assert_eq!(s.serve(95 * MS, 1500), 100 * MS);
}

/// A packet whose turn comes just at the end of a cycle takes that cycle's last opportunity, however long the link was idle.
#[test]
fn the_end_of_a_cycle_is_an_opportunity_after_a_pause() {
    for pause in [1, 7, 1000] {
        assert_eq!(
            opportunities(&[3, 10]).serve(pause * 10 * MS, 1500),
            pause * 10 * MS
        );
    }
}

#[test]
fn a_sparse_trace_keeps_its_rate_for_ever() {
    // 600 kbit/s: one opportunity in 20 ms.
    let mut s = opportunities(&[20]);
    let end = (0..10_000).fold(0, |now, _| s.serve(now, 1500));
    assert_eq!(end, 200_000 * MS);
}

/// An event may end a trace, and a rate may end with what it has begun.
#[test]
fn a_packet_goes_on_where_a_trace_gives_way_to_a_rate() {
    let mut s = varying(&[
        (0, trace(&[4, 8])),
        (6 * MS, Capacity::Constant(8_000_000)),
        (20 * MS, Capacity::Unlimited),
    ]);
    assert_eq!(s.serve(0, 1000), 4 * MS);
    // 500 bytes of it in what is left at 4 ms, the rest from 6 ms on.
    assert_eq!(s.serve(4 * MS, 1000), 6 * MS + MS / 2);
    assert!(!s.is_unlimited(19 * MS) && s.is_unlimited(20 * MS));
    // 1000 bytes until 20 ms, and then the rest at once.
    assert_eq!(s.serve(19 * MS, 5000), 20 * MS);
}

#[test]
fn the_time_of_a_packet_follows_the_capacity() {
    assert_eq!(Server::Unlimited.service_time(0, 1500), 0);
    assert_eq!(Server::Stopped.service_time(0, 1500), NEVER);
    let s = steps(&[(0, 8_000_000), (MS, 0), (2 * MS, 16_000_000)]);
    let found = [0, MS, 2 * MS].map(|now| s.service_time(now, 1000));
    assert_eq!(found, [MS, NEVER, MS / 2]);
    assert_eq!(opportunities(&[5, 10]).service_time(0, 1501), 10 * MS);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// A packet is through at the first ns by which the rates have carried all of it: over a change as within a step.
    #[test]
    fn a_packet_takes_what_the_rates_carry(
        rates in prop::collection::vec(prop_oneof![Just(0u64), 1u64..4_000_000_000], 1..6),
        gaps in prop::collection::vec(1u64..100_000, 5), start in 0u64..400_000, size in 1u32..70_000,
    ) {
        let at: Vec<u64> = std::iter::once(0)
            .chain(gaps.iter().scan(0, |t, gap| { *t += gap; Some(*t) }))
            .take(rates.len()).collect();
        let list: Vec<_> = at.iter().copied().zip(rates.iter().copied()).collect();
        // One more change to the last rate, so that a single rate is integrated too.
        let mut server = steps(&[&list[..], &[(1 << 62, *rates.last().unwrap())]].concat());
        let found = server.serve(start, size);
        let carried = |until: u64| -> u128 {
            let ends = at[1..].iter().copied().chain([u64::MAX]);
            let each = list.iter().zip(ends).map(|((from, bits), end)| {
                u128::from(end.min(until).saturating_sub((*from).max(start))) * u128::from(*bits)
            });
            each.sum()
        };
        let wanted = u128::from(size) * u128::from(BYTE);
        if found == NEVER {
            prop_assert_eq!(*rates.last().unwrap(), 0);
            prop_assert!(carried(u64::MAX) < wanted);
        } else {
            prop_assert!(carried(found) >= wanted && carried(found - 1) < wanted);
        }
    }

    /// No opportunity carries more than it may, none that a waiting packet could use is left out.
    #[test]
    fn a_trace_carries_1500_bytes_an_opportunity(
        gaps in prop::collection::vec(0u64..20, 1..12),
        packets in prop::collection::vec((0u64..60, 1u32..4000), 1..60),
    ) {
        let mut ms: Vec<u64> = gaps.iter().scan(0, |t, gap| { *t += gap; Some(*t) }).collect();
        ms.push(ms[ms.len() - 1] + 1);
        let (period, mut server) = (ms[ms.len() - 1], opportunities(&ms));
        // All opportunities one by one, each with what is left of it.
        let mut all: Vec<(u64, u32)> = (0..).flat_map(|c| ms.iter().map(move |m| (c * period + m, OPPORTUNITY)))
            .take_while(|(at, _)| *at < 100_000).collect();
        let (mut came, mut free) = (0, 0);
        for (gap, size) in packets {
            came += gap;
            let start = (came * MS).max(free);
            let (mut left, mut expected) = (size, NEVER);
            for (at, room) in all.iter_mut().filter(|(at, room)| at * MS >= start && *room > 0) {
                let used = left.min(*room);
                (left, *room) = (left - used, *room - used);
                if left == 0 {
                    expected = *at * MS;
                    break;
                }
            }
            free = server.serve(start, size);
            prop_assert_eq!(free, expected);
        }
    }
}
