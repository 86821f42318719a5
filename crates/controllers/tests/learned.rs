//! DDPG-MPCC: who answers steers; who does not is done without.

mod common;

use common::fluid::{Path, World};
use mp_controllers::learned::{answer, word, Record, FOLLOW};

extern "C" {
    static mp_test_ddpg_words: [u64; 9];
    static mp_test_mpcc_words: [u64; 17];
}

const PROBE: u64 = 1;

#[test]
fn words_are_where_the_compiler_put_them() {
    // SAFETY: constants of native.c with as many entries.
    let (ddpg, mpcc) = unsafe { (mp_test_ddpg_words, mp_test_mpcc_words) };
    let ours = [word::SERIAL, word::ANSWER, word::DEADLINE, word::MISSED];
    assert_eq!(ddpg[..4], ours.map(|w| w as u64));
    assert_eq!(
        ddpg[4..],
        [0, 1, 2, 3, 4].map(|k| (word::RECORD + k) as u64)
    );
    let ours = [
        word::PHASE,
        word::RATE,
        word::UTILITY,
        word::OTHERS,
        word::INTERVAL,
    ];
    let theirs = [mpcc[0], mpcc[1], mpcc[3], mpcc[8], mpcc[10]];
    assert_eq!(theirs, ours.map(|w| w as u64));
}

/// One subflow on a path of 100 Mbit/s; `agent` is asked for the rate after each record.
fn run(world: &mut World, ms: u64, mut agent: impl FnMut(Record) -> Option<u64>) {
    let mut seen = Record::serial_of(&world.connection.subflows[0]);
    for _ in 0..ms {
        world.run(1);
        let record = Record::of(&world.connection.subflows[0]);
        if record.serial != seen {
            seen = record.serial;
            if let Some(rate) = agent(record) {
                answer(&mut world.connection, 0, rate);
            }
        }
    }
}

fn world() -> World {
    World::new("ddpg-mpcc", vec![Path::new(40, 100.0, 40.0, 0.0)])
}

fn state(world: &World, word: usize) -> u64 {
    world.connection.subflows[0].state[word]
}

#[test]
fn an_agent_steers_after_slow_start_by_a_tenth_at_most() {
    let mut world = world();
    let mut asked = Vec::new();
    run(&mut world, 8000, |record| {
        if record.asked {
            asked.push(record.rate);
        }
        // Downwards as fast as it may.
        Some(0)
    });
    assert_eq!(state(&world, word::PHASE), FOLLOW);
    assert!(asked.len() > 10, "{asked:?}");
    for pair in asked.windows(2) {
        let floor = 25_000;
        assert_eq!(pair[1], (pair[0] - pair[0] / 10).max(floor), "{asked:?}");
    }
}

#[test]
fn without_an_agent_it_is_plain_mpcc() {
    let (mut learned, mut plain) = (
        world(),
        World::new("mpcc", vec![Path::new(40, 100.0, 40.0, 0.0)]),
    );
    run(&mut learned, 20_000, |_| None);
    plain.run(20_000);
    assert_ne!(state(&learned, word::PHASE), FOLLOW);
    let rate = |world: &World| world.connection.subflows[0].state[word::RATE];
    assert_eq!(rate(&learned), rate(&plain));
}

#[test]
fn an_agent_that_dies_is_done_without_and_taken_back_when_it_returns() {
    let mut world = world();
    let hold = |record: Record| Some(record.rate);
    run(&mut world, 6000, hold);
    assert_eq!(state(&world, word::PHASE), FOLLOW);
    let mut records = 0;
    run(&mut world, 6000, |_| {
        records += 1;
        None
    });
    assert!(state(&world, word::PHASE) == PROBE || state(&world, word::PHASE) == 2);
    assert_eq!(state(&world, word::MISSED), 3);
    assert!(records > 10, "{records} records while nobody answers");
    run(&mut world, 6000, hold);
    assert_eq!(state(&world, word::PHASE), FOLLOW);
}

#[test]
fn an_answer_that_comes_too_late_counts_as_none() {
    let mut world = world();
    let mut late: Option<u64> = None;
    for _ in 0..12_000 {
        world.run(1);
        let record = Record::of(&world.connection.subflows[0]);
        let now = world.now_ms;
        if record.serial != 0 && state(&world, word::ANSWER) >> 32 != record.serial {
            // 15 ms after the record, where a quarter of 40 ms is allowed
            let due = *late.get_or_insert(now + 15);
            if now >= due {
                answer(&mut world.connection, 0, 1);
                late = None;
            }
        }
    }
    assert_ne!(state(&world, word::PHASE), FOLLOW);
    assert!(
        state(&world, word::RATE) > 5_000_000,
        "{}",
        state(&world, word::RATE)
    );
}

#[test]
fn heavy_loss_halves_the_rate_whatever_the_agent_says() {
    let mut world = World::new("ddpg-mpcc", vec![Path::new(40, 100.0, 40.0, 0.4)]);
    let mut rates = Vec::new();
    run(&mut world, 10_000, |record| {
        rates.push((record.rate, record.lost, record.delivered));
        Some(u64::from(u32::MAX))
    });
    let braked = rates.windows(2).any(|w| {
        let (rate, lost, delivered) = w[0];
        lost + delivered > 100 && lost * 10 > (lost + delivered) * 3 && w[1].0 == rate / 2
    });
    assert!(braked, "{rates:?}");
}
