//! Nanoseconds per acknowledgement of each controller, natively, by number of subflows: what the simulator pays.

use std::hint::black_box;
use std::time::Instant;

use mp_controllers::{all, Ack, Connection, Controller, Kind, Subflow};

const CALLS: u64 = 1_000_000;
const ROUNDS: usize = 5;

fn connection(controller: &Controller, subflows: usize) -> Connection {
    let mut connection = controller.connection();
    for slot in 0..subflows {
        connection.subflows[slot] = Subflow {
            owner: 1,
            mss: 1460,
            rtt_us: 20_000,
            srtt_us: 20_000 + 3_000 * slot as u64,
            min_rtt_us: 19_000,
            cwnd: 1000 + slot as u64,
            ssthresh: 2,
            ..Default::default()
        };
        controller.init(&mut connection, slot, 0);
    }
    connection
}

/// The fastest of some rounds: what else runs on the machine only adds.
fn nanoseconds(controller: &Controller, subflows: usize) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let mut connection = connection(controller, subflows);
            let start = Instant::now();
            for now_us in 0..CALLS {
                let slot = now_us as usize % subflows;
                connection.subflows[slot].delivered += 1;
                match controller.kind {
                    Kind::Window => {
                        let ack = Ack {
                            now_us,
                            acked: 1,
                            is_cwnd_limited: 1,
                            max_packets_out: 1000,
                        };
                        controller.on_ack(black_box(&mut connection), slot, &ack);
                    }
                    Kind::Rate => controller.on_interval(black_box(&mut connection), slot, now_us),
                }
            }
            start.elapsed().as_nanos() as f64 / CALLS as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    println!("ns per ACK   1 subflow   2 subflows   8 subflows");
    for controller in all() {
        let [one, two, eight] = [1, 2, 8].map(|subflows| nanoseconds(controller, subflows));
        println!(
            "{:<10} {one:>11.1} {two:>12.1} {eight:>12.1}",
            controller.name
        );
    }
}
