//! The preload shim on an unmodified program: this test's own binary, which asks libc for its sockets as any does.

mod common;

use std::net::TcpListener;
use std::process::Command;

use common::kernel_ready;
use mp_kernel::{controller, preload};
use socket2::{Protocol, SockRef};

/// Not a test by itself: the unmodified program.
#[test]
fn unmodified_program() {
    if std::env::var_os("MULTIPILOT_TEST_PROGRAM").is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = SockRef::from(&listener);
    let congestion = String::from_utf8(socket.tcp_congestion().unwrap()).unwrap();
    println!(
        "\nprotocol {:?} {}",
        socket.protocol().unwrap().unwrap(),
        congestion.trim_end_matches('\0')
    );
}

fn program(controller: Option<&str>, arrange: impl FnOnce(&mut Command)) -> (String, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "unmodified_program", "--nocapture"])
        .env("MULTIPILOT_TEST_PROGRAM", "1");
    preload::apply(&mut command, controller).unwrap();
    arrange(&mut command);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("protocol "))
        .expect("it ran")
        .to_owned();
    (line, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_unmodified_program_gets_mptcp_and_the_controller() {
    if !kernel_ready() {
        return;
    }
    let loaded = controller::acquire("lia", &[]).unwrap();
    let (line, complaints) = program(Some(loaded.kernel_name()), |_| ());
    assert_eq!(
        line,
        format!("{:?} {}", Protocol::MPTCP, loaded.kernel_name())
    );
    assert_eq!(complaints, "");
}

#[test]
fn a_controller_that_cannot_be_had_is_said_once() {
    if !kernel_ready() {
        return;
    }
    let (line, complaints) = program(Some("nosuch"), |_| ());
    assert!(line.starts_with(&format!("{:?}", Protocol::MPTCP)));
    assert_eq!(
        complaints
            .matches("cannot use the congestion controller nosuch")
            .count(),
        1,
        "{complaints}"
    );
}

#[test]
fn where_mptcp_is_refused_it_gets_tcp() {
    if !kernel_ready() {
        return;
    }
    let lab = common::lab::Lab::new(None);
    let namespace = lab.namespace('a');
    common::lab::sh(&format!(
        "ip netns exec {namespace} sysctl -qw net.mptcp.enabled=0"
    ));
    common::lab::sh(&format!("ip -n {namespace} link set lo up"));
    let (line, _) = program(None, |command| {
        let program = command.get_program().to_owned();
        let mut inside = Command::new("ip");
        inside
            .args(["netns", "exec", &namespace])
            .arg(program)
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            inside.env(name, value.unwrap_or_default());
        }
        *command = inside;
    });
    assert!(line.starts_with(&format!("{:?}", Protocol::TCP)), "{line}");
}

/// As in Debian, where /run is mounted so.
#[test]
fn a_folder_from_which_nothing_may_be_run_is_passed_over() {
    if !kernel_ready() {
        return;
    }
    let inside = std::thread::spawn(|| {
        // SAFETY: no preconditions.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        common::lab::sh(
            "mount --make-rprivate /
             mount -t tmpfs -o noexec tmpfs /run
             mount -t tmpfs tmpfs /var/lib",
        );
        program(None, |_| ())
    });
    let (line, complaints) = inside.join().unwrap();
    assert!(
        line.starts_with(&format!("{:?}", Protocol::MPTCP)),
        "{line}"
    );
    assert_eq!(complaints, "");
}

#[test]
fn in_a_session_it_works_while_the_daemon_does() {
    if !kernel_ready() {
        return;
    }
    let sign = tempfile::NamedTempFile::new().unwrap();
    let path = sign.path().to_owned();
    let protocol = || {
        let (line, complaints) = program(None, |command| {
            command.env(preload::WHILE, &path);
        });
        assert_eq!(complaints, "");
        line.split(' ').next().unwrap().to_owned()
    };
    assert_eq!(protocol(), format!("{:?}", Protocol::MPTCP));
    drop(sign);
    assert_eq!(protocol(), format!("{:?}", Protocol::TCP));
}

#[test]
fn a_static_program_is_told_apart() {
    assert!(preload::reaches(&std::env::current_exe().unwrap()));
    assert!(
        preload::reaches(std::path::Path::new("/etc/passwd")),
        "not a program of its own"
    );
    let folder = std::env::temp_dir().join(format!("multipilot-test-{}", std::process::id()));
    // The start of a 64-bit ELF file with one program header, PT_LOAD, and no interpreter.
    let mut elf = vec![0u8; 128];
    elf[..5].copy_from_slice(b"\x7fELF\x02");
    (elf[32], elf[54], elf[56], elf[64]) = (64, 56, 1, 1);
    std::fs::write(&folder, &elf).unwrap();
    let reached = preload::reaches(&folder);
    std::fs::remove_file(&folder).unwrap();
    assert!(!reached);
}
