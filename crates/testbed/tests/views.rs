//! The contract of `mp_policy::view`: worlds that observe the same facts make the same view of them.
//!
//! `views/*.csv` are two transfers over the running kernel (Linux 6.18, reno, paths of 20 Mbit/s and 20 ms and of 8 Mbit/s
//! and 60 ms, one packet in 250 of the first lost at random), polled at the client by sock_diag; columns as in `struct
//! tcp_info`. In the download the second path dies after 1.5 s. Each poll goes through the adapter of the kernel, which
//! daemon and testbed share (`mp_host::adapter`), and through that of the simulator (`mp_simulator::view`): two adapters serve
//! three worlds.
//!
//! The decisions are compared too: `loss-aware` decides the same, at the same polls, on the views of either adapter. Nobody
//! decided while the transfers were recorded, so their subflows stay as they are whatever is decided. Which of them exist is
//! therefore taken from the record, and their backup flags from the decisions, in the views of both. The rest of the views,
//! which is all that a decision is about, is as the adapter made it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use mp_host::adapter::Adapter;
use mp_host::links::Interface;
use mp_host::PathSettings;
use mp_kernel::diag;
use mp_kernel::mptcp_info::TcpInfo;
use mp_policy::path_manager::driver::Driver;
use mp_policy::path_manager::{find, Action, Event, Manage};
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
#[derive(Clone)]
struct Kept {
    paths: Vec<Path>,
    subflows: Vec<Subflow>,
    now_us: u64,
    role: Role,
    bytes: u64,
    began_us: Option<u64>,
}

impl Kept {
    fn of(view: &View<'_>) -> Kept {
        Kept {
            paths: view.paths.to_vec(),
            subflows: view.subflows.to_vec(),
            now_us: view.now_us,
            role: view.role,
            bytes: view.bytes,
            began_us: view.began_us,
        }
    }

    fn view(&self) -> View<'_> {
        View {
            now_us: self.now_us,
            role: self.role,
            paths: &self.paths,
            subflows: &self.subflows,
            bytes: self.bytes,
            began_us: self.began_us,
        }
    }

    /// With these subflows of the record and no other.
    fn with(self, recorded: &[Facts]) -> Kept {
        let state = |path: usize| {
            let on = |facts: &Facts| path_of(facts.local.ip()) == path;
            match recorded.iter().any(on) {
                true => State::Established,
                false => State::Closed,
            }
        };
        let subflow = |s: Subflow| Subflow {
            state: state(s.path),
            ..s
        };
        Kept {
            subflows: self.subflows.into_iter().map(subflow).collect(),
            ..self
        }
    }
}

/// What a path manager decides of a path. Slots are left out, because each world numbers its own; so are probes and times of
/// polls, which change no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Open { backup: bool },
    Close,
    SetBackup(bool),
}

/// The decisions of a fresh path manager on these views, each with its time and its path. Subflows are in backup as it has
/// decided, and those that it has replaced are opening.
fn decisions(views: &[Kept]) -> Vec<(u64, usize, Decision)> {
    let mut manager = find("loss-aware").expect("registered").build();
    let mut decided = Vec::new();
    let (mut backup, mut replaced) = ([false; 2], [false; 2]);
    let mut event = Event::Established;
    for view in views {
        let mut view = view.clone();
        for subflow in &mut view.subflows {
            subflow.backup = backup[subflow.path];
            if replaced[subflow.path] && subflow.state == State::Established {
                subflow.state = State::Opening;
            }
        }
        let mut actions = Vec::new();
        manager.observe(event, &view.view(), &mut actions);
        event = Event::Timer;
        for action in actions {
            let (path, decision) = match action {
                Action::Open { path, backup } => (path, Decision::Open { backup }),
                Action::Close { slot } => (view.subflows[slot].path, Decision::Close),
                Action::SetBackup { slot, backup } => {
                    (view.subflows[slot].path, Decision::SetBackup(backup))
                }
                Action::Probe { .. } | Action::Wake { .. } => continue,
            };
            match decision {
                Decision::Open { backup: b } | Decision::SetBackup(b) => backup[path] = b,
                Decision::Close => replaced[path] = true,
            }
            decided.push((view.now_us, path, decision));
        }
    }
    decided
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

/// Runs a record through both adapters; the polls at which path 1 was silent, and what was decided of which path.
fn compare(role: Role, csv: &str) -> (Vec<u64>, Vec<(usize, Decision)>) {
    let polls = record(csv);
    let mut adapter = kernel();
    let mut simulated = Simulated::new(role, polls[0].0);
    adapter.start(polls[0].0);
    let mut silent = Vec::new();
    let (mut roles, mut began) = (Vec::new(), Vec::new());
    let mut views: [Vec<Kept>; 2] = Default::default();
    for (now_us, subflows) in &polls {
        let now_us = *now_us;
        adapter.poll(now_us, subflows.clone(), None);
        let (slots, bytes) = simulated.poll(now_us, subflows);
        adapter.with_view(now_us, |kernel| {
            let simulated = simulated.view(now_us, kernel.paths, &slots, bytes);
            for (views, view) in views.iter_mut().zip([kernel, &simulated]) {
                let before = views.last().map(Kept::view);
                assert_eq!(view.check(before.as_ref()), Ok(()));
                views.push(Kept::of(view).with(subflows));
            }
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
    let [kernel, simulated] = views.map(|views| decisions(&views));
    assert_eq!(kernel, simulated);
    (silent, kernel.into_iter().map(|(_, p, d)| (p, d)).collect())
}

#[test]
fn worlds_see_the_same_of_a_download() {
    let (silent, decided) = compare(Role::Receiver, include_str!("views/receiver.csv"));
    let first = silent.first().copied().expect("the path that dies");
    assert!((1_600_000..2_100_000).contains(&first), "{silent:?}");
    let (open, dead) = (Decision::Open { backup: false }, Decision::SetBackup(true));
    assert_eq!(
        decided,
        [(1, open), (1, dead), (1, Decision::Close), (1, open)]
    );
}

#[test]
fn worlds_see_the_same_of_an_upload() {
    let (silent, decided) = compare(Role::Sender, include_str!("views/sender.csv"));
    assert_eq!(silent, [0; 0]);
    assert_eq!(decided, [(1, Decision::Open { backup: false })]);
}
