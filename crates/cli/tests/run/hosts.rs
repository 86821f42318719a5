//! A host with two paths.

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mp_testing::Ends;

use crate::multipilot;
use crate::namespace::{sh, Namespace};

/// Two paths to a server that answers each connection with some bytes; routes prefer the first.
pub struct TwoPaths {
    host: Namespace,
    server: Namespace,
}

const ANSWER: usize = 60_000;

impl TwoPaths {
    pub fn new(first_rate: &str) -> TwoPaths {
        let (host, server) = (Namespace::new("h"), Namespace::new("s"));
        let (h, s) = (&host.0, &server.0);
        sh(&format!(
            "ip -n {s} addr add 10.99.0.1/32 dev lo && ip -n {s} link set lo up"
        ));
        for (path, rate) in [(1, first_rate), (2, "40mbit")] {
            sh(&format!(
                "ip link add p{path} netns {h} type veth peer name p{path} netns {s}"
            ));
            for (namespace, end) in [(h, 1), (s, 2)] {
                sh(&format!(
                    "ip -n {namespace} addr add 10.77.{path}.{end}/24 dev p{path}"
                ));
                sh(&format!("ip -n {namespace} link set p{path} up"));
                sh(&format!("tc -n {namespace} qdisc add dev p{path} root tbf rate {rate} burst 4kb latency 100ms"));
            }
            sh(&format!(
                "ip -n {h} route add default via 10.77.{path}.2 metric {path}"
            ));
        }
        TwoPaths { host, server }
    }

    /// Runs the command on the host; returns its output, and from which path each of its connections started.
    pub fn run(&self, arguments: &[&str], state: &Path) -> (Output, Vec<u8>) {
        let namespace = self.server.file();
        // A child that another test is starting may still hold the listener of the run before, until it becomes its program.
        let bind = || {
            let mut further = 0..1000;
            loop {
                match TcpListener::bind("10.99.0.1:5001") {
                    Err(e) if e.kind() == ErrorKind::AddrInUse && further.next().is_some() => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    bound => break bound.unwrap(),
                }
            }
        };
        let listener = mp_kernel::choose::inside(namespace.as_fd(), bind).unwrap();
        listener.set_nonblocking(true).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut paths = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let Ok((mut socket, peer)) = listener.accept() else {
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    let std::net::IpAddr::V4(from) = peer.ip() else {
                        unreachable!()
                    };
                    paths.push(from.octets()[2]);
                    socket.set_nonblocking(false).unwrap();
                    std::thread::spawn(move || socket.write_all(&vec![7; ANSWER]));
                }
                paths
            });
            let end = Ends(&done);
            let run = multipilot(arguments);
            let mut command = self.host.enter(run.get_program());
            let output = command
                .args(run.get_args())
                .env("XDG_STATE_HOME", state)
                .env("MULTIPILOT_SIGNALS", state.join("signals"))
                .output()
                .unwrap();
            drop(end);
            (output, serving.join().unwrap())
        })
    }
}

/// Downloads so many times, one after the other.
pub fn downloads(times: usize) -> String {
    format!("for i in $(seq {times}); do [ $(cat < /dev/tcp/10.99.0.1/5001 | wc -c) = {ANSWER} ] || exit 9; done")
}
