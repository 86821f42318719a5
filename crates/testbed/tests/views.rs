//! The contract of `mp_policy::view`: worlds that observe the same facts make the same view of them.
//!
//! `views/*.csv` are two transfers over the running kernel (Linux 6.18, reno, paths of 20 Mbit/s and 20 ms and of 8 Mbit/s
//! and 60 ms, one packet in 250 of the first lost at random), polled at the client by sock_diag; columns as in `struct
//! tcp_info`. In the download the second path dies after 1.5 s. Each poll goes through the adapter of the kernel, which
//! daemon and testbed share (`mp_host::adapter`), and through that of the simulator (`mp_simulator::view`): two adapters serve
//! three worlds.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use mp_host::adapter::Adapter;
use mp_host::links::Interface;
use mp_host::PathSettings;
use mp_kernel::diag;
use mp_kernel::mptcp_info::TcpInfo;
use mp_policy::path_manager::driver::Driver;
use mp_policy::path_manager::find;
use mp_policy::view::{Counters, Path, Received, Role, State, Subflow, View};
use mp_simulator::view::{activity, mark_silent, Halves, Receiving, Sending};

/// All segments of the simulator are full, those of the kernel are not: its payload may differ by this share, and by two
/// segments.
const PAYLOAD: f64 = 0.02;

/// What one poll tells of one subflow.
type Facts = diag::Subflow;

/// Polls in order of time, µs.
fn record(csv: &str) -> Vec<(u64, Vec<Facts>)> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let mut polls: Vec<(u64, Vec<Facts>)> = Vec::new();
    for line in lines {
        let row: HashMap<&str, &str> = names.iter().copied().zip(line.split(',')).collect();
        let long = |name: &str| -> u64 { row[name].parse().expect(name) };
        let count = |name: &str| -> u32 { row[name].parse().expect(name) };
        let local: IpAddr = row["local"].parse().expect("an address");
        let facts = Facts {
            token: count("token"),
            cookie: long("cookie"),
            local: SocketAddr::new(local, 1),
            remote: ([10, 77, 0, 2], 8080).into(),
            backup: false,
            tcp: TcpInfo {
                bytes_received: long("bytes_received"),
                data_segs_in: count("data_segs_in"),
                rcv_ooopack: count("rcv_ooopack"),
                rcv_mss: count("rcv_mss"),
                rcv_rtt: count("rcv_rtt"),
                rtt: count("rtt"),
                min_rtt: count("min_rtt"),
                bytes_acked: long("bytes_acked"),
                data_segs_out: count("data_segs_out"),
                unacked: count("unacked"),
                total_retrans: count("total_retrans"),
                dsack_dups: count("dsack_dups"),
                ..TcpInfo::default()
            },
            // Empty while there is one subflow.
            stream: row["stream"].parse().ok(),
        };
        match polls.last_mut().filter(|(at, _)| *at == long("time_us")) {
            Some((_, subflows)) => subflows.push(facts),
            None => polls.push((long("time_us"), vec![facts])),
        }
    }
    polls
}

fn path_of(local: IpAddr) -> usize {
    match local {
        IpAddr::V4(v4) => usize::from(v4.octets()[2]),
        IpAddr::V6(_) => unreachable!("the record has none"),
    }
}

/// The kernel's adapter, that of the daemon and of the testbed.
fn kernel() -> Adapter {
    let settings = PathSettings::default();
    let interface = |path: u8| Interface {
        index: i32::from(path) + 1,
        name: format!("path{path}"),
        up: true,
        addresses: vec![[10, 77, path, 1].into()],
    };
    let mut adapter = Adapter::new(&settings);
    adapter.set_interfaces(0, vec![interface(0), interface(1)], &settings);
    adapter
}

/// The simulator's adapter: the same facts, as its endpoints count them.
struct Simulated {
    role: Role,
    /// By cookie, and the stream's, at the first poll that has it: a simulated connection counts from its own beginning.
    first: HashMap<u64, TcpInfo>,
    stream: Option<u64>,
    driver: Driver,
    /// Payload at the poll before, by cookie.
    bytes: HashMap<u64, u64>,
}

