//! Peers that do not know that a subflow is in backup. The kernel tells them by MP_PRIO (RFC 8684, section 3.3.8): one packet, on
//! that very subflow, that nobody acknowledges and the kernel never repeats. Where the path loses packets, which may be why it
//! is in backup, that one may be among them; then a download goes on over it for as long as it lasts.

use std::collections::HashMap;

use crate::sampler::Seen;

/// What was on the way, or waits to be sent once more, arrives after all: for so long, or for so many round trips, µs.
const LEAST_US: u64 = 1_000_000;
const ROUND_TRIPS: u64 = 4;
/// After that so many packets are too many, if so many come on the connection's normal subflows meanwhile: a peer that has given
/// those up has the others carry data.
const PACKETS: u32 = 32;
const BESIDE: u32 = 8;
/// Patience doubles so often, where telling has no effect.
const DOUBLINGS: u32 = 5;

#[derive(Debug, Default)]
pub struct Unheard {
    /// By cookie: the subflows that are in backup.
    spared: HashMap<u64, Told>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    at_us: u64,
    times: u32,
    /// Packets on it, and on the connection's normal ones, when patience ended.
    counted: Option<(u32, u32)>,
}

impl Unheard {
    /// Which paths `spared` says are in backup and have a peer that is to be told again.
    pub fn look(
        &mut self,
        now_us: u64,
        subflows: &[Seen],
        spared: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let (mut tell, mut still) = (Vec::new(), HashMap::new());
        let is_spared = |s: &Seen| s.path.is_some_and(&spared);
        // Most of the time there is none.
        if subflows.iter().any(is_spared) {
            let mut beside: HashMap<u32, u32> = HashMap::new();
            for s in subflows.iter().filter(|s| !is_spared(s)) {
                let packets = beside.entry(s.subflow.token).or_default();
                *packets = packets.wrapping_add(s.subflow.tcp.data_segs_in);
            }
            for s in subflows.iter().filter(|s| is_spared(s)) {
                let Some(&beside) = beside.get(&s.subflow.token) else {
                    continue;
                };
                let mut told = self.spared.get(&s.subflow.cookie).copied();
                let told = told.get_or_insert(Told::new(now_us));
                if told.in_vain(now_us, s, beside) {
                    tell.extend(s.path);
                }
                still.insert(s.subflow.cookie, *told);
            }
        }
        self.spared = still;
        tell.sort_unstable();
        tell.dedup();
        // All who have a subflow there are told.
        for s in subflows
            .iter()
            .filter(|s| s.path.is_some_and(|p| tell.contains(&p)))
        {
            if let Some(told) = self.spared.get_mut(&s.subflow.cookie) {
                (told.at_us, told.counted) = (now_us, None);
            }
        }
        tell
    }
}

impl Told {
    fn new(now_us: u64) -> Told {
        Told {
            at_us: now_us,
            times: 0,
            counted: None,
        }
    }

    /// Data go on coming.
    fn in_vain(&mut self, now_us: u64, s: &Seen, beside: u32) -> bool {
        let tcp = &s.subflow.tcp;
        let round_trip = u64::from(tcp.rcv_rtt.max(tcp.rtt));
        let patience = LEAST_US.max(ROUND_TRIPS * round_trip) << self.times;
        // Our own end has to know it.
        if now_us < self.at_us + patience || !s.subflow.backup {
            return false;
        }
        let now = (tcp.data_segs_in, beside);
        let (packets, others) = *self.counted.get_or_insert(now);
        if now.0.wrapping_sub(packets) < PACKETS {
            return false;
        }
        if now.1.wrapping_sub(others) < BESIDE {
            self.counted = Some(now);
            return false;
        }
        self.times = (self.times + 1).min(DOUBLINGS);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_kernel::diag::Subflow;
    use mp_kernel::mptcp_info::TcpInfo;

    /// A connection's subflow on each of two paths, of which the first is in backup, when so many packets have come.
    fn both(token: u32, packets: [u32; 2]) -> [Seen; 2] {
        [0, 1].map(|path: usize| Seen {
            path: Some(path),
            rate: 0.0,
            rtt_us: 0,
            subflow: Subflow {
                token,
                cookie: u64::from(token) << 8 | path as u64,
                local: ([10, 0, 0, path as u8], 1).into(),
                remote: ([10, 9, 9, 9], 80).into(),
                backup: path == 0,
                tcp: TcpInfo {
                    data_segs_in: packets[path],
                    rtt: 20_000,
                    ..TcpInfo::default()
                },
                stream: None,
            },
        })
    }

    /// Looks every 50 ms for so many seconds, in each of which so many packets come on either path; when the peer was told.
    fn told(seconds: u64, packets: [u32; 2], change: impl Fn(u64, &mut [Seen; 2])) -> Vec<u64> {
        let mut unheard = Unheard::default();
        let mut at = |n: &u64| {
            let mut both = both(7, packets.map(|p| *n as u32 * p / 20));
            change(*n * 50, &mut both);
            !unheard.look(n * 50_000, &both, |p| p == 0).is_empty()
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
        // One that has heard of it sends what it had begun, and no more.
        let heard = |ms: u64, both: &mut [Seen; 2]| {
            if ms > 900 {
                both[0].subflow.tcp.data_segs_in = 5_000 + (ms / 100) as u32;
            }
        };
        assert_eq!(told(3, [5_000, 640], heard), [0; 0]);
    }

    #[test]
    fn one_that_has_no_other_subflow_to_send_on_is_right_to_send() {
        let nothing = |_, _: &mut _| ();
        assert_eq!(told(9, [640, 0], nothing), [0; 0], "the others are dead");
        let alone = |_, both: &mut [Seen; 2]| both[1].subflow.token = 8;
        assert_eq!(told(9, [640, 640], alone), [0; 0], "of another connection");
        let unset = |_, both: &mut [Seen; 2]| both[0].subflow.backup = false;
        assert_eq!(told(9, [640, 640], unset), [0; 0], "not in backup for us");
    }

    #[test]
    fn all_connections_there_are_told_and_none_twice() {
        let mut unheard = Unheard::default();
        let mut look = |ms: u64, first: u32, second: u32| {
            let of = |token, packets| both(token, [packets, packets]);
            let all = [of(7, first), of(8, second)].concat();
            unheard.look(ms * 1_000, &all, |p| p == 0)
        };
        look(0, 0, 0);
        look(1_000, 0, 0);
        assert_eq!(look(1_100, 99, 0), [0]);
        assert_eq!(look(1_150, 99, 99), [] as [usize; 0], "told just now");
        look(2_100, 99, 99);
        assert_eq!(look(2_150, 99, 199), [0]);
    }
}
