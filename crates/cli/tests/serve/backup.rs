//! A backup of a server at work, kills in the middle of everything, and the way back.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::common::{call, multipilot};
use crate::server::{token, Server};

fn start(data: &Path, option: &str, file: &Path) -> Child {
    let mut command = multipilot();
    command
        .args(["serve", "--data"])
        .arg(data)
        .arg(option)
        .arg(file);
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[track_caller]
fn run(data: &Path, option: &str, file: &Path) -> String {
    let reply = call(&[
        "serve",
        "--data",
        data.to_str().unwrap(),
        option,
        file.to_str().unwrap(),
    ]);
    assert_eq!(reply.code, 0, "{}", reply.err);
    reply.out
}

/// How many of these outcomes a server of this folder has.
fn held(data: &Path, token: &str, ids: std::ops::Range<usize>) -> usize {
    let server = Server::start(data, token, "");
    let mut held = 0;
    let ids: Vec<usize> = ids.collect();
    for some in ids.chunks(64) {
        let (status, receipt) = server.report(some.iter().copied()).unwrap();
        assert_eq!(status, 200, "{receipt}");
        held += receipt["duplicates"].as_u64().unwrap() as usize;
    }
    assert_eq!(server.end(), 0);
    held
}

#[test]
fn a_backup_of_a_server_that_is_then_killed_is_restored_whole() {
    let data = tempfile::tempdir().unwrap();
    let phone = token(data.path(), "phone");
    let server = Server::start(data.path(), &phone, "");
    let report = |ids: std::ops::Range<usize>| {
        for at in ids.step_by(64) {
            let (status, said) = server.report(at..at + 64).unwrap();
            assert_eq!(status, 200, "{said}");
        }
    };
    report(0..6400);
    let place = tempfile::tempdir().unwrap();
    let backup = place.path().join("backup.db");
    assert_eq!(
        run(data.path(), "--backup", &backup),
        format!("{}: 6400 outcomes\n", backup.display())
    );
    // The server goes on, and writes while further copies are made and killed: the file is always a whole one.
    let counted = std::thread::scope(|scope| {
        let writer = scope.spawn(|| report(6400..19200));
        for i in 0..12 {
            let mut child = start(data.path(), "--backup", &backup);
            std::thread::sleep(Duration::from_millis(7 * i));
            let _ = child.kill();
            child.wait().unwrap();
            let elsewhere = tempfile::tempdir().unwrap();
            let said = run(elsewhere.path(), "--restore", &backup);
            let count = said
                .rsplit(": ")
                .next()
                .unwrap()
                .trim_end_matches(" outcomes\n");
            assert!(count.parse::<usize>().unwrap() >= 6400, "{said}");
        }
        writer.join().unwrap();
        run(data.path(), "--backup", &backup)
    });
    assert!(counted.ends_with(": 19200 outcomes\n"), "{counted}");
    report(19200..19264);
    server.signal(Signal::KILL);
    drop(server);

    // Back into the folder with the killed server's log of writes, which is no part of the backup.
    run(data.path(), "--restore", &backup);
    assert_eq!(held(data.path(), &phone, 0..19264), 19200);
}

#[test]
fn a_restore_that_is_killed_leaves_the_former_database_or_the_backup() {
    let data = tempfile::tempdir().unwrap();
    let phone = token(data.path(), "phone");
    let server = Server::start(data.path(), &phone, "");
    for at in (0..3200).step_by(64) {
        assert_eq!(server.report(at..at + 64).unwrap().0, 200);
    }
    let backup = data.path().join("backup.db");
    run(data.path(), "--backup", &backup);
    for at in (3200..6400).step_by(64) {
        assert_eq!(server.report(at..at + 64).unwrap().0, 200);
    }
    server.signal(Signal::KILL);
    drop(server);
    for i in 0..12 {
        let mut child = start(data.path(), "--restore", &backup);
        std::thread::sleep(Duration::from_millis(4 * i));
        let _ = child.kill();
        child.wait().unwrap();
        let copy = data.path().join("copy.db");
        let said = run(data.path(), "--backup", &copy);
        let whole = [": 6400 outcomes\n", ": 3200 outcomes\n"];
        assert!(whole.iter().any(|w| said.ends_with(w)), "{said}");
    }
    run(data.path(), "--restore", &backup);
    assert_eq!(held(data.path(), &phone, 0..6400), 3200);
}

#[test]
fn only_a_backup_is_restored_and_never_below_a_server() {
    let data = tempfile::tempdir().unwrap();
    let phone = token(data.path(), "phone");
    let folder = data.path().to_str().unwrap();
    let restore = |file: &Path| {
        call(&[
            "serve",
            "--data",
            folder,
            "--restore",
            file.to_str().unwrap(),
        ])
    };
    let nothing = data.path().join("nothing.db");
    restore(&nothing).refused(2, &format!("{}: No such file", nothing.display()));
    let text = data.path().join("text.db");
    std::fs::write(
        &text,
        "not a database at all, but long enough to be read as the head of one".repeat(9),
    )
    .unwrap();
    restore(&text).refused(2, &format!("{}: ", text.display()));
    let server = Server::start(data.path(), &phone, "");
    assert_eq!(
        server.report(0..5).unwrap().1,
        json!({"stored": 5, "duplicates": 0})
    );
    let backup = data.path().join("backup.db");
    run(data.path(), "--backup", &backup);
    let nowhere = [
        "serve",
        "--data",
        data.path().to_str().unwrap(),
        "--backup",
        "/nowhere/b.db",
    ];
    call(&nowhere).refused(1, "/nowhere/b.db: No such file or directory");
    use std::os::unix::fs::PermissionsExt;
    for private in [
        "backup.db",
        "experience.db",
        "experience.db-wal",
        "tokens",
        "lock",
    ] {
        let mode = std::fs::metadata(data.path().join(private))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{private}");
    }
    restore(&backup).refused(1, &format!("another multipilot serve works in {folder}"));
    let itself = data.path().join("experience.db");
    let reply = call(&[
        "serve",
        "--data",
        folder,
        "--backup",
        itself.to_str().unwrap(),
    ]);
    reply.refused(
        2,
        &format!("--backup: {}: the database itself", itself.display()),
    );
    assert_eq!(server.end(), 0);
    // A damaged copy of the right kind.
    let mut bytes = std::fs::read(&backup).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xa5);
    std::fs::write(&backup, bytes).unwrap();
    restore(&backup).refused(
        2,
        &format!("{}: no backup of an edge server", backup.display()),
    );
    assert_eq!(
        held(data.path(), &phone, 0..5),
        5,
        "the former database is as it was"
    );
}
