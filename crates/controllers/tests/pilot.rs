//! Pilot's laws, round by round, on paths whose answer is worked out by hand.

mod common;

use common::{connection, controller, subflow};
use mp_controllers::Connection;

/// Words of [`mp_controllers::Subflow::state`] and values of the first, as in controllers/pilot_path.h.
const MODE: usize = 0;
const STARTUP: u64 = 0;
const ALONE: u64 = 1;
const SHARED: u64 = 2;

const BASE_US: u64 = 40_000;
/// base/16
const TARGET_US: u64 = 2_500;

/// A connection whose rounds the test makes up.
struct Path {
    connection: Connection,
    /// Of each subflow: their rounds run side by side.
    now_us: Vec<u64>,
}

impl Path {
    fn new(subflows: usize) -> Path {
        let fresh = subflow(10, BASE_US);
        let mut path = Path {
            connection: connection(controller("pilot"), &vec![fresh; subflows]),
            now_us: vec![0; subflows],
        };
        (0..subflows).for_each(|slot| path.round(slot, BASE_US, 10, 0));
        path
    }

    fn cwnd(&self, slot: usize) -> u64 {
        self.connection.subflows[slot].cwnd
    }

    fn mode(&self, slot: usize) -> u64 {
        self.connection.subflows[slot].state[MODE]
    }

    /// One round trip in which so many packets are delivered and lost, seen by one ACK at its end.
    fn round(&mut self, slot: usize, rtt_us: u64, delivered: u64, lost: u64) {
        let pilot = controller("pilot");
        self.now_us[slot] += rtt_us;
        let now_us = self.now_us[slot];
        let s = &mut self.connection.subflows[slot];
        (s.rtt_us, s.srtt_us) = (rtt_us, rtt_us);
        s.delivered += delivered;
        s.lost += lost;
        if lost > 0 {
            pilot.on_loss(&mut self.connection, slot, now_us);
        }
        pilot.on_rtt(&mut self.connection, slot, now_us);
        pilot.on_interval(&mut self.connection, slot, now_us);
    }

    /// Alone behind a link of so many packets a round trip of the base, with an endless queue.
    fn alone(&mut self, slot: usize, bdp: u64) {
        let window = self.cwnd(slot);
        let rtt_us = BASE_US.max(BASE_US * window / bdp);
        self.round(slot, rtt_us, window, 0);
    }

    /// Beside others that keep the queue full whatever we do: the rate is in proportion to the window.
    fn beside(&mut self, slot: usize, rtt_us: u64) {
        let window = self.cwnd(slot);
        self.round(slot, rtt_us, window, 0);
    }
}

#[test]
fn startup_doubles_and_ends_with_what_the_path_holds() {
    let mut path = Path::new(1);
    for doubled in [20, 40, 80, 160] {
        assert_eq!((path.mode(0), path.cwnd(0)), (STARTUP, doubled));
        path.alone(0, 100);
    }
    assert_eq!(path.mode(0), ALONE);
    // 100 packets a base, and the queue that it aims at
    assert_eq!(path.cwnd(0), 100 * (BASE_US + TARGET_US) / BASE_US);
}

/// The window would double twice more before the next round's first packets tell of the queue.
#[test]
fn a_block_of_delayed_packets_ends_startup_within_a_round() {
    let pilot = controller("pilot");
    let mut path = Path::new(1);
    (0..2).for_each(|_| path.alone(0, 100));
    assert_eq!((path.mode(0), path.cwnd(0)), (STARTUP, 80));
    for packet in 1..=16 {
        assert_eq!(path.mode(0), STARTUP, "{packet}");
        path.now_us[0] += 100;
        let now_us = path.now_us[0];
        let s = &mut path.connection.subflows[0];
        s.delivered += 1;
        s.rtt_us = BASE_US * 5 / 4;
        pilot.on_rtt(&mut path.connection, 0, now_us);
        pilot.on_interval(&mut path.connection, 0, now_us);
    }
    assert_eq!(path.mode(0), ALONE);
    assert!(path.cwnd(0) <= 80 + 16, "{}", path.cwnd(0));
}

