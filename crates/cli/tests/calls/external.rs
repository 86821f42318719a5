//! Commands that are programs of their own.

use crate::common::*;

#[test]
fn external_commands_are_found_and_their_exit_code_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("multipilot-hello");
    script(&program, "#!/bin/sh\necho \"hello $*\"\nexit 7\n");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let reply = Reply::from(
        multipilot()
            .args(["hello", "--to", "you"])
            .env("PATH", path)
            .output()
            .unwrap(),
    );
    assert_eq!(
        (reply.code, reply.out.as_str(), reply.err.as_str()),
        (7, "hello --to you\n", "")
    );
    let reply = Reply::from(
        multipilot()
            .args(["help", "hello", "world"])
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
            .output()
            .unwrap(),
    );
    assert_eq!(reply.out, "hello world --help\n");
    // Beside a link, as an environment of Python has one: sudo leaves nothing of the PATH.
    let link = folder.path().join("multipilot");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_multipilot"), &link).unwrap();
    let mut linked = std::process::Command::new(&link);
    let output = linked.arg("hello").env("PATH", "/usr/bin:/bin").output();
    assert_eq!(Reply::from(output.unwrap()).out, "hello \n");

    let reply = Reply::from(
        multipilot()
            .args(["paper", "rsf"])
            .env("PATH", "/nowhere")
            .output()
            .unwrap(),
    );
    assert_eq!(reply.code, 2);
    assert_eq!(
        reply.err,
        "multipilot: paper is a command of the Python package, and there is no multipilot-paper on the PATH; the wheel brings it, or make python\n"
    );
}

#[test]
fn signals_reach_external_commands() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("multipilot-waits");
    script(&program, "#!/bin/sh\necho ready\nexec sleep 600\n");
    let mut command = multipilot();
    command.arg("waits").stdout(std::process::Stdio::piped());
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut child = command.env("PATH", path).spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15), "{line}");
}
