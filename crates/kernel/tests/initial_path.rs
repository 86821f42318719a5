//! Where connections of an unmodified program start, and what is told of them. The server has an address behind both paths.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use common::lab::{self, sh, Lab, PATIENCE, PORT};
use common::turn;
use mp_kernel::cgroup::Group;
use mp_kernel::initial_path::{
    Attachment, Choice, Connections, Event, EventKind, Finished, Prefix, Start,
};
use mp_kernel::{choose, interfaces, preload};
use socket2::Protocol;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 1, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 2, 1));
/// Of the second path's interface too.
const SECOND_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 2, 0, 0, 0, 0, 0, 1);
const BYTES: usize = 1 << 20;

struct Bench {
    lab: Lab,
    group: Group,
    events: Receiver<Event>,
    attachment: Attachment,
}

impl Bench {
    /// Routes prefer the first path, as a stock host's prefer its Wi-Fi; there are no rules by source address.
    fn new() -> Bench {
        let lab = Lab::new(Some("30mbit"));
        let (a, b) = (lab.namespace('a'), lab.namespace('b'));
        sh(&format!("ip -n {b} addr add {SERVER}/32 dev lo"));
        for path in 1..=2 {
            sh(&format!(
                "ip -n {a} route add {SERVER} via 10.77.{path}.2 metric {path}"
            ));
        }
        sh(&format!(
            "ip -n {a} mptcp endpoint add 10.77.1.1 dev p1 subflow"
        ));
        sh(&format!("ip -n {a} addr add {SECOND_V6}/64 dev p2 nodad"));
        let group = Group::new().unwrap();
        let (send, events) = channel();
        let attachment = Attachment::attach(group.path(), move |event| {
            let _ = send.send(event);
        });
        Bench {
            lab,
            group,
            events,
            attachment: attachment.unwrap(),
        }
    }

    /// Start over the second path.
    fn choice(&self) -> Choice {
        // SAFETY: a terminated string.
        let interface = choose::inside(self.lab.a(), || unsafe {
            libc::if_nametoindex(c"p2".as_ptr())
        });
        Choice {
            interface: interface.unwrap(),
            v4: Some(Ipv4Addr::new(10, 77, 2, 1)),
            tag: 42,
            ..Choice::default()
        }
    }

    /// Has a program download from the server; returns where its connection came from, and what it says.
    fn download(&self, mode: &str) -> (IpAddr, Output) {
        self.download_as(mode, |command| self.group.adopt(command).unwrap())
    }

    fn download_as(&self, mode: &str, arrange: impl FnOnce(&mut Command)) -> (IpAddr, Output) {
        let listener = choose::inside(self.lab.b(), || lab::listen(Protocol::MPTCP)).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "program_process", "--nocapture"])
            .env("MULTIPILOT_TEST_PROGRAM", mode)
            .stdout(Stdio::piped());
        preload::apply(&mut command, None).unwrap();
        arrange(&mut command);
        enter(&mut command, &self.lab);
        let child = command.spawn().unwrap();
        let (mut socket, peer) = listener.accept().unwrap();
        // The other path joins in the middle, however long that takes.
        let half = vec![1; BYTES / 2];
        let sent = socket.write_all(&half).and_then(|()| {
            lab::wait_for_join(self.lab.b(), &socket);
            socket.write_all(&half)
        });
        socket.shutdown(std::net::Shutdown::Both).unwrap();
        drop(socket);
        let output = child.wait_with_output().unwrap();
        assert!(sent.is_ok() && output.status.success(), "{output:?}");
        (peer.as_socket().unwrap().ip(), output)
    }

    /// The connection that has just ended, and what it began with.
    fn finished(&self) -> (Finished, Vec<Event>) {
        let (mut connections, mut seen) = (Connections::default(), Vec::new());
        loop {
            let event = self.events.recv_timeout(PATIENCE).unwrap();
            seen.push(event);
            if let Some(finished) = connections.observe(&event) {
                return (finished, seen);
            }
        }
    }
}

