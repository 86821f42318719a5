//! Who holds a controller, and what is left when a holder goes, however it goes. One test at a time: whoever loads or lists
//! a controller removes what dead processes of any test have left.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use common::lab::{self, Lab};
use common::turn;
use libbpf_rs::{libbpf_sys, MapCore, MapFlags, MapHandle, MapType, ObjectBuilder};
use mp_kernel::{choose, controller};
use socket2::Protocol;

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// Settings that nobody else uses, so that other users of this machine do not hold the controller too.
fn unique(number: u64) -> [(&'static str, u64); 1] {
    [(
        "target_us",
        1_000_000 + u64::from(std::process::id()) * 10 + number,
    )]
}

fn is_available(name: &str) -> bool {
    let names =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    names.split_whitespace().any(|available| available == name)
}

#[test]
fn holders_share_a_controller_and_the_last_unregisters_it() {
    let Some(_turn) = turn() else { return };
    let first = controller::acquire("rsf-db", &unique(1)).unwrap();
    let second = controller::acquire("rsf-db", &unique(1)).unwrap();
    let other = controller::acquire("rsf-db", &unique(2)).unwrap();
    let name = first.kernel_name().to_owned();
    assert_eq!(second.kernel_name(), name);
    assert_ne!(
        other.kernel_name(),
        name,
        "other settings are another controller"
    );
    let listed = controller::list()
        .unwrap()
        .into_iter()
        .find(|listed| listed.kernel_name == name)
        .unwrap();
    assert_eq!(
        (
            listed.holders,
            listed.about.starts_with("rsf-db target_us=")
        ),
        (2, true),
        "{listed:?}"
    );
    drop(first);
    assert!(is_available(&name));
    drop(second);
    assert!(!is_available(&name));
    assert!(!std::path::Path::new("/sys/fs/bpf/multipilot")
        .join(&name)
        .exists());
}

/// Not a test by itself: what another process does in the tests below.
#[test]
fn holder_process() {
    let Ok(number) = std::env::var("MULTIPILOT_TEST_HOLDER") else {
        return;
    };
    let times: usize = std::env::var("MULTIPILOT_TEST_TIMES")
        .unwrap()
        .parse()
        .unwrap();
    let parameters = [("target_us", number.parse().unwrap())];
    for _ in 0..times {
        drop(controller::acquire("rsf-db", &parameters).unwrap());
    }
    let held = controller::acquire("rsf-db", &parameters).unwrap();
    println!("\nholds {}", held.kernel_name());
    let _ = std::io::stdin().read(&mut [0]);
}

fn holder(parameters: &[(&str, u64)], times: usize) -> (std::process::Child, String) {
    let command = Command::new(std::env::current_exe().unwrap());
    start_holder(command, parameters, times)
}

fn start_holder(
    mut command: Command,
    parameters: &[(&str, u64)],
    times: usize,
) -> (std::process::Child, String) {
    let mut child = command
        .args(["--exact", "holder_process", "--nocapture"])
        .env("MULTIPILOT_TEST_HOLDER", parameters[0].1.to_string())
        .env("MULTIPILOT_TEST_TIMES", times.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap())
        .lines()
        .map_while(Result::ok);
    let name = lines
        .find_map(|line| line.strip_prefix("holds ").map(str::to_owned))
        .expect("the holder failed");
    (child, name)
}

#[test]
fn what_a_killed_holder_left_the_next_call_collects() {
    let Some(_turn) = turn() else { return };
    let (mut child, name) = holder(&unique(3), 0);
    assert!(is_available(&name));
    assert!(controller::list()
        .unwrap()
        .iter()
        .any(|listed| listed.kernel_name == name && listed.holders == 1));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!controller::list()
        .unwrap()
        .iter()
        .any(|listed| listed.kernel_name == name));
    assert!(!is_available(&name));
}

#[test]
fn what_one_killed_in_a_mount_namespace_of_its_own_left_is_collected_too() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    let mut elsewhere = Command::new("ip");
    elsewhere
        .args(["netns", "exec"])
        .arg(lab.namespace('a'))
        .arg(std::env::current_exe().unwrap());
    let (mut child, name) = start_holder(elsewhere, &unique(9), 0);
    let pins = std::path::Path::new("/sys/fs/bpf/multipilot").join(&name);
    assert!(is_available(&name) && !pins.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    controller::list().unwrap();
    assert!(!is_available(&name));
}

#[test]
fn processes_that_come_and_go_at_once_agree() {
    let Some(_turn) = turn() else { return };
    let starting: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(|| holder(&unique(4), 15)))
        .collect();
    let holders: Vec<_> = starting
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    let name = holders[0].1.clone();
    let listed = controller::list().unwrap();
    assert_eq!(
        listed
            .iter()
            .find(|listed| listed.kernel_name == name)
            .map(|listed| listed.holders),
        Some(3)
    );
    for (mut child, _) in holders {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    assert!(!is_available(&name));
}

#[test]
fn sockets_outlive_the_controller_they_use() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("30mbit"));
    let loaded = controller::acquire("rsf-db", &unique(5)).unwrap();
    let name = loaded.kernel_name().to_owned();
    let mut still = 0;
    let upload = lab.upload(&name, 4 << 20, || {
        still = controller::unload(&name).unwrap()
    });
    assert_eq!(
        (upload.received, upload.fallback, still),
        (4 << 20, false, 2),
        "the transfer goes on to its end"
    );
    assert!(!is_available(&name));
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let refused = choose::for_socket(socket.as_fd(), &name)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("not registered"), "{refused}");
    let error = controller::unload(&name).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    // The holder notices nothing worse than that there is nothing left to give back.
    assert_eq!(loaded.release().unwrap(), 0);
}

