//! Hosts of their own, and what a shell does to them.

use std::ffi::OsStr;
use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs a shell command that has to succeed.
#[track_caller]
pub fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Removed also after a panic.
pub struct Namespace(pub String);

impl Namespace {
    /// All its links are down.
    pub fn new(what: &str) -> Namespace {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mpt{}{what}{number}", std::process::id());
        sh(&format!("ip netns add {name}"));
        Namespace(name)
    }

    pub fn enter(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.0));
        command.arg(program);
        command
    }

    pub fn file(&self) -> File {
        File::open(format!("/run/netns/{}", self.0)).unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A daemon in the background outlives the test that began it and failed.
        let end = format!(
            "ip netns pids {0} | xargs -r kill -9; ip netns del {0}",
            self.0
        );
        let _ = Command::new("sh").args(["-c", &end]).status();
    }
}
