//! The commands of `docs/guides/laptop.md`, as they stand there, on a laptop, a VPS and the internet in namespaces. Needs
//! root; with CI=true it fails where there is none.

#[path = "common/namespace.rs"]
mod namespace;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mp_kernel::choose::inside;
use namespace::{sh, Namespace};

const PAGE: &str = include_str!("../../../docs/guides/laptop.md");
const LINE: &str = "mp1:vps.example:443#…";
const MEGABYTES: usize = 12;

/// The code blocks of one host, one after the other.
fn commands(host: &str) -> String {
    let fence = format!("```sh {host}\n");
    let blocks = PAGE.split(&fence).skip(1);
    let all: String = blocks.map(|b| b.split("```").next().unwrap()).collect();
    assert!(!all.is_empty(), "{host}");
    all
}

/// A shell on a host that has its own names, /run and /var/lib; `sudo` is the test's own root.
fn shell(host: &Namespace, folder: &Path, script: &str) -> Command {
    let hosts = folder.join("hosts");
    fs::write(&hosts, "10.99.0.1 vps.example\n5.6.7.8 speed.example\n").unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_multipilot"))
        .parent()
        .unwrap();
    let mut command = host.enter("unshare");
    command.args(["--mount", "sh", "-euc"]).arg(format!(
        "mount --bind {} /etc/hosts; mount -t tmpfs none /run; mount -t tmpfs none /var/lib
         sudo() {{ \"$@\"; }}
         PATH={}:$PATH
         {script}",
        hosts.display(),
        programs.display()
    ));
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    command.env_remove("LD_PRELOAD").current_dir(folder);
    command
}

/// Answers every request with so many megabytes.
fn serve(listener: TcpListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let length = MEGABYTES * 1_000_000;
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            );
            let _ = stream.write_all(&vec![b'x'; length]);
        }
    });
}

/// Killed also after a panic.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_guides_commands_end_with_a_bonded_connection() {
    let root = rustix::process::geteuid().is_root();
    if !mp_testing::runs((!root).then_some("network namespaces need root")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (laptop, vps, internet) = (
        Namespace::new("l"),
        Namespace::new("v"),
        Namespace::new("i"),
    );
    for (number, link) in (1..).zip(["wlan0", "wwan0"]) {
        sh(&format!(
            "ip link add {link} netns {0} type veth peer name {link} netns {1}
             ip -n {0} address add 10.77.{number}.1/24 dev {link}; ip -n {0} link set {link} up
             ip -n {1} address add 10.77.{number}.2/24 dev {link}; ip -n {1} link set {link} up
             tc -n {1} qdisc add dev {link} root tbf rate 16mbit burst 8kb latency 100ms
             ip -n {0} route add default via 10.77.{number}.2 dev {link} metric {number}",
            laptop.0, vps.0
        ));
    }
    sh(&format!(
        "ip link add wan netns {0} type veth peer name lan netns {1}
         ip -n {0} address add 5.6.7.1/24 dev wan; ip -n {0} link set wan up
         ip -n {1} address add 5.6.7.8/24 dev lan; ip -n {1} link set lan up
         ip -n {0} address add 10.99.0.1/32 dev lo; ip -n {0} link set lo up; ip -n {2} link set lo up",
        vps.0, internet.0, laptop.0
    ));
    serve(
        inside(internet.file().as_fd(), || {
            TcpListener::bind("5.6.7.8:80").unwrap()
        })
        .unwrap(),
    );

    // The last command on the VPS stays in the foreground.
    let on_vps = commands("vps").replacen("sudo multipilot relay", "exec multipilot relay", 1);
    let mut relay = shell(&vps, folder.path(), &on_vps);
    let mut relay = Running(relay.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let stdout = relay.0.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert!(line.starts_with("mp1:vps.example:443#"), "{line}");

    let routes = || {
        sh(&format!(
            "ip -n {0} -4 rule; ip -n {0} -6 rule; ip -n {0} -4 route show table all",
            laptop.0
        ))
    };
    let before = routes();
    let script = commands("laptop");
    assert!(script.contains(LINE), "{script}");
    let ran = shell(&laptop, folder.path(), &script.replace(LINE, line.trim()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{complaint}");

    for link in ["wlan0", "wwan0"] {
        assert!(said.contains(&format!("dev {link} metric")), "{said}");
        // Of the relay: link, is, ready, sent MB, received MB. Neither carries all of it alone.
        let row = said
            .lines()
            .skip_while(|l| !l.starts_with("relay "))
            .find(|l| l.split_whitespace().next() == Some(link));
        let row: Vec<&str> = row
            .unwrap_or_else(|| panic!("{said}"))
            .split_whitespace()
            .collect();
        let received: f64 = row[4].parse().unwrap();
        assert!(received > 0.1 * MEGABYTES as f64, "{said}");
    }
    assert_eq!(routes(), before);
}
