//! The agent of a learned controller at work on real transfers, killed, late and mad.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use common::lab::{eventually, Lab};
use common::{private, turn};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use mp_controllers::learned::{word, FOLLOW};
use mp_controllers::{Connection, Subflow};
use mp_kernel::agent::{Agent, Mind, Pilots, Record};
use mp_kernel::controller::{self, Controller};

/// [`word::PHASE`] in slow start.
const START: u64 = 0;

/// Always the same factor.
struct Fixed(f64);

impl Mind for Fixed {
    fn answer(&mut self, record: &Record) -> f64 {
        record.seen.rate as f64 * self.0
    }
}

/// The slots of the connection under way.
fn subflows(loaded: &Controller) -> Vec<Subflow> {
    let pin = format!(
        "/sys/fs/bpf/multipilot/{}/connections",
        loaded.kernel_name()
    );
    let map = MapHandle::from_pinned_path(pin).unwrap();
    let entries = map
        .keys()
        .filter_map(|key| map.lookup(&key, MapFlags::ANY).unwrap());
    let of = |entry: Vec<u8>| {
        // struct mp_entry: references, key, connection
        assert_eq!(entry.len(), 24 + size_of::<Connection>());
        // SAFETY: plain words, of the size that was checked.
        let connection: Connection =
            unsafe { std::ptr::read_unaligned(entry[24..].as_ptr().cast()) };
        connection
            .subflows
            .into_iter()
            .filter(|s| s.owner != 0)
            .collect::<Vec<_>>()
    };
    entries.flat_map(of).collect()
}

/// How many subflows the network steers.
fn steered(loaded: &Controller) -> usize {
    let all = subflows(loaded);
    all.iter()
        .filter(|s| s.state[word::PHASE] == FOLLOW)
        .count()
}

/// Plain MPCC soon steers both subflows, and goes on doing so.
#[track_caller]
fn is_left_alone(loaded: &Controller) {
    let alone = |s: &Subflow| ![START, FOLLOW].contains(&s.state[word::PHASE]);
    // Three intervals without an answer.
    eventually(|| {
        let all = subflows(loaded);
        all.len() == 2 && all.iter().all(alone)
    });
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(steered(loaded), 0);
    }
}

#[test]
fn the_shipped_network_steers_and_a_killed_agent_costs_the_transfer_nothing() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    let loaded = private("ddpg-mpcc", false);
    let agent = Agent::start(&loaded, Pilots::default()).unwrap().unwrap();
    lab.upload_while(loaded.kernel_name(), || {
        eventually(|| steered(&loaded) == 2 && agent.tally().answered > 20);
        assert_eq!(agent.tally().refused, 0);
        drop(agent);
        is_left_alone(&loaded);
    });
    assert_eq!(loaded.counters().unwrap().unwrap().without_slot, 0);
}

#[test]
fn an_agent_that_answers_nonsense_is_not_listened_to() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    for nonsense in [f64::NAN, 2.0] {
        let loaded = private("ddpg-mpcc", false);
        let agent = Agent::start(&loaded, Fixed(nonsense)).unwrap().unwrap();
        lab.upload_while(loaded.kernel_name(), || {
            eventually(|| agent.tally().refused > 5);
            is_left_alone(&loaded);
        });
        assert_eq!(agent.tally().answered, 0, "{nonsense}");
    }
}

/// Wants 1 MB/s, and sees whether what it answers is done.
struct Towards {
    answers: HashMap<u64, (u64, u64)>,
    done: Arc<[AtomicU64; 3]>,
}

impl Mind for Towards {
    fn answer(&mut self, record: &Record) -> f64 {
        let seen = &record.seen;
        assert!(seen.rate > 0 && seen.elapsed_us > 0 && seen.mss > 500);
        assert!(seen.rtt_us >= seen.min_rtt_us && seen.min_rtt_us > 0);
        let wanted = if seen.rate > 1_000_000 {
            seen.rate / 100 * 95
        } else {
            seen.rate / 100 * 105
        };
        if let Some((serial, answer)) = self.answers.insert(record.owner, (record.serial, wanted)) {
            if serial + 1 == record.serial {
                self.done[usize::from(answer == seen.rate)].fetch_add(1, Ordering::Relaxed);
            }
        }
        wanted as f64
    }

    fn forget(&mut self, _: u64) {
        self.done[2].fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_an_agent_answers_becomes_the_rate() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    let (loaded, done) = (
        private("ddpg-mpcc", false),
        Arc::<[AtomicU64; 3]>::default(),
    );
    let mind = Towards {
        answers: HashMap::new(),
        done: done.clone(),
    };
    let _agent = Agent::start(&loaded, mind).unwrap().unwrap();
    let count = |i: usize| done[i].load(Ordering::Relaxed);
    // Not all: there is slow start, and answers that this machine is too busy to give in time.
    lab.upload_while(loaded.kernel_name(), || eventually(|| count(1) > 20));
    // The agent is told that both subflows have left.
    eventually(|| count(2) == 2);
}

#[test]
fn a_second_agent_takes_over_from_the_first() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    let loaded = private("ddpg-mpcc", false);
    let first = Agent::start(&loaded, Pilots::default()).unwrap().unwrap();
    // Which of two gets the lock is decided in their threads.
    eventually(|| first.steers());
    let second = Agent::start(&loaded, Pilots::default()).unwrap().unwrap();
    lab.upload_while(loaded.kernel_name(), || {
        eventually(|| first.tally().answered > 10);
        assert_eq!(second.tally().answered, 0, "one at a time");
        drop(first);
        eventually(|| second.tally().answered > 10);
    });
}

#[test]
fn one_that_goes_first_is_made_way_for_and_hands_back() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    let loaded = private("ddpg-mpcc", false);
    let ordinary = Agent::start(&loaded, Pilots::default()).unwrap().unwrap();
    eventually(|| ordinary.steers());
    let first = Agent::start_first(&loaded, Pilots::default())
        .unwrap()
        .unwrap();
    eventually(|| first.steers() && !ordinary.steers());
    lab.upload_while(loaded.kernel_name(), || {
        eventually(|| first.tally().answered > 10);
        assert_eq!(ordinary.tally().answered, 0);
        drop(first);
        eventually(|| ordinary.steers() && ordinary.tally().answered > 10);
    });
}

#[test]
fn controllers_that_ask_nobody_have_no_agent() {
    let Some(_turn) = turn() else { return };
    for name in ["lia", "mpcc", "cubic"] {
        let loaded = controller::acquire(name, &[]).unwrap();
        assert!(Agent::start(&loaded, Pilots::default()).unwrap().is_none());
    }
}
