//! Sender and receiver over paths that reorder between each other, go silent, close and come back: the stream that arrives
//! is the one that was sent, and neither end holds more than its window.

use std::collections::VecDeque;

use mp_policy::scheduler::{self, Schedule, SubflowView};
use mp_relay::stream::{Arrival, Receiver, Sender};
use proptest::prelude::*;

const PATHS: usize = 3;
const MSS: u32 = 10;

#[derive(Debug, Clone)]
enum Step {
    /// The application writes so many bytes.
    Write(usize),
    /// So many segments are scheduled.
    Send(usize),
    /// The next frame of a path arrives.
    Arrive(usize),
    /// It arrives, and will once more.
    Duplicate(usize),
    /// The sender's clock jumps forward or back by so many µs, and stands still from then on or goes on.
    Clock(i64, bool),
    /// The path goes silent: what it carries is sent again elsewhere, and may still arrive.
    Lose(usize),
    Recover(usize),
    /// The connection breaks: what it carries is gone. It is opened again later.
    Close(usize),
    Open(usize),
    /// The application reads so many bytes.
    Read(usize),
    /// The acknowledgement arrives, or is lost.
    Ack(bool),
    /// Both ends give back memory.
    Rest,
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS;
    prop_oneof![
        2 => (1usize..200).prop_map(Step::Write),
        4 => (1usize..20).prop_map(Step::Send),
        8 => path.clone().prop_map(Step::Arrive),
        2 => path.clone().prop_map(Step::Duplicate),
        1 => (jump(), any::<bool>()).prop_map(|(by, still)| Step::Clock(by, still)),
        1 => path.clone().prop_map(Step::Lose),
        1 => path.clone().prop_map(Step::Recover),
        1 => path.clone().prop_map(Step::Close),
        1 => path.prop_map(Step::Open),
        4 => (1usize..200).prop_map(Step::Read),
        4 => any::<bool>().prop_map(Step::Ack),
        1 => Just(Step::Rest),
    ]
}

/// Of less than a round trip, of an hour, and to the clock's end.
fn jump() -> impl Strategy<Value = i64> {
    let bound = prop::sample::select(vec![1_000, 3_600_000_000, i64::MAX]);
    bound.prop_flat_map(|bound| -bound..=bound)
}

struct World {
    sender: Sender,
    receiver: Receiver,
    scheduler: scheduler::Scheduler,
    open: [bool; PATHS],
    stale: [bool; PATHS],
    wires: [VecDeque<(u64, bool, Vec<u8>)>; PATHS],
    delivered: [u64; PATHS],
    written: Vec<u8>,
    read: Vec<u8>,
    window: usize,
    clock_us: u64,
    still: bool,
}

impl World {
    fn new(scheduler: &str, window: usize) -> World {
        let scheduler = scheduler::find(scheduler).unwrap().build();
        World {
            sender: Sender::new(window as u64, scheduler.replicates()),
            receiver: Receiver::new(window as u64),
            scheduler,
            open: [true; PATHS],
            stale: [false; PATHS],
            wires: Default::default(),
            delivered: [0; PATHS],
            written: Vec::new(),
            read: Vec::new(),
            window,
            clock_us: 1,
            still: false,
        }
    }

    fn views(&self) -> [SubflowView; PATHS] {
        std::array::from_fn(|i| SubflowView {
            active: self.open[i],
            stale: self.stale[i],
            mss: MSS,
            srtt_us: 10_000 * (i as u32 + 1),
            min_rtt_us: 10_000,
            cwnd: 20,
            in_flight: self.wires[i].len() as u32,
            queued: self.wires[i].len() as u64 * u64::from(MSS),
            room: 200u64.saturating_sub(self.wires[i].len() as u64 * u64::from(MSS)),
            pacing_rate: 100_000,
            delivered: self.delivered[i],
            ..SubflowView::default()
        })
    }

