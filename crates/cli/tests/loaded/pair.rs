//! Two hosts and a path between them.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use mp_kernel::choose;
use socket2::{Domain, Protocol, Socket, Type};

use crate::common::Reply;
use crate::sh;

/// A client and a server joined by 20 Mbit/s; removed also after a panic.
pub struct Pair(String);

impl Pair {
    pub fn new() -> Pair {
        let pair = Pair(format!("mpl{}", std::process::id()));
        let (a, b) = (pair.client(), pair.server());
        sh(&format!("ip netns add {a} && ip netns add {b}"));
        sh(&format!(
            "ip link add p1 netns {a} type veth peer name p1 netns {b}"
        ));
        for (namespace, host) in [(&a, 1), (&b, 2)] {
            sh(&format!(
                "ip -n {namespace} addr add 10.76.1.{host}/24 dev p1"
            ));
            sh(&format!("ip -n {namespace} link set p1 up"));
            sh(&format!(
                "tc -n {namespace} qdisc add dev p1 root tbf rate 20mbit burst 8kb latency 50ms"
            ));
        }
        pair
    }

    pub fn client(&self) -> String {
        format!("{}a", self.0)
    }

    fn server(&self) -> String {
        format!("{}b", self.0)
    }

    /// `multipilot run ARGUMENTS` sends a file over MPTCP; `midway` happens at half of it, and the connection stays until then.
    /// What arrives is the file.
    pub fn upload(&self, arguments: &[&str], midway: impl FnOnce()) -> Reply {
        const BYTES: usize = 6_000_000;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("body");
        let body: Vec<u8> = (0..BYTES as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        fs::write(&file, &body).unwrap();
        let namespace = fs::File::open(format!("/run/netns/{}", self.server())).unwrap();
        let listener = choose::inside(namespace.as_fd(), || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
            socket.set_reuse_address(true).unwrap();
            let address: std::net::SocketAddr = "10.76.1.2:5002".parse().unwrap();
            socket.bind(&address.into()).unwrap();
            socket.listen(4).unwrap();
            socket
        });
        let listener = listener.unwrap();
        let script = format!(
            "exec 3<>/dev/tcp/10.76.1.2/5002; cat {} >&3; head -c 1 <&3",
            file.display()
        );
        let child = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}", self.client()))
            .arg(env!("CARGO_BIN_EXE_multipilot"))
            .arg("run")
            .args(arguments)
            .args(["--", "bash", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        let mut received = vec![0; BYTES / 2];
        socket.read_exact(&mut received).unwrap();
        midway();
        socket.write_all(b"\n").unwrap();
        socket.read_to_end(&mut received).unwrap();
        assert!(
            received == body,
            "{} bytes arrived, not the file",
            received.len()
        );
        Reply::from(child.wait_with_output().unwrap())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for namespace in [self.client(), self.server()] {
            let _ = Command::new("ip")
                .args(["netns", "del", &namespace])
                .status();
        }
    }
}