fn enter(command: &mut Command, lab: &Lab) {
    let namespace = lab.a().try_clone_to_owned().unwrap();
    // SAFETY: one system call.
    unsafe {
        command.pre_exec(
            move || match libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
}

/// Not a test by itself: the program of the tests below. It knows nothing of paths.
#[test]
fn program_process() {
    let Ok(mode) = std::env::var("MULTIPILOT_TEST_PROGRAM") else {
        return;
    };
    if mode == "group" {
        let group = Group::new().unwrap();
        println!("\ngroup {}", group.path().display());
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    if mode == "many" {
        // Nobody listens there.
        for _ in 0..4_000 {
            TcpStream::connect((Ipv4Addr::LOCALHOST, 1)).unwrap_err();
        }
        return;
    }
    let to = SocketAddr::from((SERVER, PORT));
    let mut stream = match mode.as_str() {
        "bound" => {
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::new(FIRST, 0).into()).unwrap();
            socket.connect(&to.into()).unwrap();
            TcpStream::from(socket)
        }
        "mapped" => TcpStream::connect((SERVER.to_ipv6_mapped(), PORT)).unwrap(),
        _ => TcpStream::connect(to).unwrap(),
    };
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    assert_eq!(body.len(), BYTES);
}

#[test]
fn a_connection_starts_where_it_is_told_and_the_other_path_joins() {
    let Some(_turn) = turn() else { return };
    let bench = Bench::new();
    assert_eq!(bench.download("plain").0, FIRST, "as the routes have it");
    assert_eq!(bench.finished().0.start, Start::Stock);

    bench
        .attachment
        .choices()
        .set(Prefix::ALL, &bench.choice())
        .unwrap();
    assert_eq!(
        bench.download("plain").0,
        SECOND,
        "the SYN's source address"
    );
    let (finished, events) = bench.finished();
    assert_eq!(
        (finished.start, finished.tag, finished.from),
        (Start::Chosen, 42, Some(SECOND))
    );
    assert_eq!(
        (finished.subflows, finished.multipath),
        (2, true),
        "{events:?}"
    );
    let joined = events
        .iter()
        .find(|e| e.kind == EventKind::Up && e.join)
        .unwrap();
    assert_eq!(
        joined.local.0, FIRST,
        "the join is not bound to the chosen path"
    );
    let bytes = finished.bytes as usize;
    // And what was sent again.
    assert!((BYTES..BYTES * 2).contains(&bytes), "{finished:?}");
    assert!(finished.handshake_us.unwrap() > 0 && finished.ended_ns > finished.started_ns);
    assert_eq!(finished.to, (SERVER.into(), PORT));
}

#[test]
fn an_ipv6_socket_starts_to_a_mapped_address_from_one_of_ipv4() {
    let Some(_turn) = turn() else { return };
    let bench = Bench::new();
    let choices = bench.attachment.choices();
    let both = Choice {
        v6: Some(SECOND_V6),
        ..bench.choice()
    };
    choices.set(Prefix::ALL, &both).unwrap();
    assert_eq!(bench.download("mapped").0, SECOND);
    assert_eq!(bench.finished().0.start, Start::Chosen);

    let v6_only = Choice { v4: None, ..both };
    choices.set(Prefix::ALL, &v6_only).unwrap();
    assert_eq!(bench.download("mapped").0, FIRST);
    assert_eq!(bench.finished().0.start, Start::Refused);
}

#[test]
fn what_is_stale_exempt_bound_or_impossible_starts_as_the_routes_have_it() {
    let Some(_turn) = turn() else { return };
    let bench = Bench::new();
    let choices = bench.attachment.choices();
    let stale = Choice {
        valid: Some(Duration::ZERO),
        ..bench.choice()
    };
    choices.set(Prefix::ALL, &stale).unwrap();
    assert_eq!(bench.download("plain").0, FIRST);
    assert_eq!(bench.finished().0.start, Start::Stale);

    let gone = Choice {
        v4: Some(Ipv4Addr::new(10, 77, 3, 1)),
        ..bench.choice()
    };
    choices.set(Prefix::ALL, &gone).unwrap();
    assert_eq!(bench.download("plain").0, FIRST);
    assert_eq!(bench.finished().0.start, Start::Refused);

    choices.set(Prefix::ALL, &bench.choice()).unwrap();
    assert_eq!(bench.download("bound").0, FIRST, "the program knows better");
    assert_eq!(bench.finished().0.start, Start::Stock);

    choices
        .exempt(Prefix {
            address: SERVER.into(),
            bits: 24,
        })
        .unwrap();
    assert_eq!(bench.download("plain").0, FIRST);
    assert_eq!(bench.finished().0.start, Start::Stock);
    choices.forget(Prefix {
        address: SERVER.into(),
        bits: 24,
    });
    assert_eq!(
        bench.download("plain").0,
        SECOND,
        "back to the shorter prefix"
    );
}

#[test]
fn without_bpf_the_shim_binds_what_the_program_has_not() {
    let Some(_turn) = turn() else { return };
    let bench = Bench::new();
    let a = bench.lab.namespace('a');
    sh(&format!(
        "ip -n {a} route add {SERVER} via 10.77.2.2 table 2"
    ));
    sh(&format!("ip -n {a} rule add from {SECOND} lookup 2"));
    let shimmed = |command: &mut Command| preload::start_from(command, &[SECOND_V6.into(), SECOND]);
    assert_eq!(bench.download_as("plain", shimmed).0, SECOND);
    assert_eq!(bench.download_as("mapped", shimmed).0, SECOND);
    assert_eq!(bench.download_as("bound", shimmed).0, FIRST);
}

#[test]
fn events_that_find_no_room_are_counted() {
    let Some(_turn) = turn() else { return };
    let group = Group::new().unwrap();
    let (release, released) = channel::<()>();
    let attachment = Attachment::attach(group.path(), move |_| {
        let _ = released.recv();
    })
    .unwrap();
    let before = attachment.events_lost();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "program_process", "--nocapture"])
        .env("MULTIPILOT_TEST_PROGRAM", "many");
    group.adopt(&mut command).unwrap();
    let output = command.output();
    let after = attachment.events_lost();
    // Before anything can panic: the thread that takes in the events waits for it.
    drop(release);
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(before, 0);
    // Of 4,000 beginnings of 144 bytes each 1,820 fit into 256 KiB.
    assert!(after > 2_000, "{after}");
}