    fn send(&mut self, segments: usize) {
        for _ in 0..segments {
            self.pass(100);
            let views = self.views();
            let live = (0..PATHS).fold(0, |set, i| set | u8::from(views[i].alive()) << i);
            let Some(connection) = self.sender.view(self.clock_us, live) else {
                return;
            };
            let mut choice = self.scheduler.pick(&connection, &views);
            if choice.is_wait() {
                return;
            }
            choice.burst = choice.burst.min(50);
            let pieces = self.sender.take(choice);
            for (i, piece) in pieces.iter().enumerate().take(PATHS) {
                if let Some(piece) = piece {
                    assert!(self.open[i]);
                    let (first, second) = self.sender.slices(piece.start, piece.length);
                    self.wires[i].push_back((piece.start, piece.end, [first, second].concat()));
                }
            }
        }
    }

    fn arrive(&mut self, path: usize, once_more: bool) {
        if let Some((offset, end, bytes)) = self.wires[path].pop_front() {
            let _: Arrival = self.receiver.on_data(offset, end, &bytes).unwrap();
            self.delivered[path] += 1;
            if once_more {
                self.wires[path].push_back((offset, end, bytes));
            }
        }
    }

    fn pass(&mut self, us: u64) {
        if !self.still {
            self.clock_us = self.clock_us.saturating_add(us);
        }
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Write(count) => {
                // The caller's back-pressure: it reads no more from the application.
                if self.sender.unsent() < 100 {
                    let from = self.written.len();
                    self.written
                        .extend((from..from + count).map(|i| (i * 7 % 251) as u8));
                    self.sender.push(&self.written[from..]);
                }
            }
            Step::Send(segments) => self.send(segments),
            Step::Arrive(path) => self.arrive(path, false),
            Step::Duplicate(path) => self.arrive(path, true),
            Step::Clock(by, still) => {
                self.clock_us = self.clock_us.saturating_add_signed(by);
                self.still = still;
            }
            Step::Lose(path) => {
                self.stale[path] = true;
                self.sender.lose(path);
            }
            Step::Recover(path) => self.stale[path] = false,
            Step::Close(path) => {
                self.open[path] = false;
                self.wires[path].clear();
                self.sender.close(path);
                self.scheduler.forget(path);
            }
            Step::Open(path) => {
                self.open[path] = true;
                self.stale[path] = false;
            }
            Step::Read(count) => {
                let ready = self.receiver.ready();
                let count = count.min(ready.len());
                self.read.extend_from_slice(&ready[..count]);
                self.receiver.consume(count);
            }
            Step::Ack(arrives) => {
                let (next, limit) = self.receiver.acknowledgement();
                if arrives {
                    self.sender.on_ack(next, limit).unwrap();
                }
            }
            Step::Rest => {
                self.sender.rest();
                self.receiver.rest();
            }
        }
        assert!(
            self.receiver.held() <= self.window,
            "{} held",
            self.receiver.held()
        );
        assert!(
            self.sender.held() <= self.window + 100 + 200,
            "{} held",
            self.sender.held()
        );
    }

    /// From here on every path works, the clock goes on, and everything arrives.
    fn conclude(&mut self) {
        self.still = false;
        for path in 0..PATHS {
            self.act(&Step::Open(path));
        }
        self.sender.end();
        for round in 0.. {
            assert!(round < 100_000, "it does not end: {:?}", self.sender);
            self.pass(10_000);
            self.send(100);
            for path in 0..PATHS {
                self.arrive(path, false);
            }
            self.act(&Step::Read(1 << 20));
            self.act(&Step::Ack(true));
            if self.sender.done() && self.receiver.finished() {
                break;
            }
        }
        assert_eq!(self.read, self.written);
    }
}

fn schedulers() -> impl Strategy<Value = &'static str> {
    prop::sample::select(scheduler::all().iter().map(|s| s.name).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_stream_arrives_whole_whatever_the_paths_do(
        scheduler in schedulers(), window in 100usize..1000, steps in prop::collection::vec(step(), 0..400),
    ) {
        let mut world = World::new(scheduler, window);
        for step in &steps {
            world.act(step);
        }
        world.conclude();
    }
}
