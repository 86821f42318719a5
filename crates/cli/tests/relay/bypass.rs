//! Programs of some users and in some cgroups stay direct, beside others that go to the relay.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::{fs, thread};

use mp_kernel::cgroup::{self, Group};

use crate::common::Reply;
use crate::hosts::{until, Hosts};
use crate::namespace::sh;

/// No user's of this machine.
const USER: &str = "54321";
/// What answers with the address that a connection, or a datagram, comes from.
const SERVERS: [&str; 2] = ["198.51.100.2", "2001:db8:99::2"];
/// The addresses of the device's first link: where packets come from that go out directly.
const DIRECT: [&str; 2] = ["10.77.1.1", "2001:db8:77::1"];
/// The relay connects from there to the servers, which are on its host.
const RELAYED: [&str; 2] = SERVERS;
const NOWHERE: [&str; 2] = ["", ""];

fn serve(hosts: &Hosts) {
    for address in ["198.51.100.2:91", "[2001:db8:99::2]:91"] {
        let listener = hosts.in_relay(|| TcpListener::bind(address).unwrap());
        let socket = hosts.in_relay(|| UdpSocket::bind(address).unwrap());
        thread::spawn(move || {
            while let Ok((mut stream, from)) = listener.accept() {
                // Unread, the question would make a reset of the end.
                let _ = stream.read(&mut [0; 16]);
                let _ = writeln!(stream, "{}", from.ip());
            }
        });
        thread::spawn(move || {
            while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
                let _ = socket.send_to(format!("{}\n", from.ip()).as_bytes(), from);
            }
        });
    }
    hosts.on_device(
        "ip -6 address add 2001:db8:77::1/64 dev wifi nodad
         ip -6 route add default via 2001:db8:77::2 dev wifi",
    );
    hosts.in_relay(|| sh("ip -6 address add 2001:db8:77::2/64 dev wifi nodad"));
}

/// Where what the program sends comes from, as the servers see it, in IPv4 and in IPv6; nothing where it gets no answer.
fn seen(program: &Program, protocol: &str) -> [String; 2] {
    seen_within("20", program, protocol)
}

fn seen_within(seconds: &str, program: &Program, protocol: &str) -> [String; 2] {
    SERVERS.map(|server| {
        let mut command = program("timeout");
        let ask = format!("exec 3<>/dev/{protocol}/{server}/91 && echo ask >&3 && head -n 1 <&3");
        command.args([seconds, "bash", "-c", &ask]);
        Reply::from(command.output().unwrap()).out.trim().to_owned()
    })
}

/// Makes a command of a program's name.
type Program<'a> = Box<dyn Fn(&str) -> Command + 'a>;

/// Of root, of [`USER`], and of root in the cgroup.
fn programs<'a>(hosts: &'a Hosts, group: &'a Group) -> [Program<'a>; 3] {
    [
        Box::new(|name| hosts.program(name)),
        Box::new(|name| {
            let mut command = hosts.program("setpriv");
            command.args(["--reuid", USER, "--clear-groups", name]);
            command
        }),
        Box::new(|name| {
            let mut command = hosts.program(name);
            group.adopt(&mut command).unwrap();
            command
        }),
    ]
}

#[track_caller]
fn all_are_seen(hosts: &Hosts, group: &Group, expected: [[&str; 2]; 3]) {
    for (program, expected) in programs(hosts, group).iter().zip(expected) {
        for protocol in ["tcp", "udp"] {
            assert_eq!(seen(program, protocol), expected, "{protocol}");
        }
    }
}

/// As /proc/PID/cgroup has it.
fn name(group: &Group) -> String {
    let root = cgroup::root().unwrap();
    format!("/{}", group.path().strip_prefix(root).unwrap().display())
}

#[test]
fn users_and_cgroups_stay_direct() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    serve(&hosts);
    let before = hosts.network();
    let group = Group::new().unwrap();
    hosts.up(&["--direct-user", USER, "--direct-cgroup", &name(&group)]);
    crate::rules::both_paths_open(&hosts);
    all_are_seen(&hosts, &group, [RELAYED, DIRECT, DIRECT]);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(hosts.network(), before);
    all_are_seen(&hosts, &group, [DIRECT; 3]);
}

