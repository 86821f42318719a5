//! Retry of MP_PRIO, for peers that do not know that a subflow is in backup, or no longer is. The kernel sends it (RFC 8684,
//! section 3.3.8) as one packet, on that very subflow, that nobody acknowledges and the kernel never repeats. A path that is
//! set to backup may lose packets, and that one among them; then a download goes on over it. If the MP_PRIO that restores a
//! path is lost, a download never comes back to it.

use std::collections::HashMap;

use super::Backoff;
use crate::view::Activity;

/// Data in flight, or waiting to be sent once more, arrives after all: for so long, or for so many round trips, µs.
const LEAST_US: u64 = 1_000_000;
const ROUND_TRIPS: u64 = 4;
/// After that so many packets are too many, if so many come on the connection's normal subflows meanwhile: a peer that has given
/// those up has the others carry data.
const PACKETS: u32 = 32;
const BESIDE: u32 = 8;
/// The wait doubles so often, where telling has no effect.
const DOUBLINGS: u32 = 5;
/// A restored subflow is told so often at most: a peer that has little to send may have nothing to send there.
const RESTORED: u32 = 6;

/// The subflows that are or were in backup, and what each peer has been told.
#[derive(Debug, Default)]
pub struct Retry {
    /// By name.
    told: HashMap<u64, Told>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    /// To use it as a backup, or normally again.
    backup: bool,
    at_us: u64,
    times: u32,
    /// Packets on it, and on the connection's normal ones: of a backup when the wait was over, of a restored one when it was
    /// told.
    counted: Option<(u32, u32)>,
}

impl Retry {
    /// Takes in a poll. Returns the paths whose peers are to be told again whether they are `in_backup`.
    pub fn poll(
        &mut self,
        now_us: u64,
        subflows: &[Activity],
        in_backup: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let (mut tell, mut still) = (Vec::new(), HashMap::new());
        let is_backup = |s: &Activity| s.path.is_some_and(&in_backup);
        // Most of the time there is none.
        if !self.told.is_empty() || subflows.iter().any(is_backup) {
            let mut normal: HashMap<u32, u32> = HashMap::new();
            for s in subflows.iter().filter(|s| !is_backup(s)) {
                let packets = normal.entry(s.connection).or_default();
                *packets = packets.wrapping_add(s.packets);
            }
            for s in subflows {
                let (backup, last) = (is_backup(s), self.told.get(&s.id));
                let normal = normal.get(&s.connection).copied();
                let mut told = match last {
                    Some(told) if told.backup == backup => *told,
                    None if !backup => continue,
                    _ => Told::new(backup, now_us),
                };
                let in_vain = match (backup, normal) {
                    // It has no other to send on: the wait begins once it has.
                    (true, None) => {
                        told = Told::new(true, now_us);
                        false
                    }
                    (true, Some(beside)) => told.goes_on(now_us, s, beside),
                    (false, normal) => {
                        let beside = normal.unwrap_or_default().wrapping_sub(s.packets);
                        match told.stays_away(now_us, s, beside) {
                            Some(in_vain) => in_vain,
                            None => continue,
                        }
                    }
                };
                if in_vain {
                    tell.extend(s.path);
                }
                still.insert(s.id, told);
            }
        }
        self.told = still;
        tell.sort_unstable();
        tell.dedup();
        // All who have a subflow there are told.
        for s in subflows
            .iter()
            .filter(|s| s.path.is_some_and(|p| tell.contains(&p)))
        {
            if let Some(told) = self.told.get_mut(&s.id) {
                told.at_us = now_us;
                if told.backup {
                    told.counted = None;
                }
            }
        }
        tell
    }
}

impl Told {
    fn new(backup: bool, now_us: u64) -> Told {
        Told {
            backup,
            at_us: now_us,
            times: 0,
            counted: None,
        }
    }

    fn waits(&self, now_us: u64, s: &Activity) -> bool {
        let first_us = LEAST_US.max(ROUND_TRIPS * u64::from(s.rtt_us.unwrap_or(0)));
        let wait = Backoff {
            first_us,
            most_us: first_us << DOUBLINGS,
        };
        now_us < self.at_us + wait.time(self.times)
    }

    /// In backup, and data go on coming.
    fn goes_on(&mut self, now_us: u64, s: &Activity, beside: u32) -> bool {
        // Our own end has to know it.
        if self.waits(now_us, s) || !s.backup {
            return false;
        }
        let now = (s.packets, beside);
        let (packets, others) = *self.counted.get_or_insert(now);
        if now.0.wrapping_sub(packets) < PACKETS {
            return false;
        }
        if now.1.wrapping_sub(others) < BESIDE {
            self.counted = Some(now);
            return false;
        }
        self.times += 1;
        true
    }