#[test]
fn a_handshake_does_not_end_startup() {
    let mut path = Path::new(1);
    // Two packets a round trip, each acknowledged after a delay that a queue could have, too.
    for _ in 0..8 {
        path.round(0, 2 * BASE_US, 2, 0);
    }
    assert_eq!(path.mode(0), STARTUP);
    assert!(path.cwnd(0) >= 20);
    // Enough to build one: it has.
    path.round(0, 2 * BASE_US, 30, 0);
    assert_eq!(path.mode(0), ALONE);
}

/// Nothing but itself empties the queue for ten minutes.
#[test]
fn on_a_path_that_never_varies_the_queue_stays_as_it_was() {
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    let (mut sum, mut least, mut most) = (0, u64::MAX, 0);
    for _ in 0..15_000 {
        path.alone(0, 100);
        let window = path.cwnd(0);
        (sum, least, most) = (sum + window, least.min(window), most.max(window));
    }
    // At the end of an epoch it holds seven eighths of the path.
    assert!((85..=88).contains(&least) && most <= 110, "{least}, {most}");
    assert!(sum / 15_000 >= 104, "{}", sum / 15_000);
}

#[test]
fn alone_it_settles_at_its_target_and_is_deaf_to_loss() {
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    let clean = path.cwnd(0);
    assert!((104..=109).contains(&clean), "{clean}");
    let mut sum = 0;
    for _ in 0..500 {
        let window = path.cwnd(0);
        let rtt_us = BASE_US.max(BASE_US * window / 100);
        path.round(0, rtt_us, window - window / 20, window / 20);
        assert_eq!(path.mode(0), ALONE);
        // An eighth less until it knows what chance loses; LIA would be at 5 packets.
        assert!((80..=109).contains(&path.cwnd(0)), "{}", path.cwnd(0));
        sum += path.cwnd(0);
    }
    assert!(sum / 500 >= 95, "{} packets in the mean", sum / 500);
}

#[test]
fn a_queue_that_our_cut_drains_is_our_own_and_one_that_it_does_not_is_that_of_others() {
    let mut alone = Path::new(1);
    (0..40).for_each(|_| alone.alone(0, 100));
    // The link halves: RTTs double, and fall as the window does.
    (0..20).for_each(|_| alone.alone(0, 50));
    assert_eq!(alone.mode(0), ALONE);
    assert!((52..=56).contains(&alone.cwnd(0)), "{}", alone.cwnd(0));

    let mut beside = Path::new(1);
    (0..40).for_each(|_| beside.alone(0, 100));
    let before = beside.cwnd(0);
    (0..4).for_each(|_| beside.beside(0, BASE_US * 5 / 4));
    assert_eq!(beside.mode(0), SHARED);
    assert_eq!(beside.cwnd(0), before, "the window from before the queue");
}

#[test]
fn shared_it_is_one_tcp() {
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    (0..4).for_each(|_| path.beside(0, BASE_US * 5 / 4));
    for _ in 0..8 {
        let window = path.cwnd(0);
        path.beside(0, BASE_US * 5 / 4);
        assert_eq!(path.cwnd(0), window + 1);
    }
    let window = path.cwnd(0);
    path.round(0, BASE_US * 5 / 4, window - 1, 1);
    assert_eq!(path.cwnd(0), window / 2);
}

#[test]
fn two_subflows_that_share_grow_by_five_quarters_of_their_half() {
    let mut path = Path::new(2);
    for slot in 0..2 {
        (0..40).for_each(|_| path.alone(slot, 100));
        (0..4).for_each(|_| path.beside(slot, BASE_US * 5 / 4));
        assert_eq!(path.mode(slot), SHARED);
    }
    let before = path.cwnd(0);
    for _ in 0..8 {
        (0..2).for_each(|slot| path.beside(slot, BASE_US * 5 / 4));
    }
    assert_eq!(path.cwnd(0), before + 5, "8 rounds of 5/8 packets");
}

