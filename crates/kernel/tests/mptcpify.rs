//! MPTCP for programs that ask for TCP. Where the kernel refuses the BPF program, what it says is tested instead; with
//! MULTIPILOT_EXPECT_HOOK (tests/kernels) a refusal is a failure.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::lab::{self, eventually, sh, Lab, PORT};
use common::turn;
use mp_kernel::cgroup::Group;
use mp_kernel::choose::inside;
use mp_kernel::diag::Diag;
use mp_kernel::mptcpify::Mptcpify;
use socket2::{Protocol, SockRef};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);

/// Not a test by itself: the unmodified program, and a process that holds the hook.
#[test]
fn unmodified_program() {
    match std::env::var("MULTIPILOT_TEST_PROGRAM").as_deref() {
        Ok("listen") => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            println!("\nprotocol {:?}", protocol_of(&listener));
        }
        Ok("connect") => {
            let mut stream = TcpStream::connect((SERVER, PORT)).unwrap();
            stream.write_all(b"x").unwrap();
            // Until the test has seen enough.
            let _ = stream.read(&mut [0]);
        }
        Ok("hold") => {
            let _hook = Mptcpify::attach(None).unwrap();
            println!("\nheld");
            let _ = std::io::stdin().read(&mut [0]);
        }
        _ => {}
    }
}

fn protocol_of(listener: &TcpListener) -> Protocol {
    SockRef::from(listener).protocol().unwrap().unwrap()
}

/// In that namespace; `None` where this kernel refuses it.
fn attach(namespace: BorrowedFd<'_>, cgroup: Option<&Path>) -> Option<Mptcpify> {
    match inside(namespace, || Mptcpify::attach(cgroup)).unwrap() {
        Ok(hook) => Some(hook),
        Err(error) => {
            let said = error.to_string();
            assert!(
                std::env::var_os("MULTIPILOT_EXPECT_HOOK").is_none(),
                "{said}"
            );
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
            let begin = format!("kernel {} ", release.trim());
            assert!(
                said.starts_with(&begin)
                    && said.contains("update_socket_protocol")
                    && !said.contains('\n'),
                "{said}"
            );
            None
        }
    }
}

/// This binary under another name: processes with the name of the one that attaches keep TCP.
fn another_program(mode: &str) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("program");
    symlink(std::env::current_exe().unwrap(), &name).unwrap();
    let command = this_program(&name, mode);
    (folder, command)
}

fn this_program(name: &Path, mode: &str) -> Command {
    let mut command = Command::new(name);
    command
        .args(["--exact", "unmodified_program", "--nocapture"])
        .env("MULTIPILOT_TEST_PROGRAM", mode);
    command
}

/// Of a socket that an unmodified program opens in that namespace.
fn protocol(namespace: BorrowedFd<'_>, arrange: impl FnOnce(&mut Command)) -> String {
    let (_folder, mut command) = another_program("listen");
    arrange(&mut command);
    let output = inside(namespace, || command.output()).unwrap().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines()
        .find_map(|line| line.strip_prefix("protocol "))
        .unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
        .to_owned()
}

fn is_mptcp(namespace: BorrowedFd<'_>) -> bool {
    let found = protocol(namespace, |_| ());
    assert!([name(Protocol::MPTCP), name(Protocol::TCP)].contains(&found));
    found == name(Protocol::MPTCP)
}

fn name(protocol: Protocol) -> String {
    format!("{protocol:?}")
}

#[test]
fn programs_of_the_namespace_get_mptcp_until_it_is_dropped_and_no_others() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    let hook = attach(lab.a(), None);
    assert_eq!(is_mptcp(lab.a()), hook.is_some());
    assert!(!is_mptcp(lab.b()));
    // What this process opens, in that namespace too, is TCP.
    let own = inside(lab.a(), || TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    assert_eq!(protocol_of(&own), Protocol::TCP);
    drop(hook);
    assert!(!is_mptcp(lab.a()));
}

#[test]
fn programs_of_the_cgroup_get_mptcp_and_no_others() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    let group = Group::new().unwrap();
    let Some(_hook) = attach(lab.a(), Some(group.path())) else {
        return;
    };
    let adopted = protocol(lab.a(), |command| group.adopt(command).unwrap());
    assert_eq!(adopted, name(Protocol::MPTCP));
    assert!(!is_mptcp(lab.a()));
    let elsewhere = protocol(lab.b(), |command| group.adopt(command).unwrap());
    assert_eq!(elsewhere, name(Protocol::TCP));
}

#[test]
fn two_namespaces_do_not_disturb_each_other() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    let (Some(first), Some(_second)) = (attach(lab.a(), None), attach(lab.b(), None)) else {
        return;
    };
    assert!(is_mptcp(lab.a()) && is_mptcp(lab.b()));
    drop(first);
    assert!(!is_mptcp(lab.a()) && is_mptcp(lab.b()));
}

#[test]
fn where_mptcp_is_switched_off_programs_get_tcp() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    let Some(_hook) = attach(lab.a(), None) else {
        return;
    };
    let switch = |value| {
        let write = || std::fs::write("/proc/sys/net/mptcp/enabled", value).unwrap();
        inside(lab.a(), write).unwrap();
    };
    switch("0");
    assert!(!is_mptcp(lab.a()));
    switch("1");
    assert!(is_mptcp(lab.a()));
}

#[test]
fn a_killed_process_leaves_nothing_attached() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    if attach(lab.a(), None).is_none() {
        return;
    }
    let mut command = this_program(&std::env::current_exe().unwrap(), "hold");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = inside(lab.a(), || command.spawn()).unwrap().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    assert!(is_mptcp(lab.a()));
    holder.kill().unwrap();
    holder.wait().unwrap();
    // The kernel lets go of it in its own time.
    while is_mptcp(lab.a()) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// MPTCP connections of `a` while this program holds one to the server in `b`.
fn connections(lab: &Lab, mut command: Command) -> usize {
    let listener = inside(lab.b(), || lab::listen(Protocol::MPTCP)).unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut program = inside(lab.a(), || command.spawn()).unwrap().unwrap();
    if let Some(mut input) = program.stdin.as_ref() {
        input.write_all(b"x").unwrap();
    }
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0]).unwrap();
    let subflows = || inside(lab.a(), || Diag::new().unwrap().subflows().unwrap()).unwrap();
    let mut tokens: Vec<u32> = subflows().iter().map(|subflow| subflow.token).collect();
    tokens.dedup();
    drop((stream, listener));
    end(&mut program);
    // The next one is not to count what is left of it.
    eventually(|| subflows().is_empty());
    tokens.len()
}

fn end(program: &mut Child) {
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn its_connections_are_mptcp_also_a_statically_linked_programs() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(None);
    sh(&format!(
        "ip -n {} mptcp endpoint flush",
        lab.namespace('a')
    ));
    let dynamic = || {
        let (folder, command) = another_program("connect");
        let found = connections(&lab, command);
        drop(folder);
        found
    };
    let busybox = || {
        let mut command = Command::new("/bin/busybox");
        command.args(["nc", &SERVER.to_string(), &PORT.to_string()]);
        connections(&lab, command)
    };
    assert_eq!((dynamic(), busybox()), (0, 0));
    let hook = attach(lab.a(), None);
    let each = usize::from(hook.is_some());
    assert_eq!((dynamic(), busybox()), (each, each));
    drop(hook);
    assert_eq!((dynamic(), busybox()), (0, 0));
}
