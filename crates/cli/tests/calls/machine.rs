//! A user without privileges, a full disk, output that nobody reads.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::*;

#[test]
fn without_root_the_kernel_world_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = unprivileged(folder.path());
    command.args(["compare", "wifi-lte", "--controllers", "reno"]);
    let reply = Reply::from(command.output().unwrap());
    assert_eq!(reply.code, 3, "{}", reply.err);
    assert!(
        reply.err.starts_with("multipilot: this machine lacks ")
            && reply.err.ends_with("; --world sim works here\n"),
        "{}",
        reply.err
    );
}

#[test]
fn without_root_a_command_that_needs_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let ends = |args: &[&str], code: i32, line: &str| {
        let output = unprivileged(folder.path()).args(args).output().unwrap();
        Reply::from(output).refused(code, line);
    };
    for args in [["list", "loaded"], ["unload", "mp_lia"], ["load", "lia"]] {
        ends(&args, 3, "this machine lacks root for this user");
    }
    fs::create_dir(folder.path().join("data")).unwrap();
    let closed = fs::Permissions::from_mode(0o500);
    fs::set_permissions(folder.path().join("data"), closed).unwrap();
    let serve = ["serve", "--data", "data/edge", "--new-token", "phone"];
    ends(&serve, 2, "data/edge: this user may not write there");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let reply = call(&[
        "compare",
        "wifi-lte",
        "--world",
        "sim",
        "--out",
        "/proc/nowhere",
    ]);
    assert_eq!(reply.code, 2);
    assert_eq!(
        reply.err,
        "multipilot: /proc/nowhere: No such file or directory (os error 2); choose a folder that can be written with --out\n"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let script = format!("{} list; echo $? >&2", env!("CARGO_BIN_EXE_multipilot"));
    let mut child = std::process::Command::new("sh")
        .args(["-c", &script])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let reply = Reply::from(child.wait_with_output().unwrap());
    assert_eq!(reply.err, "0\n");
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = || fs::File::create("/dev/full").expect("Linux has it");
    let reply = Reply::from(multipilot().arg("list").stdout(full()).output().unwrap());
    assert_eq!(reply.code, 1);
    assert!(
        reply
            .err
            .starts_with("multipilot: cannot write to stdout: "),
        "{}",
        reply.err
    );
    assert_eq!(reply.err.lines().count(), 1);
}

#[test]
fn messages_that_nobody_can_read_do_not_end_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("record");
    let full = fs::File::create("/dev/full").expect("Linux has it");
    let reply = Reply::from(
        multipilot()
            .args(["compare", "wifi-lte", "--world", "sim", "--duration", "1s"])
            .args(["--controllers", "lia", "--out"])
            .arg(&out)
            .stderr(full)
            .output()
            .unwrap(),
    );
    assert_eq!(reply.code, 0);
    assert!(out.join("result.json").is_file());
}
