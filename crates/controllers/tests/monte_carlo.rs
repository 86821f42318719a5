//! Random loss, round trip by round trip, with the crudest of senders: what the rules alone make of it.
//!
//! One congestion event a round trip; an ACK for every second packet; a timeout where no packet of a round trip arrives
//! after its first loss, which costs two round trips and leaves a window of one.
//!
//! Coupling takes one Reno's share in the mean-field sense only: where windows differ by chance, max w/t^2 is above its
//! mean, and LIA gets a tenth more than one Reno. So uncoupled Reno is 1.8 times LIA at small loss, not 2.

mod common;

use common::{ack, connection, controller, subflow};
use mp_controllers::{Ack, Connection, Controller, Subflow, INFINITE_SSTHRESH};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const RTT_US: u64 = 150_000;
/// srtt plus Linux's minimum of 200 ms, in round trips.
const TIMEOUT_ROUNDS: u64 = 2;

struct Sender {
    controller: &'static Controller,
    connection: Connection,
    /// Per slot: the round trip it sends in next.
    ready: Vec<u64>,
    delivered: u64,
    rng: SmallRng,
}

impl Sender {
    fn new(name: &str, paths: usize, seed: u64) -> Self {
        let controller = controller(name);
        let start = Subflow {
            ssthresh: INFINITE_SSTHRESH,
            ..subflow(10, RTT_US)
        };
        let connection = connection(controller, &vec![start; paths]);
        Self {
            controller,
            connection,
            ready: vec![0; paths],
            delivered: 0,
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    fn round(&mut self, number: u64, loss: f64) {
        let now_us = number * RTT_US;
        for slot in 0..self.ready.len() {
            if self.ready[slot] > number {
                continue;
            }
            let sent = self.connection.subflows[slot].cwnd;
            let lost: Vec<bool> = (0..sent).map(|_| self.rng.random_bool(loss)).collect();
            let first = lost.iter().position(|&lost| lost);
            let before = first.unwrap_or(lost.len()) as u64;
            let after = lost[before as usize..]
                .iter()
                .filter(|&&lost| !lost)
                .count() as u64;
            self.delivered += before + after;

            let subflow = &mut self.connection.subflows[slot];
            subflow.delivered += before + after;
            subflow.lost += sent - before - after;
            self.controller.on_rtt(&mut self.connection, slot, now_us);
            let acks =
                std::iter::repeat_n(2, before as usize / 2).chain((before % 2 == 1).then_some(1));
            for acked in acks {
                self.controller.on_ack(
                    &mut self.connection,
                    slot,
                    &Ack {
                        now_us,
                        ..ack(acked)
                    },
                );
            }
            if first.is_some() {
                let ssthresh = self.controller.on_loss(&mut self.connection, slot, now_us);
                let subflow = &mut self.connection.subflows[slot];
                subflow.ssthresh = ssthresh;
                subflow.cwnd = if after == 0 { 1 } else { ssthresh };
                self.ready[slot] = number + 1 + if after == 0 { TIMEOUT_ROUNDS } else { 0 };
            }
        }
    }
}

/// Packets a round trip over all paths, over a long run.
fn throughput(name: &str, paths: usize, loss: f64) -> f64 {
    const ROUNDS: u64 = 60_000;
    let mut sender = Sender::new(name, paths, 7);
    (0..ROUNDS).for_each(|number| sender.round(number, loss));
    sender.delivered as f64 / ROUNDS as f64
}

#[test]
fn reno_follows_the_square_root_law_at_small_loss() {
    for loss in [1e-3, 2e-4] {
        let ratio = throughput("reno", 1, loss) / (1.5 / loss).sqrt();
        assert!((0.9..1.1).contains(&ratio), "{ratio} at {loss}");
    }
}

#[test]
fn a_coupled_connection_gets_what_one_reno_gets() {
    let reno = throughput("reno", 1, 1e-3);
    for name in ["lia", "olia", "balia"] {
        let ratio = throughput(name, 2, 1e-3) / reno;
        assert!((0.9..1.2).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn rent_seeking_gets_what_uncoupled_reno_gets() {
    let reno = throughput("reno", 2, 0.02);
    let db = throughput("rsf-db", 2, 0.02) / reno;
    assert!((0.97..1.03).contains(&db), "rsf-db {db}");
    // about one packet a second is lost here, half of what makes RSF-LB hold back
    let lb = throughput("rsf-lb", 2, 0.02) / reno;
    assert!((0.97..1.03).contains(&lb), "rsf-lb {lb}");
}

#[test]
fn rent_seeking_gains_most_where_loss_is_small() {
    let gain = |loss| throughput("rsf-db", 2, loss) / throughput("lia", 2, loss);
    let (rare, two, ten) = (gain(1e-3), gain(0.02), gain(0.1));
    println!("RSF-DB / LIA: {rare:.2} at 0.1 %, {two:.2} at 2 %, {ten:.2} at 10 %");
    assert!((1.75..2.0).contains(&rare), "{rare} at 0.1 %");
    assert!((1.65..1.95).contains(&two), "{two} at 2 %");
    assert!(
        (1.25..1.6).contains(&ten),
        "{ten} at 10 %, where floor and timeouts rule"
    );
}