#[test]
fn it_is_alone_again_once_no_queue_stands_for_two_windows_of_rounds() {
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    (0..4).for_each(|_| path.beside(0, BASE_US * 5 / 4));
    let mut rounds = 0;
    while path.mode(0) == SHARED {
        let window = path.cwnd(0);
        path.round(0, BASE_US, window, 0);
        rounds += 1;
        assert!(rounds < 1000);
    }
    assert!(rounds > 2 * 100, "{rounds} rounds");
}

/// What an earlier stay has counted does not bring the first test of this one forward.
#[test]
fn each_stay_in_shared_mode_waits_for_its_own_first_test() {
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    (0..4 + 10).for_each(|_| path.beside(0, BASE_US * 5 / 4));
    while path.mode(0) == SHARED {
        let window = path.cwnd(0);
        path.round(0, BASE_US, window, 0);
    }
    (0..300).for_each(|_| path.alone(0, 400));
    while path.mode(0) == ALONE {
        path.beside(0, BASE_US * 5 / 4);
    }
    for round in 0..16 {
        let window = path.cwnd(0);
        path.beside(0, BASE_US * 5 / 4);
        assert_eq!(path.cwnd(0), window + 1, "round {round}");
    }
    let window = path.cwnd(0);
    path.beside(0, BASE_US * 5 / 4);
    let grown = window + 1;
    assert_eq!(path.cwnd(0), grown - grown / 4, "the test");
}

#[test]
fn a_loss_that_was_none_gives_the_window_back() {
    const RECOVERY: u64 = 3;
    let pilot = controller("pilot");
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    (0..4).for_each(|_| path.beside(0, BASE_US * 5 / 4));
    let window = path.cwnd(0);
    let now_us = path.now_us[0];
    let slow = pilot.on_loss(&mut path.connection, 0, now_us);
    path.connection.subflows[0].phase = RECOVERY;
    pilot.on_interval(&mut path.connection, 0, now_us);
    assert_eq!((slow, path.cwnd(0)), (window / 2, window / 2));
    path.connection.subflows[0].phase = 0;
    pilot.on_undo(&mut path.connection, 0);
    pilot.on_interval(&mut path.connection, 0, now_us);
    assert_eq!(path.cwnd(0), window);
}

/// The receiver admits 45 packets, and more is always queued behind them.
#[test]
fn startup_does_not_grow_a_window_that_nothing_fills() {
    let mut path = Path::new(1);
    (0..250).for_each(|_| path.round(0, BASE_US, 45, 0));
    assert_eq!(path.mode(0), STARTUP);
    assert!(path.cwnd(0) <= 4 * 45, "{}", path.cwnd(0));
}

#[test]
fn a_window_that_delivers_no_more_stops_growing() {
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    for round in 0..300 {
        // The queue is too short for delay to show: what is above 100 packets a round is lost.
        let window = path.cwnd(0);
        path.round(0, BASE_US, window.min(100), window.saturating_sub(100));
        let most = 100 * (BASE_US + TARGET_US) / BASE_US * 9 / 8 + 3;
        let now = path.cwnd(0);
        assert!(round < 10 || (100..=most).contains(&now), "{now}");
    }
    assert_eq!(path.mode(0), ALONE);
    // The link becomes four times as fast.
    (0..60).for_each(|_| path.alone(0, 400));
    assert!(path.cwnd(0) >= 400, "{}", path.cwnd(0));
}

#[test]
fn a_window_that_is_seldom_used_does_not_grow() {
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    let before = path.cwnd(0);
    // A sixth of the window a round trip, in rounds of four round trips.
    for _ in 0..100 {
        (0..3).for_each(|_| path.round(0, BASE_US, 5, 0));
        path.round(0, BASE_US, 5 + before / 3, 0);
    }
    assert!(path.cwnd(0) <= before, "{} after {before}", path.cwnd(0));
}

