//! The agent of a learned controller at work on real transfers, killed, late and mad.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use common::lab::Lab;
use common::{eventually, private, turn};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use mp_controllers::learned::{word, FOLLOW};
use mp_controllers::{Connection, Subflow};
use mp_kernel::agent::{Agent, Mind, Pilots, Record};
use mp_kernel::controller::{self, Controller};

const BYTES: u64 = 8 << 20;

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

/// How many subflows of a look the network steers.
fn steered(look: &[Subflow]) -> usize {
    let steers = |s: &&Subflow| s.state[word::PHASE] == FOLLOW;
    look.iter().filter(steers).count()
}

/// An upload, at which is looked every 10 ms; `midway` runs at half of it. Returns the looks before that, and after.
fn watch(
    lab: &Lab,
    loaded: &Controller,
    bytes: u64,
    midway: impl FnOnce() + Send,
) -> [Vec<Vec<Subflow>>; 2] {
    let (half, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut looks = [Vec::new(), Vec::new()];
            while !done.load(Ordering::Relaxed) {
                looks[usize::from(half.load(Ordering::Relaxed))].push(subflows(loaded));
                std::thread::sleep(Duration::from_millis(10));
            }
            looks
        });
        let upload = lab.upload(loaded.kernel_name(), bytes, || {
            midway();
            half.store(true, Ordering::Relaxed);
        });
        done.store(true, Ordering::Relaxed);
        assert_eq!((upload.received, upload.fallback), (bytes, false));
        watch.join().unwrap()
    })
}

#[test]
fn the_shipped_network_steers_and_a_killed_agent_costs_the_transfer_nothing() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    let loaded = private("ddpg-mpcc", false);
    let agent = Agent::start(&loaded, Pilots::default()).unwrap().unwrap();
    let mut tally = None;
    let [before, after] = watch(&lab, &loaded, 5 * BYTES, || {
        tally = Some(agent.tally());
        drop(agent);
    });
    let tally = tally.unwrap();
    assert!(tally.answered > 20 && tally.refused == 0, "{tally:?}");
    let both = before.iter().filter(|look| steered(look) == 2).count();
    assert!(
        both > 5,
        "both subflows in {both} of {} looks",
        before.len()
    );
    // Three intervals without an answer, and it is plain MPCC: from there on for good.
    let last = after
        .iter()
        .rposition(|look| steered(look) > 0)
        .map_or(0, |i| i + 1);
    assert!(
        last * 4 < after.len() * 3 && after.len() > 40,
        "steered until look {last} of {} after the agent's end",
        after.len()
    );
    assert_eq!(loaded.counters().unwrap().unwrap().without_slot, 0);
}

#[test]
fn an_agent_that_answers_nonsense_is_not_listened_to() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    for nonsense in [f64::NAN, 2.0] {
        let loaded = private("ddpg-mpcc", false);
        let agent = Agent::start(&loaded, Fixed(nonsense)).unwrap().unwrap();
        let [_, after] = watch(&lab, &loaded, BYTES, || ());
        let tally = agent.tally();
        assert!(
            tally.answered == 0 && tally.refused > 5,
            "{nonsense}: {tally:?}"
        );
        let free = after.iter().filter(|look| steered(look) == 0).count();
        assert!(
            free * 2 > after.len(),
            "{nonsense}: {free} of {}",
            after.len()
        );
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
    watch(&lab, &loaded, BYTES, || ());
    let count = |i: usize| done[i].load(Ordering::Relaxed);
    // The others: slow start, and answers that this machine was too busy to give in time.
    assert!(
        count(1) > 20 && count(1) > count(0),
        "{} of {}",
        count(1),
        count(0) + count(1)
    );
    for _ in 0..500 {
        if count(2) == 2 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the agent was not told that both subflows have left");
}

#[test]
fn a_second_agent_takes_over_from_the_first() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    let loaded = private("ddpg-mpcc", false);
    let mut first = Agent::start(&loaded, Pilots::default()).unwrap();
    // Which of two gets the lock is decided in their threads.
    eventually(|| first.as_ref().is_some_and(Agent::steers));
    let second = Agent::start(&loaded, Pilots::default()).unwrap().unwrap();
    let mut before = None;
    lab.upload(loaded.kernel_name(), 3 * BYTES, || {
        before = Some(second.tally());
        drop(first.take());
    });
    assert_eq!(before.unwrap().answered, 0, "one at a time");
    assert!(second.tally().answered > 10, "{:?}", second.tally());
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
    let mut before = None;
    let mut leading = Some(first);
    lab.upload(loaded.kernel_name(), 3 * BYTES, || {
        before = leading.as_ref().map(Agent::tally);
        drop(leading.take());
    });
    assert!(before.unwrap().answered > 10);
    assert!(ordinary.steers() && ordinary.tally().answered > 10);
}

#[test]
fn controllers_that_ask_nobody_have_no_agent() {
    let Some(_turn) = turn() else { return };
    for name in ["lia", "mpcc", "cubic"] {
        let loaded = controller::acquire(name, &[]).unwrap();
        assert!(Agent::start(&loaded, Pilots::default()).unwrap().is_none());
    }
}
