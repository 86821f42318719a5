//! On the real kernel, each in a network namespace of its own. Without root they say so and do nothing, except under
//! CI=true, where that is a failure.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::*;
use crate::mptcp_info::{full_info, mptcp_info};

#[track_caller]
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    if !mp_testing::runs((!root).then_some("a network namespace needs root")) {
        return;
    }
    std::thread::spawn(move || {
        // SAFETY: moves this thread alone into a new network namespace.
        assert_eq!(
            unsafe { libc::unshare(libc::CLONE_NEWNET) },
            0,
            "{}",
            std::io::Error::last_os_error()
        );
        let up = std::process::Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.expect("iproute2 is installed").success());
        test();
    })
    .join()
    .expect("the test in the namespace passed");
}

fn mptcp_socket() -> OwnedFd {
    // SAFETY: a fresh descriptor that nothing else owns.
    unsafe {
        let fd = libc::socket(
            libc::AF_INET,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            libc::IPPROTO_MPTCP,
        );
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

fn sockaddr(address: &str) -> libc::sockaddr_in {
    let SocketAddr::V4(v4) = address.parse().unwrap() else {
        unreachable!()
    };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: v4.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(*v4.ip()).to_be(),
        },
        sin_zero: [0; 8],
    }
}

/// An MPTCP connection over loopback that has carried data both ways: client, server, and the listener, without which
/// no subflow could join.
fn connection() -> (TcpStream, TcpStream, TcpListener) {
    use std::os::fd::AsRawFd;
    let listener = mptcp_socket();
    let at = sockaddr("127.0.0.1:8080");
    let length = size_of::<libc::sockaddr_in>() as u32;
    // SAFETY: valid descriptor and address.
    unsafe {
        assert_eq!(
            libc::bind(listener.as_raw_fd(), (&raw const at).cast(), length),
            0
        );
        assert_eq!(libc::listen(listener.as_raw_fd(), 4), 0);
    }
    let listener = TcpListener::from(listener);
    let client = mptcp_socket();
    // SAFETY: valid descriptor and address.
    assert_eq!(
        unsafe { libc::connect(client.as_raw_fd(), (&raw const at).cast(), length) },
        0
    );
    let mut client = TcpStream::from(client);
    let (mut server, _) = listener.accept().unwrap();
    let mut byte = [0];
    client.write_all(b"x").unwrap();
    server.read_exact(&mut byte).unwrap();
    server.write_all(b"y").unwrap();
    client.read_exact(&mut byte).unwrap();
    (client, server, listener)
}

fn wait_for(events: &mut Events, kind: EventKind) -> Event {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        assert!(Instant::now() < deadline, "no {kind:?} came");
        match events.next(Duration::from_millis(100)).unwrap() {
            Some(event) if event.kind == kind => return event,
            _ => {}
        }
    }
}

fn endpoint(id: u8, address: &str, flags: Flags) -> Endpoint {
    Endpoint {
        id,
        ..Endpoint::new(address.parse().unwrap(), flags)
    }
}

/// An answer in the thread that asks: a reader beside it would see EINVAL where the kernel ends an empty list meanwhile.
#[test]
fn each_of_several_threads_gets_its_own_answers() {
    in_namespace(|| {
        let pm = PathManager::new().unwrap();
        let limits = pm.limits().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert_eq!(pm.endpoints().unwrap(), []);
                        assert_eq!(pm.limits().unwrap(), limits);
                    }
                });
            }
        });
    });
}

#[test]
fn endpoints_and_limits_read_back_as_set() {
    in_namespace(|| {
        let pm = PathManager::new().unwrap();
        assert_eq!(pm.endpoints().unwrap(), []);
        let limits = Limits {
            subflows: 7,
            add_addr_accepted: 3,
        };
        pm.set_limits(limits).unwrap();
        assert_eq!(pm.limits().unwrap(), limits);

        let mesh = Flags {
            fullmesh: true,
            ..Flags::SUBFLOW
        };
        let wanted = vec![
            endpoint(1, "10.9.0.1", mesh),
            endpoint(
                2,
                "fd00::2",
                Flags {
                    backup: true,
                    ..Flags::SUBFLOW
                },
            ),
            Endpoint {
                port: Some(9000),
                ..endpoint(3, "127.0.0.1", Flags::SIGNAL)
            },
        ];
        for e in &wanted {
            pm.add_endpoint(e).unwrap();
        }
        assert_eq!(pm.endpoints().unwrap(), wanted);

        let backup = endpoint(
            1,
            "10.9.0.1",
            Flags {
                backup: true,
                ..mesh
            },
        );
        pm.set_endpoint_flags(&backup).unwrap();
        assert_eq!(pm.endpoints().unwrap()[0], backup);
        pm.delete_endpoint(&backup).unwrap();
        assert_eq!(pm.endpoints().unwrap(), wanted[1..]);
        pm.flush_endpoints().unwrap();
        assert_eq!(pm.endpoints().unwrap(), []);
    });
}