impl Simulated {
    fn new(role: Role, now_us: u64) -> Simulated {
        Simulated {
            role,
            first: HashMap::new(),
            stream: None,
            driver: Driver::new(find("loss-aware").expect("registered").build(), now_us),
            bytes: HashMap::new(),
        }
    }

    /// The other end counts too, and nothing of that may show.
    fn halves(&mut self, facts: &Facts) -> Halves {
        let (now, was) = (
            facts.tcp,
            *self.first.entry(facts.cookie).or_insert(facts.tcp),
        );
        let count = |now: u32, was: u32| u64::from(now - was);
        let download = self.role == Role::Receiver;
        let mut halves = Halves {
            download,
            mss: 1420,
            handshake_us: now.min_rtt,
            sending: Sending {
                packets: count(now.data_segs_out, was.data_segs_out),
                lost: count(
                    now.total_retrans - now.dsack_dups,
                    was.total_retrans - was.dsack_dups,
                ),
                bytes: now.bytes_acked - was.bytes_acked,
                in_flight: now.unacked.into(),
                srtt_us: now.rtt,
                min_rtt_us: now.min_rtt,
            },
            receiving: Receiving {
                // The peer repeated none that had arrived: it never saw a DSACK.
                in_order: count(now.data_segs_in, was.data_segs_in),
                held: 0,
                arrived: count(now.data_segs_in, was.data_segs_in),
                out_of_order: count(now.rcv_ooopack, was.rcv_ooopack),
                rtt_us: now.rcv_rtt,
            },
        };
        const SECRET: u32 = 7_777_777;
        let secret = u64::from(SECRET);
        match download {
            true => {
                halves.sending = Sending {
                    packets: secret,
                    lost: secret,
                    bytes: secret,
                    in_flight: secret,
                    srtt_us: SECRET,
                    min_rtt_us: SECRET,
                }
            }
            false => {
                halves.receiving = Receiving {
                    in_order: secret,
                    held: secret,
                    arrived: secret,
                    out_of_order: secret,
                    rtt_us: SECRET,
                }
            }
        }
        halves
    }

    fn poll(&mut self, now_us: u64, subflows: &[Facts]) -> (Vec<Subflow>, u64) {
        let slot = |facts: &Facts| Subflow {
            state: State::Established,
            path: path_of(facts.local.ip()),
            backup: facts.backup,
            counters: self.halves(facts).counters(),
        };
        let mut slots: Vec<Subflow> = subflows.iter().map(slot).collect();
        let did = |(slot, facts): (&Subflow, &Facts)| {
            let before = self.bytes.insert(facts.cookie, slot.counters.bytes());
            activity(facts.cookie, slot, before.unwrap_or(0))
        };
        let activities: Vec<_> = slots.iter().zip(subflows).map(did).collect();
        let polled = self.driver.poll(now_us, &activities, |_| false);
        mark_silent(&mut slots, &polled.silent);
        let stream = subflows[0].stream;
        self.stream = self.stream.or(stream);
        let bytes = stream.zip(self.stream);
        let bytes = bytes.map_or(0, |(now, was)| now.wrapping_sub(was));
        (slots, bytes)
    }

    fn view<'a>(
        &self,
        now_us: u64,
        paths: &'a [Path],
        slots: &'a [Subflow],
        bytes: u64,
    ) -> View<'a> {
        View {
            now_us,
            role: self.role,
            paths,
            subflows: slots,
            bytes,
            began_us: self.driver.began_us(now_us),
        }
    }
}

/// A view that outlasts its poll.
struct Kept {
    paths: Vec<Path>,
    subflows: Vec<Subflow>,
    now_us: u64,
    bytes: u64,
}

impl Kept {
    fn of(view: &View<'_>) -> Kept {
        Kept {
            paths: view.paths.to_vec(),
            subflows: view.subflows.to_vec(),
            now_us: view.now_us,
            bytes: view.bytes,
        }
    }

    /// Nothing is wrong with `next`, which comes after it.
    fn check(&self, next: &View<'_>) {
        let before = View {
            paths: &self.paths,
            subflows: &self.subflows,
            now_us: self.now_us,
            bytes: self.bytes,
            ..*next
        };
        assert_eq!(next.check(Some(&before)), Ok(()));
    }
}