/// A connection of two subflows with 1000-byte segments whose receive window is of 1000 packets, from just before the wrap
/// of the data sequence numbers.
#[test]
fn near_the_end_of_the_receive_window_a_subflow_waits() {
    const MSS: u64 = 1000;
    const UNA: u64 = u64::MAX - 10;
    let at = |packets: u64| UNA.wrapping_add(packets * MSS);
    let mut path = Path::new(2);
    for slot in 0..2 {
        (0..40).for_each(|_| path.alone(slot, 100));
    }
    let full = path.cwnd(0);
    let both_us: u64 = path.connection.subflows.iter().map(|s| s.srtt_us).sum();
    let began_us = path.now_us[0];
    let mut see = |next: u64, end: u64, unsacked: u64| {
        let s = &mut path.connection.subflows[0];
        (s.mss, s.unsacked) = (MSS, unsacked);
        (s.data_una, s.data_window) = (UNA, 1000 * MSS);
        (s.data_next, s.data_end) = (at(next), at(end));
        path.now_us[0] += 1;
        controller("pilot").on_interval(&mut path.connection, 0, path.now_us[0]);
        path.cwnd(0)
    };
    assert_eq!(
        see(999, 1000, 50),
        full,
        "Linux has the same end: it stops by itself"
    );
    assert_eq!(see(100, 1500, 50), full, "far from the end");
    assert_eq!(
        see(900, 1500, 50),
        50 + 37,
        "what is out, and 1000 - 900 - 1000/16"
    );
    assert_eq!(see(950, 1500, 50), 50, "what is out may come again");
    assert_eq!(see(950, 1500, 0), 2);
    assert_eq!(see(1000, 1500, 0), 1);

    // Nothing is acknowledged: a data-level timeout has to send, and waits for a subflow without data.
    for (waited_us, cwnd) in [(0, 1), (2, full)] {
        path.now_us[0] = began_us + 200_000 + 2 * both_us + waited_us;
        controller("pilot").on_interval(&mut path.connection, 0, path.now_us[0]);
        assert_eq!(path.cwnd(0), cwnd, "{waited_us}");
    }
    let s = &mut path.connection.subflows[0];
    s.data_una = at(1);
    controller("pilot").on_interval(&mut path.connection, 0, path.now_us[0]);
    assert!(path.cwnd(0) < full, "the hole is filled");
}

/// What a faster sibling's ACK has acknowledged does not go with the window of an ACK that left the receiver before.
#[test]
fn the_end_of_the_window_is_that_of_an_ack_that_knew_what_was_acknowledged() {
    const MSS: u64 = 1000;
    let mut path = Path::new(2);
    for slot in 0..2 {
        (0..40).for_each(|_| path.alone(slot, 100));
    }
    for (slot, rtt_us) in [(0, BASE_US), (1, BASE_US / 4)] {
        path.connection.subflows[slot].mss = MSS;
        path.connection.subflows[slot].min_rtt_us = rtt_us;
    }
    let full = path.cwnd(0);
    let mut see = |slot: usize, una: u64, window: u64, next: u64| {
        let s = &mut path.connection.subflows[slot];
        (s.data_una, s.data_window) = (una * MSS, window * MSS);
        (s.data_next, s.data_end) = (next * MSS, 5000 * MSS);
        path.now_us[slot] += 1000;
        controller("pilot").on_interval(&mut path.connection, slot, path.now_us[slot]);
        path.cwnd(slot)
    };
    see(1, 0, 1000, 0);
    see(0, 0, 1000, 0);
    see(1, 600, 500, 0);
    // An older ACK, which announced all 1000 packets from 0 on, comes after one that acknowledged 600 of them.
    assert!(see(0, 600, 1000, 1090) < full / 2);
    assert_eq!(see(0, 600, 1000, 900), full);
}