#[test]
fn a_refusal_carries_the_kernels_errno() {
    in_namespace(|| {
        let error = PathManager::new()
            .unwrap()
            .set_limits(Limits {
                subflows: 1000,
                add_addr_accepted: 0,
            })
            .unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
        assert!(error.to_string().contains("setting the limits"), "{error}");
    });
}

#[test]
fn the_in_kernel_manager_joins_from_an_endpoint() {
    in_namespace(|| {
        let pm = PathManager::new().unwrap();
        pm.add_endpoint(&endpoint(5, "127.0.0.2", Flags::SUBFLOW))
            .unwrap();
        let mut events = Events::new().unwrap();
        let (client, server, _listener) = connection();
        let joined = wait_for(&mut events, EventKind::SubflowEstablished);
        assert_eq!(joined.local.unwrap().ip().to_string(), "127.0.0.2");
        assert_eq!(joined.remote.unwrap().to_string(), "127.0.0.1:8080");
        assert_eq!(joined.local_id, 5);

        let info = full_info(&client).unwrap().unwrap();
        assert!(!info.mptcp.fallback());
        assert_eq!(info.mptcp.token, joined.token);
        assert_eq!(info.subflows.len(), 2);
        assert_eq!(info.subflows[1].local.ip().to_string(), "127.0.0.2");
        assert!(
            info.subflows
                .iter()
                .all(|s| s.tcp.snd_cwnd > 0 && s.tcp.rtt > 0),
            "{info:?}"
        );
        drop((client, server));
        wait_for(&mut events, EventKind::Closed);
    });
}

#[test]
fn the_userspace_manager_opens_backs_up_and_closes_subflows() {
    in_namespace(|| {
        std::fs::write("/proc/sys/net/mptcp/pm_type", "1").unwrap();
        let pm = PathManager::new().unwrap();
        let mut events = Events::new().unwrap();
        let (client, _server, _listener) = connection();
        let token = mptcp_info(&client).unwrap().unwrap().token;
        let remote: SocketAddr = "127.0.0.1:8080".parse().unwrap();

        pm.create_subflow(token, &endpoint(7, "127.0.0.3", Flags::NONE), remote)
            .unwrap();
        let joined = wait_for(&mut events, EventKind::SubflowEstablished);
        assert_eq!(
            (joined.local_id, joined.token, joined.backup),
            (7, token, false)
        );

        let local = joined.local.unwrap();
        pm.set_subflow_backup(token, local, remote, true).unwrap();
        assert!(wait_for(&mut events, EventKind::SubflowPriority).backup);
        pm.set_subflow_backup(token, local, remote, false).unwrap();
        assert!(!wait_for(&mut events, EventKind::SubflowPriority).backup);

        pm.destroy_subflow(token, local, remote).unwrap();
        assert_eq!(wait_for(&mut events, EventKind::SubflowClosed).local_id, 7);

        pm.announce(
            token,
            &Endpoint {
                id: 9,
                ..Endpoint::new("127.0.0.9".parse().unwrap(), Flags::SIGNAL)
            },
        )
        .unwrap();
        let announced = wait_for(&mut events, EventKind::Announced);
        assert_eq!(announced.remote_id, 9);
        pm.remove(token, 9).unwrap();
        assert_eq!(wait_for(&mut events, EventKind::Removed).remote_id, 9);
    });
}

#[test]
fn plain_tcp_is_told_apart() {
    in_namespace(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(mptcp_info(&client).unwrap(), None);
        assert_eq!(full_info(&client).unwrap(), None);
        assert!(crate::mptcp_info::tcp_info(&client).unwrap().snd_cwnd > 0);
    });
}