/// Each counter alike, but for what a world does not have.
fn same_counters(role: Role, facts: &Facts, kernel: &Counters, simulated: &Counters) {
    assert_eq!(kernel.min_rtt_us, simulated.min_rtt_us);
    // Before it measures by data, the kernel smooths the round trips of the handshake and of the requests; the simulator has no
    // requests.
    match role == Role::Sender || facts.tcp.rcv_rtt > 0 {
        true => assert_eq!(kernel.srtt_us, simulated.srtt_us),
        false => assert!(kernel.srtt_us >= simulated.srtt_us, "{facts:?}"),
    }
    match role {
        Role::Sender => {
            // The kernel counts the answers too.
            assert_eq!((kernel.sent, simulated.received), (simulated.sent, None));
        }
        Role::Receiver => {
            // The kernel counts the requests too.
            assert_eq!(simulated.sent, None);
            let (k, s) = kernel.received.zip(simulated.received).expect("both");
            let apart = k.bytes.abs_diff(s.bytes) as f64;
            assert!(
                apart <= PAYLOAD * s.bytes as f64 + 2.0 * 1420.0,
                "{k:?} {s:?}"
            );
            let bytes = 0;
            assert_eq!(Received { bytes, ..k }, Received { bytes, ..s });
        }
    }
}

/// Runs a record through both adapters; the polls at which path 1 was silent.
fn compare(role: Role, csv: &str) -> Vec<u64> {
    let polls = record(csv);
    let mut adapter = kernel();
    let mut simulated = Simulated::new(role, polls[0].0);
    adapter.start(polls[0].0);
    let mut silent = Vec::new();
    let (mut roles, mut began) = (Vec::new(), Vec::new());
    let mut before: Option<[Kept; 2]> = None;
    for (now_us, subflows) in &polls {
        let now_us = *now_us;
        adapter.poll(now_us, subflows.clone(), None);
        let (slots, bytes) = simulated.poll(now_us, subflows);
        adapter.with_view(now_us, |kernel| {
            let simulated = simulated.view(now_us, kernel.paths, &slots, bytes);
            let both = [kernel, &simulated];
            match &before {
                None => both.iter().for_each(|v| assert_eq!(v.check(None), Ok(()))),
                Some(kept) => kept.iter().zip(both).for_each(|(kept, v)| kept.check(v)),
            }
            before = Some(both.map(Kept::of));
            let whole = |v: &View<'_>| (v.now_us, v.paths.len(), v.bytes);
            assert_eq!(whole(kernel), whole(&simulated), "{now_us}");
            began.extend(kernel.began_us.zip(simulated.began_us));
            if bytes > 0 {
                roles.push(kernel.role);
            }
            for (s, facts) in simulated.subflows.iter().zip(subflows) {
                let path = &kernel.subflows[s.path];
                same_counters(role, facts, &path.counters, &s.counters);
                if s.path == 1 && s.counters.received.is_some_and(|r| r.silent) {
                    silent.push(now_us);
                }
            }
        });
    }
    // The requests of a host move too: a connection may begin a poll or two earlier there.
    let apart = |(kernel, simulated): &(u64, u64)| simulated.checked_sub(*kernel);
    let near = |of: &(u64, u64)| apart(of).is_some_and(|us| us <= 150_000);
    assert!(!began.is_empty() && began.iter().all(near), "{began:?}");
    // Which way the data go shows once there are more of them than of requests.
    let wrong = roles.iter().filter(|found| **found != role).count();
    assert!(wrong <= 3 && roles.len() > 20, "{wrong} of {}", roles.len());
    silent
}

#[test]
fn worlds_see_the_same_of_a_download() {
    let silent = compare(Role::Receiver, include_str!("views/receiver.csv"));
    let first = silent.first().copied().expect("the path that dies");
    assert!((1_600_000..2_100_000).contains(&first), "{silent:?}");
}

#[test]
fn worlds_see_the_same_of_an_upload() {
    assert_eq!(
        compare(Role::Sender, include_str!("views/sender.csv")),
        [0; 0]
    );
}