#[test]
fn a_controller_of_a_version_with_fewer_counters_is_listed() {
    let Some(_turn) = turn() else { return };
    let loaded = controller::acquire("rsf-db", &unique(10)).unwrap();
    let pins = std::path::Path::new("/sys/fs/bpf/multipilot").join(loaded.kernel_name());
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let two = MapHandle::create(MapType::Array, Some("two"), 4, 16, 1, &options);
    let mut two = two.unwrap();
    let value = [[3, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]].concat();
    two.update(&[0; 4], &value, MapFlags::ANY).unwrap();
    std::fs::remove_file(pins.join("counters")).unwrap();
    two.pin(pins.join("counters")).unwrap();
    let listed = controller::list().unwrap();
    let listed = listed
        .iter()
        .find(|listed| listed.kernel_name == loaded.kernel_name());
    let counters = listed.unwrap().counters;
    assert_eq!((counters.owners, counters.sockets), (3, 2));
    assert_eq!((counters.slots_full, counters.hooks_skipped), (0, 0));
}

#[test]
fn a_controller_whose_pins_are_gone_goes_on_beside_another_and_is_found_at_its_end() {
    let Some(_turn) = turn() else { return };
    let lost = controller::acquire("rsf-db", &unique(6)).unwrap();
    let name = lost.kernel_name().to_owned();
    std::fs::remove_dir_all(std::path::Path::new("/sys/fs/bpf/multipilot").join(&name)).unwrap();
    assert!(is_available(&name));
    let another = controller::acquire("rsf-db", &unique(6)).unwrap();
    let its_name = another.kernel_name().to_owned();
    assert!(its_name != name && is_available(&name));
    assert_eq!(another.counters().unwrap().unwrap().sockets, 0);
    drop(lost);
    assert!(!is_available(&name) && is_available(&its_name));
    drop(another);
    assert!(!is_available(&its_name));
}

/// Registers an object of ours under this name as somebody else would: its map has another name and no pins.
fn foreign(name: &str) -> libbpf_rs::Object {
    let (_, bytes) = OBJECTS.iter().find(|(own, _)| *own == "reno").unwrap();
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> = bytes
        .windows(7)
        .enumerate()
        .filter(|(_, word)| word == b"mp_ops\0")
        .map(|(place, _)| place)
        .collect();
    for place in places {
        bytes[place..place + 2].copy_from_slice(b"xx");
    }
    let mut open = ObjectBuilder::default().open_memory(&bytes).unwrap();
    let mut ops = open
        .maps_mut()
        .find(|map| map.name() == "xx_ops")
        .expect("the map is renamed");
    ops.initial_value_mut().unwrap()[..name.len()].copy_from_slice(name.as_bytes());
    open.load().unwrap()
}

#[test]
fn a_name_that_somebody_else_has_registered_is_refused_and_left_to_them() {
    let Some(_turn) = turn() else { return };
    let ours = controller::acquire("rsf-db", &unique(8)).unwrap();
    let name = ours.kernel_name().to_owned();
    drop(ours);
    let mut object = foreign(&name);
    let mut ops = object
        .maps_mut()
        .find(|map| map.name() == "xx_ops")
        .unwrap();
    let theirs = ops.attach_struct_ops().unwrap();
    let error = controller::acquire("rsf-db", &unique(8)).unwrap_err();
    assert_eq!(
        (error.exit_code(), error.to_string()),
        (1, format!("a congestion controller named {name} is registered already, and not by multipilot: unregister it, or unload its module"))
    );
    assert!(is_available(&name), "theirs stays");
    assert!(
        !std::path::Path::new("/run/multipilot/controllers")
            .join(&name)
            .exists(),
        "and nothing of ours does"
    );
    drop(theirs);
    let again = controller::acquire("rsf-db", &unique(8)).unwrap();
    assert_eq!(again.kernel_name(), name);
}

#[test]
fn a_namespace_takes_a_controller_as_its_default() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    let loaded = controller::acquire("rsf-db", &unique(7)).unwrap();
    choose::for_namespace(lab.b(), loaded.kernel_name()).unwrap();
    let congestion = choose::inside(lab.b(), || {
        let socket = lab::listen(Protocol::MPTCP);
        socket.tcp_congestion().unwrap()
    });
    assert!(congestion
        .unwrap()
        .starts_with(loaded.kernel_name().as_bytes()));
    let error = choose::for_namespace(lab.a(), "nosuch")
        .unwrap_err()
        .to_string();
    assert!(error.contains("nosuch"), "{error}");
}

#[test]
fn every_controller_loads() {
    let Some(_turn) = turn() else { return };
    for ours in mp_controllers::all() {
        let controller = controller::acquire(ours.name, &[]).unwrap();
        assert!(is_available(controller.kernel_name()), "{}", ours.name);
    }
}

#[test]
fn what_is_missing_is_said_with_its_cure() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    lab::sh(&format!(
        "ip netns exec {} sysctl -qw net.mptcp.enabled=0",
        lab.namespace('a')
    ));
    let error = choose::inside(lab.a(), || controller::acquire("lia", &[]).map(drop))
        .unwrap()
        .unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(
        error.to_string().contains("sysctl -w net.mptcp.enabled=1"),
        "{error}"
    );
}
