//! The command as a user calls it.
#![allow(dead_code)] // each test file uses its own part

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

/// For what this machine, however busy, is to get done.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Reply {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Reply {
    pub fn from(output: Output) -> Reply {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Reply {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// This exit code, nothing on stdout, and one line on stderr that begins so.
    #[track_caller]
    pub fn refused(&self, code: i32, line: &str) {
        assert_eq!(
            (self.code, self.out.as_str(), self.err.lines().count()),
            (code, "", 1),
            "{}",
            self.err
        );
        let said = self.err.strip_prefix("multipilot: ");
        let begins_so = said.is_some_and(|said| said.starts_with(line));
        assert!(begins_so, "{}", self.err);
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e} in stdout: {}\nstderr: {}", self.out, self.err))
    }

    /// What `--json` prints: of this schema, and each key is in the reference.
    #[track_caller]
    pub fn document(&self) -> serde_json::Value {
        let document = self.json();
        assert_eq!(document["schema"], 1, "{document}");
        let page = include_str!("../../../../docs/reference/json.md");
        for key in document.as_object().expect("an object").keys() {
            assert!(
                page.contains(&format!("`{key}`")),
                "docs/reference/json.md does not mention {key}"
            );
        }
        document
    }
}

pub fn multipilot() -> Command {
    Command::new(env!("CARGO_BIN_EXE_multipilot"))
}

pub fn call(args: &[&str]) -> Reply {
    call_in(Path::new("."), args)
}

pub fn call_in(folder: &Path, args: &[&str]) -> Reply {
    Reply::from(
        multipilot()
            .args(args)
            .current_dir(folder)
            .output()
            .expect("the command starts"),
    )
}

/// An error of the call: exit code 2, nothing on stdout, exactly this line on stderr.
#[track_caller]
pub fn refused(args: &[&str], line: &str) {
    let reply = call(args);
    assert_eq!(
        (reply.err.as_str(), reply.out.as_str()),
        (format!("multipilot: {line}\n").as_str(), "")
    );
    assert_eq!(reply.code, 2);
}

#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for something that a running command is about to do; a command that ends before has failed the test.
#[track_caller]
pub fn wait_until(child: &mut Child, done: impl Fn() -> bool) {
    while !done() {
        let ended = child.try_wait().expect("a child of ours");
        assert!(ended.is_none(), "the command ended early: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program of the shell. Another process writes it: a file that this one writes is busy while another test's child, not yet of
/// its own program, has it.
pub fn script(file: &Path, text: &str) {
    let mut write = Command::new("sh");
    write.args(["-ec", "printf '%s' \"$1\" > \"$0\"; chmod 755 \"$0\""]);
    let written = write.arg(file).arg(text).status();
    assert!(written.expect("sh").success());
}

/// By another process: a program that is still open for writing, in a child of another test too, cannot be started.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status();
    assert!(copied.expect("cp").success());
}

/// The command as somebody without privileges has it, in a folder of theirs.
pub fn unprivileged(folder: &Path) -> Command {
    let program = folder.join("multipilot");
    copy(env!("CARGO_BIN_EXE_multipilot").as_ref(), &program);
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("the test's own folder");
    let mut command = Command::new(&program);
    command.current_dir(folder);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    command
}
