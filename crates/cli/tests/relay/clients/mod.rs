//! Clients that people use, over the relay, and the servers that they are for.

mod git;
mod measure;
mod names;
mod ssh;
mod web;

use std::env;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::hosts::{until, Hosts};
use crate::namespace::sh;

const SERVER: [&str; 2] = ["198.51.100.2", "2001:db8:99::2"];
const MB: u64 = 1_000_000;

/// Ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server behind the relay, and waits until somebody listens on its port, TCP or UDP.
fn serve(hosts: &Hosts, server: &mut Command, port: u16) -> Served {
    server.stdin(Stdio::null()).stdout(Stdio::null());
    server.stderr(Stdio::null());
    let served = Served(hosts.in_relay(|| server.spawn().unwrap()));
    until("the server listens", || {
        let listening = format!("ss -Hltun 'sport = :{port}'");
        !hosts.in_relay(|| sh(&listening)).is_empty()
    });
    served
}

/// A command on the device, which has to succeed; what it prints.
#[track_caller]
fn on_device(hosts: &Hosts, command: &mut Command) -> String {
    hosts.in_device(|| done(command))
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.trim().to_owned()
}

/// Whether all of these are installed; without one of them the test is skipped.
#[track_caller]
pub(super) fn installed(programs: &[&str]) -> bool {
    let lacking = programs.iter().find(|program| find(program).is_none());
    mp_testing::runs(lacking.map(|program| format!("{program} is not installed")))
}

/// Also where servers are, which not every user's PATH has.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.find_map(|folder| Some(folder.join(program)).filter(|file| file.is_file()))
}

/// It does not compress.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let next = |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let words = std::iter::successors(Some(seed), next).take(bytes / 8);
    words.flat_map(|x| (x ^ x >> 29).to_le_bytes()).collect()
}

/// More than half a megabyte of it goes over each link.
#[track_caller]
fn over_both<T>(hosts: &Hosts, work: impl FnOnce() -> T) -> T {
    let before = [1, 2].map(|link| hosts.carried(link));
    let result = work();
    for (link, before) in [1, 2].into_iter().zip(before) {
        let carried = hosts.carried(link) - before;
        assert!(carried > MB / 2, "link {link}: {carried}");
    }
    result
}