    /// Restored, and the connection's other normal subflows alone bring data. `None`: there is no more to tell.
    fn stays_away(&mut self, now_us: u64, s: &Activity, beside: u32) -> Option<bool> {
        let (packets, others) = *self.counted.get_or_insert((s.packets, beside));
        if s.packets.wrapping_sub(packets) >= BESIDE || self.times >= RESTORED {
            return None;
        }
        let more = beside.wrapping_sub(others) as i32;
        if more < 0 {
            // One of them has ended.
            self.counted = Some((packets, beside));
        }
        if s.backup || more < PACKETS as i32 || self.waits(now_us, s) {
            return Some(false);
        }
        self.counted = Some((packets, beside));
        self.times += 1;
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A connection's subflow on each of two paths, of which the first is in backup, when so many packets have come.
    fn both(connection: u32, packets: [u32; 2]) -> [Activity; 2] {
        [0, 1].map(|path: usize| Activity {
            connection,
            id: u64::from(connection) << 8 | path as u64,
            path: Some(path),
            backup: path == 0,
            arrived: 0,
            moved: 0,
            packets: packets[path],
            rtt_us: Some(20_000),
        })
    }

    /// Polls every 50 ms for so many seconds, in each of which so many packets come on either path; when the peer was told.
    fn told(seconds: u64, packets: [u32; 2], change: impl Fn(u64, &mut [Activity; 2])) -> Vec<u64> {
        let mut retry = Retry::default();
        let mut at = |n: &u64| {
            let mut both = both(7, packets.map(|p| *n as u32 * p / 20));
            change(*n * 50, &mut both);
            !retry.poll(n * 50_000, &both, |p| p == 0).is_empty()
        };
        (0..seconds * 20)
            .filter(|n| at(n))
            .map(|n| n * 50)
            .collect()
    }

    #[test]
    fn a_peer_that_goes_on_sending_is_told_again_and_ever_more_rarely() {
        let nothing = |_, _: &mut _| ();
        assert_eq!(told(9, [640, 640], nothing), [1_050, 3_100, 7_150]);
        // One that knows sends what it had begun, and no more.
        let knows = |ms: u64, both: &mut [Activity; 2]| {
            if ms > 900 {
                both[0].packets = 5_000 + (ms / 100) as u32;
            }
        };
        assert_eq!(told(3, [5_000, 640], knows), [0; 0]);
    }

    #[test]
    fn one_that_has_no_other_subflow_to_send_on_is_right_to_send() {
        let nothing = |_, _: &mut _| ();
        assert_eq!(told(9, [640, 0], nothing), [0; 0], "the others are dead");
        let alone = |_, both: &mut [Activity; 2]| both[1].connection = 8;
        assert_eq!(told(9, [640, 640], alone), [0; 0], "of another connection");
        let unset = |_, both: &mut [Activity; 2]| both[0].backup = false;
        assert_eq!(told(9, [640, 640], unset), [0; 0], "not in backup for us");
    }

    #[test]
    fn all_connections_there_are_told_and_none_twice() {
        let mut retry = Retry::default();
        let mut poll = |ms: u64, first: u32, second: u32| {
            let of = |connection, packets| both(connection, [packets, packets]);
            let all = [of(7, first), of(8, second)].concat();
            retry.poll(ms * 1_000, &all, |p| p == 0)
        };
        poll(0, 0, 0);
        poll(1_000, 0, 0);
        assert_eq!(poll(1_100, 99, 0), [0]);
        assert_eq!(poll(1_150, 99, 99), [] as [usize; 0], "told just now");
        poll(2_100, 99, 99);
        assert_eq!(poll(2_150, 99, 199), [0]);
    }

    /// Restored after a second, and polled for `seconds`: when the peer was told.
    fn restored(seconds: u64, packets: impl Fn(u64) -> [u32; 2]) -> Vec<u64> {
        restored_of(false, seconds, packets)
    }

    /// `alone`: the other subflow is one of its own connection only once the path is restored.
    fn restored_of(alone: bool, seconds: u64, packets: impl Fn(u64) -> [u32; 2]) -> Vec<u64> {
        let mut retry = Retry::default();
        let mut at = |n: &u64| {
            let mut both = both(7, packets(*n * 50));
            both[0].backup = *n < 20;
            both[1].connection += u32::from(alone && *n < 20);
            !(retry.poll(*n * 50_000, &both, |p| p == 0 && *n < 20)).is_empty()
        };
        let polls = 0..seconds * 20;
        polls.filter(|n| at(n)).map(|n| n * 50).collect()
    }

    #[test]
    fn a_peer_that_stays_away_from_a_restored_path_is_told_six_times_at_most() {
        let times = [2_000, 4_000, 8_000, 16_000, 32_000, 64_000];
        assert_eq!(restored(300, |ms| [0, ms as u32]), times);
        // Told once, it sends.
        let sends = |ms: u64| [ms.saturating_sub(2_500) as u32, ms as u32];
        assert_eq!(restored(300, sends), times[..1]);
        // Where nothing else was normal meanwhile, as well.
        assert_eq!(restored_of(true, 3, |ms| [0, ms as u32]), times[..1]);
        // What it sent before and sends once more is no sign.
        let left = |ms: u64| [(ms / 200).min(10) as u32, ms as u32];
        assert_eq!(restored(3, left), times[..1]);
    }

    #[test]
    fn a_peer_that_has_nothing_to_send_is_not_told_again() {
        assert_eq!(restored(300, |_| [0, 0]), [0; 0]);
        assert_eq!(restored(300, |ms| [0, (ms as u32).min(1_020)]), [0; 0]);
        assert_eq!(restored(300, |ms| [ms as u32 / 20, ms as u32]), [0; 0]);
    }

    proptest! {
        /// However packets come, counters that wrap included: no retry within the first wait, and each wait at least as long as
        /// the one before it, up to the longest.
        #[test]
        fn retries_back_off(start in any::<[u32; 2]>(), steps in prop::collection::vec([0..200u32, 0..200], 1..2_000)) {
            let (mut retry, mut packets, mut told) = (Retry::default(), start, vec![0]);
            for (n, step) in steps.iter().enumerate() {
                packets = [0, 1].map(|path| packets[path].wrapping_add(step[path]));
                let now = n as u64 * 50_000;
                if !retry.poll(now, &both(7, packets), |p| p == 0).is_empty() {
                    told.push(now);
                }
            }
            for (times, pair) in told.windows(2).enumerate() {
                let wait = LEAST_US << (times as u32).min(DOUBLINGS);
                prop_assert!(pair[1] - pair[0] >= wait, "{told:?}");
            }
        }
    }
}
