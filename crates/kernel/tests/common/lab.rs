//! Two hosts joined by two paths, each a network namespace of its own; removed on drop, also after a panic.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use mp_kernel::choose;
use mp_kernel::diag::Diag;
use mp_kernel::mptcp_info::mptcp_info;
use mp_testing::Ends;
use socket2::{Domain, Protocol, Socket, Type};

pub const PORT: u16 = 5001;

/// For what this machine, however busy, is to get done.
pub const PATIENCE: Duration = Duration::from_secs(90);

#[track_caller]
pub fn eventually(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub struct Lab {
    name: String,
    a: File,
    b: File,
}

/// What one upload from `a` to `b` left behind.
#[derive(Debug)]
pub struct Upload {
    pub fallback: bool,
    pub received: u64,
    /// Bytes that left `a` on each path, headers included.
    pub path_bytes: [u64; 2],
}

impl Lab {
    /// `rate` shapes both paths, a tc rate such as `20mbit`, with a queue of 30 ms.
    pub fn new(rate: Option<&str>) -> Lab {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "mpk{}n{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        sh(&format!("ip netns add {name}a && ip netns add {name}b"));
        let open = |side| File::open(format!("/run/netns/{name}{side}")).unwrap();
        let lab = Lab {
            a: open('a'),
            b: open('b'),
            name,
        };
        let (a, b) = (format!("{}a", lab.name), format!("{}b", lab.name));
        for path in 1..=2 {
            sh(&format!(
                "ip link add p{path} netns {a} type veth peer name p{path} netns {b}"
            ));
            for (namespace, host) in [(&a, 1), (&b, 2)] {
                sh(&format!(
                    "ip -n {namespace} addr add 10.77.{path}.{host}/24 dev p{path}"
                ));
                sh(&format!("ip -n {namespace} link set p{path} up"));
                if let Some(rate) = rate {
                    sh(&format!("tc -n {namespace} qdisc add dev p{path} root tbf rate {rate} burst 16kb latency 30ms"));
                }
            }
        }
        for namespace in [&a, &b] {
            sh(&format!("ip -n {namespace} link set lo up"));
            sh(&format!(
                "ip -n {namespace} mptcp limits set subflow 8 add_addr_accepted 8"
            ));
        }
        sh(&format!(
            "ip -n {a} mptcp endpoint add 10.77.2.1 dev p2 subflow"
        ));
        lab
    }

    pub fn a(&self) -> BorrowedFd<'_> {
        self.a.as_fd()
    }

    pub fn b(&self) -> BorrowedFd<'_> {
        self.b.as_fd()
    }

    /// `side` is `a` or `b`.
    pub fn namespace(&self, side: char) -> String {
        format!("{}{side}", self.name)
    }

    /// Sends `bytes` over one MPTCP connection with this controller; `midway` runs once half of it has arrived. Both subflows
    /// are there from the first piece on, and all sockets until `midway` has returned.
    pub fn upload(&self, controller: &str, bytes: u64, midway: impl FnOnce()) -> Upload {
        self.upload_over(Protocol::MPTCP, controller, bytes, midway)
    }

    pub fn upload_over(
        &self,
        protocol: Protocol,
        controller: &str,
        bytes: u64,
        midway: impl FnOnce(),
    ) -> Upload {
        let listener = choose::inside(self.b(), || listen(protocol)).unwrap();
        let before = self.sent();
        let (mut fallback, mut received) = (false, 0);
        std::thread::scope(|scope| {
            let (seen, is_seen) = channel::<()>();
            let sender = scope.spawn(move || {
                let mut socket =
                    choose::inside(self.a(), || connect(protocol, controller)).unwrap();
                let chunk = vec![7u8; 1 << 16];
                let mut left = bytes;
                while left > 0 {
                    let first = left == bytes;
                    left -= socket
                        .write(&chunk[..chunk.len().min(left as usize)])
                        .unwrap() as u64;
                    if first && protocol == Protocol::MPTCP {
                        wait_for_join(self.a(), &socket);
                    }
                }
                let fallback = fell_back(&socket);
                // One that is closed goes as soon as all is acknowledged, whoever is still to look at it.
                let _ = is_seen.recv();
                fallback
            });
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut buffer = vec![0u8; 1 << 16];
            let mut midway = Some((midway, seen));
            loop {
                let count = socket.read(&mut buffer).unwrap();
                if count == 0 {
                    break;
                }
                received += count as u64;
                if received > bytes / 2 {
                    if let Some((midway, _seen)) = midway.take() {
                        midway();
                    }
                }
            }
            fallback = sender.join().unwrap();
        });
        let after = self.sent();
        Upload {
            fallback,
            received,
            path_bytes: [after[0] - before[0], after[1] - before[1]],
        }
    }

    /// One MPTCP connection with this controller that carries data for as long as `during` runs; all of them arrive.
    pub fn upload_while(&self, controller: &str, during: impl FnOnce()) {
        let listener = choose::inside(self.b(), || listen(Protocol::MPTCP)).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let over = &over;
            let sender = scope.spawn(move || {
                let mut socket =
                    choose::inside(self.a(), || connect(Protocol::MPTCP, controller)).unwrap();
                let chunk = vec![7u8; 1 << 16];
                let mut sent = 0;
                while !over.load(Ordering::Relaxed) {
                    sent += socket.write(&chunk).unwrap();
                }
                (sent, fell_back(&socket))
            });
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let receiver = scope.spawn(move || {
                let mut buffer = vec![0u8; 1 << 16];
                let pieces = std::iter::repeat_with(|| socket.read(&mut buffer).unwrap());
                pieces.take_while(|count| *count > 0).sum::<usize>()
            });
            let end = Ends(over);
            during();
            drop(end);
            let received = receiver.join().unwrap();
            assert_eq!(sender.join().unwrap(), (received, false));
        });
    }

    fn sent(&self) -> [u64; 2] {
        let statistics = sh(&format!("ip -n {} -s -j link", self.namespace('a')));
        [1, 2].map(|path| {
            let mine = &statistics[statistics.find(&format!("\"ifname\":\"p{path}\"")).unwrap()..];
            let sent = &mine[mine.find("\"tx\":{\"bytes\":").unwrap() + 14..];
            sent[..sent.find(',').unwrap()].parse().unwrap()
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for side in ['a', 'b'] {
            let _ = Command::new("ip")
                .args(["netns", "del", &self.namespace(side)])
                .status();
        }
    }
}

fn fell_back(socket: &Socket) -> bool {
    let info = mptcp_info(socket).ok().flatten();
    info.is_none_or(|info| info.fallback())
}

/// Until the socket's connection has two subflows, as its end in this namespace has it.
pub fn wait_for_join(namespace: BorrowedFd<'_>, socket: &Socket) {
    let token = mptcp_info(socket).unwrap().expect("MPTCP").token;
    let mut diag = choose::inside(namespace, || Diag::new().unwrap()).unwrap();
    eventually(|| {
        let subflows = diag.subflows().unwrap();
        subflows.iter().filter(|s| s.token == token).count() > 1
    });
}

/// Call it inside a namespace.
pub fn listen(protocol: Protocol) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket
        .bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())
        .unwrap();
    socket.listen(16).unwrap();
    socket
}

/// Call it inside a namespace.
pub fn connect(protocol: Protocol, controller: &str) -> Socket {
    connect_over(1, protocol, controller)
}

/// `path` is 1 or 2.
pub fn connect_over(path: u8, protocol: Protocol, controller: &str) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    choose::for_socket(socket.as_fd(), controller).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
        .connect(&SocketAddrV4::new(Ipv4Addr::new(10, 77, path, 2), PORT).into())
        .unwrap();
    socket
}

/// Runs a shell command that has to succeed; returns its output.
pub fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
