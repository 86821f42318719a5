//! Nanoseconds per decision of each scheduler, by number of subflows: what the simulator pays for each segment or burst;
//! and of MS-UCB, by number of links (aim: 5 µs for 7).

use std::hint::black_box;
use std::time::Instant;

use mp_policy::scheduler::{all, ConnectionView, Entry, Schedule, SubflowView};
use mp_policy::super_arm::{links, MsUcb, Past};

const CALLS: u64 = 1_000_000;
const ROUNDS: usize = 5;

/// The fastest of some rounds: what else runs on the machine only adds.
fn nanoseconds(entry: &Entry, subflows: usize) -> f64 {
    let mut views: Vec<SubflowView> = (0..subflows as u32)
        .map(|i| SubflowView {
            active: true,
            mss: 1420,
            srtt_us: 10_000 * (i + 1),
            rttvar_us: 1_000,
            min_rtt_us: 9_000 * (i + 1),
            cwnd: 100,
            in_flight: 90,
            queued: 120_000,
            room: 200_000,
            pacing_rate: 5_000_000,
            ..SubflowView::default()
        })
        .collect();
    let round = |_| {
        let mut scheduler = entry.build();
        let start = Instant::now();
        for now_us in 0..CALLS {
            // Views change between decisions, as they do in a world.
            views[now_us as usize % subflows].in_flight = 80 + (now_us % 32) as u32;
            let connection = ConnectionView {
                now_us,
                unsent: 1 << 20,
                in_flight: 200_000,
                window_left: 1 << 20,
                reinjected: 0,
            };
            black_box(scheduler.pick(black_box(&connection), black_box(&views)));
        }
        start.elapsed().as_nanos() as f64 / CALLS as f64
    };
    (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
}

fn main() {
    println!("ns per decision   2 subflows  8 subflows");
    for entry in all() {
        println!(
            "{:16} {:11.1} {:11.1}",
            entry.name,
            nanoseconds(entry, 2),
            nanoseconds(entry, 8)
        );
    }
    println!("ns per round of MS-UCB, a choice of three links and their rewards");
    for count in [7, 16, 64] {
        println!("{count:9} links {:11.1}", super_arm(count));
    }
}

fn super_arm(count: usize) -> f64 {
    let round = |_| {
        let mut policy = MsUcb::new(count, 3, Past::All, 1);
        let start = Instant::now();
        for _ in 0..CALLS / 10 {
            let set = policy.choose(black_box(u64::MAX));
            let mut rewards = [(0, 0.0); 3];
            for (reward, link) in rewards.iter_mut().zip(links(set)) {
                *reward = (link, 1.0 / (link + 1) as f64);
            }
            policy.update(black_box(&rewards));
        }
        start.elapsed().as_nanos() as f64 / (CALLS / 10) as f64
    };
    (0..ROUNDS).map(round).fold(f64::MAX, f64::min)
}