#[test]
fn they_pass_while_all_else_is_blocked() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    serve(&hosts);
    let before = hosts.network();
    let group = Group::new().unwrap();
    let name = name(&group);
    // By the daemon's file, root among the users: the daemon and the kernel are root's too.
    let cgroups = format!("leak = \"block\"\ndirect-cgroups = [{name:?}]");
    hosts.configure(&format!("{cgroups}\ndirect-users = [{USER}]"), "");
    hosts.up(&[]);
    crate::rules::both_paths_open(&hosts);
    hosts.kill_relay();
    for (program, expected) in programs(&hosts, &group)[1..].iter().zip([DIRECT, DIRECT]) {
        assert_eq!(seen(program, "tcp"), expected);
    }
    hosts.kill_background();
    // The kernel has detached what marked sockets.
    all_are_seen(&hosts, &group, [NOWHERE, DIRECT, NOWHERE]);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(hosts.network(), before);
    all_are_seen(&hosts, &group, [DIRECT; 3]);

    hosts.restart_relay();
    let only = format!("direct-users = [\"root\"]\n{cgroups}");
    hosts.configure(&only, "");
    hosts.up(&[]);
    crate::rules::both_paths_open(&hosts);
    all_are_seen(&hosts, &group, [DIRECT, RELAYED, DIRECT]);
}

#[test]
fn a_service_that_starts_again_stays_direct() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    serve(&hosts);
    let group = Group::new().unwrap();
    let (name, path) = (name(&group), group.path().to_owned());
    drop(group);
    hosts.up(&["--direct-cgroup", &name]);
    let absent = |hosts: &Hosts| hosts.relay_status()["absent_cgroups"].clone();
    assert_eq!(absent(&hosts), serde_json::json!([name]));
    let table = hosts.multipilot(&["status"]).out;
    assert!(
        table.contains(&format!("direct cgroup {name}: ")),
        "{table}"
    );
    for _ in 0..2 {
        let group = Group::at(path.clone()).unwrap();
        until("the cgroup is found", || {
            absent(&hosts) == serde_json::json!([])
        });
        let [_, _, inside] = programs(&hosts, &group);
        assert_eq!(seen(&inside, "tcp"), DIRECT);
        drop(inside);
        drop(group);
        until("the cgroup is missed", || {
            absent(&hosts) == serde_json::json!([name])
        });
    }
}

#[test]
fn programs_in_a_cgroup_go_to_the_relay_where_the_kernel_marks_no_sockets() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    serve(&hosts);
    let before = hosts.network();
    let group = Group::new().unwrap();
    let name = name(&group);
    let line = hosts.path("line");
    fs::write(&line, format!("{}\n", hosts.line)).unwrap();
    fs::set_permissions(&line, fs::Permissions::from_mode(0o600)).unwrap();
    let relay = format!("line-file = {line:?}\nleak = \"block\"\ndirect-cgroups = [{name:?}]");
    hosts.configure(&format!("{relay}\ndirect-users = [{USER}]"), "");
    hosts.kill_relay();
    hosts.up_without_bpf(&[]);
    until("the rules are there", || {
        hosts.relay_status()["state"] == "on"
    });
    let everyone = programs(&hosts, &group);
    let [_, user, inside] = &everyone;
    assert_eq!(seen(user, "tcp"), DIRECT);
    // Direct connections take no time.
    assert_eq!(seen_within("3", inside, "tcp"), NOWHERE);
    let status = hosts.relay_status();
    assert_eq!(status["refused_cgroups"][0]["cgroup"], name, "{status}");
    assert_eq!(status["absent_cgroups"], serde_json::json!([]));
    let table = hosts.multipilot(&["status"]).out;
    let said = format!("direct cgroup {name}: its programs go to the relay: the kernel refuses");
    assert!(table.contains(&said), "{table}");
    let log = fs::read_to_string(hosts.path("daemon.log")).unwrap();
    let warning = format!("programs in {name} go to the relay");
    assert_eq!(log.matches(&warning).count(), 1, "{log}");
    drop(everyone);

    hosts.restart_relay();
    let [_, user, inside] = programs(&hosts, &group);
    until("the relay carries the programs in the cgroup", || {
        seen(&inside, "tcp") == RELAYED
    });
    assert_eq!(seen(&user, "tcp"), DIRECT);
    drop((user, inside));
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(hosts.network(), before);
}