#[test]
fn the_group_of_a_killed_process_is_removed_by_the_next() {
    let Some(_turn) = turn() else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "program_process", "--nocapture"])
        .env("MULTIPILOT_TEST_PROGRAM", "group")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let path = lines
        .find_map(|line| line.strip_prefix("group ").map(PathBuf::from))
        .unwrap();
    drop(Group::new().unwrap());
    assert!(path.exists(), "its maker lives");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(Group::new().unwrap());
    assert!(!path.exists());
}

#[test]
fn interfaces_that_lead_nowhere_are_told_apart() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    let a = lab.namespace('a');
    sh(&format!("ip -n {a} route add default via 10.77.1.2"));
    sh(&format!("ip -n {a} link add idle type veth peer name p4"));
    sh(&format!(
        "ip -n {a} address add 2001:db8:7::2/64 dev p1 nodad"
    ));
    let found = choose::inside(lab.a(), || {
        let all = interfaces::all().unwrap();
        all.into_iter()
            .map(|i| (i.leads_out(), i.choice(), i))
            .collect::<Vec<_>>()
    });
    let found = found.unwrap();
    let named = |name: &str| found.iter().find(|(_, _, i)| i.name == name);
    let (out, choice, p1) = named("p1").unwrap();
    assert_eq!((*out, p1.addresses[0]), (true, FIRST));
    // Connections over IPv6 would get nowhere from here.
    assert_eq!((choice.v4.map(IpAddr::V4), choice.v6), (Some(FIRST), None));
    assert!(p1.networks.contains(&Prefix {
        address: FIRST,
        bits: 24
    }));
    assert!(
        !named("p2").unwrap().0,
        "it has no route beyond its network"
    );
    assert!(named("p2").unwrap().1.v4.is_some());
    assert_eq!(named("idle"), None, "down, and without an address");
}