#[test]
fn a_path_that_has_become_longer_is_soon_not_taken_for_a_shared_one() {
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    let until = |path: &mut Path, mode: u64| {
        let rounds = (0..60).find(|_| {
            path.beside(0, 3 * BASE_US);
            path.mode(0) == mode
        });
        rounds.expect("a change of the mode")
    };
    until(&mut path, SHARED);
    assert!(until(&mut path, ALONE) < 33);
    let window = path.cwnd(0);
    (0..40).for_each(|_| path.beside(0, 3 * BASE_US));
    assert!(path.cwnd(0) > 2 * window, "{} after {window}", path.cwnd(0));
}

#[test]
fn jitter_of_a_full_path_is_no_queue_where_packets_are_lost() {
    const BDP: u64 = 100;
    const RANGE_US: u64 = 15_000;
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, BDP));
    let mut round = |above_us: u64, lost: u64| {
        let window = path.cwnd(0);
        let s = &mut path.connection.subflows[0];
        s.rtt_us = BASE_US + above_us;
        controller("pilot").on_rtt(&mut path.connection, 0, path.now_us[0]);
        let fits = window.min(BDP * (BASE_US + above_us + RANGE_US) / BASE_US);
        path.round(0, BASE_US + above_us + RANGE_US, fits - lost, lost);
        (path.mode(0), path.cwnd(0))
    };
    // Packets of a path with little to carry arrive early now and then.
    for _ in 0..300 {
        round(0, 0);
    }
    // Those of a full one do not: the least RTT is above the base by more than noise and timers.
    for i in 0..100 {
        let (mode, window) = round(RANGE_US + 3000, 1);
        assert_eq!(mode, ALONE);
        assert!(window >= BDP, "{window} in round {i}");
    }
}

#[test]
fn after_a_timeout_its_window_grows_by_a_packet_an_ack_up_to_its_own() {
    const TIMEOUT: u64 = 4;
    let mut path = Path::new(1);
    (0..40).for_each(|_| path.alone(0, 100));
    let own = path.cwnd(0);

    let pilot = controller("pilot");
    let s = &mut path.connection.subflows[0];
    // The stack takes all for lost and allows one packet (tcp_enter_loss).
    (s.phase, s.in_flight, s.cwnd) = (TIMEOUT, 0, 1);
    let mut windows = Vec::new();
    for _ in 0..12 {
        let flight = path.cwnd(0);
        path.now_us[0] += BASE_US;
        // An ACK for every second packet.
        for packets in (0..flight).step_by(2).map(|first| (flight - first).min(2)) {
            let s = &mut path.connection.subflows[0];
            s.delivered += packets;
            s.in_flight = s.cwnd - packets;
            pilot.on_interval(&mut path.connection, 0, path.now_us[0]);
        }
        windows.push(path.cwnd(0));
    }
    assert_eq!(windows[..8], [2, 3, 5, 8, 12, 18, 27, 41]);
    assert!(windows[11] >= own * 15 / 16, "{windows:?} of {own}");
}

/// The range of `without` ends with the last mechanism, so that every value leaves out what it says.
#[test]
fn every_bit_of_without_is_a_mechanism() {
    let header = include_str!("../../../controllers/pilot_path.h");
    let (_, bits) = header
        .split_once("/* Bits of parameter 0. */")
        .expect("the enum");
    let (bits, _) = bits.split_once("};").expect("its end");
    let values = bits
        .lines()
        .filter_map(|line| line.split_once('=')?.1.split_once(','));
    let all: u64 = values
        .map(|(bit, _)| bit.trim().parse::<u64>().expect("a number"))
        .sum();
    let entry = mp_controllers::entry("pilot").expect("registered");
    let without = entry
        .parameters
        .iter()
        .find(|p| p.name == "without")
        .expect("there");
    assert_eq!(without.most, all);
}
